//! The mechanisms of TCP that differ between kernels. Only the code of a mechanism reads its field.

use anabranch_units::Duration;

/// The method of loss detection if the peer supports SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// RACK with an adaptive reordering window (RFC 8985; `tcp_rack_reo_wnd`).
    Rack,
    /// The first draft of RACK together with the count of SACKed segments (Linux 4.14,
    /// `tcp_rack_detect_loss`, `tcp_update_scoreboard`).
    RackDraft,
    /// Only the count of SACKed segments (RFC 6675 section 4, `IsLost`). A lost retransmission waits for the
    /// timeout.
    Count,
}

/// The method of reducing the congestion window in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Proportional rate reduction. The flight may grow while data is acknowledged and no new loss is found
    /// (RFC 9937; `tcp_cwnd_reduction`).
    Proportional,
    /// Proportional rate reduction of Linux 4.14. The flight may grow only if a retransmission was
    /// acknowledged and none was lost (`FLAG_RETRANS_DATA_ACKED`, `FLAG_LOST_RETRANS`).
    ProportionalRepaired,
    /// The window is reduced at once (RFC 6675 section 5, step 4.2).
    AtOnce,
}

/// The method of sizing the receive buffer and its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveSizing {
    /// The window's part of the buffer equals the payload's part of the segments' memory (`scaling_ratio`).
    /// Each connection opens its own window. The buffer grows with the application's reads as in 6.18
    /// (`tcp_rcvbuf_grow`).
    Ratio,
    /// Half of the buffer is window (`tcp_adv_win_scale` 1). The connections of the layer above share one
    /// window, and each one adds a buffer (`mptcp_init_buffer_space`). The buffer grows with the reads as in
    /// 4.14 (`tcp_rcv_space_adjust`).
    Half,
}

/// The slow-start exit of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HyStart {
    /// As in 6.18.
    Linux618,
    /// As in 4.14.
    Linux414,
    /// Slow start ends only at a loss.
    Off,
}

impl HyStart {
    /// Returns the value of CUBIC's parameter `hystart`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Linux618 => "linux-6.18",
            Self::Linux414 => "linux-4.14",
            Self::Off => "off",
        }
    }
}

/// The rule that defers a socket buffer until an acknowledgement permits sending all of it
/// (`tcp_tso_should_defer`). A buffer is never deferred if a third of the window is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// Defers if a segment was sent in the same jiffy, and the oldest one in flight at least half a round
    /// trip ago (4.14).
    HalfRoundTrip,
    /// Defers if a segment was sent in the last millisecond, and the next acknowledgement is expected within
    /// a millisecond and within half a round trip (since 5.0).
    NextMillisecond,
}

/// The interpretation of the first acknowledgement after a retransmission timeout if the path was
/// interrupted.
///
/// After an outage, that acknowledgement covers segments that were sent only once, and it echoes an old
/// timestamp. F-RTO (RFC 5682) and the Eifel algorithm (RFC 3522) then treat the timeout as spurious and
/// remove the loss marks, and the RTT sample includes the outage. The two other rules prevent both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutageRule {
    /// As in Linux: every timeout may be found spurious, and every RTT sample is used.
    #[default]
    Kernel,
    /// After two consecutive timeouts, until the loss is repaired, no timeout is found spurious. RTT samples
    /// that began before the last timeout are ignored.
    Timeouts,
    /// Like `Timeouts`, for an acknowledgement with a DSACK (RFC 2883). The DSACK shows that the peer had the
    /// retransmitted segment, and that only the acknowledgement was lost. A peer without SACK sends no DSACK;
    /// `Timeouts` then applies.
    Dsack,
}

impl OutageRule {
    /// All rules with their names in scenarios.
    pub const NAMED: [(&'static str, Self); 3] =
        [("kernel", Self::Kernel), ("timeouts", Self::Timeouts), ("dsack", Self::Dsack)];

    /// Returns the rule with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
    }
}

/// The mechanisms of TCP. `hystart`, `kernel_forms` and `outage_probe` are parameters of controllers. The
/// layer above applies them when it creates a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpStack {
    /// SACK is offered (`tcp_sack`).
    pub sack: bool,
    /// The method of loss detection.
    pub loss_detection: LossDetection,
    /// Tail loss probes are sent (`tcp_early_retrans`).
    pub tail_probes: bool,
    /// The method of reducing the window in recovery.
    pub reduction: Reduction,
    /// The slow-start exit of CUBIC.
    pub hystart: HyStart,
    /// Controllers with a form `kernel` use it by default.
    pub kernel_forms: bool,
    /// The interpretation of acknowledgements after an outage.
    pub outage: OutageRule,
    /// BBR probes for its minimum RTT if the last one became too old during an outage. If not set, the old
    /// minimum stays valid.
    pub outage_probe: bool,
    /// A full window counts as used for the whole round trip. If not set, it counts only until more data is
    /// in flight than before (`tcp_cwnd_validate` before 6.1).
    pub remembers_full_window: bool,
    /// A full window counts as used even if it prevented all sending at that time (`tcp_write_xmit` since
    /// 6.1).
    pub notes_full_window: bool,
    /// The minimum that RACK's reordering timer and the tail loss probe add to the round-trip time
    /// (`TCP_TIMEOUT_MIN_US`; before 6.7 `TCP_TIMEOUT_MIN`, two jiffies).
    pub timeout_min: Duration,
    /// Socket buffers of several segments have PSH (`__tcp_transmit_skb`). The receiver interprets PSH as the
    /// end of a write (`tcp_measure_rcv_mss`).
    pub pushes_buffers: bool,
    /// The send buffer grows with the window even while it is full. If not set, it grows only while it has
    /// free space (`tcp_should_expand_sndbuf`).
    pub grows_while_full: bool,
    /// On a connection with tags, the application always counts as waiting for send-buffer space. The buffer
    /// then grows, and an unused window is not reduced (`tcp_cwnd_application_limited`). If not set, this
    /// applies only while the application of the layer above waits (`SOCK_NOSPACE`).
    pub always_wants_space: bool,
    /// Duplicates reported by the peer count as delivered, unless there are more than retransmissions
    /// (`tcp_dsack_seen` since 5.9).
    pub delivers_duplicates: bool,
    /// The rule that defers a socket buffer of several segments until the window has space for all of it.
    pub deferral: Deferral,
    /// Paced segments are spaced by a timer, which includes headers, starts with the first segment and never
    /// catches up (`tcp_internal_pacing` of 4.14). If not set, segments have earliest departure times.
    pub timer_pacing: bool,
    /// Acknowledgements of out-of-order data are combined for up to a millisecond (`tcp_comp_sack_nr`, since
    /// 4.18). If not set, each one is sent at once.
    pub compresses_sacks: bool,
    /// A socket buffer holds more than a millisecond's worth of data if the round trip is short. Below half a
    /// millisecond, it is full-sized (`tcp_tso_autosize`, `tcp_tso_rtt_log`, since 5.18).
    pub bursts_by_rtt: bool,
    /// Adjacent SACKed socket buffers are merged (`tcp_shift_skb_data`). If not set, they are merged only on
    /// connections without tags, because a tag would be lost.
    pub merges_reported: bool,
}

