//! The congestion state of a subflow, which congestion controllers and schedulers both read.

/// The congestion state of a subflow, ordered as Linux orders it (`enum tcp_ca_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CongestionState {
    /// Nothing is suspected.
    #[default]
    Open,
    /// Something was selectively acknowledged out of order; no loss is established.
    Disorder,
    /// The window is being reduced without a retransmission (a mark of congestion, or a tail loss repaired by a
    /// probe).
    Cwr,
    /// Fast recovery: lost segments are being retransmitted.
    Recovery,
    /// The retransmission timer has expired.
    Loss,
}

impl CongestionState {
    /// The name in samples, as `ss` prints it.
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

    /// `ss` prints `tcp_ca_state` so.
    #[test]
    fn congestion_states_have_the_kernels_names() {
        let names = [Open, Disorder, Cwr, Recovery, Loss].map(super::CongestionState::name);
        assert_eq!(names, ["Open", "Disorder", "CWR", "Recovery", "Loss"]);
    }
}
