//! Tests of the 40 bytes of option space: its allocation, and segments that are rejected.

use anabranch_units::DataSeq;
use anabranch_wire::{
    CapableKeys, DataAck, Dss, EmitError, Flags, Mapping, MappingDsn, MpCapable, MpJoin,
    MptcpOption, SackBlock, SackBlocks, Segment, Timestamps, sack_room,
};

use crate::options::{acknowledgement, capable, emit};

#[test]
fn room_for_sack() {
    let timestamps = Some(Timestamps::default());
    let ack = |data_ack| Some(Dss { data_ack: Some(data_ack), ..Dss::default() });
    let mapping = Mapping { dsn: MappingDsn::Long(DataSeq(1)), ssn: 1, length: 1, checksum: None };
    let full = Dss { mapping: Some(mapping), ..ack(DataAck::Long(DataSeq(1))).unwrap() };
    let of = |timestamps, dss| Segment { timestamps, dss, ..acknowledgement() };
    let cases = [
        (of(None, None), 4),
        (of(timestamps, None), 3),
        (of(timestamps, ack(DataAck::Short(1))), 2),
        (of(timestamps, ack(DataAck::Long(DataSeq(1)))), 1),
        (of(None, Some(full)), 1),
        (of(timestamps, Some(full)), 0),
    ];
    for (mut segment, room) in cases {
        assert_eq!(sack_room(&segment), room, "{segment:?}");
        segment.sack = SackBlocks::EMPTY;
        while segment.sack.push(SackBlock::default()) {}
        assert_eq!(sack_room(&segment), room, "present blocks do not count");
    }
}

#[test]
fn segments_that_cannot_be_emitted_are_refused() {
    let too_long = Segment {
        timestamps: Some(Timestamps::default()),
        mptcp: vec![
            MptcpOption::Join(MpJoin::Ack { hmac: [0; 20] }),
            MptcpOption::Prio { backup: true },
            MptcpOption::Prio { backup: true },
        ],
        ..acknowledgement()
    };
    assert_eq!(emit(&too_long), Err(EmitError::OptionsTooLong(44)));

    let mss = Segment { mss: Some(1460), ..acknowledgement() };
    assert_eq!(emit(&mss), Err(EmitError::SynOnly("MSS")));
    let scale = Segment { window_scale: Some(1), ..acknowledgement() };
    assert_eq!(emit(&scale), Err(EmitError::SynOnly("window scale")));
    let permitted = Segment { sack_permitted: true, ..acknowledgement() };
    assert_eq!(emit(&permitted), Err(EmitError::SynOnly("SACK-permitted")));
    let scale = Segment { flags: Flags::SYN, window_scale: Some(15), ..Segment::default() };
    assert_eq!(emit(&scale), Err(EmitError::WindowScale(15)));

    let of = |capable| Segment { mptcp: vec![MptcpOption::Capable(capable)], ..acknowledgement() };
    let plain = capable(CapableKeys::None);
    let version = of(MpCapable { version: 16, ..plain });
    assert_eq!(emit(&version), Err(EmitError::Capable { field: "version", value: 16 }));
    let crypto = of(MpCapable { crypto: 32, ..plain });
    assert_eq!(emit(&crypto), Err(EmitError::Capable { field: "crypto", value: 32 }));
}
