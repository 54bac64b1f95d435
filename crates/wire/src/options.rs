//! TCP options: lengths, encoding and parsing.

use crate::Segment;
use crate::mptcp::{DataAck, Dss, MappingDsn};

/// Bytes a DSS takes, before padding.
pub(crate) fn dss_len(dss: &Dss) -> usize {
    4 + match dss.data_ack {
        None => 0,
        Some(DataAck::Short(_)) => 4,
        Some(DataAck::Long(_)) => 8,
    } + dss.mapping.map_or(0, |mapping| {
        let dsn = match mapping.dsn {
            MappingDsn::Short(_) => 4,
            MappingDsn::Long(_) => 8,
        };
        dsn + 6 + if mapping.checksum.is_some() { 2 } else { 0 }
    })
}

/// Bytes of options on the wire.
pub(crate) fn encoded_len(_segment: &Segment) -> usize {
    todo!()
}
