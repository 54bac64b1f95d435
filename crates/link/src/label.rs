//! The properties of a packet that a link may use. It never looks inside a packet.

use anabranch_units::ByteCount;

/// The properties of a packet that queues use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// The size, headers included.
    pub size: ByteCount,
    /// A number that is the same for all packets of a flow, and different for other flows.
    pub flow: u64,
    /// Whether the packet's transport is ECN-capable (RFC 3168 section 5: ECT or already CE). A queue may mark such a
    /// packet instead of dropping it.
    pub ect: bool,
}

impl Label {
    /// Creates the label of a packet without ECN, in flow 0.
    pub const fn of_size(size: ByteCount) -> Self {
        Self { size, flow: 0, ect: false }
    }
}
