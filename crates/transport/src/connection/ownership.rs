//! What the endpoint's table hears of a connection: which pairs of addresses have come and gone, and whether
//! it is over.

use super::Connection;
use crate::config::FourTuple;
use crate::subflow::{Remains, State, Subflow};

/// A pair of addresses that a subflow or a half-open join has gained or lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) tuple: FourTuple,
    /// What is to be kept of a subflow that ended as TIME-WAIT begins.
    pub(crate) remains: Option<Remains>,
}

impl From<FourTuple> for Moved {
    fn from(tuple: FourTuple) -> Self {
        Self { tuple, remains: None }
    }
}

/// To whom a segment between two addresses goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A join that waits for its third packet.
    HalfOpen,
    /// The subflow in this place.
    Subflow(usize),
}

impl Connection {
    /// Pairs of addresses have come or gone since [`Self::take_moved`].
    #[inline(always)]
    pub(crate) fn has_moved(&self) -> bool {
        !self.moved.is_empty()
    }

    /// The pairs of addresses that have come or gone.
    pub(crate) fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }

    /// Whose of this connection the segments between two addresses are.
    pub(crate) fn owner_of(&self, tuple: FourTuple) -> Option<Owner> {
        let lives = self.subflows.iter().position(|s| s.tuple == tuple && s.state != State::Closed);
        lives.map(Owner::Subflow).or_else(|| self.awaits(tuple).then_some(Owner::HalfOpen))
    }

    /// Every pair of addresses it may have been reached at, and may still be.
    pub(crate) fn known_tuples(&self) -> impl Iterator<Item = FourTuple> {
        self.subflows.iter().map(|s| s.tuple).chain(self.half_open.tuples())
    }

    /// News waits for the application: [`Self::poll_event`] gives it.
    #[inline(always)]
    pub fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// It is over, and nothing is left of it to be told, sent or read.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_closed()
            && self.events.is_empty()
            && self.readable() == 0
            && !self.half_open.owes()
            && !self.subflows.iter().any(Subflow::owes_an_end)
            && self.poll_timeout().is_none()
    }
}
