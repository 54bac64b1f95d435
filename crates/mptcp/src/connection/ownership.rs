//! Reports to the endpoint's table: the addresses that a connection has gained and lost, and whether it is over.

use anabranch_units::Instant;

use super::Connection;
use super::subflow_table::Subflows;
use anabranch_tcp::Remains;
use anabranch_tcp::config::FourTuple;

/// A pair of addresses that a subflow or a half-open join has gained or lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) tuple: FourTuple,
    /// The state of TIME-WAIT, if a subflow ended with it.
    pub(crate) remains: Option<Remains>,
}

impl From<FourTuple> for Moved {
    fn from(tuple: FourTuple) -> Self {
        Self { tuple, remains: None }
    }
}

/// The receiver of segments between two addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A join that waits for its third packet.
    HalfOpen,
    /// The subflow in this slot.
    Subflow(usize),
}

impl Connection {
    /// The subflows and half-open joins, for the endpoint's table.
    #[inline]
    pub(crate) fn subflows(&self) -> &Subflows {
        &self.subflows
    }

    /// Takes the pairs of addresses that have been gained or lost since the last call.
    pub(crate) fn take_moved(&mut self) -> Vec<Moved> {
        self.subflows.take_moved()
    }

    /// [`Self::poll_event`] has an event.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.session.has_news()
    }

    /// The connection is over, and has nothing left to report, to send or to read.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_closed()
            && !self.session.has_news()
            && self.readable() == 0
            && !self.subflows.owes_answer()
            && !self.subflows.iter().any(|subflow| subflow.tcp.owes_an_end())
            && self.wake() == Instant::FAR_FUTURE
    }
}
