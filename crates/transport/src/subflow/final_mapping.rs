//! How MPTCP ends on a subflow that goes on as plain TCP: one infinite mapping, then no option any
//! more (RFC 8684 section 3.7); and what tells that it must end.

use anabranch_units::DataSeq;
use anabranch_wire::{Dss, Mapping, MptcpOption, Segment};

use super::deliver::Failure;
use super::{EmitContext, Subflow};

/// Whether the peer's options reach us, as its acknowledgements tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Passage {
    /// No `DATA_ACK` has come yet.
    #[default]
    Unknown,
    /// Nor with the last acknowledgement, which had no MPTCP option at all.
    Doubted,
    /// The last acknowledgement had one.
    Open,
    /// They came, and the last acknowledgement had no MPTCP option at all.
    Lost,
}

impl Passage {
    /// Takes note of an acknowledgement without any MPTCP option.
    pub(crate) fn on_bare(&mut self) {
        *self = match *self {
            Self::Unknown | Self::Doubted => Self::Doubted,
            Self::Open | Self::Lost => Self::Lost,
        };
    }

    /// No `DATA_ACK` was ever seen.
    pub(crate) fn is_unproven(self) -> bool {
        matches!(self, Self::Unknown | Self::Doubted)
    }

    /// The last acknowledgement had no option.
    pub(crate) fn is_in_doubt(self) -> bool {
        matches!(self, Self::Doubted | Self::Lost)
    }
}

/// The mapping that says: from here on the subflow is the stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalMapping {
    /// Stream position of the last byte known to be delivered, which is where it begins.
    data: u64,
    /// Zero is its checksum, where there are any.
    checksum: bool,
    /// Position of the segment that carries it, once there was one.
    carrier: Option<u64>,
}

impl Subflow {
    /// MPTCP has ended with everything before `data` acknowledged; the next segment says so.
    pub(crate) fn send_final_mapping(&mut self, data: u64, checksum: bool) {
        self.final_mapping = Some(FinalMapping { data, checksum, carrier: None });
    }

    /// Puts the infinite mapping on the first segment that is sent, and on it again. Until then
    /// segments leave room for it.
    pub(super) fn add_final_mapping(
        &mut self,
        start: u64,
        context: &EmitContext,
        segment: &mut Segment,
    ) {
        let Some(last) = &mut self.final_mapping else { return };
        let begins = last.carrier.is_none();
        if *last.carrier.get_or_insert(start) != start {
            return;
        }
        let (data, checksum) = (last.data, last.checksum);
        let mapping = Mapping {
            dsn: self.mapping_dsn(DataSeq(context.dsn_base.wrapping_add(data))),
            ssn: data.wrapping_add(1) as u32,
            length: 0,
            checksum: checksum.then_some(0),
        };
        segment.dss = Some(Dss { mapping: Some(mapping), ..Dss::default() });
        if begins {
            self.update_mss(0);
        }
    }

    /// The report of a mapping whose checksum is wrong.
    pub(crate) fn failed_mapping(&self) -> Option<MptcpOption> {
        match self.receive.failure() {
            Some(Failure::Checksum(dsn)) => Some(MptcpOption::Fail { dsn: DataSeq(dsn) }),
            _ => None,
        }
    }
}
