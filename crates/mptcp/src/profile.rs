//! Kernel generations as data: the mechanisms of a stack.
//!
//! A profile names one value of [`Stack`]. Each of its fields is a mechanism, which the file of its concern reads. The
//! rest of the endpoint does not know the profile.

pub use anabranch_tcp::stack::{
    Deferral, HyStart, LossDetection, OutageRule, ReceiveSizing, Reduction, SharedStack, TcpStack,
};

/// The mechanisms that MPTCP alone reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MptcpStack {
    /// A `dft` scheduler reinjects the head of the window on a faster subflow (`mptcp_rcv_buf_optimization`).
    pub opportunistic_retransmission: bool,
    /// A `dft` scheduler halves the window of a subflow that blocks the others.
    pub penalisation: bool,
    /// Sends data sequence numbers in 32 bits.
    pub short_data_numbers: bool,
    /// A join gets waiting data at once (`mptcp_push_pending_frames`). Without it, it gets data at the application's next
    /// write.
    pub joins_push: bool,
    /// Joins over an address start half a second after it comes up (`address_worker`). Without it, they start at once.
    pub joins_late: bool,
    /// New data waits until the connection-level window has room for a whole segment (`tcp_snd_wnd_test` in
    /// `mptcp_write_xmit`). Without it, a shorter segment fills the room.
    pub whole_segments: bool,
    /// The connection-level window counts from the subflow's stored view of the peer's window (`ack_update_msk`). Without
    /// it, it counts from the window field of the current segment.
    pub counts_from_subflow_window: bool,
    /// The connection's send buffer is at most as large as that of one subflow (`mptcp_update_sndbuf`). Without it, it is
    /// the sum over the subflows (`mptcp_sync_sndbuf`).
    pub bounds_send_buffer: bool,
    /// The connection's timer starts with the timeout found by the scheduling that an acknowledgement triggers
    /// (`ack_update_msk`). On expiry (`__mptcp_retrans`) and after a write, deferred data of a subflow is sent too.
    /// Without it, the timer starts with the timeout of the scheduling before, and only new data is handed over.
    pub timer_after_push: bool,
    /// A subflow that received no acknowledgement gets its data after the writes of the application that the
    /// acknowledgement woke (`mptcp_subflow_delegate`). Without it, it gets data at once.
    pub delegates_sending: bool,
    /// Data that arrives while the memory in use exceeds the receive buffer stays with its subflow, unknown to the
    /// connection, until there is room (`mptcp_data_ready`). The limit is the larger of the connection's buffer and the
    /// subflow's.
    pub parks_data: bool,
}

/// The mechanisms of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stack {
    /// TCP's.
    pub tcp: TcpStack,
    /// MPTCP's.
    pub mptcp: MptcpStack,
    /// Those of both.
    pub shared: SharedStack,
}

/// Linux 6.18 at both ends, with its MPTCP.
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

/// The out-of-tree MPTCP v0.94 on Linux 4.14, with 250 jiffies a second.
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

/// A profile: a stack with its name and a summary.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// The name in the table.
    pub name: &'static str,
    /// A sentence that describes it.
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

/// A part that can be switched separately, to trace a result to it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Its key.
    pub name: &'static str,
    /// A phrase that describes it.
    pub summary: &'static str,
    switch: fn(&mut Stack, &Stack, bool),
}

impl Part {
    /// Switches the part in `stack`. `whole` has all mechanisms of the profile.
    pub fn switch(&self, stack: &mut Stack, whole: &Stack, on: bool) {
        (self.switch)(stack, whole, on);
    }
}

/// The parts by name. Switching a part on restores the profile's mechanism.
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
