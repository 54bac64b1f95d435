//! The reports of out-of-order data: SACK blocks (RFC 2018), and compressed acknowledgements of duplicates
//! (`tcp_sack_new_ofo_skb`, `__tcp_ack_snd_check`, `tcp_compressed_ack_kick`).
//!
//! Reports use memory only while data is out of order.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{MAX_OPTIONS_LEN, SackBlocks};

use super::super::sending::rtt::RttEstimator;
use super::super::sequence::Sequence;
use super::Receiver;

/// The length of a SACK option without its blocks, padded to four bytes (RFC 2018 section 3).
pub(crate) const SACK_BASE: usize = 4;
/// The length of a SACK block in bytes (RFC 2018 section 3).
pub(crate) const SACK_BLOCK: usize = 8;
/// The number of stored blocks (`TCP_NUM_SACKS`). If the block of a range was dropped, only later segments of
/// that range are reported.
pub(super) const BLOCKS: usize = 4;
/// The number of blocks that should fit into every acknowledgement (`TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED: usize = 2;
/// The number of duplicates that are acknowledged at once: enough to indicate a loss
/// (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u8 = 3;
/// The largest number of acknowledgements that are compressed into one (`tcp_comp_sack_nr`).
const TOGETHER: u8 = 44;
/// The longest delay of a compressed acknowledgement (`tcp_comp_sack_delay_ns`).
const WAIT_MAX: Duration = Duration::from_millis(1);
/// The delay of a compressed acknowledgement is the RTT divided by this number.
const WAIT_SHARE: u64 = 20;
/// The slack of the timer, which lets it fire together with other timers (`tcp_comp_sack_slack_ns`). Without
/// other timers, it fires that much later.
const SLACK: Duration = Duration::from_micros(100);

/// SACK blocks, the latest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Blocks {
    of: [(u64, u64); BLOCKS],
    count: usize,
}

impl Blocks {
    pub(super) fn as_slice(&self) -> &[(u64, u64)] {
        &self.of[..self.count]
    }

    fn remove(&mut self, index: usize) {
        self.of.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }

    /// Returns the index of the block that `[start, end)` overlaps or touches (`tcp_sack_extend`).
    fn touching(&self, from: usize, (start, end): (u64, u64)) -> Option<usize> {
        let touches = |block: &(u64, u64)| start <= block.1 && block.0 <= end;
        self.as_slice()[from..].iter().position(touches).map(|index| from + index)
    }

    /// Moves `block` to the front and merges it with the blocks that it touches. If there are too many, the
    /// last one is dropped.
    fn insert_first(&mut self, mut block: (u64, u64), touched: Option<usize>) {
        if let Some(index) = touched {
            let known = self.of[index];
            block = (block.0.min(known.0), block.1.max(known.1));
            self.remove(index);
        }
        let moved = self.count.min(BLOCKS - 1);
        self.of.copy_within(..moved, 1);
        (self.of[0], self.count) = (block, moved + 1);
        // `tcp_sack_maybe_coalesce`: a block that has grown may touch others.
        while let Some(index) = self.touching(1, self.of[0]).filter(|_| touched.is_some()) {
            let known = self.of[index];
            self.of[0] = (self.of[0].0.min(known.0), self.of[0].1.max(known.1));
            self.remove(index);
        }
    }
}

/// The reports while data is out of order.
#[derive(Debug, Default)]
struct Gap {
    blocks: Blocks,
    /// The number of compressed acknowledgements (`compressed_ack`).
    waiting: u8,
    /// The number of duplicates acknowledged at once (`dup_ack_counter`) while `next` was expected
    /// (`compressed_ack_rcv_nxt`).
    at_once: u8,
    next: u64,
    /// The time at which the compressed acknowledgement is sent.
    deadline: Option<Instant>,
    /// The blocks of an acknowledgement that must be sent first, from before the latest segment was stored.
    owed: Option<Blocks>,
    /// Whether the latest segment caused that acknowledgement and therefore needs none itself.
    answered: bool,
}

/// The reports of out-of-order data. `None` while all data is in order.
#[derive(Debug, Default)]
pub(super) struct Reports(Option<Box<Gap>>);

impl Reports {
    /// Returns whether all data is in order.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// Returns the current blocks.
    pub(super) fn blocks(&self) -> Blocks {
        self.0.as_ref().map_or(Blocks::default(), |gap| gap.blocks)
    }

    /// Returns the blocks to send now. The blocks of a pending acknowledgement come first.
    pub(super) fn take_blocks(&mut self) -> Blocks {
        self.0.as_mut().map_or(Blocks::default(), |gap| gap.owed.take().unwrap_or(gap.blocks))
    }

    /// Adds an out-of-order segment `[start, end)`. If it creates a third block, or extends one that may not
    /// fit into each acknowledgement, the compressed acknowledgement is sent first
    /// (`tcp_sack_compress_send_ack`).
    pub(super) fn note(&mut self, start: u64, end: u64) {
        let gap = self.0.get_or_insert_default();
        let touched = gap.blocks.touching(0, (start, end));
        if touched.unwrap_or(gap.blocks.count) >= EXPECTED && gap.waiting > 0 {
            gap.owed.get_or_insert(gap.blocks);
            (gap.waiting, gap.deadline) = (0, None);
            gap.answered = true;
        }
        gap.blocks.insert_first((start, end), touched);
    }

