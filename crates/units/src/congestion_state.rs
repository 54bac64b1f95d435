//! The congestion state of a subflow, which congestion controllers and schedulers read.

/// The congestion state of a subflow, in the order of Linux (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CongestionState {
    /// No loss or reordering is suspected.
    #[default]
    Open,
    /// Data was selectively acknowledged out of order, but no segment is marked lost.
    Disorder,
    /// The window is being reduced, but nothing is retransmitted. The cause is a congestion mark (ECN), or a
    /// tail loss that a probe has repaired.
    Cwr,
    /// Fast recovery: lost segments are being retransmitted.
    Recovery,
    /// The retransmission timer has expired.
    Loss,
}

impl CongestionState {
    /// Returns the name in samples, which is that of `ss`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Disorder => "Disorder",
            Self::Cwr => "CWR",
            Self::Recovery => "Recovery",
            Self::Loss => "Loss",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CongestionState::{Cwr, Disorder, Loss, Open, Recovery};

    /// `ss` prints these names for `tcp_ca_state`.
    #[test]
    fn congestion_states_have_the_kernels_names() {
        let names = [Open, Disorder, Cwr, Recovery, Loss].map(super::CongestionState::name);
        assert_eq!(names, ["Open", "Disorder", "CWR", "Recovery", "Loss"]);
    }
}
