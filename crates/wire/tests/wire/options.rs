//! Tests of every option. Expected bytes are derived from the figures of the RFCs.

use std::net::IpAddr;

use anabranch_units::{DataSeq, SeqNumber};
use anabranch_wire::{
    AddAddr, CapableKeys, DataAck, Dss, EmitError, Flags, Mapping, MappingDsn, MpCapable, MpJoin,
    MpTcpRst, MptcpOption, RemoveAddr, SackBlock, Segment, Timestamps, emit_packet,
};

use crate::parse;
use crate::total::with_options;

const KEY_A: u64 = 0xa0a1_a2a3_a4a5_a6a7;
const KEY_B: u64 = 0xb0b1_b2b3_b4b5_b6b7;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        hex.chars().filter_map(|c| c.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

pub(crate) fn emit(segment: &Segment) -> Result<Vec<u8>, EmitError> {
    let mut packet = Vec::new();
    let (source, destination) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    emit_packet(source, destination, segment, &mut packet)?;
    Ok(packet)
}

/// Checks that the options of a segment are emitted as these bytes, and that parsing returns the
/// segment.
#[track_caller]
fn assert_options(segment: &Segment, hex: &str) {
    let expected = bytes(hex);
    let packet = emit(segment).expect("legal");
    assert_eq!(packet[40..40 + segment.options_len()], expected, "emitted {segment:?}");
    let parsed = parse(&packet).expect("whole").segment;
    assert_eq!(&parsed, segment);
}

#[track_caller]
fn assert_mptcp(option: MptcpOption, hex: &str) {
    assert_options(&Segment { mptcp: vec![option], ..acknowledgement() }, hex);
}

#[track_caller]
fn assert_dss(dss: Dss, hex: &str) {
    assert_options(&Segment { dss: Some(dss), ..acknowledgement() }, hex);
}

pub(crate) fn acknowledgement() -> Segment {
    Segment { flags: Flags::ACK, ..Segment::default() }
}

pub(crate) fn capable(keys: CapableKeys) -> MpCapable {
    MpCapable::with_keys(keys)
}

#[test]
fn linux_syn() {
    let mut syn = Segment {
        flags: Flags::SYN,
        mss: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0 }),
        mptcp: vec![MptcpOption::Capable(capable(CapableKeys::None))],
        ..Segment::default()
    };
    assert_options(&syn, "020405b4 0402080a 01020304 00000000 01030307 1e040101");
    syn.sack_permitted = false;
    assert_options(&syn, "020405b4 0101080a 01020304 00000000 01030307 1e040101");
    syn.timestamps = None;
    syn.sack_permitted = true;
    assert_options(&syn, "020405b4 01010402 01030307 1e040101");
}

#[test]
fn timestamps_and_sack() {
    let mut segment = Segment {
        timestamps: Some(Timestamps { value: 0x0102_0304, echo: 0x0506_0708 }),
        ..acknowledgement()
    };
    assert_options(&segment, "0101080a 01020304 05060708");
    for left in [0x10, 0x30] {
        let block = SackBlock { left: SeqNumber(left), right: SeqNumber(left + 0x10) };
        assert!(segment.sack.push(block));
    }
    assert_options(
        &segment,
        "0101080a 01020304 05060708 01010512 00000010 00000020 00000030 00000040",
    );
}

#[test]
fn mp_capable() {
    let both = CapableKeys::Both { initiator: KEY_A, responder: KEY_B };
    let with_data = |checksum| CapableKeys::WithData {
        initiator: KEY_A,
        responder: KEY_B,
        length: 0x0577,
        checksum,
    };
    let keys = "a0a1a2a3a4a5a6a7 b0b1b2b3b4b5b6b7";
    let cases = [
        (CapableKeys::None, "1e040101".into()),
        (CapableKeys::Responder(KEY_B), "1e0c0101 b0b1b2b3b4b5b6b7".into()),
        (both, format!("1e140101 {keys}")),
        (with_data(None), format!("1e160101 {keys} 0577 0101")),
        (with_data(Some(0xbeef)), format!("1e180101 {keys} 0577 beef")),
    ];
    for (keys, hex) in cases {
        assert_mptcp(MptcpOption::Capable(capable(keys)), &hex);
    }

    let plain = capable(CapableKeys::None);
    let flags = [
        (MpCapable { checksum_required: true, ..plain }, "1e040181"),
        (MpCapable { extensibility: true, ..plain }, "1e040141"),
        (MpCapable { deny_join_initial_address: true, ..plain }, "1e040121"),
        (MpCapable { version: 0, crypto: 0x1f, ..plain }, "1e04001f"),
    ];
    for (capable, hex) in flags {
        assert_mptcp(MptcpOption::Capable(capable), hex);
    }
}

#[test]
fn mp_join() {
    let syn =
        |backup| MpJoin::Syn { backup, address_id: 2, token: 0x0102_0304, nonce: 0x0506_0708 };
    assert_mptcp(MptcpOption::Join(syn(false)), "1e0c1002 01020304 05060708");
    assert_mptcp(MptcpOption::Join(syn(true)), "1e0c1102 01020304 05060708");
    let syn_ack = MpJoin::SynAck { backup: true, address_id: 3, hmac: KEY_A, nonce: 0x0506_0708 };
    assert_mptcp(MptcpOption::Join(syn_ack), "1e101103 a0a1a2a3a4a5a6a7 05060708");
    let hmac = std::array::from_fn(|i| i as u8);
    assert_mptcp(
        MptcpOption::Join(MpJoin::Ack { hmac }),
        "1e181000 00010203 04050607 08090a0b 0c0d0e0f 10111213",
    );
}

