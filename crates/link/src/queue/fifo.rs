//! Packets in the order of their arrival, which the disciplines use.

use std::collections::VecDeque;

use anabranch_units::Instant;

use super::Ticket;

/// A waiting packet and the time of its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) since: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Fifo {
    waiting: VecDeque<Waiting>,
    bytes: u64,
}

impl Fifo {
    pub(super) fn push(&mut self, now: Instant, ticket: Ticket) {
        self.bytes += ticket.size.0;
        self.waiting.push_back(Waiting { ticket, since: now });
    }

    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.bytes -= first.ticket.size.0;
        Some(first)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}
