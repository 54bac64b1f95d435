//! The measurements of a client. They are the same for a reader and for a player.

use anabranch_media::Buffer;
use anabranch_mptcp::Event;
use anabranch_trace::{GapRow, PlayerRow, Rows, WrongReadRow};
use anabranch_units::{Duration, Instant};

use crate::pattern::{self, WrongBytes};

/// The shortest pause between two reads that is recorded. Shorter pauses are normal on a slow path.
const GAP: Duration = Duration::from_millis(100);

/// The state of a film player.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Viewing {
    /// The film that was received and not shown yet.
    pub buffer: Duration,
    /// The film time that is shown, seconds.
    pub position_s: f64,
    /// The number of pictures discarded so far; `None` for an adaptive player.
    pub discards: Option<u64>,
    /// The number of underflows so far.
    pub underflows: u64,
}

/// The session of one client. It ends when the client is done, when its connection breaks, or when its time
/// is over.
#[derive(Clone, Debug)]
pub struct Session {
    /// The client's number in the tables.
    pub id: u32,
    /// The start of the session.
    pub start: Instant,
    /// The time at which the client's first connection was established.
    pub connected_at: Option<Instant>,
    /// The bytes read during the session's time.
    pub bytes_read: u64,
    /// The longest pause between two reads.
    pub max_gap: Duration,
    /// Whether a connection fell back to plain TCP.
    pub fell_back: bool,
    /// Whether the client is done.
    pub finished: bool,
    /// Whether the session has ended, successfully or not.
    pub over: bool,
    /// The time at which the session ended.
    pub finished_at: Option<Instant>,
    /// Whether wrong bytes are counted instead of being an error.
    bears_wrong_bytes: bool,
    /// The reads with wrong bytes: time, position and number of wrong bytes.
    wrong: Vec<(Instant, u64, u64)>,
    /// The end of the session's time. Data that arrives later is read but not counted.
    until: Instant,
    last_read: Option<Instant>,
    /// Pauses of at least [`GAP`]: the time of the last read before the pause, and its length.
    gaps: Vec<(Instant, Duration)>,
}

impl Session {
    /// Creates the session of a client with this number. It starts at `start` and lasts for `duration`;
    /// `None` for no limit.
    pub fn new(id: u32, start: Instant, duration: Option<Duration>) -> Self {
        Self {
            id,
            start,
            connected_at: None,
            bytes_read: 0,
            max_gap: Duration::ZERO,
            fell_back: false,
            finished: false,
            over: false,
            finished_at: None,
            bears_wrong_bytes: false,
            wrong: Vec::new(),
            until: duration.map_or(Instant::FAR_FUTURE, |span| start + span),
            last_read: None,
            gaps: Vec::new(),
        }
    }

    /// Sets how wrong bytes are treated. They are counted if links change payloads, and otherwise they are an
    /// error.
    #[must_use]
    pub fn bearing_wrong_bytes(self, bears: bool) -> Self {
        Self { bears_wrong_bytes: bears, ..self }
    }

    /// Returns the number of bytes read that differ from those sent.
    pub fn wrong_bytes(&self) -> u64 {
        self.wrong.iter().map(|&(_, _, count)| count).sum()
    }

    /// Checks that bytes read are those of the pattern from `position`. Wrong bytes are counted or cause an
    /// error.
    #[inline]
    pub(crate) fn check(
        &mut self,
        now: Instant,
        position: u64,
        bytes: &[u8],
    ) -> Result<(), WrongBytes> {
        let right = pattern::matches(position, bytes);
        if right { Ok(()) } else { self.note_wrong(now, position, bytes) }
    }

    #[cold]
    fn note_wrong(&mut self, now: Instant, position: u64, bytes: &[u8]) -> Result<(), WrongBytes> {
        if !self.bears_wrong_bytes {
            return Err(WrongBytes { client: self.id, position });
        }
        self.wrong.push((now, position, pattern::wrong(position, bytes)));
        Ok(())
    }

    /// Handles a response that cannot be parsed. The session ends if links may change payloads. Otherwise
    /// this is an error.
    #[cold]
    pub(crate) fn give_up(&mut self, now: Instant) -> Result<(), WrongBytes> {
        if !self.bears_wrong_bytes {
            return Err(WrongBytes { client: self.id, position: self.bytes_read });
        }
        self.break_off(now);
        Ok(())
    }

    /// Ends the session because its connection broke.
    fn break_off(&mut self, now: Instant) {
        if !self.over {
            self.over = true;
            self.finished_at = Some(now);
        }
    }

    /// Handles the connection events that matter for every client.
    pub(crate) fn note_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => {
                self.connected_at.get_or_insert(now);
            }
            Event::FellBack => self.fell_back = true,
            Event::Closed => self.break_off(now),
            _ => {}
        }
    }

    /// Counts bytes that were read.
    #[inline]
    pub(crate) fn note_read(&mut self, now: Instant, bytes: u64) {
        // Data after the end is read, so that other clients see the same load, but it is not counted.
        if now > self.until {
            return;
        }
        if let Some(last) = self.last_read {
            let gap = now.since(last);
            self.max_gap = self.max_gap.max(gap);
            if gap >= GAP {
                self.gaps.push((last, gap));
            }
        }
        self.last_read = Some(now);
        self.bytes_read += bytes;
    }

    /// Ends the session successfully.
    pub(crate) fn finish(&mut self, now: Instant) {
        if !self.over {
            self.finished = true;
            self.over = true;
            self.finished_at = Some(now);
        }
    }

    /// Returns the configured duration of the session; `None` for no limit.
    pub(crate) fn planned(&self) -> Option<Duration> {
        (self.until != Instant::FAR_FUTURE).then(|| self.until.since(self.start))
    }

    /// Ends the measurements at the end of the session's time. A client that was still reading counts as
    /// finished.
    pub fn cut_off(&mut self, now: Instant) {
        if !self.over && now >= self.until {
            self.finished = true;
            self.finished_at = Some(self.until);
        }
    }

    /// Adds a row of table `player`.
    pub(crate) fn sample(&self, now: Instant, buffer: Option<Buffer>, rows: &mut Rows) {
        rows.player.push(PlayerRow {
            t_s: now.since(self.start).as_secs_f64(),
            client: i64::from(self.id),
            bytes_read: self.bytes_read as i64,
            buffer_s: buffer.map_or(f64::NAN, |b| b.media.as_secs_f64()),
            buffer_bytes: buffer.map_or(0, |b| b.bytes as i64),
        });
    }

    /// Adds rows for pauses and for reads with wrong bytes.
    pub(crate) fn report(&self, rows: &mut Rows) {
        for &(at, position, count) in &self.wrong {
            rows.wrong_reads.push(WrongReadRow {
                client: i64::from(self.id),
                t_s: at.since(self.start).as_secs_f64(),
                position: position as i64,
                wrong_bytes: count as i64,
            });
        }
        for (last, gap) in &self.gaps {
            rows.gaps.push(GapRow {
                client: i64::from(self.id),
                t_s: last.since(self.start).as_secs_f64(),
                gap_s: gap.as_secs_f64(),
            });
        }
    }
}
