//! The order of transmission of the outstanding segments (`tsorted_sent_queue`).

use anabranch_units::Instant;

use std::ops::Range;

use super::{Flight, Sent, TxStamp};

impl Flight {
    /// Adds all entries that were sent since the last call to the order of transmission.
    pub(super) fn insert_new(&mut self) {
        let Range { start, end } = self.numbers();
        let first = end.saturating_sub(self.unplaced.into()).max(start);
        self.order.extend((first..end).map(|number| (number, 1)));
        self.unplaced = 0;
    }

    /// Records a retransmission of an entry. Returns the segment to send.
    pub(crate) fn retransmit(
        &mut self,
        number: u64,
        now: Instant,
        stamp: TxStamp,
    ) -> Option<&Sent> {
        self.insert_new();
        let index = number.checked_sub(self.base)? as usize;
        let front = self.entries.front()?.start;
        let sent = self.entries.get_mut(index)?;
        if let Some(firsts) = self.firsts.as_mut().filter(|_| !sent.ever_retransmitted()) {
            firsts.note(front, sent.start, sent.sent_at);
        }
        sent.sent_at = now;
        sent.stamp = stamp;
        self.transmissions += 1;
        sent.serial = self.transmissions;
        sent.transmission += 1;
        if !sent.retransmitted {
            sent.retransmitted = true;
            self.retrans_out += 1;
        }
        let place = (number, sent.transmission);
        self.limit_order();
        self.order.push_back(place);
        self.entries.get(index)
    }

    /// Removes outdated elements of the order if there are many.
    pub(super) fn limit_order(&mut self) {
        if self.order.len() > 2 * self.entries.len() + 16 {
            self.collapse_order();
        }
    }

    /// Keeps one element for each segment, that of its last transmission, and removes all others.
    #[cold]
    pub(super) fn collapse_order(&mut self) {
        let (base, entries) = (self.base, &self.entries);
        let mut seen = vec![false; entries.len()];
        self.order.retain(|(number, transmission)| {
            let index = number.checked_sub(base).map(|index| index as usize);
            let sent = index.and_then(|index| entries.get(index).zip(seen.get_mut(index)));
            sent.is_some_and(|(sent, seen)| {
                sent.transmission == *transmission && !std::mem::replace(seen, true)
            })
        });
    }

    /// Returns the oldest transmission, in order, whose segment may still be marked lost.
    pub(crate) fn find_oldest_transmission(&mut self) -> Option<u64> {
        self.insert_new();
        while let Some(&(number, transmission)) = self.order.front() {
            let pending = self.get(number).is_some_and(|sent| {
                sent.transmission == transmission
                    && !sent.sacked
                    && (!sent.lost || sent.retransmitted)
            });
            if pending {
                return Some(number);
            }
            self.order.pop_front();
        }
        None
    }

    /// Removes the oldest such transmission while later ones are examined.
    pub(crate) fn take_oldest(&mut self) -> (u64, u32) {
        self.order.pop_front().expect("the caller has just seen the oldest transmission")
    }

    /// Restores the removed transmissions, oldest first.
    pub(crate) fn insert_deferred(&mut self, deferred: Vec<(u64, u32)>) {
        for place in deferred.into_iter().rev() {
            self.order.push_front(place);
        }
    }

    /// Removes all loss marks (`tcp_undo_cwnd_reduction` with `unmark_loss`).
    pub(crate) fn clear_lost(&mut self) {
        self.insert_new();
        for (index, sent) in self.entries.iter_mut().enumerate() {
            if sent.lost {
                sent.lost = false;
                // The segment may be marked lost again, in the order of its last transmission.
                self.order.push_back((self.base + index as u64, sent.transmission));
            }
        }
        self.lost_out = 0;
        self.limit_order();
    }
}
