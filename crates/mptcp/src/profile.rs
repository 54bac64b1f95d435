//! Kernel generations as data: the mechanisms of a stack.
//!
//! A profile is a named value of [`Stack`]. Each field of a stack is one mechanism, and only the code of that
//! mechanism reads the field. No other code depends on the profile.

pub use anabranch_tcp::stack::{
    Deferral, HyStart, LossDetection, OutageRule, ReceiveSizing, Reduction, SharedStack, TcpStack,
};

/// The mechanisms that only MPTCP uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MptcpStack {
    /// The `dft` scheduler reinjects the head of the window on a faster subflow
    /// (`mptcp_rcv_buf_optimization`).
    pub opportunistic_retransmission: bool,
    /// The `dft` scheduler halves the congestion window of a subflow that blocks the others.
    pub penalisation: bool,
    /// Data sequence numbers are sent with 32 bits.
    pub short_data_numbers: bool,
    /// A new join gets waiting data at once (`mptcp_push_pending_frames`). If not set, it gets data at the
    /// application's next write.
    pub joins_push: bool,
    /// A join over an address starts half a second after the address came up (`address_worker`). If not set,
    /// it starts at once.
    pub joins_late: bool,
    /// New data waits until the connection-level window has space for a whole segment (`tcp_snd_wnd_test` in
    /// `mptcp_write_xmit`). If not set, a shorter segment is sent.
    pub whole_segments: bool,
    /// The connection-level window is computed from the peer's window as stored by the subflow
    /// (`ack_update_msk`). If not set, it is computed from the window field of the current segment.
    pub counts_from_subflow_window: bool,
    /// The connection's send buffer is at most as large as that of one subflow (`mptcp_update_sndbuf`). If
    /// not set, it is the sum over the subflows (`mptcp_sync_sndbuf`).
    pub bounds_send_buffer: bool,
    /// When an acknowledgement frees data, new data is scheduled first, and the connection's timer then
    /// starts with the timeout computed there (`ack_update_msk`). When the timer expires (`__mptcp_retrans`),
    /// and after a write, deferred data of a subflow is sent too. If not set, the timer starts with the
    /// timeout of the previous scheduling, and only new data is scheduled.
    pub timer_after_push: bool,
    /// If an acknowledgement on one subflow leads to data for another, that data is sent later
    /// (`mptcp_subflow_delegate`). An application that the acknowledgement woke writes first. If not set, the
    /// data is sent at once.
    pub delegates_sending: bool,
    /// Data that arrives while the receive buffer is full stays with its subflow, unknown to the connection,
    /// until there is space (`mptcp_data_ready`). The buffer is full if the used memory exceeds both the
    /// connection's buffer and the subflow's.
    pub parks_data: bool,
}

/// The mechanisms of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The mechanisms of TCP.
    pub tcp: TcpStack,
    /// The mechanisms of MPTCP.
    pub mptcp: MptcpStack,
    /// The mechanisms that both use.
    pub shared: SharedStack,
}

/// Linux 6.18 with its own MPTCP.
pub const LINUX_6_18: Stack = Stack {
    tcp: TcpStack::LINUX_6_18,
    mptcp: MptcpStack {
        opportunistic_retransmission: true,
        penalisation: true,
        short_data_numbers: false,
        joins_push: false,
        joins_late: false,
        whole_segments: false,
        counts_from_subflow_window: true,
        bounds_send_buffer: false,
        timer_after_push: true,
        delegates_sending: true,
        parks_data: true,
    },
    shared: SharedStack::LINUX_6_18,
};

/// The out-of-tree MPTCP v0.94 on Linux 4.14, with 250 jiffies per second.
pub const MPTCP_0_94: Stack = Stack {
    tcp: TcpStack::MPTCP_0_94,
    mptcp: MptcpStack {
        opportunistic_retransmission: true,
        penalisation: true,
        short_data_numbers: true,
        joins_push: true,
        joins_late: true,
        whole_segments: true,
        counts_from_subflow_window: false,
        bounds_send_buffer: true,
        timer_after_push: false,
        delegates_sending: false,
        parks_data: false,
    },
    shared: SharedStack::MPTCP_0_94,
};

/// A named stack with a summary.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name, as used in scenarios.
    pub name: &'static str,
    /// A one-sentence description.
    pub summary: &'static str,
    /// The mechanisms.
    pub stack: Stack,
}

/// All profiles. The first is the default.
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

/// Returns the profile with this name.
pub fn named(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

/// A mechanism that can be switched off separately, to find out which one causes a result.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The name, as used in scenarios.
    pub name: &'static str,
    /// A short description.
    pub summary: &'static str,
    switch: fn(&mut Stack, &Stack, bool),
}

impl Part {
    /// Switches the part on or off in `stack`. Switching it on restores the value of `whole`, the complete
    /// profile.
    pub fn switch(&self, stack: &mut Stack, whole: &Stack, on: bool) {
        (self.switch)(stack, whole, on);
    }
}

/// All parts. Switching a part on restores the profile's mechanism.
pub const PARTS: &[Part] = &[
    Part {
        name: "sack",
        summary: "selective acknowledgements; without them losses are found by duplicates",
        switch: |stack, whole, on| stack.tcp.sack = on && whole.tcp.sack,
    },
    Part {
        name: "rack",
        summary: "loss detection by time; without it three reports above a segment say so",
        switch: |stack, whole, on| {
            stack.tcp.loss_detection =
                if on { whole.tcp.loss_detection } else { LossDetection::Count };
        },
    },
    Part {
        name: "tlp",
        summary: "tail loss probes; without them a lost tail waits for the timeout",
        switch: |stack, whole, on| stack.tcp.tail_probes = on && whole.tcp.tail_probes,
    },
    Part {
        name: "hystart",
        summary: "CUBIC's early end of slow start; without it slow start lasts until a loss",
        switch: |stack, whole, on| {
            stack.tcp.hystart = if on { whole.tcp.hystart } else { HyStart::Off };
        },
    },
    Part {
        name: "prr",
        summary: "proportional rate reduction; without it the window falls at once",
        switch: |stack, whole, on| {
            stack.tcp.reduction = if on { whole.tcp.reduction } else { Reduction::AtOnce };
        },
    },
    Part {
        name: "receive_autotuning",
        summary: "a receive buffer that follows what is read; without it the one at the start stays",
        switch: |stack, whole, on| {
            stack.shared.receive_autotuning = on && whole.shared.receive_autotuning;
        },
    },
    Part {
        name: "opportunistic_retransmission",
        summary: "the head of line once more on a faster subflow, where the scheduler does so",
        switch: |stack, _, on| stack.mptcp.opportunistic_retransmission = on,
    },
    Part {
        name: "penalisation",
        summary: "the window of a subflow that holds up the others halved, where the scheduler does so",
        switch: |stack, _, on| stack.mptcp.penalisation = on,
    },
    Part {
        name: "outage_probe",
        summary: "BBR's search for the minimum RTT after an outage; without it the old one is kept",
        switch: |stack, _, on| stack.tcp.outage_probe = on,
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
    fn each_profile_part_switches_off_and_back_on() {
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
