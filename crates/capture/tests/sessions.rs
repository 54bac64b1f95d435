//! Sessions of a few segments, whose figures are counted by hand.

use std::net::IpAddr;

use anabranch_capture::{Analysis, Fallback, Frame, Role, Side};
use anabranch_units::{DataSeq, SeqNumber};
use anabranch_wire::crypto::{Key, join_hmac, leftmost_64, leftmost_160};
use anabranch_wire::{
    CapableKeys, DataAck, Dss, Flags, Mapping, MappingDsn, MpCapable, MpJoin, MptcpOption,
    SackBlock, Segment, emit_packet,
};
use bytes::Bytes;

const CLIENT: [[u8; 4]; 2] = [[10, 1, 0, 1], [10, 2, 0, 1]];
const SERVER: [u8; 4] = [10, 9, 0, 1];
const PORTS: [u16; 2] = [40_000, 80];
const CLIENT_KEY: u64 = 0x1111_2222_3333_4444;
const SERVER_KEY: u64 = 0x5555_6666_7777_8888;

/// A capture that is written segment by segment.
#[derive(Default)]
struct Script {
    analysis: Analysis,
}

impl Script {
    /// Adds a segment on a path at a time in milliseconds.
    fn segment(&mut self, at_ms: i64, path: usize, from_client: bool, segment: Segment) {
        let (client, server): (IpAddr, IpAddr) = (CLIENT[path].into(), SERVER.into());
        let (source, destination) = if from_client { (client, server) } else { (server, client) };
        let [client_port, server_port] = PORTS;
        let (source_port, destination_port) =
            if from_client { (client_port, server_port) } else { (server_port, client_port) };
        let segment = Segment { source_port, destination_port, ..segment };
        let mut packet = Vec::new();
        emit_packet(source, destination, &segment, &mut packet).expect("a valid segment");
        self.analysis.on_frame(&Frame {
            time_ns: Some(at_ms * 1_000_000),
            link_type: 101,
            original_len: packet.len() as u32,
            data: &packet,
        });
    }

    /// The handshake of a path: SYN at `at_ms`, SYN/ACK at once, the third packet 50 ms later. The capture is at
    /// the server. Both initial sequence numbers are 0.
    fn handshake(&mut self, at_ms: i64, path: usize, options: [Vec<MptcpOption>; 3]) {
        let [syn, syn_ack, ack] = options;
        let one = SeqNumber(1);
        self.segment(
            at_ms,
            path,
            true,
            Segment { flags: Flags::SYN, mptcp: syn, ..Segment::default() },
        );
        let flags = Flags::SYN.with(Flags::ACK);
        self.segment(
            at_ms,
            path,
            false,
            Segment { flags, ack: one, mptcp: syn_ack, ..Segment::default() },
        );
        self.segment(
            at_ms + 50,
            path,
            true,
            Segment { seq: one, ack: one, flags: Flags::ACK, mptcp: ack, ..Segment::default() },
        );
    }

    /// The handshake of the first subflow.
    fn capable(&mut self) {
        let option = |keys| vec![MptcpOption::Capable(MpCapable::with_keys(keys))];
        self.handshake(
            0,
            0,
            [
                option(CapableKeys::None),
                option(CapableKeys::Responder(SERVER_KEY)),
                option(CapableKeys::Both { initiator: CLIENT_KEY, responder: SERVER_KEY }),
            ],
        );
    }

    /// The handshake of the second subflow.
    fn join(&mut self, at_ms: i64, token: u32) {
        let syn_ack = join_hmac(SERVER_KEY, CLIENT_KEY, 2, 1);
        let ack = join_hmac(CLIENT_KEY, SERVER_KEY, 1, 2);
        self.handshake(
            at_ms,
            1,
            [
                vec![MptcpOption::Join(MpJoin::Syn {
                    backup: false,
                    address_id: 1,
                    token,
                    nonce: 1,
                })],
                vec![MptcpOption::Join(MpJoin::SynAck {
                    backup: false,
                    address_id: 1,
                    hmac: leftmost_64(&syn_ack),
                    nonce: 2,
                })],
                vec![MptcpOption::Join(MpJoin::Ack { hmac: leftmost_160(&ack) })],
            ],
        );
    }

