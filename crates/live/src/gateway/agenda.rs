//! The work that the gateway has to do: connections to serve, and the times of periodic tasks.

use std::collections::BTreeSet;

use anabranch_units::{Duration, Instant};

/// The period in which the watcher is called and waiting connections are checked.
const LOOK: Duration = Duration::from_millis(100);
/// The period in which memory is counted: normally, and while memory is short.
const COUNT: Duration = Duration::from_millis(100);
const COUNT_WHILE_SHORT: Duration = Duration::from_millis(20);

/// The connections to serve, and the times of periodic tasks.
#[derive(Debug)]
pub(super) struct Agenda {
    /// Connections that may have work to do.
    touched: BTreeSet<u64>,
    /// Connections that wait until memory is counted again. Their origins have more data to read.
    held_back: BTreeSet<u64>,
    next_look: Instant,
    next_count: Instant,
}

impl Agenda {
    pub(super) fn new(now: Instant) -> Self {
        let (touched, held_back) = (BTreeSet::new(), BTreeSet::new());
        Self { touched, held_back, next_look: now, next_count: now }
    }

    /// Adds a connection to serve.
    pub(super) fn touch(&mut self, number: u64) {
        self.touched.insert(number);
    }

    /// Returns the next connection to serve, and removes it from the list.
    pub(super) fn pop(&mut self) -> Option<u64> {
        self.touched.pop_first()
    }

    /// Returns whether there are connections to serve.
    pub(super) fn has_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Makes a connection wait until memory is counted again.
    pub(super) fn hold_back(&mut self, number: u64) {
        self.held_back.insert(number);
    }

    /// Removes a connection that has ended.
    pub(super) fn forget(&mut self, number: u64) {
        self.touched.remove(&number);
        self.held_back.remove(&number);
    }

    /// Sets the next count of memory to the present.
    pub(super) fn count_soon(&mut self, now: Instant) {
        self.next_count = now;
    }

    /// Returns whether memory must be counted now.
    pub(super) fn count_is_due(&self, now: Instant) -> bool {
        now >= self.next_count
    }

    /// Records that memory was counted. The connections that waited for this are served again.
    pub(super) fn note_count(&mut self, now: Instant, is_short: bool) {
        self.touched.append(&mut self.held_back);
        self.next_count = now + if is_short { COUNT_WHILE_SHORT } else { COUNT };
    }

    /// Returns whether the periodic check is due, and sets the time of the next one.
    pub(super) fn take_look(&mut self, now: Instant) -> bool {
        let due = now >= self.next_look;
        if due {
            self.next_look = now + LOOK;
        }
        due
    }

    /// Returns the time until which the gateway may wait for packets. `timeout` is the next timeout of the
    /// endpoint.
    pub(super) fn wake(&self, now: Instant, timeout: Option<Instant>) -> Instant {
        if self.has_touched() {
            return now;
        }
        let due = self.next_look.min(self.next_count);
        timeout.map_or(due, |timeout| timeout.min(due))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn connections_that_waited_for_a_count_are_driven_at_once() {
        let mut agenda = Agenda::new(at(0));
        assert!(agenda.take_look(at(0)) && agenda.count_is_due(at(0)));
        agenda.hold_back(3);
        agenda.hold_back(4);
        agenda.forget(4);
        assert_eq!(agenda.pop(), None);
        agenda.note_count(at(5), true);
        assert_eq!(agenda.wake(at(5), None), at(5), "without a wait");
        assert_eq!((agenda.pop(), agenda.pop()), (Some(3), None));
        // No work is left until the next count, 20 ms later.
        assert_eq!(agenda.wake(at(5), None), at(25));
    }

    #[test]
    fn the_earliest_of_timeout_look_and_count_ends_the_wait() {
        let mut agenda = Agenda::new(at(0));
        agenda.note_count(at(10), false);
        assert!(agenda.take_look(at(30)) && !agenda.take_look(at(31)));
        // The next count is due at 110 ms, and the next check at 130 ms.
        assert_eq!(agenda.wake(at(40), None), at(110));
        assert_eq!(agenda.wake(at(40), Some(at(99))), at(99));
        assert_eq!(agenda.wake(at(40), Some(at(111))), at(110));
        assert!(!agenda.count_is_due(at(40)));
        agenda.count_soon(at(40));
        assert!(agenda.count_is_due(at(40)));
    }
}
