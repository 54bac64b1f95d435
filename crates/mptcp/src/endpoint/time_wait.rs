//! TIME-WAIT (RFC 9293 section 3.6): the record of a subflow that we closed first. The record prevents late
//! segments from reaching a later connection with the same four-tuple. A SYN that cannot be old opens a new
//! connection at once (RFC 6191; `tcp_timewait_state_process`).

use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{Flags, Segment, Timestamps};

use super::timed::Timed;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{Remains, timestamp_clock};

/// The length of TIME-WAIT (`TCP_TIMEWAIT_LEN`).
const LENGTH: Duration = Duration::from_secs(60);
/// The largest number of records (`tcp_max_tw_buckets`). If it is reached, a closing connection does not get
/// a record.
const MOST: usize = 262_144;
/// The shortest interval between answers to segments without data, or to SYNs (`tcp_invalid_ratelimit`).
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);
/// The distance from the last sequence number of a connection to the first one of the next connection.
const AHEAD: u32 = 65_535 + 2;

/// The record of one subflow.
#[derive(Debug)]
struct Record {
    tuple: FourTuple,
    remains: Remains,
    timestamp_offset: u32,
    /// The time of the last rate-limited answer.
    answered_at: Option<Instant>,
}

/// The reaction to a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Send an acknowledgement.
    Answer(Segment),
    /// Do nothing.
    Ignore,
    /// End TIME-WAIT because of a RST (RFC 1337 advises against this).
    End,
    /// Open a new connection with this initial sequence number.
    Open(SeqNumber),
}

/// All subflows in TIME-WAIT.
#[derive(Debug, Default)]
pub(super) struct TimeWait {
    records: Timed<Record>,
}

impl TimeWait {
    /// Starts TIME-WAIT of a subflow. Returns its number, or `None` if the table is full.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        remains: Remains,
        timestamp_offset: u32,
    ) -> Option<u32> {
        if self.records.len() >= MOST {
            return None;
        }
        let record = Record { tuple, remains, timestamp_offset, answered_at: None };
        let number = self.records.insert(record);
        self.records.set_wake(number, now + LENGTH);
        Some(number as u32)
    }

    /// Returns the expiry time of the first record. `FAR_FUTURE` if there are none.
    #[inline]
    pub(super) fn wake(&self) -> Instant {
        self.records.wake()
    }

    /// Removes one expired record. Returns its number and four-tuple.
    pub(super) fn pop_expired(&mut self, now: Instant) -> Option<(u32, FourTuple)> {
        let (_, number) = self.records.first().filter(|(at, _)| *at <= now)?;
        self.records.remove(number).map(|record| (number as u32, record.tuple))
    }

    /// Removes a record.
    pub(super) fn end(&mut self, number: u32) {
        self.records.remove(number as usize);
    }

    /// Handles a segment for a subflow in TIME-WAIT. `welcome` means that a listener or a connection would
    /// accept its SYN.
    pub(super) fn take(
        &mut self,
        now: Instant,
        number: u32,
        segment: &Segment,
        welcome: bool,
    ) -> Verdict {
        let Some(record) = self.records.get_mut(number as usize) else { return Verdict::Ignore };
        let flags = segment.flags;
        let stamped = segment.timestamps.zip(record.remains.stamp);
        let old = stamped
            .is_some_and(|(stamp, last)| last != 0 && (last.wrapping_sub(stamp.value) as i32) > 0);
        let ahead = segment.seq.offset(record.remains.expected);
        let empty = segment.sequence_len() == 0;
        let rst = flags.contains(Flags::RST);
        if !old && ahead == 0 && (empty || rst) {
            if rst {
                return Verdict::End;
            }
            if let Some((stamp, _)) = stamped {
                record.remains.stamp = Some(stamp.value);
            }
            self.records.set_wake(number as usize, now + LENGTH);
            return Verdict::Ignore;
        }
        let newer =
            stamped.is_some_and(|(stamp, last)| (last.wrapping_sub(stamp.value) as i32) < 0);
        let opens = flags.contains(Flags::SYN) && !flags.contains(Flags::ACK) && !rst;
        if opens && welcome && !old && (ahead > 0 || newer) {
            return Verdict::Open(record.remains.next.add(AHEAD));
        }
        if rst {
            return Verdict::Ignore;
        }
        let verdict = record.answer(now, segment);
        if old || flags.contains(Flags::ACK) {
            self.records.set_wake(number as usize, now + LENGTH);
        }
        verdict
    }
}

impl Record {
    /// Builds an acknowledgement of the expected sequence number. Two hosts could send each other such
    /// answers forever, so the ones that could cause this are rate-limited (`tcp_oow_rate_limited`).
    fn answer(&mut self, now: Instant, segment: &Segment) -> Verdict {
        let loops = segment.sequence_len() == 0 || segment.flags.contains(Flags::SYN);
        if loops && self.answered_at.is_some_and(|at| now.since(at) < ANSWER_INTERVAL) {
            return Verdict::Ignore;
        }
        if loops {
            self.answered_at = Some(now);
        }
        Verdict::Answer(Segment {
            source_port: self.tuple.local.port(),
            destination_port: self.tuple.remote.port(),
            seq: self.remains.next,
            ack: self.remains.expected,
            flags: Flags::ACK,
            window: self.remains.window,
            timestamps: self.remains.stamp.map(|echo| Timestamps {
                value: timestamp_clock(now).wrapping_add(self.timestamp_offset),
                echo,
            }),
            ..Segment::default()
        })
    }
}