    /// 100 bytes of the server: number `piece` of the data stream, as number `place` of the subflow.
    fn data(&mut self, at_ms: i64, path: usize, place: u32, piece: u64) {
        let first = Key::new(SERVER_KEY).idsn.0.wrapping_add(1);
        let mapping = Mapping {
            dsn: MappingDsn::Long(DataSeq(first.wrapping_add(piece * 100))),
            ssn: 1 + place * 100,
            length: 100,
            checksum: None,
        };
        let segment = Segment {
            seq: SeqNumber(1 + place * 100),
            ack: SeqNumber(1),
            flags: Flags::ACK,
            dss: Some(Dss { mapping: Some(mapping), ..Dss::default() }),
            payload: Bytes::from_static(&[7; 100]),
            ..Segment::default()
        };
        self.segment(at_ms, path, false, segment);
    }

    /// The client's acknowledgement of the first `places` segments of a path.
    fn ack(&mut self, at_ms: i64, path: usize, places: u32, sack: &[[u32; 2]]) {
        let mut segment = Segment {
            seq: SeqNumber(1),
            ack: SeqNumber(1 + places * 100),
            flags: Flags::ACK,
            window: 1_000,
            ..Segment::default()
        };
        for [left, right] in sack {
            let (left, right) = (SeqNumber(1 + left * 100), SeqNumber(1 + right * 100));
            assert!(segment.sack.push(SackBlock { left, right }));
        }
        self.segment(at_ms, path, true, segment);
    }
}

fn close_to(found: Option<f64>, expected_ms: f64) -> bool {
    found.is_some_and(|found| (found / expected_ms - 1.0).abs() < 0.011)
}

#[test]
fn subflows_are_found_by_token_and_judged_by_hmac() {
    let mut script = Script::default();
    script.capable();
    script.join(100, Key::new(SERVER_KEY).token);
    let analysis = script.analysis;
    assert_eq!(analysis.connections().len(), 1);
    let connection = &analysis.connections()[0];
    assert_eq!(connection.keys, [Some(CLIENT_KEY), Some(SERVER_KEY)]);
    assert_eq!(connection.subflows.len(), 2);
    assert_eq!(connection.subflows[1].syn_ack_hmac_valid, Some(true));
    assert_eq!(connection.subflows[1].ack_hmac_valid, Some(true));
    assert_eq!(connection.fallback, None);
    assert_eq!(analysis.streams()[0].side(), Some(Side::Server));
}

#[test]
fn a_join_to_another_connection_is_an_orphan() {
    let mut script = Script::default();
    script.capable();
    script.join(100, 0xdead_beef);
    assert_eq!(script.analysis.connections()[0].subflows.len(), 1);
    assert_eq!(script.analysis.roles()[1], Role::Orphan(0xdead_beef));
    assert_eq!(script.analysis.orphans().get(&0xdead_beef), Some(&1));
}

#[test]
fn a_retransmission_at_the_sender_is_counted_once_and_gives_no_round_trip() {
    let mut script = Script::default();
    script.capable();
    // Three segments; the first is acknowledged after 60 ms. The second is lost, sent again at 180, and acknowledged
    // with the third at 240: neither time is that of a round trip.
    for place in 0..3 {
        script.data(100, 0, place, u64::from(place));
    }
    script.ack(160, 0, 1, &[]);
    script.data(180, 0, 1, 1);
    script.ack(240, 0, 3, &[]);
    let half = &script.analysis.streams()[0].halves[1];
    assert_eq!((half.payload_bytes, half.unique_bytes), (400, 300));
    assert_eq!((half.resent_bytes, half.resent_frames), (100, 1));
    assert_eq!(half.ack_round_trips.count, 1);
    assert!(close_to(half.ack_round_trips.quantile_ms(0.5), 60.0));
    let data = &script.analysis.connections()[0].data[1];
    assert_eq!((data.again_same_subflow_bytes, data.reinjected_bytes), (100, 0));
}

