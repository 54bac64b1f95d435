//! The state of a subflow as a scheduler sees it, and the predicates that differ between the two Linux
//! generations.

use anabranch_units::{CongestionState, Duration, Instant, Rate, SubflowId};

use super::{Decision, SubflowSet};

/// The state of a subflow as a scheduler sees it. By default every field is zero, and the subflow takes no
/// data.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubflowView {
    /// The subflow's identifier.
    pub id: SubflowId,
    /// The smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// The RTT variation (the mean deviation, which Linux keeps in `rttvar`).
    pub rttvar: Duration,
    /// The minimum RTT.
    pub min_rtt: Duration,
    /// The congestion window in segments.
    pub cwnd: u32,
    /// The slow-start threshold in segments.
    pub ssthresh: u32,
    /// The number of segments in flight.
    pub in_flight: u32,
    /// Bytes in the subflow's send queue that were not sent yet.
    pub queued_bytes: u64,
    /// The memory of all data that was written to the subflow and is not acknowledged (`wmem_queued`), bytes.
    pub queued_memory: u64,
    /// The size of the subflow's send buffer, bytes.
    pub send_buffer: u64,
    /// The payload bytes of a full segment.
    pub mss: u32,
    /// The pacing rate. Without pacing, it is an estimate.
    pub pacing_rate: Rate,
    /// The delivery rate, from the last valid sample.
    pub delivery_rate: Rate,
    /// The congestion state.
    pub state: CongestionState,
    /// Whether all data that was outstanding when Recovery or Loss began is acknowledged. The subflow then
    /// has nothing left to retransmit, but remains in the state. This happens only without SACK, where the
    /// state ends when newer data is acknowledged (`tcp_try_undo_recovery`).
    pub repaired: bool,
    /// Whether either endpoint declared the subflow a backup.
    pub backup: bool,
    /// Whether the subflow made no progress since connection-level retransmission found it stale.
    pub stale: bool,
    /// Whether the retransmission timer has fired and nothing was acknowledged since (`pf`, "potentially
    /// failed", in the out-of-tree kernel).
    pub potentially_failed: bool,
    /// Whether the handshake is complete in both directions, so that data may be sent.
    pub established: bool,
    /// The time at which the last acknowledgement arrived.
    pub last_ack: Instant,
    /// The time at which the oldest unacknowledged segment was sent first. `None` if nothing is outstanding,
    /// or if the scheduler does not [watch](super::PathScheduler::watches).
    pub oldest_sent: Option<Instant>,
    /// The time at which the retransmission timer fires if nothing is acknowledged until then. `None` if
    /// nothing is outstanding, or if the scheduler does not [watch](super::PathScheduler::watches).
    pub timeout_at: Option<Instant>,
}

impl SubflowView {
    /// Returns the age of the oldest unacknowledged segment, from its first transmission.
    pub fn oldest_age(&self, now: Instant) -> Option<Duration> {
        self.oldest_sent.map(|at| now.since(at))
    }

    /// Returns the number of further segments that the window admits now. Queued segments use the window
    /// first.
    pub fn window_space(&self) -> u32 {
        let free = self.cwnd.saturating_sub(self.in_flight);
        // Avoid the division, which is expensive: usually the window is full or the queue is empty.
        if free == 0 || self.queued_bytes == 0 {
            return free;
        }
        free.saturating_sub(self.queued_bytes.div_ceil(u64::from(self.mss)) as u32)
    }

    /// Returns a decision to send a full segment of new data on this subflow, for schedulers that decide
    /// segment by segment.
    pub fn one_segment(&self) -> Decision {
        Decision::next_on(self.id, u64::from(self.mss))
    }

    /// Returns the bytes that are in flight or queued. Segments in flight count as full segments.
    pub fn held_bytes(&self) -> u64 {
        u64::from(self.in_flight) * u64::from(self.mss) + self.queued_bytes
    }

    /// Returns whether the subflow is established and not stale, and can therefore take data now or later.
    pub fn alive(&self) -> bool {
        self.established && !self.stale
    }

    /// Returns whether the subflow is in the congestion state `least` or a worse one and has losses to
    /// repair. A scheduler that skips subflows by their state must use this. Without SACK, a subflow leaves
    /// its state only when newer data is acknowledged. If it were skipped, it would never get newer data.
    pub fn repairs_in(&self, least: CongestionState) -> bool {
        self.state >= least && !self.repaired
    }

    /// Returns whether the subflow can send a segment at once, by the rule of the out-of-tree kernel and the
    /// papers' schedulers (`mptcp_is_temp_unavailable`). It needs window space and must not be in Loss. A
    /// subflow in Loss may send if all data up to `high_seq` is acknowledged: without SACK, Loss ends only
    /// when later data is acknowledged.
    pub fn can_send(&self) -> bool {
        // The window is checked first, because it is the most frequent reason to return false.
        self.window_space() > 0
            && self.established
            && !self.stale
            && !self.repairs_in(CongestionState::Loss)
    }

    /// Returns whether the subflow's send buffer has room, by upstream's rule (`sk_stream_memory_free`).
    pub fn can_queue(&self) -> bool {
        self.established && !self.stale && self.queued_memory < self.send_buffer
    }
}

/// Returns the subflows that may be chosen: the regular ones, or the backups if no regular one is usable (RFC
/// 8684 section 3.3.8).
pub fn candidates(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    let regular = subflows.iter().any(|s| !s.backup && s.established && !s.stale);
    subflows.iter().filter(move |s| s.backup != regular)
}

/// Returns the subflow with the smallest srtt, even if it is full, and the chosen subflow. Returns `None` if
/// they are the same.
///
/// Subflows whose retransmission timer has fired are skipped. The out-of-tree kernel sends nothing on such a
/// subflow until its peer answers (`mptcp_is_def_unavailable`). If no subflow ever became stale, a scheduler
/// could wait for it for ever. BLEST and ECF of that kernel do wait, which is not modelled.
pub fn nearer(
    subflows: &[SubflowView],
    chosen: SubflowSet,
) -> Option<(&SubflowView, &SubflowView)> {
    let id = chosen.first()?;
    let chosen = subflows.iter().find(|view| view.id == id)?;
    // One comparison orders regular subflows before backups, as in `candidates`: no srtt sets the highest
    // bit.
    let rank = |view: &SubflowView| view.srtt.as_nanos() | u64::from(view.backup) << 63;
    let answers = |view: &&SubflowView| view.alive() && !view.potentially_failed;
    let nearest = subflows.iter().filter(answers).min_by_key(|view| rank(view))?;
    (nearest.id != id && rank(nearest) <= rank(chosen)).then_some((nearest, chosen))
}
