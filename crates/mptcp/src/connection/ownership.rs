//! Reports to the endpoint: four-tuples that a connection has added or released, and whether it is drained.

use anabranch_units::Instant;

use super::Connection;
use super::subflow_table::Subflows;
use anabranch_tcp::Remains;
use anabranch_tcp::config::FourTuple;

/// A four-tuple that a subflow or a half-open join has added or released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moved {
    pub(crate) tuple: FourTuple,
    /// The state for TIME-WAIT, if a subflow ended in it.
    pub(crate) remains: Option<Remains>,
}

impl From<FourTuple> for Moved {
    fn from(tuple: FourTuple) -> Self {
        Self { tuple, remains: None }
    }
}

/// The part of a connection that receives segments of a four-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A join that waits for its third packet.
    HalfOpen,
    /// The subflow in this slot.
    Subflow(usize),
}

impl Connection {
    /// Returns the subflows and half-open joins, for the endpoint's table.
    #[inline]
    pub(crate) fn subflows(&self) -> &Subflows {
        &self.subflows
    }

    /// Returns the four-tuples that were added or released since the last call.
    pub(crate) fn take_moved(&mut self) -> Vec<Moved> {
        self.subflows.take_moved()
    }

    /// Returns whether [`Self::poll_event`] has an event.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.session.has_news()
    }

    /// Returns whether the connection is closed, with nothing left to report, to send or to read.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_closed()
            && !self.session.has_news()
            && self.readable() == 0
            && !self.subflows.has_queued_answer()
            && !self.subflows.iter().any(|subflow| subflow.tcp.must_send_end())
            && self.wake() == Instant::FAR_FUTURE
    }
}
