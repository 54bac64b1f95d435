//! MPTCP between two endpoints: handshakes, joins, fallback, close (RFC 8684).

mod pair;

use anabranch_mptcp::{Config, Event, FourTuple};
use anabranch_units::SeqNumber;
use anabranch_wire::crypto::{Key, join_hmac, leftmost_64, leftmost_160};
use anabranch_wire::{
    CapableKeys, DataAck, Flags, MpJoin, MptcpOption, Segment, emit_packet, parse_packet,
};
use pair::{Pair, Way, at, config, film};

fn capable(segment: &Segment) -> Option<CapableKeys> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Capable(capable) => Some(capable.keys),
        _ => None,
    })
}

fn join(segment: &Segment) -> Option<MpJoin> {
    segment.mptcp.iter().find_map(|option| match option {
        MptcpOption::Join(join) => Some(*join),
        _ => None,
    })
}

fn has(events: &[(anabranch_units::Instant, Event)], wanted: Event) -> bool {
    events.iter().any(|(_, event)| *event == wanted)
}

#[test]
fn the_capable_handshake_carries_no_key_then_one_then_both() {
    let mut pair = Pair::new(&[50], config(), config());
    pair.run_until(at(200));
    let forms: Vec<_> =
        pair.log.iter().filter_map(|(_, way, _, s)| Some((*way, capable(s)?))).collect();
    assert_eq!(forms[0], (Way::ToServer, CapableKeys::None));
    let (Way::ToClient, CapableKeys::Responder(server)) = forms[1] else { panic!("{forms:?}") };
    let (Way::ToServer, CapableKeys::Both { initiator, responder }) = forms[2] else {
        panic!("{forms:?}")
    };
    assert_eq!(responder, server);
    assert_ne!(initiator, server);
    assert!(pair.client().is_multipath() && pair.server().is_multipath());
}

