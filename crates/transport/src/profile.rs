//! Kernel generations: which mechanisms a stack has, as data.
//!
//! A profile names one value of [`Stack`]. Each field is a mechanism that the file of its concern
//! reads; nothing else in the endpoint knows which profile runs.

use anabranch_units::Duration;

/// How a loss is found where the peer has SACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossDetection {
    /// RACK with a reordering window that adapts (RFC 8985; `tcp_rack_reo_wnd`).
    Rack,
    /// RACK's first draft beside the count of what was reported (Linux 4.14,
    /// `tcp_rack_detect_loss`, `tcp_update_scoreboard`).
    RackDraft,
    /// The count alone (RFC 6675 section 4, `IsLost`): a retransmission that is lost waits for the
    /// timeout.
    Count,
}

/// How the window falls in recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Proportional rate reduction that lets the flight grow while data is acknowledged and nothing
    /// new is lost (RFC 9937; `tcp_cwnd_reduction`).
    Proportional,
    /// As Linux 4.14 has it: the flight grows only where a retransmission was acknowledged and none
    /// was lost again (`FLAG_RETRANS_DATA_ACKED`, `FLAG_LOST_RETRANS`).
    ProportionalRepaired,
    /// At once (RFC 6675 section 5, step 4.2).
    AtOnce,
}

/// How large the receive buffer is and how much window it makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReceiveSizing {
    /// The share of payload in what segments take is the share of window in the buffer
    /// (`scaling_ratio`), every subflow opens its own window, and the buffer follows what is read as
    /// in 6.18 (`tcp_rcvbuf_grow`).
    Ratio,
    /// Half of the buffer is window (`tcp_adv_win_scale` 1), the subflows open one window together,
    /// each join adds a buffer (`mptcp_init_buffer_space`), and the buffer follows as in 4.14
    /// (`tcp_rcv_space_adjust`).
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
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Linux618 => "linux-6.18",
            Self::Linux414 => "linux-4.14",
            Self::Off => "off",
        }
    }
}

/// How long a socket buffer waits for the acknowledgement that would let all of it out
/// (`tcp_tso_should_defer`). A third of the window that is free never waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deferral {
    /// Where something went out in the same jiffy and half of a round trip ago (4.14).
    HalfRoundTrip,
    /// Where something went out in the last millisecond, and the acknowledgement is due within the next or
    /// half of a round trip (since 5.0).
    NextMillisecond,
}

/// What the first acknowledgement after a retransmission timeout may mean when the path was silent.
///
/// After an outage that acknowledgement covers segments that were never sent again, and it echoes an old
/// timestamp. F-RTO (RFC 5682) and the Eifel algorithm (RFC 3522) then find the timeout spurious and take the loss
/// marks away, and the RTT sample is as long as the outage. The two other rules do neither.
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

