//! The events of a connection, and samples of its state.

use anabranch_units::{Duration, Instant, Rate, SeqNumber, SubflowId};

use super::Connection;
use crate::subflow::Subflow;
use anabranch_congestion::CongestionState;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{State, Totals as SubflowTotals};

/// An event for the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The connection is established.
    Connected,
    /// A further subflow is established and carries data.
    SubflowEstablished(SubflowId),
    /// A subflow is closed.
    SubflowClosed(SubflowId),
    /// The peer reset a subflow with a reason code (`MP_TCPRST`). `SubflowClosed` follows.
    SubflowReset {
        /// The subflow.
        id: SubflowId,
        /// The reason code (RFC 8684 section 3.6).
        reason: u8,
        /// Whether the condition is transient. If not, the address pair is not tried again.
        transient: bool,
    },
    /// The peer changed the priority of a subflow (`MP_PRIO`).
    PriorityChanged {
        /// The subflow.
        id: SubflowId,
        /// Whether the subflow is now a backup.
        backup: bool,
    },
    /// The peer closed the connection at once (`MP_FASTCLOSE`). Data that it had not delivered is lost.
    /// `Closed` follows.
    Aborted,
    /// A subflow is stale: it makes no progress and gets no data until it receives an acknowledgement.
    SubflowStale(SubflowId),
    /// Data can be read.
    Readable,
    /// The send buffer has free space again.
    Writable,
    /// The peer has sent all of its data.
    PeerFinished,
    /// The connection fell back to plain TCP, because the peer or the path does not support MPTCP.
    FellBack,
    /// The connection is closed.
    Closed,
    /// Nothing is left to read or to send. The endpoint frees the connection
    /// ([`crate::Endpoint::poll_event`]).
    Drained,
}

/// The state of a subflow at one moment.
#[derive(Clone, Copy, Debug)]
pub struct SubflowSample {
    /// The subflow.
    pub id: SubflowId,
    /// The number of subflows that the connection opened before this one. Until slots are reused, this number
    /// equals the identifier.
    pub ordinal: u32,
    /// Congestion window, segments.
    pub cwnd_segments: u32,
    /// Slow-start threshold, segments. `u32::MAX` if it was never set.
    pub ssthresh_segments: u32,
    /// Segments in flight.
    pub in_flight_segments: u32,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Minimum RTT.
    pub min_rtt: Option<Duration>,
    /// Delivery rate.
    pub delivery_rate: Rate,
    /// Pacing rate. An estimate unless pacing is enforced.
    pub pacing_rate: Rate,
    /// Bytes queued on the subflow and not sent.
    pub unsent_bytes: u64,
    /// Congestion state.
    pub state: CongestionState,
    /// Totals so far.
    pub totals: SubflowTotals,
}

/// The congestion window of a subflow, and how much of it is in use.
#[derive(Clone, Copy, Debug)]
pub struct WindowInUse {
    /// The subflow.
    pub id: SubflowId,
    /// The number of subflows that the connection opened before this one.
    pub ordinal: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Congestion window, segments.
    pub cwnd: u32,
}

/// A subflow's estimates about its outstanding segments. They may be wrong.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    /// The oldest unacknowledged byte.
    pub una: SeqNumber,
    /// Segments sent and not cumulatively acknowledged (`packets_out`).
    pub outstanding: u32,
    /// Segments marked lost and not retransmitted.
    pub lost: u32,
    /// Segments counted as delivered because of duplicate acknowledgements. Always 0 with SACK.
    pub delivered: u32,
}

/// The addresses and totals of a subflow.
#[derive(Clone, Copy, Debug)]
pub struct SubflowSummary {
    /// The subflow.
    pub id: SubflowId,
    /// The number of subflows that the connection opened before this one.
    pub ordinal: u32,
    /// The addresses and ports of both ends.
    pub tuple: FourTuple,
    /// Whether the subflow was ever established.
    pub established: bool,
    /// The totals over the life of the subflow.
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
    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.session.poll_event()
    }

    /// Returns the time at which the connection was established.
    pub fn connected_at(&self) -> Option<Instant> {
        self.session.connected_at()
    }
}

/// Counts of refused requests, from the peer or from an attacker that imitates it, over the connection's
/// life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `ADD_ADDR`s with a wrong HMAC.
    pub forged_announcements: u64,
    /// `ADD_ADDR`s with a valid HMAC that were ignored. Their address cannot be joined, their identifier
    /// belongs to another address, or too many arrived.
    pub refused_announcements: u64,
    /// Identifiers in `REMOVE_ADDR`s whose removal would have ended the last working subflow.
    pub refused_removals: u64,
    /// `MP_FASTCLOSE`s without our key.
    pub forged_fast_closes: u64,
    /// Third packets of joins without a valid HMAC.
    pub refused_joins: u64,
    /// `DATA_ACK`s for data that was not sent.
    pub refused_data_acks: u64,
    /// Priority changes (`MP_PRIO`) that were delayed because the peer sent too many.
    pub deferred_priorities: u64,
}
