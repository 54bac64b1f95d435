//! The events and samples of a connection.

use anabranch_units::{Duration, Instant, Rate, SeqNumber, SubflowId};

use super::Connection;
use crate::subflow::Subflow;
use anabranch_congestion::CongestionState;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{State, Totals as SubflowTotals};

/// News for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established.
    Connected,
    /// A further subflow carries data now.
    SubflowEstablished(SubflowId),
    /// A subflow is gone.
    SubflowClosed(SubflowId),
    /// The peer reset a subflow and said why (`MP_TCPRST`); `SubflowClosed` follows.
    SubflowReset {
        /// Which.
        id: SubflowId,
        /// The reason code (RFC 8684 section 3.6).
        reason: u8,
        /// The condition may pass; otherwise the pair of addresses is not tried again.
        transient: bool,
    },
    /// The peer wants a subflow used as a backup, or no longer so (`MP_PRIO`).
    PriorityChanged {
        /// Which.
        id: SubflowId,
        /// As a backup.
        backup: bool,
    },
    /// The peer has ended the connection at once (`MP_FASTCLOSE`): what it had not delivered is lost.
    /// `Closed` follows.
    Aborted,
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
    /// Nothing of it is left to be read or sent: the endpoint frees it ([`crate::Endpoint::poll_event`]).
    Drained,
}

/// A subflow at one moment.
#[derive(Clone, Copy, Debug)]
pub struct SubflowSample {
    /// Which.
    pub id: SubflowId,
    /// How many the connection had before it; the identifier, until places are given away again.
    pub ordinal: u32,
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

/// The used part of a subflow's window.
#[derive(Clone, Copy, Debug)]
pub struct WindowInUse {
    /// Which.
    pub id: SubflowId,
    /// How many the connection had before it.
    pub ordinal: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
}

/// A subflow's assumptions about its outstanding segments. They may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// The oldest unacknowledged byte.
    pub una: SeqNumber,
    /// Segments sent and not cumulatively acknowledged.
    pub outstanding: u32,
    /// Segments marked lost and not retransmitted.
    pub lost: u32,
    /// Segments that duplicate acknowledgements stand for; 0 with SACK, where reports name the segments.
    pub delivered: u32,
}

/// A subflow as a whole.
#[derive(Clone, Copy, Debug)]
pub struct SubflowSummary {
    /// Which.
    pub id: SubflowId,
    /// How many the connection had before it.
    pub ordinal: u32,
    /// Its addresses.
    pub tuple: FourTuple,
    /// It carries or carried data.
    pub established: bool,
    /// Totals.
    pub totals: SubflowTotals,
}

/// Returns the summary of a subflow.
pub(super) fn summary(subflow: &Subflow) -> SubflowSummary {
    SubflowSummary {
        id: subflow.tcp.id(),
        ordinal: subflow.context.ordinal(),
        tuple: subflow.tcp.tuple(),
        established: subflow.context.is_fully_established()
            || (!subflow.is_multipath() && subflow.tcp.state() == State::Established),
        totals: subflow.tcp.totals(),
    }
}

impl Connection {
    /// The next piece of news.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.session.poll_event()
    }

    /// When the connection was established.
    pub fn connected_at(&self) -> Option<Instant> {
        self.session.connected_at()
    }
}

/// Requests of a peer, or of an attacker in its name, that were refused; counts over the connection's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `ADD_ADDR` with a wrong HMAC.
    pub forged_announcements: u64,
    /// `ADD_ADDR` that was genuine and not followed: the address is not one to join, the identifier
    /// names another one, or too many came.
    pub refused_announcements: u64,
    /// Identifiers of `REMOVE_ADDR` that would have ended the last working subflow.
    pub refused_removals: u64,
    /// `MP_FASTCLOSE` without our key.
    pub forged_fast_closes: u64,
    /// Third packets of joins without the right HMAC.
    pub refused_joins: u64,
    /// `DATA_ACK`s of data that was not sent.
    pub refused_data_acks: u64,
    /// `MP_PRIO` that came too soon after others, and waited.
    pub deferred_priorities: u64,
}
