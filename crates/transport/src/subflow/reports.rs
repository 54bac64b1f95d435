//! What the peer is told of data that lies behind gaps: SACK blocks (RFC 2018), and acknowledgements of duplicates
//! that wait to go together (`tcp_sack_new_ofo_skb`, `__tcp_ack_snd_check`, `tcp_compressed_ack_kick`).
//!
//! Memory is taken while something lies behind a gap.

use anabranch_units::{Duration, Instant};
use anabranch_wire::MAX_OPTIONS_LEN;

use super::Subflow;

/// Bytes of a SACK option, padded, without and for each block (RFC 2018 section 3).
pub(super) const SACK_BASE: usize = 4;
pub(super) const SACK_BLOCK: usize = 8;
/// Blocks that are remembered (`TCP_NUM_SACKS`); of a run that is forgotten only what comes next is told.
pub(super) const BLOCKS: usize = 4;
/// Blocks that an acknowledgement is counted on to have room for (`TCP_SACK_BLOCKS_EXPECTED`).
const EXPECTED: usize = 2;
/// Duplicates that are acknowledged at once: as many as tell of a loss (`TCP_FASTRETRANS_THRESH`).
const AT_ONCE: u8 = 3;
/// Acknowledgements that wait together at most (`tcp_comp_sack_nr`).
const TOGETHER: u8 = 44;
/// The longest that they wait (`tcp_comp_sack_delay_ns`).
const WAIT_MAX: Duration = Duration::from_millis(1);
/// The share of a round trip that they wait.
const WAIT_SHARE: u64 = 20;
/// How much later the timer may fire so that it fires with others (`tcp_comp_sack_slack_ns`); where there are no
/// others it does.
const SLACK: Duration = Duration::from_micros(100);

/// Blocks, the latest first.
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

    /// The block that `[start, end)` overlaps or touches (`tcp_sack_extend`).
    fn touching(&self, from: usize, (start, end): (u64, u64)) -> Option<usize> {
        let touches = |block: &(u64, u64)| start <= block.1 && block.0 <= end;
        self.as_slice()[from..].iter().position(touches).map(|index| from + index)
    }

    /// Puts `block` first, as one with those that it touches. What does not fit is forgotten.
    fn put_first(&mut self, mut block: (u64, u64), touched: Option<usize>) {
        if let Some(index) = touched {
            let known = self.of[index];
            block = (block.0.min(known.0), block.1.max(known.1));
            self.remove(index);
        }
        let moved = self.count.min(BLOCKS - 1);
        self.of.copy_within(..moved, 1);
        (self.of[0], self.count) = (block, moved + 1);
        // `tcp_sack_maybe_coalesce`, where it has grown.
        while let Some(index) = self.touching(1, self.of[0]).filter(|_| touched.is_some()) {
            let known = self.of[index];
            self.of[0] = (self.of[0].0.min(known.0), self.of[0].1.max(known.1));
            self.remove(index);
        }
    }
}

/// What there is to tell while something lies behind a gap.
#[derive(Debug, Default)]
struct Gap {
    blocks: Blocks,
    /// Acknowledgements that wait (`compressed_ack`).
    waiting: u8,
    /// Duplicates that were acknowledged at once (`dup_ack_counter`) with `next` expected
    /// (`compressed_ack_rcv_nxt`).
    at_once: u8,
    next: u64,
    /// When those that wait go.
    deadline: Option<Instant>,
    /// The blocks of an acknowledgement that was to go before the latest segment was filed.
    owed: Option<Blocks>,
    /// The latest segment brought it about, and asks for none itself.
    answered: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Reports(Option<Box<Gap>>);

impl Reports {
    /// Nothing is to be told.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub(super) fn clear(&mut self) {
        self.0 = None;
    }

    /// The blocks as they stand.
    pub(super) fn blocks(&self) -> Blocks {
        self.0.as_ref().map_or(Blocks::default(), |gap| gap.blocks)
    }

    /// The blocks to tell now: those of an acknowledgement that is owed go first.
    pub(super) fn take_blocks(&mut self) -> Blocks {
        self.0.as_mut().map_or(Blocks::default(), |gap| gap.owed.take().unwrap_or(gap.blocks))
    }

    /// A segment `[start, end)` has come out of order. Where it makes a third block, or belongs to one that may not
    /// have had room any more, what waits goes first (`tcp_sack_compress_send_ack`).
    pub(super) fn note(&mut self, start: u64, end: u64) {
        let gap = self.0.get_or_insert_default();
        let touched = gap.blocks.touching(0, (start, end));
        if touched.unwrap_or(gap.blocks.count) >= EXPECTED && gap.waiting > 0 {
            gap.owed.get_or_insert(gap.blocks);
            (gap.waiting, gap.deadline) = (0, None);
            gap.answered = true;
        }
        gap.blocks.put_first((start, end), touched);
    }