#[test]
fn selective_acknowledgements_give_round_trips_and_name_unneeded_retransmissions() {
    let mut script = Script::default();
    script.capable();
    script.data(100, 0, 0, 0);
    script.data(110, 0, 1, 1);
    // The second arrives first: SACK after 70 ms.
    script.ack(180, 0, 0, &[[1, 2]]);
    script.data(185, 0, 0, 0);
    script.ack(190, 0, 2, &[]);
    // D-SACK (RFC 2883 section 4): the block lies below the acknowledgement.
    script.ack(240, 0, 2, &[[0, 1]]);
    let half = &script.analysis.streams()[0].halves[1];
    assert_eq!(half.ack_round_trips.count, 1);
    assert!(close_to(half.ack_round_trips.quantile_ms(0.5), 70.0));
    assert_eq!(half.duplicate_sack_bytes, 100);
}

#[test]
fn repeated_data_counts_as_reinjected_and_hol_wait_is_timed() {
    let mut script = Script::default();
    script.capable();
    script.join(100, Key::new(SERVER_KEY).token);
    // The receiver sees pieces 1 and 2 on the second path at 200 and 210. Piece 0 comes at 260, also on the second,
    // and at 300 on the first.
    script.data(200, 1, 0, 1);
    script.data(210, 1, 1, 2);
    script.data(260, 1, 2, 0);
    script.data(300, 0, 0, 0);
    let data = &script.analysis.connections()[0].data[1];
    assert_eq!((data.mapped_bytes, data.unique_bytes), (400, 300));
    assert_eq!((data.reinjected_bytes, data.reinjected_frames), (100, 1));
    assert_eq!((data.out_of_order_frames, data.out_of_order_after_subflow), (2, 2));
    assert_eq!(data.duplicates_after_subflow, 1);
    assert_eq!(data.head_of_line_waits, 1);
    assert_eq!(data.head_of_line_ns, 60_000_000, "from 200 to 260 ms");
    assert_eq!(data.head_of_line_ns_by_stream.get(&1), Some(&60_000_000));
    assert_eq!(data.in_order_bytes, 300);
}

#[test]
fn acknowledged_but_uncaptured_bytes_are_counted_as_unseen() {
    let mut script = Script::default();
    script.capable();
    script.data(100, 0, 0, 0);
    // The second segment was not captured. The acknowledgement shows that it arrived.
    script.data(110, 0, 2, 2);
    script.ack(160, 0, 3, &[]);
    let half = &script.analysis.streams()[0].halves[1];
    assert_eq!((half.out_of_order_frames, half.unseen_bytes), (1, 100));
}

#[test]
fn handshake_without_mptcp_reports_its_fallback_reason() {
    let mut script = Script::default();
    let capable = || vec![MptcpOption::Capable(MpCapable::with_keys(CapableKeys::None))];
    script.handshake(0, 0, [capable(), vec![], vec![]]);
    assert_eq!(script.analysis.connections()[0].fallback, Some(Fallback::NotInSynAck));

    let mut script = Script::default();
    let answer =
        vec![MptcpOption::Capable(MpCapable::with_keys(CapableKeys::Responder(SERVER_KEY)))];
    script.handshake(0, 0, [capable(), answer, vec![]]);
    assert_eq!(script.analysis.connections()[0].fallback, Some(Fallback::NotInThirdPacket));
}

#[test]
fn a_syn_with_another_number_is_another_connection() {
    let mut script = Script::default();
    script.capable();
    let again = Segment { flags: Flags::SYN, seq: SeqNumber(99), ..Segment::default() };
    script.segment(500, 0, true, again.clone());
    script.segment(1_500, 0, true, again);
    assert_eq!(script.analysis.streams().len(), 2);
    assert_eq!(script.analysis.streams()[1].syns, 2, "the second SYN is a retransmission");
}

