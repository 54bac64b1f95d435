//! The mechanisms of TCP in which kernels differ. The file of its concern reads each field.

use anabranch_units::Duration;

/// How a loss is found if the peer has SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// RACK with a reordering window that adapts (RFC 8985; `tcp_rack_reo_wnd`).
    Rack,
    /// RACK's first draft together with the count of reported segments (Linux 4.14, `tcp_rack_detect_loss`,
    /// `tcp_update_scoreboard`).
    RackDraft,
    /// The count alone (RFC 6675 section 4, `IsLost`). A lost retransmission waits for the timeout.
    Count,
}

/// How the window falls in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Proportional rate reduction that lets the flight grow while data is acknowledged and nothing
    /// new is lost (RFC 9937; `tcp_cwnd_reduction`).
    Proportional,
    /// As in Linux 4.14: the flight grows only if a retransmission was acknowledged and none was lost
    /// (`FLAG_RETRANS_DATA_ACKED`, `FLAG_LOST_RETRANS`).
    ProportionalRepaired,
    /// At once (RFC 6675 section 5, step 4.2).
    AtOnce,
}

/// The size of the receive buffer and of the window that it gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveSizing {
    /// The window's share of the buffer is the payload's share of the memory of segments (`scaling_ratio`). Every subflow
    /// opens its own window. The buffer follows the application's reads as in 6.18 (`tcp_rcvbuf_grow`).
    Ratio,
    /// Half of the buffer is window (`tcp_adv_win_scale` 1). The subflows open one window together, and each join adds a
    /// buffer (`mptcp_init_buffer_space`). The buffer follows the reads as in 4.14 (`tcp_rcv_space_adjust`).
    Half,
}

/// The slow-start exit of CUBIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HyStart {
    /// As in 6.18.
    Linux618,
    /// As in 4.14.
    Linux414,
    /// None: slow start lasts until a loss.
    Off,
}

impl HyStart {
    /// The value of CUBIC's parameter `hystart`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Linux618 => "linux-6.18",
            Self::Linux414 => "linux-4.14",
            Self::Off => "off",
        }
    }
}

/// When a socket buffer waits for the acknowledgement that admits all of it (`tcp_tso_should_defer`). If a third of the
/// window is free, it never waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// If a segment was sent in the same jiffy and half of a round trip ago (4.14).
    HalfRoundTrip,
    /// If a segment was sent in the last millisecond, and the acknowledgement is due within the next millisecond or half
    /// of a round trip (since 5.0).
    NextMillisecond,
}

/// How the first acknowledgement after a retransmission timeout is judged when the path was silent.
///
/// After an outage that acknowledgement covers segments that were never retransmitted, and it echoes an old timestamp.
/// F-RTO (RFC 5682) and the Eifel algorithm (RFC 3522) then find the timeout spurious and remove the loss marks, and the
/// RTT sample is as long as the outage. The two other rules do neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutageRule {
    /// As in Linux: every timeout may prove spurious, and every RTT sample counts.
    #[default]
    Kernel,
    /// After two timeouts in a row, and until the loss is repaired, no timeout is found spurious, and no RTT sample
    /// counts that reaches back before the last timeout.
    Timeouts,
    /// The same for an acknowledgement that carries a DSACK (RFC 2883): the peer had the segment that was sent
    /// again, and only its acknowledgement was lost. A peer without SACK sends none; then as `Timeouts`.
    Dsack,
}