#[test]
fn first_client_data_repeats_the_keys_with_its_length() {
    let mut pair = Pair::new(&[50], config(), config());
    pair.run_until(at(50));
    let now = pair.now;
    pair.client().write(now, bytes::Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n")).expect("room");
    pair.run_until(at(300));
    let lengths: Vec<_> = pair
        .log
        .iter()
        .filter_map(|(_, _, _, s)| match capable(s)? {
            CapableKeys::WithData { length, .. } => Some((length, s.payload.len())),
            _ => None,
        })
        .collect();
    assert_eq!(lengths, [(18, 18)]);
    let now = pair.now;
    assert_eq!(pair.server().read(now, 100).expect("arrived").len(), 18);
}

#[test]
fn a_join_proves_itself_with_both_keys() {
    let mut pair = Pair::new(&[50, 80], config(), config());
    pair.run_until(at(100));
    pair.serve(&film(3000));
    pair.run_until(at(600));
    let keys = pair.log.iter().find_map(|(_, _, _, s)| match capable(s)? {
        CapableKeys::Both { initiator, responder } => Some((initiator, responder)),
        _ => None,
    });
    let (initiator, responder) = keys.expect("the third packet");
    let joins: Vec<_> = pair.log.iter().filter_map(|(_, _, _, s)| join(s)).collect();
    let MpJoin::Syn { token, nonce: asked, .. } = joins[0] else { panic!("{joins:?}") };
    let MpJoin::SynAck { hmac, nonce: answered, .. } = joins[1] else { panic!("{joins:?}") };
    let MpJoin::Ack { hmac: proof } = joins[2] else { panic!("{joins:?}") };
    assert_eq!(token, Key::new(responder).token);
    assert_eq!(hmac, leftmost_64(&join_hmac(responder, initiator, answered, asked)));
    assert_eq!(proof, leftmost_160(&join_hmac(initiator, responder, asked, answered)));
    assert_eq!(pair.client().view().samples().count(), 2);
}

#[test]
fn a_forged_join_answer_is_reset_and_the_connection_lives() {
    let mut pair = Pair::new(&[50, 80], config(), config());
    pair.filter = Box::new(|_, _, _, segment| {
        for option in &mut segment.mptcp {
            if let MptcpOption::Join(MpJoin::SynAck { hmac, .. }) = option {
                *hmac ^= 1;
            }
        }
        true
    });
    pair.run_until(at(100));
    pair.serve(&film(50_000));
    pair.run_until(at(2000));
    let reset = pair.sent(Way::ToServer, 1).any(|(_, _, _, s)| s.flags.contains(Flags::RST));
    assert!(reset, "the client refuses the subflow");
    assert!(pair.got(&film(50_000)), "read {} bytes", pair.received.len());
}

#[test]
fn a_join_for_an_unknown_token_is_reset_with_a_reason() {
    let mut pair = Pair::new(&[50, 80], config(), config());
    pair.filter = Box::new(|_, _, _, segment| {
        for option in &mut segment.mptcp {
            if let MptcpOption::Join(MpJoin::Syn { token, .. }) = option {
                *token ^= 1;
            }
        }
        true
    });
    pair.run_until(at(100));
    pair.serve(&film(3000));
    pair.run_until(at(1000));
    let reason = pair.sent(Way::ToClient, 1).find_map(|(_, _, _, s)| {
        s.mptcp.iter().find_map(|option| match option {
            MptcpOption::TcpRst(reset) if s.flags.contains(Flags::RST) => Some(reset.reason),
            _ => None,
        })
    });
    assert_eq!(reason, Some(1));
}

#[test]
fn joins_find_their_connection_by_token() {
    // RFC 8684 section 3.2: two connections of one client. Their joins have the same addresses and
    // the same server port.
    let mut pair = Pair::new(&[50, 80], config(), config());
    let candidates = [0, 1].map(|path| {
        let mut candidate = pair::candidate(path);
        candidate.local.set_port(50_000);
        candidate
    });
    let second = Config { candidates: candidates.to_vec(), ..config() };
    pair.client.connect(at(0), second).expect("known plug-ins");
    pair.run_until(at(200));
    assert_eq!(pair.server.len(), 2);
    for handle in pair::handles(&pair.server) {
        let now = pair.now;
        let first = bytes::Bytes::from_static(b"data");
        pair.server.connection_mut(handle).write(now, first).expect("room");
    }
    pair.run_until(at(1000));
    for (_, connection) in pair.server.connections() {
        let ports: Vec<_> = connection.view().tuples().map(|tuple| tuple.remote.port()).collect();
        assert_eq!(ports.len(), 2);
        assert_eq!(ports[0], ports[1], "each has its own join");
    }
}

#[test]
fn a_lost_third_packet_of_a_join_is_repeated_and_no_data_goes_before_the_fourth() {
    let mut pair = Pair::new(&[50, 80], config(), config());
    let mut lost = 0;
    pair.filter = Box::new(move |_, _, _, segment| {
        let third = matches!(join(segment), Some(MpJoin::Ack { .. }));
        lost += u32::from(third);
        !(third && lost == 1)
    });
    pair.run_until(at(100));
    pair.serve(&film(2000));
    pair.run_until(at(1000));
    pair.serve(&film(400_000)[2000..]);
    pair.run_until(at(9000));
    let thirds =
        pair.log.iter().filter(|(_, _, _, s)| matches!(join(s), Some(MpJoin::Ack { .. }))).count();
    assert!(thirds >= 2, "the impairment took effect and was repaired");
    let first_data = pair.sent(Way::ToClient, 1).find(|(_, _, _, s)| !s.payload.is_empty());
    let second_third = pair
        .sent(Way::ToServer, 1)
        .filter(|(_, _, _, s)| matches!(join(s), Some(MpJoin::Ack { .. })))
        .nth(1);
    assert!(first_data.expect("the subflow is used").0 > second_third.expect("repeated").0);
    assert!(pair.got(&film(400_000)), "read {} bytes", pair.received.len());
}

#[test]
fn a_server_without_mptcp_means_plain_tcp() {
    let server = Config { multipath: false, ..config() };
    let mut pair = Pair::new(&[50, 80], config(), server);
    pair.run_until(at(100));
    pair.serve(&film(100_000));
    pair.run_until(at(3000));
    assert!(!pair.client().is_multipath());
    assert!(has(&pair.client_events, Event::FellBack));
    assert!(pair.log.iter().skip(2).all(|(_, _, _, s)| s.dss.is_none() && s.mptcp.is_empty()));
    assert!(pair.got(&film(100_000)), "read {} bytes", pair.received.len());
}

#[test]
fn options_stripped_from_the_syn_mean_plain_tcp() {
    let mut pair = Pair::new(&[50], config(), config());
    pair.filter = Box::new(|_, _, _, segment| {
        if segment.flags.contains(Flags::SYN) {
            segment.mptcp.clear();
        }
        true
    });
    pair.run_until(at(100));
    pair.serve(&film(20_000));
    pair.run_until(at(2000));
    assert!(!pair.client().is_multipath() && !pair.server().is_multipath());
    assert!(pair.got(&film(20_000)), "read {} bytes", pair.received.len());
}

#[test]
fn data_acks_begin_short_and_follow_the_mappings_width() {
    let mut pair = Pair::new(&[50], config(), config());
    pair.run_until(at(100));
    pair.serve(&film(30_000));
    pair.run_until(at(1000));
    let client: Vec<_> = pair
        .sent(Way::ToServer, 0)
        .filter_map(|(_, _, _, s)| s.dss.and_then(|dss| dss.data_ack))
        .collect();
    assert!(client.iter().all(|ack| matches!(ack, DataAck::Long(_))), "64-bit DSNs, 64-bit acks");
    let server = pair.sent(Way::ToClient, 0).find_map(|(_, _, _, s)| s.dss?.data_ack);
    assert!(matches!(server, Some(DataAck::Short(_))), "nothing was received in 64 bits yet");
}

#[test]
fn both_sides_close_with_data_fin_then_fin_on_every_subflow() {
    let mut pair = Pair::new(&[50, 80], config(), config());
    pair.run_until(at(100));
    pair.serve(&film(100_000));
    pair.end();
    pair.run_until(at(1500));
    assert!(has(&pair.client_events, Event::PeerFinished));
    assert!(!has(&pair.client_events, Event::Closed), "half closed");
    let now = pair.now;
    pair.client().shutdown(now);
    pair.settle();
    pair.run_until(at(6000));
    assert!(pair.got(&film(100_000)), "read {} bytes", pair.received.len());
    assert!(has(&pair.client_events, Event::Closed) && has(&pair.server_events, Event::Closed));
    for path in 0..2 {
        for way in [Way::ToClient, Way::ToServer] {
            let fin = pair.sent(way, path).any(|(_, _, _, s)| s.flags.contains(Flags::FIN));
            assert!(fin, "FIN {way:?} on path {path}");
        }
    }
}

#[test]
fn a_lost_last_acknowledgement_is_given_again() {
    let mut pair = Pair::new(&[50], config(), config());
    let mut fins = 0;
    pair.filter = Box::new(move |_, way, _, segment| {
        // The server's acknowledgement of the client's FIN is lost once.
        fins += u32::from(way == Way::ToServer && segment.flags.contains(Flags::FIN));
        !(way == Way::ToClient && fins == 1 && !segment.flags.contains(Flags::FIN))
    });
    pair.run_until(at(100));
    pair.serve(&film(10_000));
    pair.end();
    pair.run_until(at(500));
    let now = pair.now;
    pair.client().shutdown(now);
    pair.run_until(at(5000));
    let fins = pair.sent(Way::ToServer, 0).filter(|(_, _, _, s)| s.flags.contains(Flags::FIN));
    assert!(fins.count() >= 2, "the loss took effect");
    assert!(has(&pair.client_events, Event::Closed) && has(&pair.server_events, Event::Closed));
}

#[test]
fn a_lost_data_fin_is_repeated() {
    let mut pair = Pair::new(&[50], config(), config());
    let mut fins = 0;
    pair.filter = Box::new(move |_, _, _, segment| {
        let fin = segment.dss.is_some_and(|dss| dss.data_fin);
        fins += u32::from(fin);
        !(fin && fins <= 2)
    });
    pair.run_until(at(100));
    pair.serve(&film(10_000));
    pair.run_until(at(500));
    pair.end();
    pair.run_until(at(3000));
    let sent = pair.log.iter().filter(|(_, _, _, s)| s.dss.is_some_and(|d| d.data_fin)).count();
    assert!(sent >= 3, "two were lost");
    assert!(has(&pair.client_events, Event::PeerFinished));
}

#[test]
fn a_reset_subflow_hands_its_data_to_the_other() {
    let mut pair = Pair::new(&[50, 80], config(), config());
    pair.run_until(at(100));
    pair.serve(&film(400_000));
    // From 400 ms on, a forged RST answers every segment on the second path.
    pair.filter = Box::new(|now, way, path, segment| {
        if path == 1 && now > at(400) && way == Way::ToServer {
            segment.flags = Flags::RST;
            segment.payload = bytes::Bytes::new();
        }
        true
    });
    pair.run_until(at(10_000));
    assert!(pair.server_events.iter().any(|(_, e)| matches!(e, Event::SubflowClosed(_))));
    assert!(pair.got(&film(400_000)), "read {} bytes", pair.received.len());
}

#[test]
fn every_segment_survives_the_wire() {
    let mut pair = Pair::new(&[20, 30], config(), config());
    let mut seen = 0u32;
    pair.filter = Box::new(move |_, _, _, _| {
        seen += 1;
        !seen.is_multiple_of(37)
    });
    pair.run_until(at(100));
    pair.serve(&film(300_000));
    pair.end();
    pair.run_until(at(3000));
    let now = pair.now;
    pair.client().shutdown(now);
    pair.run_until(at(9000));
    assert!(pair.log.len() > 300);
    for (_, way, path, segment) in &pair.log {
        let mut bytes = Vec::new();
        let client = std::net::IpAddr::from([10, *path as u8 + 1, 0, 2]);
        let server = std::net::IpAddr::from([10, *path as u8 + 1, 0, 1]);
        let (source, destination) = match way {
            Way::ToClient => (server, client),
            Way::ToServer => (client, server),
        };
        emit_packet(source, destination, segment, &mut bytes)
            .expect("only legal segments are sent");
        let back = parse_packet(&bytes.into()).expect("what was emitted can be read");
        assert_eq!(&back.segment, segment);
    }
    assert!(pair.got(&film(300_000)), "read {} bytes", pair.received.len());
}

#[test]
fn a_stray_segment_is_answered_with_a_reset() {
    let mut pair = Pair::new(&[50], config(), config());
    let tuple = FourTuple {
        local: "10.1.0.1:80".parse().expect("an address"),
        remote: "10.9.0.9:1234".parse().expect("an address"),
    };
    let stray = Segment {
        source_port: 1234,
        destination_port: 80,
        ack: SeqNumber(77),
        flags: Flags::ACK,
        ..Segment::default()
    };
    assert!(pair.server.handle_segment(at(0), tuple, &stray).is_none());
    let answer = pair.server.poll_transmit(at(0)).expect("a reset");
    assert!(answer.segment.flags.contains(Flags::RST));
    assert_eq!(answer.segment.seq, SeqNumber(77), "or the peer would not believe it");
}
