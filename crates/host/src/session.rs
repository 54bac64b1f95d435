//! What a client measures of what it reads, whatever it does with it.

use anabranch_media::Buffer;
use anabranch_trace::{GapRow, PlayerRow, Rows, WrongReadRow};
use anabranch_transport::Event;
use anabranch_units::{Duration, Instant};

use crate::pattern::{self, WrongBytes};

/// A silence of this length or more between two reads is written down; shorter ones are how packets
/// come on a slow path.
const GAP: Duration = Duration::from_millis(100);

/// What somebody who watches a film has at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Viewing {
    /// Film that is received and not shown.
    pub buffer: Duration,
    /// The film time on the screen, seconds.
    pub position_s: f64,
    /// Pictures discarded so far; a player of chunks has none.
    pub discards: Option<u64>,
    /// How many times playing has stopped for want of data.
    pub underflows: u64,
}

/// One client's time: from its start until it has what it asked for, its connection broke, or it is cut off.
#[derive(Clone, Debug)]
pub struct Session {
    /// The client's number, by which the tables know it.
    pub id: u32,
    /// When it starts.
    pub start: Instant,
    /// Its connection was established; the first of several.
    pub connected_at: Option<Instant>,
    /// Bytes read within the session's time.
    pub bytes_read: u64,
    /// The longest time between two reads.
    pub max_gap: Duration,
    /// A connection fell back to plain TCP.
    pub fell_back: bool,
    /// All that was asked has been done.
    pub finished: bool,
    /// It has ended, one way or the other.
    pub over: bool,
    /// When it ended.
    pub finished_at: Option<Instant>,
    /// Wrong bytes are counted, and no fault.
    bears_wrong_bytes: bool,
    /// Pieces with wrong bytes: when each was read, its position and how many they were.
    wrong: Vec<(Instant, u64, u64)>,
    /// When it is cut off; what comes later is read and not counted.
    until: Instant,
    last_read: Option<Instant>,
    /// Silences of [`GAP`] or more: the read before each, and how long it lasted.
    gaps: Vec<(Instant, Duration)>,
}

impl Session {
    /// The session of a client under this number, that begins at `start` and is cut off after `duration`, if
    /// it is.
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

    /// The same over links that change payloads: wrong bytes are counted, where elsewhere they are a fault.
    #[must_use]
    pub fn bearing_wrong_bytes(self, bears: bool) -> Self {
        Self { bears_wrong_bytes: bears, ..self }
    }

    /// Bytes read that were not those sent.
    pub fn wrong_bytes(&self) -> u64 {
        self.wrong.iter().map(|&(_, _, count)| count).sum()
    }

    /// Makes sure that bytes read are those of the pattern from `position`, or counts those that are not.
    #[inline(always)]
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

    /// What was read at `now` is no response: the client gives up where such a thing may happen.
    #[cold]
    pub(crate) fn give_up(&mut self, now: Instant) -> Result<(), WrongBytes> {
        if !self.bears_wrong_bytes {
            return Err(WrongBytes { client: self.id, position: self.bytes_read });
        }
        self.break_off(now);
        Ok(())
    }

    /// Nothing more will come.
    fn break_off(&mut self, now: Instant) {
        if !self.over {
            self.over = true;
            self.finished_at = Some(now);
        }
    }

    /// What a connection has to say that is of interest to every client.
    pub(crate) fn note_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Connected => {
                self.connected_at.get_or_insert(now);
            }
            Event::FellBack => self.fell_back = true,
            // The connection broke.
            Event::Closed => self.break_off(now),
            _ => {}
        }
    }

    /// Bytes were read.
    #[inline(always)]
    pub(crate) fn note_read(&mut self, now: Instant, bytes: u64) {
        // What arrives after the cut is read, to keep the others' links as they were, and not counted.
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

    /// All is done.
    pub(crate) fn finish(&mut self, now: Instant) {
        if !self.over {
            self.finished = true;
            self.over = true;
            self.finished_at = Some(now);
        }
    }

    /// How long the session lasts at most, from its start: the application's duration.
    pub(crate) fn planned(&self) -> Option<Duration> {
        (self.until != Instant::FAR_FUTURE).then(|| self.until.since(self.start))
    }

    /// The time is up at `now`, or was before. A client that was still reading then counts as finished.
    pub fn cut_off(&mut self, now: Instant) {
        if !self.over && now >= self.until {
            self.finished = true;
            self.finished_at = Some(self.until);
        }
    }

    /// A row of table `player`.
    pub(crate) fn sample(&self, now: Instant, buffer: Option<Buffer>, rows: &mut Rows) {
        rows.player.push(PlayerRow {
            t_s: now.since(self.start).as_secs_f64(),
            client: i64::from(self.id),
            bytes_read: self.bytes_read as i64,
            buffer_s: buffer.map_or(f64::NAN, |b| b.media.as_secs_f64()),
            buffer_bytes: buffer.map_or(0, |b| b.bytes as i64),
        });
    }

    /// The silences, and what was read wrong.
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
