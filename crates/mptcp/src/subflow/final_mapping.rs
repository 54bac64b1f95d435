//! The end of MPTCP on a subflow that continues as plain TCP: one infinite mapping, then no MPTCP options
//! (RFC 8684 section 3.7). Also detects that the peer's options no longer arrive.

use anabranch_units::DataSeq;
use anabranch_wire::{Dss, Mapping, MappingDsn};

/// Whether the peer's options reach us, according to its acknowledgements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Passage {
    /// No `DATA_ACK` has arrived yet.
    #[default]
    Unknown,
    /// No `DATA_ACK` has arrived, and the last acknowledgement had no MPTCP option.
    Doubted,
    /// The last acknowledgement had a `DATA_ACK`.
    Open,
    /// A `DATA_ACK` arrived earlier, but the last acknowledgement had no MPTCP option.
    Lost,
}

impl Passage {
    /// Handles an acknowledgement without any MPTCP option.
    pub(super) fn on_bare(&mut self) {
        *self = match *self {
            Self::Unknown | Self::Doubted => Self::Doubted,
            Self::Open | Self::Lost => Self::Lost,
        };
    }

    /// Returns whether no `DATA_ACK` has arrived yet.
    pub(crate) fn is_unproven(self) -> bool {
        matches!(self, Self::Unknown | Self::Doubted)
    }

    /// Returns whether the last acknowledgement had no MPTCP option.
    pub(crate) fn is_in_doubt(self) -> bool {
        matches!(self, Self::Doubted | Self::Lost)
    }
}

/// The infinite mapping. From its position on, the subflow's bytes are the data stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalMapping {
    /// The stream position of the last byte known to be delivered. The mapping begins there.
    data: u64,
    /// Whether the mapping has a checksum. The checksum is zero.
    checksum: bool,
    /// The position of the segment that carries the mapping.
    carrier: Option<u64>,
}

impl FinalMapping {
    /// Creates a mapping that was not sent yet.
    pub(super) fn new(data: u64, checksum: bool) -> Self {
        Self { data, checksum, carrier: None }
    }

    /// Returns the position of the segment that carries the mapping, if it was sent.
    pub(super) fn carrier(&self) -> Option<u64> {
        self.carrier
    }

    /// Returns whether the segment at `start` carries the mapping. Only the first segment does, and its
    /// retransmissions.
    pub(super) fn check_carrier(&mut self, start: u64) -> bool {
        *self.carrier.get_or_insert(start) == start
    }

    /// Builds the DSS. `dsn_base` is the DSN of stream position 0.
    pub(super) fn dss(&self, dsn_base: u64, short: bool) -> Dss {
        let mapping = Mapping {
            dsn: mapping_dsn(DataSeq(dsn_base.wrapping_add(self.data)), short),
            ssn: self.data.wrapping_add(1) as u32,
            length: 0,
            checksum: self.checksum.then_some(0),
        };
        Dss { mapping: Some(mapping), ..Dss::default() }
    }
}

/// Returns a data sequence number with 32 bits if `short`, otherwise with 64 bits.
pub(super) fn mapping_dsn(dsn: DataSeq, short: bool) -> MappingDsn {
    if short { MappingDsn::Short(dsn.0 as u32) } else { MappingDsn::Long(dsn) }
}
