//! Sequence numbers and timestamps of segments, and their conversion to positions and times (RFC 7323).

use anabranch_units::{Instant, SeqNumber};
use anabranch_wire::{Segment, Timestamps};

use super::sending::rtt::timestamp_clock;

/// The largest permitted difference by which a timestamp may be older than the last one, in milliseconds
/// (`TCP_PAWS_WINDOW`).
const TIMESTAMP_SLACK: i32 = 1;

/// The initial sequence numbers of both directions, and the state of the timestamps.
#[derive(Debug)]
pub struct Sequence {
    local_iss: SeqNumber,
    remote_iss: SeqNumber,
    /// The peer's timestamp to echo (`ts_recent`).
    recent: u32,
    /// The difference between our timestamps and our clock (RFC 7323 section 5.4).
    offset: u32,
}

impl Sequence {
    /// Creates the state before the peer's SYN.
    pub(super) fn new(local_iss: SeqNumber) -> Self {
        Self { local_iss, remote_iss: SeqNumber(0), recent: 0, offset: 0 }
    }

    /// Sets the difference between our timestamps and our clock.
    pub(crate) fn set_timestamp_offset(&mut self, offset: u32) {
        self.offset = offset;
    }

    /// Stores the peer's initial sequence number and timestamp from its SYN.
    pub(super) fn on_peer_syn(&mut self, syn: &Segment) {
        self.remote_iss = syn.seq;
        if let Some(timestamps) = syn.timestamps {
            self.recent = timestamps.value;
        }
    }

    /// Returns the sequence number of one of our positions.
    #[inline]
    pub fn local(&self, position: u64) -> SeqNumber {
        self.local_iss.add(position as u32)
    }

    /// Returns the sequence number of one of the peer's positions.
    #[inline]
    pub(super) fn remote(&self, position: u64) -> SeqNumber {
        self.remote_iss.add(position as u32)
    }

    /// Converts an acknowledgement number into our position closest to `una`.
    #[inline]
    pub(super) fn our_position(&self, ack: SeqNumber, una: u64) -> u64 {
        // No stream is longer than half of the range of u64, so the signed result does not overflow.
        (una as i64 + i64::from(ack.offset(self.local(una)))).max(0) as u64
    }

    /// Converts a sequence number into the peer's position closest to `next`. Returns `None` if it is before
    /// the SYN.
    #[inline]
    pub(super) fn peer_position(&self, seq: SeqNumber, next: u64) -> Option<u64> {
        next.checked_add_signed(seq.offset(self.remote(next)).into())
    }

    /// Returns whether a segment acknowledges our SYN.
    pub fn is_acked_syn(&self, segment: &Segment) -> bool {
        segment.ack == self.local(1)
    }

    /// Returns our timestamp.
    #[inline]
    pub(super) fn timestamp(&self, now: Instant) -> u32 {
        timestamp_clock(now).wrapping_add(self.offset)
    }

    /// Returns the timestamp to echo.
    #[inline]
    pub(super) fn recent(&self) -> u32 {
        self.recent
    }

    /// Returns our clock when the echoed timestamp was sent. 0 if there is no echo.
    #[inline]
    pub(super) fn echoed(&self, timestamps: Timestamps) -> u32 {
        if timestamps.echo == 0 { 0 } else { timestamps.echo.wrapping_sub(self.offset) }
    }

    /// Returns whether a timestamp is older than the one to echo (`tcp_paws_discard`).
    #[inline]
    pub(super) fn is_older(&self, timestamps: Timestamps) -> bool {
        self.recent.wrapping_sub(timestamps.value) as i32 > TIMESTAMP_SLACK && self.recent != 0
    }

    /// Stores the timestamp to echo, from a segment that begins at or before the last acknowledgement (RFC
    /// 7323 section 4.3). `start` is the segment's position, and `acknowledged` that of the last
    /// acknowledgement.
    #[inline]
    pub(super) fn note_timestamp(&mut self, start: u64, acknowledged: u64, segment: &Segment) {
        if start <= acknowledged
            && let Some(Timestamps { value, .. }) = segment.timestamps
            && value.wrapping_sub(self.recent) as i32 >= 0
        {
            self.recent = value;
        }
    }
}