#[test]
fn dss() {
    let short_ack = Some(DataAck::Short(0xaabb_ccdd));
    let long_ack = Some(DataAck::Long(DataSeq(0x1122_3344_aabb_ccdd)));
    let mapping = |dsn, checksum| Some(Mapping { dsn, ssn: 0x0102_0304, length: 0x0578, checksum });
    let short = MappingDsn::Short(0x5566_7788);
    let long = MappingDsn::Long(DataSeq(0x9900_1122_5566_7788));
    let of = |data_ack, mapping| Dss { data_ack, mapping, data_fin: false };

    assert_dss(of(None, None), "1e042000");
    assert_dss(of(short_ack, None), "1e082001 aabbccdd");
    assert_dss(of(long_ack, None), "1e0c2003 11223344aabbccdd");
    assert_dss(of(None, mapping(short, None)), "1e0e2004 55667788 01020304 0578 0101");
    assert_dss(of(None, mapping(short, Some(0xbeef))), "1e102004 55667788 01020304 0578 beef");
    assert_dss(of(None, mapping(long, None)), "1e12200c 9900112255667788 01020304 0578 0101");
    assert_dss(
        of(short_ack, mapping(short, None)),
        "1e122005 aabbccdd 55667788 01020304 0578 0101",
    );
    assert_dss(
        of(long_ack, mapping(long, None)),
        "1e1a200f 11223344aabbccdd 9900112255667788 01020304 0578 0101",
    );
    assert_dss(
        of(long_ack, mapping(long, Some(0xbeef))),
        "1e1c200f 11223344aabbccdd 9900112255667788 01020304 0578 beef",
    );
    // A `DATA_FIN` without data (RFC 8684 section 3.3.3).
    let fin = Some(Mapping { dsn: long, ssn: 0, length: 1, checksum: None });
    assert_dss(
        Dss { data_ack: short_ack, mapping: fin, data_fin: true },
        "1e16201d aabbccdd 9900112255667788 00000000 0001 0101",
    );
}

#[test]
fn add_addr() {
    let v4 = IpAddr::from([10, 0, 2, 1]);
    let v6 = IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]);
    let (port, hmac) = (Some(0x1f90), Some(KEY_A));
    let cases = [
        (v4, None, hmac, "1e103003 0a000201 a0a1a2a3a4a5a6a7"),
        (v4, port, hmac, "1e123003 0a000201 1f90 a0a1a2a3a4a5a6a7 0101"),
        (v4, None, None, "1e083103 0a000201"),
        (v4, port, None, "1e0a3103 0a000201 1f90 0101"),
        (v6, None, hmac, "1e1c3003 20010db8000000000000000000000001 a0a1a2a3a4a5a6a7"),
        (v6, port, hmac, "1e1e3003 20010db8000000000000000000000001 1f90 a0a1a2a3a4a5a6a7 0101"),
        (v6, None, None, "1e143103 20010db8000000000000000000000001"),
        (v6, port, None, "1e163103 20010db8000000000000000000000001 1f90 0101"),
    ];
    for (address, port, hmac, hex) in cases {
        assert_mptcp(MptcpOption::AddAddr(AddAddr { address_id: 3, address, port, hmac }), hex);
    }
}

#[test]
fn remove_addr_prio_fail_fastclose_and_rst() {
    let remove = |ids: &[u8]| MptcpOption::RemoveAddr(RemoveAddr::new(ids).unwrap());
    assert_mptcp(remove(&[7]), "1e044007");
    assert_mptcp(remove(&[7, 8]), "1e054007 08010101");
    assert_mptcp(remove(&[1, 2, 3, 4, 5, 6, 7, 8]), "1e0b4001 02030405 06070801");
    assert_mptcp(MptcpOption::Prio { backup: false }, "1e035001");
    assert_mptcp(MptcpOption::Prio { backup: true }, "1e035101");
    assert_mptcp(MptcpOption::Fail { dsn: DataSeq(KEY_A) }, "1e0c6000 a0a1a2a3a4a5a6a7");
    assert_mptcp(MptcpOption::FastClose { key: KEY_A }, "1e0c7000 a0a1a2a3a4a5a6a7");
    let rst = |transient, reason| MptcpOption::TcpRst(MpTcpRst { transient, reason });
    assert_mptcp(rst(false, 6), "1e048006");
    assert_mptcp(rst(true, 1), "1e048101");
}

#[test]
fn the_dss_is_first_and_the_rest_in_order() {
    let segment = Segment {
        dss: Some(Dss { data_ack: Some(DataAck::Short(1)), ..Dss::default() }),
        mptcp: vec![
            MptcpOption::Prio { backup: true },
            MptcpOption::RemoveAddr(RemoveAddr::new(&[9]).unwrap()),
        ],
        ..acknowledgement()
    };
    assert_options(&segment, "1e082001 00000001 1e035101 1e044009");
}

#[test]
fn reserved_bits_are_ignored() {
    let cases = [
        ("1e0c1f02 01020304 05060708", "1e0c1102 01020304 05060708"),
        ("1e0820e1 00000001", "1e082001 00000001"),
        // Flags a and m have no meaning without A and M.
        ("1e04200a", "1e042000"),
        ("1e083f03 0a000201", "1e083103 0a000201"),
        ("1e035f01", "1e035101"),
        ("1e0c6fff 0000000000000001", "1e0c6000 0000000000000001"),
        ("1e0c7fff 0000000000000001", "1e0c7000 0000000000000001"),
        ("1e048f06", "1e048106"),
    ];
    for (odd, plain) in cases {
        let parse = |hex| parse(&with_options(Flags::ACK, &bytes(hex), &[])).unwrap();
        let segment = parse(odd).segment;
        assert!(segment.dss.is_some() || segment.mptcp.len() == 1, "{odd}");
        assert_eq!(segment, parse(plain).segment, "{odd}");
    }
}