/// The mechanisms of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Selective acknowledgements are offered (`tcp_sack`).
    pub sack: bool,
    /// How losses are found.
    pub loss_detection: LossDetection,
    /// Tail loss probes are sent (`tcp_early_retrans`).
    pub tail_probes: bool,
    /// How the window falls in recovery.
    pub reduction: Reduction,
    /// The slow-start exit of CUBIC.
    pub hystart: HyStart,
    /// The receive buffer.
    pub receive: ReceiveSizing,
    /// The receive buffer follows what is read (`tcp_moderate_rcvbuf`).
    pub receive_autotuning: bool,
    /// A `dft` scheduler sends the head of line again on a faster subflow
    /// (`mptcp_rcv_buf_optimization`).
    pub opportunistic_retransmission: bool,
    /// A `dft` scheduler halves the window of the subflow that holds up the others.
    pub penalisation: bool,
    /// Controllers that have a form `kernel` take it by default.
    pub kernel_forms: bool,
    /// A window that was full counts as such for the round trip it was full in; without it only until
    /// more is out than before (`tcp_cwnd_validate` before 6.1).
    pub remembers_full_window: bool,
    /// The least time of RACK's reordering timer and of a tail loss probe beyond the round trips
    /// (`TCP_TIMEOUT_MIN_US`; before 6.7 `TCP_TIMEOUT_MIN`, two jiffies).
    pub timeout_min: Duration,
    /// Data sequence numbers go in 32 bits.
    pub short_data_numbers: bool,
    /// Socket buffers of several segments are pushed (`__tcp_transmit_skb`), and what is pushed is taken
    /// for the end of a write (`tcp_measure_rcv_mss`).
    pub pushes_buffers: bool,
    /// A second segment is acknowledged at once only where the connection's window holds
    /// (`__tcp_ack_snd_check`, `__mptcp_select_window`) or data comes to its last quarter
    /// (`mptcp_queue_skb`); without it whatever the connection's window, as MPTCP's subflows never have
    /// anything left to read.
    pub acknowledges_by_window: bool,
    /// A send buffer grows with the window also while that is full; without it only behind what leaves room in
    /// it (`tcp_should_expand_sndbuf`).
    pub grows_while_full: bool,
    /// A subflow's application always wants room: its send buffer grows whatever waits, and its window stays without
    /// use; without it while the application waits for room, of which every subflow knows (`SOCK_NOSPACE`).
    pub always_wants_space: bool,
    /// A window that is full counts as such also where nothing could be sent for it (`tcp_write_xmit` since 6.1).
    pub notes_full_window: bool,
    /// Duplicates that the peer reports were delivered, unless more of them are reported than were sent again
    /// (`tcp_dsack_seen` since 5.9).
    pub delivers_duplicates: bool,
    /// A join has what waits handed over at once (`mptcp_push_pending_frames`); without it with what the
    /// application writes next.
    pub joins_push: bool,
    /// When a socket buffer of several segments waits for room for as many as leave together, rather than
    /// to leave in part.
    pub deferral: Deferral,
    /// Paced segments are spaced by a timer that counts headers, from the first one on, and makes up for
    /// nothing (`tcp_internal_pacing` of 4.14); without it by earliest departure times.
    pub timer_pacing: bool,
    /// What a scheduler hands over at once is a mapping of its own, as many segments as half of the
    /// window, and goes up at the receiver when all of it has come (`mptcp_skb_entail`,
    /// `mptcp_queue_skb`).
    pub whole_mappings: bool,
    /// New data waits until the connection's window has room for a whole segment of it
    /// (`tcp_snd_wnd_test` in `mptcp_write_xmit`); without it the room there is gets filled.
    pub whole_segments: bool,
    /// The connection's window is counted from the window that the subflow holds to be the peer's
    /// (`ack_update_msk`); without it with what the segment at hand tells.
    pub counts_from_subflow_window: bool,
    /// The connection's send buffer is no larger than that of one subflow may be
    /// (`mptcp_update_sndbuf`); without it the subflows' together (`mptcp_sync_sndbuf`).
    pub bounds_send_buffer: bool,
    /// Acknowledgements of what lies behind a gap wait for one another up to a millisecond (`tcp_comp_sack_nr`, since
    /// 4.18); without it each goes at once.
    pub compresses_sacks: bool,
    /// A second segment is acknowledged at once where the window does not shrink for it, or nothing lies there to be
    /// read; else the read brings it (`__tcp_ack_snd_check`, `subflow_data_ready`). Without it the window before the
    /// segment counts.
    pub acknowledges_by_read: bool,
    /// The connection's timer starts with the time found by the scheduling that an acknowledgement triggers
    /// (`ack_update_msk`); on expiry (`__mptcp_retrans`), and after a write, what a subflow holds back is pushed too.
    /// Without it, the timer starts with the time of the scheduling before, and only new data is handed over.
    pub timer_after_push: bool,
    /// A socket buffer takes more than a millisecond's worth where the round trip is short, a whole one below half a
    /// millisecond (`tcp_tso_autosize`, `tcp_tso_rtt_log`, since 5.18).
    pub bursts_by_rtt: bool,
    /// Socket buffers side by side that the peer reports become one (`tcp_shift_skb_data`); without it only those of
    /// plain TCP, as a mapping would be lost.
    pub merges_reported: bool,
    /// A subflow on which no acknowledgement has come is given data behind what the application writes that the
    /// acknowledgement woke (`mptcp_subflow_delegate`); without it at once.
    pub delegates_sending: bool,
    /// What comes while more memory is taken than the connection's buffer has, or the subflow's where that is larger, stays
    /// with its subflow, unknown to the connection, until there is room (`mptcp_data_ready`).
    pub parks_data: bool,
    /// Joins are tried over an address half a second after it has come up (`address_worker`); without it at once.
    pub joins_late: bool,
    /// How the acknowledgements after an outage are judged.
    pub outage: OutageRule,
    /// BBR looks for its minimum RTT also when the last one grew old during an outage. Without it the minimum from
    /// before the outage counts as new once more.
    pub outage_probe: bool,
}

