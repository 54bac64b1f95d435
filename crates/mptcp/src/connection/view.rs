//! A connection's state for traces, metrics and checkers: samples, totals and counters.

use anabranch_units::SubflowId;

use super::{
    Assumed, Connection, Counters, ReceiverSample, SubflowSample, SubflowSummary, WindowInUse,
};
use anabranch_tcp::State;
use anabranch_tcp::config::FourTuple;

/// A connection to look at.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionView<'a>(&'a Connection);

impl Connection {
    /// The connection's state for traces, metrics and checkers.
    #[inline]
    pub fn view(&self) -> ConnectionView<'_> {
        ConnectionView(self)
    }
}

impl<'a> ConnectionView<'a> {
    /// Every established subflow at this moment.
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

    /// Every subflow there was: by place, then those whose place another one has.
    pub fn summaries(self) -> impl Iterator<Item = SubflowSummary> + 'a {
        self.0.subflows.summaries()
    }

    /// Bytes sent again on another subflow, connection-level retransmissions included.
    pub fn reinjected_bytes(self) -> u64 {
        self.0.outgoing.reinjected_bytes()
    }

    /// Each subflow's segments in flight, and its window.
    pub fn windows(self) -> impl Iterator<Item = (SubflowId, u32, u32)> + 'a {
        self.0.subflows.iter().map(|s| {
            (s.tcp.id(), s.tcp.sending().flight().in_flight(), s.tcp.sending().cwnd().window().cwnd)
        })
    }

    /// The refused requests of the peer.
    pub fn counters(self) -> Counters {
        self.0.session.counters()
    }

    /// For checkers: the used part of the window of the subflow that sent the last segment.
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

    /// For checkers: a subflow's assumptions about its outstanding segments.
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

    /// Its scheduler or a controller of its subflows cannot go on.
    pub fn plugin_failed(self) -> bool {
        self.0.outgoing.scheduling().has_failed()
            || self.0.subflows.iter().any(|s| s.tcp.sending().cwnd().controller().failed())
    }

    /// The addresses of its live subflows.
    pub fn tuples(self) -> impl Iterator<Item = FourTuple> + 'a {
        self.0.subflows.iter().filter(|s| s.tcp.state() != State::Closed).map(|s| s.tcp.tuple())
    }

    /// The addresses of its latest subflow, live or not.
    pub fn last_tuple(self) -> Option<FourTuple> {
        self.0.subflows.last().map(|s| s.tcp.tuple())
    }

    /// The receiver's state at this moment.
    pub fn receiver(self) -> ReceiverSample {
        self.0.incoming.receiver(&self.0.subflows)
    }

    /// Memory of received data that was not read, and bytes of sent data that were not acknowledged.
    /// A `DATA_ACK` alone releases nothing: every subflow keeps what it sent until it is acknowledged there.
    pub fn memory_held(self) -> [u64; 2] {
        [self.0.incoming.held(&self.0.subflows)[1], self.0.outgoing.held(&self.0.subflows)[1]]
    }
}