impl TcpStack {
    /// The mechanisms of Linux 6.18.
    pub const LINUX_6_18: Self = Self {
        sack: true,
        loss_detection: LossDetection::Rack,
        tail_probes: true,
        reduction: Reduction::Proportional,
        hystart: HyStart::Linux618,
        kernel_forms: false,
        outage: OutageRule::Kernel,
        outage_probe: true,
        remembers_full_window: true,
        notes_full_window: true,
        timeout_min: Duration::from_millis(2),
        pushes_buffers: true,
        grows_while_full: false,
        always_wants_space: false,
        delivers_duplicates: true,
        deferral: Deferral::NextMillisecond,
        timer_pacing: false,
        compresses_sacks: true,
        bursts_by_rtt: true,
        merges_reported: true,
    };

    /// The mechanisms of Linux 4.14 with MPTCP v0.94.
    pub const MPTCP_0_94: Self = Self {
        sack: true,
        loss_detection: LossDetection::RackDraft,
        tail_probes: true,
        reduction: Reduction::ProportionalRepaired,
        hystart: HyStart::Linux414,
        kernel_forms: true,
        outage: OutageRule::Kernel,
        outage_probe: true,
        remembers_full_window: false,
        notes_full_window: false,
        timeout_min: Duration::from_millis(8),
        pushes_buffers: false,
        grows_while_full: true,
        always_wants_space: true,
        delivers_duplicates: false,
        deferral: Deferral::HalfRoundTrip,
        timer_pacing: true,
        compresses_sacks: false,
        bursts_by_rtt: false,
        merges_reported: false,
    };
}

/// The mechanisms that both TCP and the layer above use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedStack {
    /// The method of sizing the receive buffer and its window.
    pub receive: ReceiveSizing,
    /// The receive buffer grows with the application's reads (`tcp_moderate_rcvbuf`).
    pub receive_autotuning: bool,
    /// Each handover of data has a separate tag, of up to half of the window. A receiver then delivers the
    /// data of a tag only as a whole (`mptcp_skb_entail`, `mptcp_queue_skb`).
    pub tag_per_handover: bool,
    /// A second segment is acknowledged at once if the window of the layer above does not shrink
    /// (`__tcp_ack_snd_check`, `__mptcp_select_window`). The same applies if the data reaches the last
    /// quarter of that window (`mptcp_queue_skb`). If not set, that window does not matter, because data with
    /// tags never waits in the connection.
    pub acknowledges_by_window: bool,
    /// A second segment is acknowledged at once if the window does not shrink or no data is unread. Otherwise
    /// the application's read causes the acknowledgement (`__tcp_ack_snd_check`, `subflow_data_ready`). If
    /// not set, the window before the segment decides.
    pub acknowledges_by_read: bool,
}

impl SharedStack {
    /// The mechanisms of Linux 6.18.
    pub const LINUX_6_18: Self = Self {
        receive: ReceiveSizing::Ratio,
        receive_autotuning: true,
        tag_per_handover: false,
        acknowledges_by_window: false,
        acknowledges_by_read: true,
    };

    /// The mechanisms of Linux 4.14 with MPTCP v0.94.
    pub const MPTCP_0_94: Self = Self {
        receive: ReceiveSizing::Half,
        receive_autotuning: true,
        tag_per_handover: true,
        acknowledges_by_window: true,
        acknowledges_by_read: false,
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_for_outages_have_the_names_of_the_scenario_keys() {
        // docs/reference/scenario-keys.md: `transport.stack.outage`.
        assert_eq!(OutageRule::named("kernel"), Some(OutageRule::Kernel));
        assert_eq!(OutageRule::named("timeouts"), Some(OutageRule::Timeouts));
        assert_eq!(OutageRule::named("dsack"), Some(OutageRule::Dsack));
        assert_eq!(OutageRule::named("none"), None);
    }
}
