//! A scheduler's view of a subflow, and the predicates that the two Linux generations differ in.

use anabranch_units::{CongestionState, Duration, Instant, Rate, SubflowId};

use super::{Decision, SubflowSet};

/// A scheduler's view of a subflow. The default is zero in every field and takes no data. Code that builds a view by
/// hand takes the other fields from the default.
#[derive(Clone, Copy, Debug, Default)]
pub struct SubflowView {
    /// Which subflow.
    pub id: SubflowId,
    /// Smoothed RTT; zero before the first sample.
    pub srtt: Duration,
    /// RTT variation (the mean deviation Linux keeps in `rttvar`).
    pub rttvar: Duration,
    /// Minimum RTT.
    pub min_rtt: Duration,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow-start threshold in segments.
    pub ssthresh: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Bytes handed to the subflow and not sent yet.
    pub queued_bytes: u64,
    /// Memory of all data written and not acknowledged (`wmem_queued`), bytes.
    pub queued_memory: u64,
    /// The send buffer, bytes.
    pub send_buffer: u64,
    /// Payload bytes of a full segment.
    pub mss: u32,
    /// Pacing rate (an estimate even when not enforced).
    pub pacing_rate: Rate,
    /// Delivery rate, the last valid sample.
    pub delivery_rate: Rate,
    /// Congestion state.
    pub state: CongestionState,
    /// All data that was outstanding when Recovery or Loss began is acknowledged, so nothing is left to repair. This
    /// happens only without SACK, where the state lasts until newer data is acknowledged (`tcp_try_undo_recovery`).
    pub repaired: bool,
    /// Either side declared it a backup.
    pub backup: bool,
    /// Connection-level retransmission found it without progress.
    pub stale: bool,
    /// Its retransmission timer has fired and nothing was acknowledged since (`pf`, "potentially
    /// failed", of the out-of-tree kernel).
    pub potentially_failed: bool,
    /// The handshake is complete in both directions: data may be sent.
    pub established: bool,
    /// When the last acknowledgement arrived.
    pub last_ack: Instant,
    /// When the oldest unacknowledged segment was sent for the first time, if any is outstanding. Absent unless the
    /// scheduler [watches](super::PathScheduler::watches).
    pub oldest_sent: Option<Instant>,
    /// When the retransmission timeout fires if nothing is acknowledged until then. Absent if nothing is outstanding, or
    /// unless the scheduler [watches](super::PathScheduler::watches).
    pub timeout_at: Option<Instant>,
}

impl SubflowView {
    /// The age of the oldest unacknowledged segment, from its first transmission.
    pub fn oldest_age(&self, now: Instant) -> Option<Duration> {
        self.oldest_sent.map(|at| now.since(at))
    }

    /// Segments that the window admits now, after the queued ones.
    pub fn window_space(&self) -> u32 {
        let free = self.cwnd.saturating_sub(self.in_flight);
        // The window is usually full or the queue empty, and a division is expensive.
        if free == 0 || self.queued_bytes == 0 {
            return free;
        }
        free.saturating_sub(self.queued_bytes.div_ceil(u64::from(self.mss)) as u32)
    }

    /// A decision to send a full segment of new data on it, for schedulers that decide segment by segment.
    pub fn one_segment(&self) -> Decision {
        Decision::next_on(self.id, u64::from(self.mss))
    }

    /// Bytes that it holds and that are not acknowledged, as windows count them.
    pub fn held_bytes(&self) -> u64 {
        u64::from(self.in_flight) * u64::from(self.mss) + self.queued_bytes
    }

    /// Returns whether it is established and not stale, and can therefore take data now or later.
    pub fn alive(&self) -> bool {
        self.established && !self.stale
    }

    /// Returns whether the subflow is in a congestion state of at least `least` and has losses to repair. A scheduler
    /// that skips subflows by their state must use this. Without SACK a subflow leaves its state only when newer data
    /// is acknowledged, and a skipped subflow would never get any.
    pub fn repairs_in(&self, least: CongestionState) -> bool {
        self.state >= least && !self.repaired
    }

    /// Returns whether the subflow can send a segment at once, by the rule of the out-of-tree kernel and the papers'
    /// schedulers. It needs window space and must not be in Loss, unless all data up to `high_seq` is acknowledged
    /// (`mptcp_is_temp_unavailable`: without SACK, Loss ends only when later data is acknowledged).
    pub fn can_send(&self) -> bool {
        // The window is the most frequent reason.
        self.window_space() > 0
            && self.established
            && !self.stale
            && !self.repairs_in(CongestionState::Loss)
    }

    /// Returns whether the subflow's send buffer has room: upstream's rule (`sk_stream_memory_free`).
    pub fn can_queue(&self) -> bool {
        self.established && !self.stale && self.queued_memory < self.send_buffer
    }
}

/// The subflows to choose among: the regular ones, or the backups when there is no regular one
/// (RFC 8684 section 3.3.8).
pub fn candidates(subflows: &[SubflowView]) -> impl Iterator<Item = &SubflowView> {
    let regular = subflows.iter().any(|s| !s.backup && s.established && !s.stale);
    subflows.iter().filter(move |s| s.backup != regular)
}

/// The subflow with the smallest srtt, full or not, and the chosen one, if those are two.
///
/// Subflows whose retransmission timer has fired are skipped. The out-of-tree kernel sends nothing on one until its
/// peer answers (`mptcp_is_def_unavailable`). If no subflow ever becomes stale, a scheduler that waits for such a
/// subflow would wait for ever. That kernel's BLEST and ECF do wait, which is not modelled.
pub fn nearer(
    subflows: &[SubflowView],
    chosen: SubflowSet,
) -> Option<(&SubflowView, &SubflowView)> {
    let id = chosen.first()?;
    let chosen = subflows.iter().find(|view| view.id == id)?;
    // One comparison orders regular subflows before backups, as in `candidates`: no srtt has the highest bit.
    let rank = |view: &SubflowView| view.srtt.as_nanos() | u64::from(view.backup) << 63;
    let answers = |view: &&SubflowView| view.alive() && !view.potentially_failed;
    let nearest = subflows.iter().filter(answers).min_by_key(|view| rank(view))?;
    (nearest.id != id && rank(nearest) <= rank(chosen)).then_some((nearest, chosen))
}
