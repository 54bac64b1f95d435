//! What a link may know of a packet that it carries and never looks into.

use anabranch_units::ByteCount;

/// What is written on the outside of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Its size, headers included.
    pub size: ByteCount,
    /// What all packets of one flow have in common and those of others have not: any number.
    pub flow: u64,
    /// It is of an ECN-capable transport, so that a queue may mark it instead of dropping it
    /// (RFC 3168 section 5: ECT or already CE).
    pub ect: bool,
}

impl Label {
    /// Of a packet whose flow nobody asks for, without ECN.
    pub const fn of_size(size: ByteCount) -> Self {
        Self { size, flow: 0, ect: false }
    }
}