impl Stack {
    /// Data goes up as it comes and is acknowledged as it is read, and each subflow opens its own window, so that what a
    /// plain segment brings is the subflow's alone to judge.
    pub(crate) fn is_plain(&self) -> bool {
        self.receive == ReceiveSizing::Ratio
            && self.acknowledges_by_read
            && !self.acknowledges_by_window
            && !self.whole_mappings
    }
}

/// Linux 6.18 at both ends, with its MPTCP.
pub const LINUX_6_18: Stack = Stack {
    sack: true,
    loss_detection: LossDetection::Rack,
    tail_probes: true,
    reduction: Reduction::Proportional,
    hystart: HyStart::Linux618,
    receive: ReceiveSizing::Ratio,
    receive_autotuning: true,
    opportunistic_retransmission: true,
    penalisation: true,
    kernel_forms: false,
    remembers_full_window: true,
    timeout_min: Duration::from_millis(2),
    short_data_numbers: false,
    pushes_buffers: true,
    acknowledges_by_window: false,
    grows_while_full: false,
    always_wants_space: false,
    notes_full_window: true,
    delivers_duplicates: true,
    joins_push: false,
    deferral: Deferral::NextMillisecond,
    timer_pacing: false,
    whole_mappings: false,
    whole_segments: false,
    counts_from_subflow_window: true,
    bounds_send_buffer: false,
    compresses_sacks: true,
    acknowledges_by_read: true,
    timer_after_push: true,
    bursts_by_rtt: true,
    merges_reported: true,
    delegates_sending: true,
    parks_data: true,
    joins_late: false,
    outage: OutageRule::Kernel,
    outage_probe: true,
};

/// The out-of-tree MPTCP v0.94 on Linux 4.14, with 250 jiffies a second.
pub const MPTCP_0_94: Stack = Stack {
    sack: true,
    loss_detection: LossDetection::RackDraft,
    tail_probes: true,
    reduction: Reduction::ProportionalRepaired,
    hystart: HyStart::Linux414,
    receive: ReceiveSizing::Half,
    receive_autotuning: true,
    opportunistic_retransmission: true,
    penalisation: true,
    kernel_forms: true,
    remembers_full_window: false,
    timeout_min: Duration::from_millis(8),
    short_data_numbers: true,
    pushes_buffers: false,
    acknowledges_by_window: true,
    grows_while_full: true,
    always_wants_space: true,
    notes_full_window: false,
    delivers_duplicates: false,
    joins_push: true,
    deferral: Deferral::HalfRoundTrip,
    timer_pacing: true,
    whole_mappings: true,
    whole_segments: true,
    counts_from_subflow_window: false,
    bounds_send_buffer: true,
    compresses_sacks: false,
    acknowledges_by_read: false,
    timer_after_push: false,
    bursts_by_rtt: false,
    merges_reported: false,
    delegates_sending: false,
    parks_data: false,
    joins_late: true,
    outage: OutageRule::Kernel,
    outage_probe: true,
};