    /// Returns whether the latest segment caused a compressed acknowledgement to be sent. The segment then
    /// needs no acknowledgement itself (`inet_csk_ack_scheduled` in `tcp_ack_snd_check`).
    #[inline]
    pub(super) fn take_answered(&mut self) -> bool {
        self.0.as_mut().is_some_and(|gap| std::mem::take(&mut gap.answered))
    }

    /// Removes the blocks before `next`, because all data up to there has arrived (`tcp_sack_remove`).
    pub(super) fn advance(&mut self, next: u64) {
        let Some(gap) = &mut self.0 else { return };
        while let Some(index) = gap.blocks.as_slice().iter().position(|block| block.0 <= next) {
            gap.blocks.remove(index);
        }
    }

    /// Removes the blocks, and parts of blocks, from `end` on.
    pub(super) fn truncate(&mut self, end: u64) {
        let Some(gap) = &mut self.0 else { return };
        while let Some(index) = gap.blocks.as_slice().iter().position(|block| block.0 >= end) {
            gap.blocks.remove(index);
        }
        for block in &mut gap.blocks.of {
            block.1 = block.1.min(end);
        }
    }

    /// Removes all blocks, because out-of-order data was dropped (`tcp_sack_reset`).
    pub(super) fn discard(&mut self) {
        if let Some(gap) = &mut self.0 {
            gap.blocks.count = 0;
        }
    }

    /// Returns whether the acknowledgement of another duplicate may be delayed while `next` is expected. The
    /// first delayed one sets the `deadline`.
    fn admit_wait(&mut self, next: u64, deadline: Instant) -> bool {
        let gap = self.0.get_or_insert_default();
        if gap.waiting >= TOGETHER {
            return false;
        }
        if gap.next != next {
            (gap.next, gap.at_once) = (next, 0);
        }
        if gap.at_once < AT_ONCE {
            gap.at_once += 1;
            return false;
        }
        gap.waiting += 1;
        gap.deadline.get_or_insert(deadline);
        true
    }

    /// Handles the sending of an acknowledgement. It replaces the compressed ones, unless it has earlier
    /// blocks (`tcp_event_ack_sent`).
    #[inline]
    pub(super) fn on_ack_sent(&mut self) {
        if let Some(gap) = self.0.as_mut().filter(|gap| gap.owed.is_none()) {
            (gap.waiting, gap.deadline) = (0, None);
        }
    }

    /// Returns whether an acknowledgement with earlier blocks must be sent before any other segment.
    #[inline]
    pub(super) fn owes(&self) -> bool {
        self.0.as_ref().is_some_and(|gap| gap.owed.is_some())
    }

    /// Returns the time at which the compressed acknowledgement is sent.
    #[inline]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.deadline
    }
}

impl Receiver {
    /// Requests an acknowledgement of out-of-order data, at once or compressed with others.
    pub(super) fn acknowledge_gap(&mut self, now: Instant, rtt: &RttEstimator) {
        let waits = self.rules.compresses && self.negotiated.sack_permitted && {
            let own = self.rtt().unwrap_or_default();
            let shortest = rtt.srtt().map_or(own, |srtt| srtt.min(own));
            let wait = WAIT_MAX.min(shortest / WAIT_SHARE) + SLACK;
            self.assembly.reports.admit_wait(self.assembly.next, now + wait)
        };
        if !waits {
            self.ack.demand();
        }
    }

    /// Returns the bytes of the SACK option on the next data segment. Options of the layer above use `others`
    /// bytes (`tcp_established_options`).
    #[inline]
    pub(crate) fn sack_bytes(&self, others: u32) -> u32 {
        let duplicate = self.assembly.duplicate.is_some();
        if !self.negotiated.sack_permitted || (self.assembly.reports.is_empty() && !duplicate) {
            return 0;
        }
        let taken = (self.negotiated.bytes() + others) as usize + SACK_BASE;
        let room = MAX_OPTIONS_LEN.saturating_sub(taken) / SACK_BLOCK;
        let told = self.assembly.reports.blocks().as_slice().len();
        match room.min(told + usize::from(duplicate)) {
            0 => 0,
            blocks => (SACK_BASE + SACK_BLOCK * blocks) as u32,
        }
    }

    /// Returns up to `room` SACK blocks for a segment.
    pub(crate) fn take_sack(&mut self, sequence: &Sequence, room: usize) -> SackBlocks {
        self.assembly.take_sack(sequence, room)
    }

    /// Returns whether an acknowledgement has SACK blocks.
    #[inline]
    pub(crate) fn has_sack(&self) -> bool {
        self.negotiated.sack_permitted && self.assembly.has_blocks()
    }
}

#[cfg(test)]
mod tests;