impl OutageRule {
    /// Every rule with its name in scenarios.
    pub const NAMED: [(&'static str, Self); 3] =
        [("kernel", Self::Kernel), ("timeouts", Self::Timeouts), ("dsack", Self::Dsack)];

    /// The rule of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
    }
}

/// The mechanisms of TCP. `hystart`, `kernel_forms` and `outage_probe` are parameters of controllers: the layer above reads
/// them when it builds a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpStack {
    /// Offers selective acknowledgements (`tcp_sack`).
    pub sack: bool,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Sends tail loss probes (`tcp_early_retrans`).
    pub tail_probes: bool,
    /// How the window falls in recovery.
    pub reduction: Reduction,
    /// The slow-start exit of CUBIC.
    pub hystart: HyStart,
    /// Controllers that have a form `kernel` use it by default.
    pub kernel_forms: bool,
    /// How the acknowledgements after an outage are judged.
    pub outage: OutageRule,
    /// BBR also probes for its minimum RTT if the last one became old during an outage. Without it, the minimum from
    /// before the outage counts as new.
    pub outage_probe: bool,
    /// A full window counts as used for the whole round trip. Without it, it counts only until more data is in flight
    /// than before (`tcp_cwnd_validate` before 6.1).
    pub remembers_full_window: bool,
    /// A full window counts as used even if no segment could be sent at that time (`tcp_write_xmit` since 6.1).
    pub notes_full_window: bool,
    /// The least time that RACK's reordering timer and a tail loss probe add to the round trips
    /// (`TCP_TIMEOUT_MIN_US`; before 6.7 `TCP_TIMEOUT_MIN`, two jiffies).
    pub timeout_min: Duration,
    /// Sets PSH on socket buffers of several segments (`__tcp_transmit_skb`). The receiver takes PSH for the end of a
    /// write (`tcp_measure_rcv_mss`).
    pub pushes_buffers: bool,
    /// The send buffer grows with the window even while the buffer is full. Without it, the buffer grows only if it has
    /// room (`tcp_should_expand_sndbuf`).
    pub grows_while_full: bool,
    /// The application of an MPTCP subflow always wants room: the send buffer grows whatever waits, and the window counts
    /// as unused. Without it, this holds only while the connection's application waits for room (`SOCK_NOSPACE`).
    pub always_wants_space: bool,
    /// Duplicates reported by the peer count as delivered, unless the peer reports more than were retransmitted
    /// (`tcp_dsack_seen` since 5.9).
    pub delivers_duplicates: bool,
    /// When a socket buffer of several segments waits for window space instead of being split.
    pub deferral: Deferral,
    /// A timer spaces paced segments. It counts headers, starts with the first segment and never catches up
    /// (`tcp_internal_pacing` of 4.14). Without it, segments have earliest departure times.
    pub timer_pacing: bool,
    /// Acknowledgements of data behind a gap wait for one another for up to a millisecond (`tcp_comp_sack_nr`, since
    /// 4.18). Without it, each is sent at once.
    pub compresses_sacks: bool,
    /// A socket buffer takes more than a millisecond's worth of data if the round trip is short, and is full-sized below
    /// half a millisecond (`tcp_tso_autosize`, `tcp_tso_rtt_log`, since 5.18).
    pub bursts_by_rtt: bool,
    /// Adjacent socket buffers that the peer reports are merged (`tcp_shift_skb_data`). Without it, only those of plain
    /// TCP are merged, because MPTCP would lose a mapping.
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

/// The mechanisms that both TCP and MPTCP read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedStack {
    /// The size of the receive buffer and of the window that it gives.
    pub receive: ReceiveSizing,
    /// The receive buffer follows the application's reads (`tcp_moderate_rcvbuf`).
    pub receive_autotuning: bool,
    /// Each handover of data has a separate tag, up to half of the window. MPTCP hands over one scheduling decision as
    /// one mapping, and the receiver delivers it when all of it has arrived (`mptcp_skb_entail`, `mptcp_queue_skb`).
    pub tag_per_handover: bool,
    /// A second segment is acknowledged at once only if the connection's window stays (`__tcp_ack_snd_check`,
    /// `__mptcp_select_window`) or the data reaches its last quarter (`mptcp_queue_skb`). Without it, the connection's
    /// window does not matter, because MPTCP's subflows never hold unread data.
    pub acknowledges_by_window: bool,
    /// A second segment is acknowledged at once if the window does not shrink for it or no unread data waits. Otherwise
    /// the application's read sends the acknowledgement (`__tcp_ack_snd_check`, `subflow_data_ready`). Without it, the
    /// window before the segment decides.
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
