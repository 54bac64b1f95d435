//! What a link has seen, and what it holds.

use std::ops::{Add, Sub};

use anabranch_units::ByteCount;

use crate::DropReason;

/// Totals of a link since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered to the link, whatever became of them.
    pub enqueued: u64,
    /// Packets that came out.
    pub delivered: u64,
    /// Packets that found the queue full, or had to make room in it.
    pub dropped_queue: u64,
    /// Packets that the queue dropped to keep it short.
    pub dropped_aqm: u64,
    /// Packets taken by the loss model, as far as reported.
    pub dropped_loss: u64,
    /// Packets offered while the link was down, or inside when it went down.
    pub dropped_down: u64,
    /// Packets that were spoilt on the way, as far as reported.
    pub dropped_corrupt: u64,
    /// Packets that the queue marked instead of dropping them.
    pub marked: u64,
    /// Copies that were made of packets on the way.
    pub duplicated: u64,
    /// Packets that were held back so that others overtake them.
    pub reordered: u64,
    /// Bytes that came out.
    pub bytes_delivered: u64,
    /// The longest queue, in packets, the one in service included.
    pub queue_max_packets: u64,
    /// The longest queue, in bytes, the packet in service counted whole.
    pub queue_max_bytes: u64,
}

impl LinkStats {
    /// Packets dropped for any reason.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue
            + self.dropped_aqm
            + self.dropped_loss
            + self.dropped_down
            + self.dropped_corrupt
    }

    /// Packets that ever were in the link: those that entered and the copies.
    pub const fn entered(&self) -> u64 {
        self.enqueued + self.duplicated
    }

    pub(crate) const fn count_drop(&mut self, why: DropReason) {
        match why {
            DropReason::Aqm => self.dropped_aqm += 1,
            DropReason::Corrupt => self.dropped_corrupt += 1,
            DropReason::Down => self.dropped_down += 1,
            DropReason::Loss => self.dropped_loss += 1,
            DropReason::QueueFull => self.dropped_queue += 1,
        }
    }

    pub(crate) const fn count_delivery(&mut self, size: ByteCount) {
        self.delivered += 1;
        self.bytes_delivered += size.0;
    }

    pub(crate) fn note_queue(&mut self, queued: Queued) {
        self.queue_max_packets = self.queue_max_packets.max(queued.packets);
        self.queue_max_bytes = self.queue_max_bytes.max(queued.bytes.0);
    }
}

/// A queue's content, the packet in service included and counted whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: ByteCount,
}

impl Add<ByteCount> for Queued {
    type Output = Self;

    /// With another packet of that size.
    fn add(self, size: ByteCount) -> Self {
        Self { packets: self.packets + 1, bytes: ByteCount(self.bytes.0 + size.0) }
    }
}

impl Sub<ByteCount> for Queued {
    type Output = Self;

    /// Without a packet of that size.
    fn sub(self, size: ByteCount) -> Self {
        Self { packets: self.packets - 1, bytes: ByteCount(self.bytes.0 - size.0) }
    }
}