#[test]
fn a_flood_of_joins_hides_no_session() {
    let mut script = Script::default();
    for port in 0..1_500 {
        let join =
            MptcpOption::Join(MpJoin::Syn { backup: false, address_id: 1, token: 9, nonce: 1 });
        let syn = Segment {
            source_port: 2_000 + port,
            destination_port: 80,
            flags: Flags::SYN,
            mptcp: vec![join],
            ..Segment::default()
        };
        let mut packet = Vec::new();
        emit_packet(CLIENT[0].into(), SERVER.into(), &syn, &mut packet).expect("a valid segment");
        let original_len = packet.len() as u32;
        script.analysis.on_frame(&Frame {
            time_ns: Some(0),
            link_type: 101,
            original_len,
            data: &packet,
        });
    }
    script.capable();
    let found = script.analysis.to_json();
    assert_eq!(found["orphan_joins"], 1_500);
    assert_eq!(found["streams"].as_array().map(Vec::len), Some(1), "the session's stream alone");
    assert_eq!(found["streams"][0]["stream"], 1_500);
    assert_eq!(found["streams_not_described"], 0);
}

#[test]
fn bytes_after_a_fallback_count_once() {
    let mut script = Script::default();
    let capable = || vec![MptcpOption::Capable(MpCapable::with_keys(CapableKeys::None))];
    script.handshake(0, 0, [capable(), vec![], vec![]]);
    for at_ms in [100, 180] {
        let payload = Bytes::from_static(&[7; 100]);
        let (seq, ack, flags) = (SeqNumber(1), SeqNumber(1), Flags::ACK);
        script.segment(at_ms, 0, false, Segment { seq, ack, flags, payload, ..Segment::default() });
    }
    let data = &script.analysis.connections()[0].data[1];
    assert_eq!((data.unmapped_bytes, data.mapped_bytes), (100, 0));
}

#[test]
fn segments_that_wait_on_their_subflow_are_in_the_capture() {
    let mut script = Script::default();
    script.capable();
    // The first segment of the subflow was not captured, the second was. Both are acknowledged at data level.
    script.data(100, 0, 1, 1);
    let ack = Key::new(SERVER_KEY).idsn.0.wrapping_add(1 + 200);
    let dss = Dss { data_ack: Some(DataAck::Long(DataSeq(ack))), ..Dss::default() };
    let (seq, ack, flags) = (SeqNumber(1), SeqNumber(201), Flags::ACK);
    script.segment(160, 0, true, Segment { seq, ack, flags, dss: Some(dss), ..Segment::default() });
    let data = &script.analysis.connections()[0].data[1];
    assert_eq!((data.unseen_bytes, data.unique_bytes), (100, 100));
}

#[test]
fn a_window_is_scaled_only_if_both_offered_a_scale() {
    // RFC 7323 section 2.2. The window field is 1,000; the client offers a shift of 3.
    for (offered, expected) in [(Some(5), 8_000), (None, 1_000)] {
        let mut script = Script::default();
        let syn = Segment { flags: Flags::SYN, window_scale: Some(3), ..Segment::default() };
        script.segment(0, 0, true, syn);
        let (flags, ack) = (Flags::SYN.with(Flags::ACK), SeqNumber(1));
        script.segment(
            0,
            0,
            false,
            Segment { flags, ack, window_scale: offered, ..Segment::default() },
        );
        script.ack(50, 0, 0, &[]);
        assert_eq!(
            script.analysis.streams()[0].halves[0].max_window_bytes,
            expected,
            "{offered:?}"
        );
    }
}