/// A profile: a stack's name and what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name in the table.
    pub name: &'static str,
    /// What it is, a sentence.
    pub summary: &'static str,
    /// Its mechanisms.
    pub stack: Stack,
}

/// The table of names; the first is the default.
pub const PROFILES: &[Profile] = &[
    Profile {
        name: "linux-6.18",
        summary: "Linux 6.18 at both ends: MPTCP version 1, as in the kernel itself.",
        stack: LINUX_6_18,
    },
    Profile {
        name: "mptcp-0.94",
        summary: "The out-of-tree MPTCP v0.94 on Linux 4.14, which the papers of 2016 to 2020 ran.",
        stack: MPTCP_0_94,
    },
];

/// The profile of a name.
pub fn named(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// A part that can be switched by itself, to trace a result to it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its key.
    pub name: &'static str,
    /// What it is, a phrase.
    pub summary: &'static str,
    switch: fn(&mut Stack, &Stack, bool),
}

impl Part {
    /// Switches it in `stack`, whose profile has the mechanisms of `whole`.
    pub fn switch(&self, stack: &mut Stack, whole: &Stack, on: bool) {
        (self.switch)(stack, whole, on);
    }
}

/// The parts by name. What is switched on is what the profile has.
pub const PARTS: &[Part] = &[
    Part {
        name: "sack",
        summary: "selective acknowledgements; without them losses are found by duplicates",
        switch: |stack, whole, on| stack.sack = on && whole.sack,
    },
    Part {
        name: "rack",
        summary: "loss detection by time; without it three reports above a segment say so",
        switch: |stack, whole, on| {
            stack.loss_detection = if on { whole.loss_detection } else { LossDetection::Count };
        },
    },
    Part {
        name: "tlp",
        summary: "tail loss probes; without them a lost tail waits for the timeout",
        switch: |stack, whole, on| stack.tail_probes = on && whole.tail_probes,
    },
    Part {
        name: "hystart",
        summary: "CUBIC's early end of slow start; without it slow start lasts until a loss",
        switch: |stack, whole, on| {
            stack.hystart = if on { whole.hystart } else { HyStart::Off };
        },
    },
    Part {
        name: "prr",
        summary: "proportional rate reduction; without it the window falls at once",
        switch: |stack, whole, on| {
            stack.reduction = if on { whole.reduction } else { Reduction::AtOnce };
        },
    },
    Part {
        name: "receive_autotuning",
        summary: "a receive buffer that follows what is read; without it the one at the start stays",
        switch: |stack, whole, on| stack.receive_autotuning = on && whole.receive_autotuning,
    },
    Part {
        name: "opportunistic_retransmission",
        summary: "the head of line once more on a faster subflow, where the scheduler does so",
        switch: |stack, _, on| stack.opportunistic_retransmission = on,
    },
    Part {
        name: "penalisation",
        summary: "the window of a subflow that holds up the others halved, where the scheduler does so",
        switch: |stack, _, on| stack.penalisation = on,
    },
    Part {
        name: "outage_probe",
        summary: "BBR's search for the minimum RTT after an outage; without it the old one is kept",
        switch: |stack, _, on| stack.outage_probe = on,
    },
];

impl Default for Stack {
    fn default() -> Self {
        LINUX_6_18
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_switches_off_what_it_is_and_back() {
        for profile in PROFILES {
            for part in PARTS {
                let mut stack = profile.stack;
                part.switch(&mut stack, &profile.stack, false);
                assert_ne!(stack, profile.stack, "{} of {}", part.name, profile.name);
                part.switch(&mut stack, &profile.stack, true);
                assert_eq!(stack, profile.stack, "{} of {}", part.name, profile.name);
            }
        }
        assert_eq!(named("linux-6.18").map(|profile| profile.stack), Some(Stack::default()));
        assert!(named("linux").is_none());
    }
}
