//! The queue of connections that may have something to send.

use std::collections::VecDeque;

/// An empty queue with a capacity of at most this many elements keeps its memory.
const SMALL: usize = 64;

/// A queue of connection slots. The front is stored separately, because there is rarely more than
/// one element.
#[derive(Debug, Default)]
pub(super) struct Ready {
    front: Option<u32>,
    rest: VecDeque<u32>,
}

impl Ready {
    #[inline]
    pub(super) fn front(&self) -> Option<u32> {
        self.front
    }

    #[inline]
    pub(super) fn push(&mut self, slot: u32) {
        if self.front.is_none() {
            self.front = Some(slot);
        } else {
            self.push_behind(slot);
        }
    }

    #[cold]
    fn push_behind(&mut self, slot: u32) {
        self.rest.push_back(slot);
    }

    #[inline]
    pub(super) fn pop(&mut self) {
        self.front = None;
        if !self.rest.is_empty() {
            self.advance();
        }
    }

    #[cold]
    fn advance(&mut self) {
        self.front = self.rest.pop_front();
        if self.rest.is_empty() && self.rest.capacity() > SMALL {
            self.rest = VecDeque::new();
        }
    }

    /// Returns the number of queued connections.
    pub(super) fn len(&self) -> usize {
        usize::from(self.front.is_some()) + self.rest.len()
    }

    /// Returns the connection at a position of the queue.
    pub(super) fn at(&self, place: usize) -> Option<u32> {
        match place.checked_sub(1) {
            None => self.front,
            Some(behind) => self.rest.get(behind).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_queue_is_first_in_first_out() {
        let mut ready = Ready::default();
        for slot in 0..1000 {
            ready.push(slot);
        }
        assert_eq!(
            (ready.len(), ready.at(0), ready.at(999), ready.at(1000)),
            (1000, Some(0), Some(999), None)
        );
        for slot in 0..1000 {
            assert_eq!(ready.front(), Some(slot));
            ready.pop();
        }
        assert_eq!((ready.front(), ready.len()), (None, 0));
        assert_eq!(ready.rest.capacity(), 0, "memory has gone back");
    }
}
