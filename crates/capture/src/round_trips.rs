//! Round-trip times that a capture shows.

use std::collections::{BTreeMap, VecDeque};

use anabranch_wire::Flags;

use crate::record::Record;

/// Two neighbouring classes of the histogram differ by this factor, so a quantile is right to 1 %.
const CLASS_RATIO: f64 = 1.02;
/// The most segments and timestamps that wait for an answer.
const MOST_WAITING: usize = 65_536;

/// The distribution of a path's round-trip times.
#[derive(Clone, Debug, Default)]
pub struct RoundTrips {
    /// Number of samples.
    pub count: u64,
    /// Sum in nanoseconds.
    sum_ns: u128,
    min_ns: u64,
    classes: BTreeMap<i32, u64>,
}

impl RoundTrips {
    pub(crate) fn add(&mut self, rtt_ns: u64) {
        self.min_ns = if self.count == 0 { rtt_ns } else { self.min_ns.min(rtt_ns) };
        self.count += 1;
        self.sum_ns += u128::from(rtt_ns);
        let class = ((rtt_ns.max(1) as f64).ln() / CLASS_RATIO.ln()).round() as i32;
        *self.classes.entry(class).or_default() += 1;
    }

    /// Returns the least sample in milliseconds.
    pub fn min_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.min_ns as f64 / 1e6)
    }

    /// Returns the mean in milliseconds.
    pub fn mean_ms(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e6)
    }

    /// Returns a quantile in milliseconds, right to 1 %.
    pub fn quantile_ms(&self, share: f64) -> Option<f64> {
        let rank = (share * self.count as f64).ceil().max(1.0) as u64;
        let mut below = 0;
        for (&class, &count) in &self.classes {
            below += count;
            if below >= rank {
                return Some(CLASS_RATIO.powi(class) / 1e6);
            }
        }
        None
    }
}

/// A smoothed round-trip time: each sample counts an eighth (RFC 6298 section 2).
#[derive(Clone, Copy, Debug, Default)]
pub struct Smoothed {
    value_ns: Option<f64>,
}

impl Smoothed {
    pub(crate) fn add(&mut self, rtt_ns: u64) {
        let sample = rtt_ns as f64;
        self.value_ns = Some(self.value_ns.map_or(sample, |value| value + (sample - value) / 8.0));
    }

    /// Returns the value in milliseconds.
    pub fn ms(&self) -> Option<f64> {
        self.value_ns.map(|value| value / 1e6)
    }
}

/// Measures the time from a data segment to the acknowledgement of its last byte.
///
/// As in RFC 6298 section 3 (Karn), no sample is taken of data that was in flight when something was
/// retransmitted: whether an acknowledgement belongs to the first or to the second transmission cannot be known,
/// and an acknowledgement of later data waited for the repair. SACK blocks give samples too.
#[derive(Clone, Debug, Default)]
pub(crate) struct AckTimer {
    /// End and time of each segment with new data, in the order of their ends.
    waiting: VecDeque<(u64, i64)>,
}

impl AckTimer {
    pub(crate) fn on_new_data(&mut self, end: u64, now: i64) {
        if self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((end, now));
        }
    }

    pub(crate) fn on_retransmission(&mut self) {
        self.waiting.clear();
    }

    /// Returns an RTT sample for a cumulative acknowledgement.
    pub(crate) fn on_ack(&mut self, ack: u64, now: i64) -> Option<u64> {
        let mut sent_at = None;
        while let Some(&(end, time)) = self.waiting.front() {
            if end > ack {
                break;
            }
            sent_at = Some(time);
            self.waiting.pop_front();
        }
        sent_at.map(|time| now.saturating_sub(time).max(0) as u64)
    }

    /// Returns an RTT sample for a SACK block, if it is the first report of a segment.
    pub(crate) fn on_sack(&mut self, left: u64, right: u64, now: i64) -> Option<u64> {
        let from = self.waiting.partition_point(|&(end, _)| end <= left);
        let to = self.waiting.partition_point(|&(end, _)| end <= right);
        // A block may be malformed: its right edge below its left one.
        if from >= to {
            return None;
        }
        let newest = self.waiting.range(from..to).next_back().map(|&(_, time)| time);
        self.waiting.drain(from..to);
        newest.map(|time| now.saturating_sub(time).max(0) as u64)
    }
}

/// Measures the time from a timestamp (`TSval`) to its first echo (`TSecr`, RFC 7323 section 4).
///
/// The host may echo a timestamp long after it received it, when it has nothing to send. So an echo counts only if
/// the host sent something else not long before: after at least half of the sample had passed.
#[derive(Clone, Debug, Default)]
pub(crate) struct EchoTimer {
    /// Timestamps and the time when each was first seen.
    waiting: VecDeque<(u32, i64)>,
    last_echo_packet: Option<i64>,
}

impl EchoTimer {
    /// Takes a segment of the host whose timestamps are measured.
    pub(crate) fn on_sent(&mut self, record: &Record<'_>) {
        let Some(timestamps) = record.segment.timestamps else { return };
        let newer = self
            .waiting
            .back()
            .is_none_or(|&(value, _)| (timestamps.value.wrapping_sub(value) as i32) > 0);
        if newer && self.waiting.len() < MOST_WAITING {
            self.waiting.push_back((timestamps.value, record.time_ns));
        }
    }

    /// Takes a segment of the other host, and returns the sample that its echo gives.
    pub(crate) fn on_received(&mut self, record: &Record<'_>) -> Option<u64> {
        let before = self.last_echo_packet.replace(record.time_ns);
        if !record.has(Flags::ACK) {
            return None;
        }
        let echo = record.segment.timestamps?.echo;
        let mut sent_at = None;
        while let Some(&(value, time)) = self.waiting.front() {
            let ahead = value.wrapping_sub(echo) as i32;
            if ahead > 0 {
                break;
            }
            if ahead == 0 {
                sent_at = Some(time);
            }
            self.waiting.pop_front();
        }
        let sample = record.time_ns.saturating_sub(sent_at?);
        let silence = record.time_ns.saturating_sub(before?);
        (sample >= 0 && silence <= sample / 2).then_some(sample as u64)
    }
}
