//! The wire's sequence numbers and timestamps, and the positions and times that they stand for (RFC 7323).

use anabranch_units::{Instant, SeqNumber};
use anabranch_wire::{Segment, Timestamps};

use super::sending::rtt::timestamp_clock;

/// The largest amount by which a timestamp may be older than the last one (`TCP_PAWS_WINDOW`), ms.
const TIMESTAMP_SLACK: i32 = 1;

/// The first sequence numbers of both directions, and the state of the timestamps.
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

    /// Stores the first sequence number of the peer and its timestamp, from its SYN.
    pub(super) fn learn_peer(&mut self, syn: &Segment) {
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

    /// Returns our position of an acknowledgement number near the position `una`.
    #[inline]
    pub(super) fn our_position(&self, ack: SeqNumber, una: u64) -> u64 {
        let offset = ack.offset(self.local(una));
        // No stream is half as long as the type, so the sign has room.
        (una as i64 + i64::from(offset)).max(0) as u64
    }

    /// Returns the peer's position of a sequence number near the position `next`, or `None` if it lies before the SYN.
    #[inline]
    pub(super) fn peer_position(&self, seq: SeqNumber, next: u64) -> Option<u64> {
        let offset = seq.offset(self.remote(next));
        u64::try_from(next as i64 + i64::from(offset)).ok()
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

    /// Returns our clock at the sending of the echoed timestamp; 0 if nothing is echoed.
    #[inline]
    pub(super) fn echoed(&self, timestamps: Timestamps) -> u32 {
        if timestamps.echo == 0 { 0 } else { timestamps.echo.wrapping_sub(self.offset) }
    }

    /// Returns whether a timestamp is older than the one to echo (`tcp_paws_discard`).
    #[inline]
    pub(super) fn is_older(&self, timestamps: Timestamps) -> bool {
        self.recent.wrapping_sub(timestamps.value) as i32 > TIMESTAMP_SLACK && self.recent != 0
    }

    /// Stores the timestamp to echo: that of the last segment in its place (RFC 7323 section 4.3). The segment begins
    /// at `start`, and the last acknowledgement went up to `acknowledged`.
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
