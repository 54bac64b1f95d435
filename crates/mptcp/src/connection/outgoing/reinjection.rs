//! The record of which subflows carried which data (`path_mask` of the out-of-tree kernel), the data to
//! reinject (`mptcp_reinject_data`), and data sent ahead. It is maintained only if the scheduler needs it.

use std::collections::VecDeque;

use anabranch_units::SubflowId;

use super::Outgoing;
use anabranch_scheduler::{Carried, SubflowSet};

/// A range of the data stream that the same subflows carried.
#[derive(Clone, Copy, Debug)]
struct CarriedRange {
    from: u64,
    to: u64,
    by: SubflowSet,
    /// The subflows for which the range was already queued for reinjection. Each subflow causes this once.
    reinjected: SubflowSet,
}

impl CarriedRange {
    fn continues(&self, by: SubflowSet, from: u64) -> bool {
        self.to == from && self.by == by && self.reinjected.is_empty()
    }
}

/// The sent data that is unacknowledged at data level, and the ranges of it to reinject.
#[derive(Debug, Default)]
pub(super) struct CarriedData {
    /// Ascending ranges without overlap.
    ranges: VecDeque<CarriedRange>,
    /// Ascending ranges to reinject, without overlap.
    queue: VecDeque<(u64, u64)>,
}

impl CarriedData {
    /// Removes a subflow from all ranges, because its identifier now belongs to a new subflow.
    pub(super) fn remove_subflow(&mut self, id: SubflowId) {
        for range in &mut self.ranges {
            range.by = range.by.without(id);
            range.reinjected = range.reinjected.without(id);
        }
    }

    /// Records that the range `[from, to)` was queued on a subflow.
    pub(super) fn note(&mut self, id: SubflowId, from: u64, to: u64) {
        if self.ranges.back().is_none_or(|last| last.to <= from) {
            let by = SubflowSet::one(id);
            match self.ranges.back_mut() {
                Some(last) if last.continues(by, from) => last.to = to,
                _ => self.ranges.push_back(CarriedRange::new(from, to, by)),
            }
            return;
        }
        self.cut(from);
        self.cut(to);
        let mut at = from;
        let mut index = self.ranges.partition_point(|s| s.to <= from);
        while at < to {
            match self.ranges.get_mut(index) {
                Some(range) if range.from <= at => {
                    range.by = range.by.with(id);
                    at = range.to;
                }
                next => {
                    let end = next.map_or(to, |range| range.from.min(to));
                    self.ranges.insert(index, CarriedRange::new(at, end, SubflowSet::one(id)));
                    at = end;
                }
            }
            index += 1;
        }
    }

    /// Splits the range that contains `position` there.
    fn cut(&mut self, position: u64) {
        let index = self.ranges.partition_point(|range| range.to <= position);
        if let Some(range) = self.ranges.get_mut(index).filter(|s| s.from < position) {
            let before = CarriedRange { to: position, ..*range };
            range.from = position;
            self.ranges.insert(index, before);
        }
    }

    /// Returns the subflows that carried the byte at `position`, and the range to which this applies. The set
    /// is empty if the byte was not sent.
    pub(super) fn at(&self, position: u64) -> Carried {
        let index = self.ranges.partition_point(|range| range.to <= position);
        let found = self.ranges.get(index).filter(|range| range.from <= position);
        let nobody = Carried { from: position, to: position, by: SubflowSet::EMPTY };
        found.map_or(nobody, |found| Carried { to: found.to, by: found.by, ..nobody })
    }

    /// Removes all data before `una`.
    pub(super) fn acknowledge(&mut self, una: u64) {
        while self.ranges.front().is_some_and(|first| first.to <= una) {
            self.ranges.pop_front();
        }
        // Shorten a partly acknowledged range.
        if let Some(first) = self.ranges.front_mut() {
            first.from = first.from.max(una);
        }
        self.remove_queued(0, una);
    }

    /// Queues all data that `id` carried, except ranges already queued because of the same subflow.
    pub(super) fn reinject(&mut self, id: SubflowId) {
        let mut ranges: Vec<(u64, u64)> = self.queue.drain(..).collect();
        for range in &mut self.ranges {
            if range.by.contains(id) && !range.reinjected.contains(id) {
                range.reinjected = range.reinjected.with(id);
                ranges.push((range.from, range.to));
            }
        }
        ranges.sort_unstable();
        for (from, to) in ranges {
            match self.queue.back_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => self.queue.push_back((from, to)),
            }
        }
    }

    /// Returns whether data waits to be reinjected.
    #[inline]
    pub(super) fn has_queued(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Returns the first range to reinject.
    pub(super) fn to_reinject(&self) -> Option<Carried> {
        self.queue.front().map(|&(from, to)| {
            let piece = self.at(from);
            Carried { to: piece.to.min(to), ..piece }
        })
    }

    /// Removes `[from, to)` from the queue, if the start of the first range lies in it. The data was sent or
    /// need not be sent.
    pub(super) fn remove_queued(&mut self, from: u64, to: u64) {
        while let Some(front) = self.queue.front_mut().filter(|front| front.0 < to) {
            if front.0 < from {
                return;
            }
            front.0 = front.1.min(to);
            if front.0 == front.1 {
                self.queue.pop_front();
            }
        }
    }
}

