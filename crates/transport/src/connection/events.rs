//! What a connection tells its application, and what it lets a trace see.

use anabranch_units::{Duration, Instant, Rate, SubflowId};

use super::Connection;
use crate::config::FourTuple;
use crate::congestion::CongestionState;
use crate::subflow::{State, SubflowTotals};

/// News for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established.
    Connected,
    /// A further subflow carries data now.
    SubflowEstablished(SubflowId),
    /// A subflow is gone.
    SubflowClosed(SubflowId),
    /// A subflow was found without progress and is left out until it shows life.
    SubflowStale(SubflowId),
    /// Data can be read.
    Readable,
    /// The send buffer has room again.
    Writable,
    /// The peer has finished: no more data will come.
    PeerFinished,
    /// The peer speaks no MPTCP (or lost it): plain TCP from here on.
    FellBack,
    /// The connection is over.
    Closed,
}

/// A subflow at one moment.
#[derive(Clone, Copy, Debug)]
pub struct SubflowSample {
    /// Which.
    pub id: SubflowId,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Slow-start threshold, segments; `u32::MAX` when never set.
    pub ssthresh_segments: u32,
    /// Segments in flight.
    pub in_flight_segments: u32,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Delivery rate.
    pub delivery_rate: Rate,
    /// Pacing rate (an estimate unless enforced).
    pub pacing_rate: Rate,
    /// Bytes queued in the subflow and not sent.
    pub unsent_bytes: u64,
    /// Congestion state.
    pub state: CongestionState,
    /// Totals so far.
    pub totals: SubflowTotals,
}

/// A subflow as a whole.
#[derive(Clone, Copy, Debug)]
pub struct SubflowSummary {
    /// Which.
    pub id: SubflowId,
    /// Its addresses.
    pub tuple: FourTuple,
    /// It carries or carried data.
    pub established: bool,
    /// Totals.
    pub totals: SubflowTotals,
}

impl Connection {
    /// The next piece of news.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Every established subflow at this moment.
    pub fn samples(&self) -> impl Iterator<Item = SubflowSample> {
        self.subflows.iter().filter(|s| s.state == State::Established).map(|s| SubflowSample {
            id: s.id,
            cwnd_segments: s.window.cwnd,
            ssthresh_segments: s.window.ssthresh,
            in_flight_segments: s.board.in_flight(),
            srtt: s.rtt.srtt(),
            min_rtt: s.rtt.min_rtt(),
            delivery_rate: s.delivery_rate(),
            pacing_rate: s.pacing_rate(),
            unsent_bytes: s.send.queued_bytes(),
            state: s.ca_state,
            totals: s.totals,
        })
    }

    /// Every subflow there was.
    pub fn summaries(&self) -> impl Iterator<Item = SubflowSummary> {
        self.subflows.iter().map(|s| SubflowSummary {
            id: s.id,
            tuple: s.tuple,
            established: s.fully_established || (!s.multipath && s.state == State::Established),
            totals: s.totals,
        })
    }

    /// Bytes sent again on another subflow, connection-level retransmissions included.
    pub fn reinjected_bytes(&self) -> u64 {
        self.retransmission.bytes
    }

    /// When the connection was established.
    pub fn connected_at(&self) -> Option<Instant> {
        self.connected_at
    }

    /// For checkers: each subflow's segments in flight, its window, and the segments that may
    /// exceed it (a loss probe, the head after a timeout, the reduction in progress).
    pub fn windows(&self) -> impl Iterator<Item = (SubflowId, u32, u32)> {
        self.subflows.iter().map(|s| (s.id, s.board.in_flight(), s.window.cwnd))
    }
}

impl Connection {
    /// For checkers: the subflow on a four-tuple, its segments in flight and its window.
    pub fn window_on(&self, tuple: FourTuple) -> Option<(SubflowId, u32, u32)> {
        let subflow = self.subflows.iter().find(|s| s.tuple == tuple)?;
        Some((subflow.id, subflow.board.in_flight(), subflow.window.cwnd))
    }

    /// For checkers: segments that a subflow takes for lost and has not sent again.
    pub fn lost_on(&self, id: SubflowId) -> u32 {
        self.subflows.get(id.index()).map_or(0, |s| s.board.lost_waiting())
    }
}
