//! The totals of a link, and the content of its queue.

use std::ops::{Add, Sub};

use anabranch_units::ByteCount;

use crate::DropReason;

/// Totals of a link since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets that entered the link, whatever their fate.
    pub enqueued: u64,
    /// Packets that were delivered.
    pub delivered: u64,
    /// Packets that were dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets that the queue discipline dropped to keep the queue short.
    pub dropped_aqm: u64,
    /// Packets that the loss model dropped, and whose drop was reported.
    pub dropped_loss: u64,
    /// Packets that entered while the link was down, or were inside when it went down.
    pub dropped_down: u64,
    /// Packets that the receiver's checksum rejected, and whose drop was reported.
    pub dropped_corrupt: u64,
    /// Packets that the queue marked instead of dropping them.
    pub marked: u64,
    /// Copies that the link made of packets.
    pub duplicated: u64,
    /// Packets that were delayed so that others overtake them.
    pub reordered: u64,
    /// Bytes that were delivered.
    pub bytes_delivered: u64,
    /// The longest queue in packets, including the packet in service.
    pub queue_max_packets: u64,
    /// The longest queue in bytes. The packet in service counts with its whole size.
    pub queue_max_bytes: u64,
}

impl LinkStats {
    /// Returns the packets that were dropped for any reason.
    pub const fn dropped(&self) -> u64 {
        self.dropped_queue
            + self.dropped_aqm
            + self.dropped_loss
            + self.dropped_down
            + self.dropped_corrupt
    }

    /// Returns all packets that were ever in the link: those that entered, and the copies.
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

/// The content of a queue, including the whole packet in service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes.
    pub bytes: ByteCount,
}

impl Add<ByteCount> for Queued {
    type Output = Self;

    /// Adds a packet of this size.
    fn add(self, size: ByteCount) -> Self {
        Self { packets: self.packets + 1, bytes: ByteCount(self.bytes.0 + size.0) }
    }
}

impl Sub<ByteCount> for Queued {
    type Output = Self;

    /// Removes a packet of this size.
    fn sub(self, size: ByteCount) -> Self {
        Self { packets: self.packets - 1, bytes: ByteCount(self.bytes.0 - size.0) }
    }
}
