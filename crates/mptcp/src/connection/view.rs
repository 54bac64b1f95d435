//! A connection's state for traces, metrics and test checkers: samples, totals and counters.

use anabranch_units::SubflowId;

use super::{
    Assumed, Connection, Counters, ReceiverSample, SubflowSample, SubflowSummary, WindowInUse,
};
use anabranch_tcp::State;
use anabranch_tcp::config::FourTuple;

/// Read-only access to the state of a connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionView<'a>(&'a Connection);

impl Connection {
    /// Returns the connection's state for traces, metrics and test checkers.
    #[inline]
    pub fn view(&self) -> ConnectionView<'_> {
        ConnectionView(self)
    }
}

impl<'a> ConnectionView<'a> {
    /// Returns samples of all established subflows.
    pub fn samples(self) -> impl Iterator<Item = SubflowSample> + 'a {
        self.0.subflows.iter().filter(|s| s.tcp.state() == State::Established).map(|s| {
            SubflowSample {
                id: s.tcp.id(),
                ordinal: s.context.ordinal(),
                cwnd_segments: s.tcp.sending().cwnd().window().cwnd,
                ssthresh_segments: s.tcp.sending().cwnd().window().ssthresh,
                in_flight_segments: s.tcp.sending().flight().in_flight(),
                srtt: s.tcp.sending().rtt().srtt(),
                min_rtt: s.tcp.sending().rtt().min_rtt(),
                delivery_rate: s.tcp.sending().flight().rate().delivery_rate(),
                pacing_rate: s.tcp.sending().cwnd().pacing_rate(),
                unsent_bytes: s.tcp.sending().queue().queued_bytes(),
                state: s.tcp.sending().cwnd().state(),
                totals: s.tcp.totals(),
            }
        })
    }

    /// Returns summaries of all subflows: first the current ones by slot, then the replaced ones.
    pub fn summaries(self) -> impl Iterator<Item = SubflowSummary> + 'a {
        self.0.subflows.summaries()
    }

    /// Returns the number of bytes sent again on another subflow, including connection-level retransmissions.
    pub fn reinjected_bytes(self) -> u64 {
        self.0.outgoing.reinjected_bytes()
    }

    /// Returns each subflow's identifier, segments in flight, and congestion window.
    pub fn windows(self) -> impl Iterator<Item = (SubflowId, u32, u32)> + 'a {
        self.0.subflows.iter().map(|s| {
            (s.tcp.id(), s.tcp.sending().flight().in_flight(), s.tcp.sending().cwnd().window().cwnd)
        })
    }

    /// Returns the counts of refused requests.
    pub fn counters(self) -> Counters {
        self.0.session.counters()
    }

    /// Returns the congestion window, and its used part, of the subflow that sent the last segment. For test
    /// checkers.
    #[inline]
    pub fn last_window(self) -> Option<WindowInUse> {
        let subflow = self.0.subflows.get(self.0.subflows.turn())?;
        let sending = subflow.tcp.sending();
        let (in_flight, cwnd) = (sending.flight().in_flight(), sending.cwnd().window().cwnd);
        Some(WindowInUse {
            id: subflow.tcp.id(),
            ordinal: subflow.context.ordinal(),
            in_flight,
            cwnd,
        })
    }

    /// Returns a subflow's estimates about its outstanding segments. For test checkers.
    pub fn assumed_on(self, id: SubflowId) -> Option<Assumed> {
        let subflow = self.0.subflows.get(id.index())?;
        let board = subflow.tcp.sending().flight();
        Some(Assumed {
            una: subflow.tcp.sequence().local(subflow.tcp.sending().queue().una()),
            outstanding: board.packets_out(),
            lost: board.lost_waiting(),
            delivered: subflow.tcp.sending().flight().counted_duplicates(),
        })
    }

    /// Returns whether the scheduler or a congestion controller has failed.
    pub fn plugin_failed(self) -> bool {
        self.0.outgoing.scheduling().has_failed()
            || self.0.subflows.iter().any(|s| s.tcp.sending().cwnd().controller().failed())
    }

    /// Returns the four-tuples of the live subflows.
    pub fn tuples(self) -> impl Iterator<Item = FourTuple> + 'a {
        self.0.subflows.iter().filter(|s| s.tcp.state() != State::Closed).map(|s| s.tcp.tuple())
    }

    /// Returns the four-tuple of the newest subflow, live or not.
    pub fn last_tuple(self) -> Option<FourTuple> {
        self.0.subflows.last().map(|s| s.tcp.tuple())
    }

    /// Returns the state of the receiver.
    pub fn receiver(self) -> ReceiverSample {
        self.0.incoming.receiver(&self.0.subflows)
    }

    /// Returns the memory of received data that was not read, and the bytes of sent data that were not
    /// acknowledged. A `DATA_ACK` alone frees nothing. Each subflow keeps sent data until it is acknowledged
    /// there.
    pub fn memory_held(self) -> [u64; 2] {
        [self.0.incoming.held(&self.0.subflows)[1], self.0.outgoing.held(&self.0.subflows)[1]]
    }
}