    /// What waited has gone for the sake of the segment that has just come: with that acknowledgement it is no
    /// longer due that there be one (`inet_csk_ack_scheduled` in `tcp_ack_snd_check`).
    #[inline(always)]
    pub(super) fn take_answered(&mut self) -> bool {
        self.0.as_mut().is_some_and(|gap| std::mem::take(&mut gap.answered))
    }

    /// Everything before `next` has come (`tcp_sack_remove`).
    pub(super) fn advance(&mut self, next: u64) {
        let Some(gap) = &mut self.0 else { return };
        while let Some(index) = gap.blocks.as_slice().iter().position(|block| block.0 <= next) {
            gap.blocks.remove(index);
        }
    }

    /// Nothing lies from `end` on.
    pub(super) fn truncate(&mut self, end: u64) {
        let Some(gap) = &mut self.0 else { return };
        while let Some(index) = gap.blocks.as_slice().iter().position(|block| block.0 >= end) {
            gap.blocks.remove(index);
        }
        for block in &mut gap.blocks.of {
            block.1 = block.1.min(end);
        }
    }

    /// What is told no longer holds: data was let go (`tcp_sack_reset`).
    pub(super) fn forget(&mut self) {
        if let Some(gap) = &mut self.0 {
            gap.blocks.count = 0;
        }
    }

    /// Another duplicate is to be acknowledged while `next` is expected: true when it may wait, until `deadline` if
    /// none waits yet.
    fn may_wait(&mut self, next: u64, deadline: Instant) -> bool {
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

    /// An acknowledgement has gone out, and with it those that waited, unless one that is owed was it
    /// (`tcp_event_ack_sent`).
    #[inline(always)]
    pub(super) fn on_ack_sent(&mut self) {
        if let Some(gap) = self.0.as_mut().filter(|gap| gap.owed.is_none()) {
            (gap.waiting, gap.deadline) = (0, None);
        }
    }

    /// There is a gap: [`Self::owes`] may be true.
    #[inline(always)]
    pub(super) fn may_owe(&self) -> bool {
        self.0.is_some()
    }

    /// An acknowledgement with earlier blocks is to go out before anything else.
    #[inline(always)]
    pub(super) fn owes(&self) -> bool {
        self.0.as_ref().is_some_and(|gap| gap.owed.is_some())
    }

    /// When those that wait go.
    #[inline(always)]
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.0.as_ref()?.deadline
    }
}

impl Subflow {
    /// An acknowledgement is to be sent while data lies behind a gap: at once, or together with others.
    pub(super) fn acknowledge_gap(&mut self, now: Instant) {
        let waits = self.stack.tcp.compresses_sacks && self.agreed.sack_permitted && {
            let rtt = self.receive.rtt().unwrap_or_default();
            let rtt = self.rtt.srtt().map_or(rtt, |srtt| srtt.min(rtt));
            let wait = WAIT_MAX.min(rtt / WAIT_SHARE) + SLACK;
            self.receive.reports.may_wait(self.receive.next(), now + wait)
        };
        if !waits {
            self.ack.demand();
        }
    }

    /// Bytes of SACK option that a data segment sent now will carry (`tcp_established_options`).
    #[inline(always)]
    pub(super) fn sack_bytes(&self) -> u32 {
        let duplicate = self.receive.duplicate.is_some();
        if !self.agreed.sack_permitted || (self.receive.reports.is_empty() && !duplicate) {
            return 0;
        }
        let timestamps = if self.agreed.timestamps { 12 } else { 0 };
        let taken = timestamps + (self.mss - self.send.mss) as usize + SACK_BASE;
        let room = MAX_OPTIONS_LEN.saturating_sub(taken) / SACK_BLOCK;
        let told = self.receive.reports.blocks().as_slice().len();
        match room.min(told + usize::from(duplicate)) {
            0 => 0,
            blocks => (SACK_BASE + SACK_BLOCK * blocks) as u32,
        }
    }

    /// Those that wait together go if it is time.
    #[inline(always)]
    pub(crate) fn fire_reports(&mut self, now: Instant) {
        if self.receive.reports.deadline().is_some_and(|at| now >= at) {
            self.ack.demand();
        }
    }
}

#[cfg(test)]
mod tests;