#[test]
fn a_repeated_syn_changes_nothing() {
    let mut script = Script::default();
    script.capable();
    script.data(100, 0, 0, 0);
    let flags = Flags::SYN.with(Flags::ACK);
    script.segment(110, 0, false, Segment { flags, ack: SeqNumber(1), ..Segment::default() });
    script.data(120, 0, 1, 1);
    assert_eq!(script.analysis.streams()[0].halves[1].out_of_order_frames, 0);
}

#[test]
fn numbers_of_32_and_of_64_bits_are_the_same_numbers() {
    // Only the SYN was captured, so no key is known. The first two numbers have 32 bits, the third has 64 and follows.
    let mut script = Script::default();
    let capable = vec![MptcpOption::Capable(MpCapable::with_keys(CapableKeys::None))];
    script.segment(0, 0, true, Segment { flags: Flags::SYN, mptcp: capable, ..Segment::default() });
    let first = 0x7_ffff_ff80;
    for (place, long) in [(0, false), (1, false), (2, true)] {
        let dsn = first + 100 * u64::from(place);
        let dsn = if long { MappingDsn::Long(DataSeq(dsn)) } else { MappingDsn::Short(dsn as u32) };
        let mapping = Mapping { dsn, ssn: 1 + place * 100, length: 100, checksum: None };
        let segment = Segment {
            seq: SeqNumber(1 + place * 100),
            ack: SeqNumber(1),
            flags: Flags::ACK,
            dss: Some(Dss { mapping: Some(mapping), ..Dss::default() }),
            payload: Bytes::from_static(&[7; 100]),
            ..Segment::default()
        };
        script.segment(100, 0, false, segment);
    }
    let data = &script.analysis.connections()[0].data[1];
    // The first segment's place on the subflow is not known yet.
    assert_eq!((data.mapped_bytes, data.unmapped_bytes), (200, 100));
    assert_eq!((data.unique_bytes, data.in_order_bytes, data.head_of_line_waits), (200, 200, 0));
}

#[test]
fn a_packet_without_a_time_counts_as_simultaneous_with_the_one_before() {
    let mut script = Script::default();
    let day_ms = 20_000 * 86_400_000;
    let syn = Segment { flags: Flags::SYN, ..Segment::default() };
    script.segment(day_ms, 0, true, syn.clone());
    let mut packet = Vec::new();
    let again = Segment { source_port: PORTS[0], destination_port: PORTS[1], ..syn };
    emit_packet(CLIENT[0].into(), SERVER.into(), &again, &mut packet).expect("a valid segment");
    let original_len = packet.len() as u32;
    script.analysis.on_frame(&Frame { time_ns: None, link_type: 101, original_len, data: &packet });
    script.segment(day_ms + 10, 0, true, Segment { flags: Flags::SYN, ..Segment::default() });
    assert_eq!(script.analysis.streams()[0].idle_ns, 0);
}

#[test]
fn a_segment_in_thousands_of_mappings_has_few_pieces() {
    // 65,000 mappings of one byte each, and segments that claim to be long: the memory stays small.
    let mut script = Script::default();
    script.capable();
    for place in 0..2_000 {
        let dsn = MappingDsn::Long(DataSeq(u64::from(place) * 7));
        let mapping = Mapping { dsn, ssn: 1 + 10_000 + place * 2, length: 1, checksum: None };
        let segment = Segment {
            seq: SeqNumber(1),
            ack: SeqNumber(1),
            flags: Flags::ACK,
            dss: Some(Dss { mapping: Some(mapping), ..Dss::default() }),
            ..Segment::default()
        };
        script.segment(100, 0, false, segment);
    }
    let (seq, ack, flags) = (SeqNumber(10_001), SeqNumber(1), Flags::ACK);
    let payload = Bytes::from(vec![7; 4_000]);
    script.segment(200, 0, false, Segment { seq, ack, flags, payload, ..Segment::default() });
    let data = &script.analysis.connections()[0].data[1];
    assert_eq!(data.mapped_bytes + data.unmapped_bytes, 4_000);
    assert!(data.mapped_bytes <= 64, "at most 64 pieces of a segment are read");
}