impl CarriedRange {
    const fn new(from: u64, to: u64, by: SubflowSet) -> Self {
        Self { from, to, by, reinjected: SubflowSet::EMPTY }
    }
}

/// Ranges after the cursor that were sent already. The cursor skips each of them when it reaches it.
#[derive(Debug, Default)]
pub(super) struct SentAhead(VecDeque<(u64, u64)>);

impl SentAhead {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn insert(&mut self, from: u64, to: u64) {
        let index = self.0.partition_point(|range| range.0 < from);
        self.0.insert(index, (from, to));
    }

    /// Returns the number of bytes from `position` to the next range.
    pub(super) fn room(&self, position: u64) -> u64 {
        let index = self.0.partition_point(|range| range.0 <= position);
        self.0.get(index).map_or(u64::MAX, |range| range.0 - position)
    }

    /// Returns the number of bytes of `[from, to)` that are in these ranges.
    pub(super) fn overlap(&self, from: u64, to: u64) -> u64 {
        let (mut at, mut bytes) = (from, 0);
        for &(begin, end) in &self.0 {
            let (begin, end) = (begin.max(at), end.min(to));
            if begin < end {
                bytes += end - begin;
                at = end;
            }
        }
        bytes
    }

    /// Returns the first position from `position` on that is in no range. Removes the ranges before it.
    pub(super) fn advance(&mut self, mut position: u64) -> u64 {
        while let Some((_, to)) = self.0.front().filter(|range| range.0 <= position) {
            position = position.max(*to);
            self.0.pop_front();
        }
        position
    }
}

impl Outgoing {
    /// Sends the data of an unresponsive or closed subflow again, in the way of the kernel that the scheduler
    /// belongs to: only that subflow's data, or everything unacknowledged.
    pub(in crate::connection) fn send_again(&mut self, id: SubflowId) {
        if self.scheduling.scheduler.reinjects() {
            self.carried.reinject(id);
        } else {
            self.send_everything_again();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(ids: &[u8]) -> SubflowSet {
        ids.iter().map(|id| SubflowId(*id)).collect()
    }

    #[test]
    fn carried_ranges_list_the_subflows_that_sent_them() {
        let mut carried = CarriedData::default();
        carried.note(SubflowId(0), 0, 100);
        carried.note(SubflowId(0), 100, 200);
        carried.note(SubflowId(1), 200, 300);
        assert_eq!(carried.ranges.len(), 2, "what follows is one range");
        carried.note(SubflowId(1), 50, 250);
        let all = [
            (0, 50, set(&[0])),
            (50, 200, set(&[0, 1])),
            (200, 250, set(&[1])),
            (250, 300, set(&[1])),
        ];
        for (from, to, by) in all {
            assert_eq!(carried.at(from), Carried { from, to, by });
            assert_eq!(carried.at(to - 1), Carried { from: to - 1, to, by });
        }
        assert_eq!(carried.at(300).by, SubflowSet::EMPTY);
        carried.acknowledge(210);
        assert_eq!(carried.at(40).by, SubflowSet::EMPTY);
        assert_eq!(carried.at(210), Carried { from: 210, to: 250, by: set(&[1]) });
        // Fills a gap before a range that was sent ahead.
        carried.note(SubflowId(2), 400, 500);
        carried.note(SubflowId(3), 300, 450);
        assert_eq!(carried.at(300), Carried { from: 300, to: 400, by: set(&[3]) });
        assert_eq!(carried.at(400), Carried { from: 400, to: 450, by: set(&[2, 3]) });
        assert_eq!(carried.at(450), Carried { from: 450, to: 500, by: set(&[2]) });
    }

    #[test]
    fn reinjection_is_queued_once_until_sent_or_acknowledged() {
        let mut carried = CarriedData::default();
        for (id, from) in [(0, 0), (1, 100), (0, 200), (1, 300)] {
            carried.note(SubflowId(id), from, from + 100);
        }
        carried.reinject(SubflowId(0));
        carried.reinject(SubflowId(0));
        assert_eq!(carried.queue, [(0, 100), (200, 300)]);
        carried.remove_queued(0, 40);
        assert_eq!(carried.to_reinject(), Some(Carried { from: 40, to: 100, by: set(&[0]) }));
        carried.acknowledge(220);
        assert_eq!(carried.to_reinject(), Some(Carried { from: 220, to: 300, by: set(&[0]) }));
        carried.remove_queued(220, 300);
        assert_eq!(carried.to_reinject(), None);
        carried.note(SubflowId(0), 400, 500);
        carried.reinject(SubflowId(0));
        assert_eq!(carried.queue, [(400, 500)], "what it carried since");
    }

    #[test]
    fn data_sent_ahead_is_skipped() {
        let mut ahead = SentAhead::default();
        ahead.insert(300, 400);
        ahead.insert(100, 200);
        ahead.insert(200, 250);
        assert_eq!((ahead.room(0), ahead.room(260), ahead.room(400)), (100, 40, u64::MAX));
        assert_eq!(ahead.advance(50), 50);
        assert_eq!(ahead.advance(100), 250);
        assert_eq!(ahead.advance(300), 400);
        assert!(ahead.is_empty());
    }
}
