//! SYN cookies as in Linux (RFC 4987 section 3.6; `secure_tcp_syn_cookie`, `cookie_init_timestamp`), for TCP
//! and MPTCP.

use std::net::SocketAddr;

use anabranch_mptcp::{Config, EcnMode, Endpoint, FourTuple, ListenConfig};
use anabranch_units::{Seed, SeqNumber};
use anabranch_wire::crypto::Key;
use anabranch_wire::{CapableKeys, Ecn, Flags, MpCapable, MptcpOption, Segment};

use crate::host::{Host, Peer, at, plain, segment, stamped, syn, tuple};

/// A host with a backlog of zero: every SYN gets a cookie.
fn baker(config: Config) -> Host {
    Host::new(ListenConfig { backlog: 0, ..config.into() })
}

/// A SYN with all TCP options.
fn full(port: u16) -> Segment {
    let syn = Segment { sack_permitted: true, window_scale: Some(7), ..syn(port, 500) };
    stamped(syn, 1234, 0)
}

/// Builds the third packet that returns a cookie.
fn third(answer: &Segment, seq: u32) -> Segment {
    let third = segment(answer.destination_port, Flags::ACK, seq, answer.seq.0.wrapping_add(1));
    match answer.timestamps {
        Some(t) => stamped(third, 1300, t.value),
        None => third,
    }
}

#[test]
fn a_cookie_costs_nothing_and_its_third_packet_opens() {
    let mut host = baker(plain());
    let answer = host.answer(&full(1000));
    assert_eq!(answer.flags, Flags::SYN.with(Flags::ACK));
    assert_eq!((answer.ack, answer.mss), (SeqNumber(501), Some(1460)));
    assert!(answer.sack_permitted && answer.window_scale.is_some());
    assert_eq!(answer.timestamps.expect("as the SYN has them").echo, 1234);
    assert_eq!((host.endpoint.len(), host.endpoint.poll_timeout()), (0, None), "nothing is kept");
    let now = host.now;
    let handle = host.endpoint.handle_segment(now, tuple(1000), &third(&answer, 501));
    let handle = handle.expect("the cookie is genuine");
    assert!(host.connection(handle).connected_at().is_some());
    assert_eq!(host.said(), [], "it was answered before");
    // Data is sent in both directions. The window is scaled by 7, and segments have timestamps.
    let mut peer = Peer { port: 1000, handle, seq: 501, ack: answer.seq.0.wrapping_add(1) };
    host.data(&mut peer, 100);
    assert_eq!(host.connection(handle).readable(), 100);
    let bytes = bytes::Bytes::from(vec![1; 1000]);
    assert_eq!(host.connection(handle).write(now, bytes), Ok(1000));
    let said = host.said();
    assert!(said.iter().any(|s| s.payload.len() == 1000 && s.timestamps.is_some()), "{said:?}");
}

#[test]
fn a_cookie_remembers_ecn_in_the_timestamp() {
    // cookie_init_timestamp: TS_OPT_ECN; cookie_v4_check. Without timestamps, tcp_conn_request does not use
    // ECN.
    let asks = Flags::SYN.with(Flags::ECE).with(Flags::CWR);
    let capable = |mode: EcnMode, asked: bool, stamps: bool| {
        let mut host = baker(Config { ecn: mode, ..plain() });
        let offer = if stamps { full(1000) } else { syn(1000, 500) };
        let flags = if asked { asks } else { Flags::SYN };
        let answer = host.answer(&Segment { flags, ..offer });
        let now = host.now;
        let opened = host.endpoint.handle_segment(now, tuple(1000), &third(&answer, 501));
        let handle = opened.expect("genuine");
        host.said();
        host.connection(handle).write(now, vec![0; 1000].into()).expect("room");
        let data = host.said();
        (answer.flags.contains(Flags::ECE), data[0].ecn == Ecn::Ect0)
    };
    assert_eq!(capable(EcnMode::Accept, true, true), (true, true));
    assert_eq!(capable(EcnMode::Accept, false, true), (false, false));
    assert_eq!(capable(EcnMode::Accept, true, false), (false, false));
    assert_eq!(capable(EcnMode::Off, true, true), (false, false));
}

#[test]
fn without_timestamps_a_cookie_holds_the_segment_size_alone() {
    // msstab: the largest of 536, 1300, 1440 and 1460 that does not exceed the SYN's MSS.
    for (said, kept) in
        [(400, 536), (536, 536), (1299, 536), (1300, 1300), (1459, 1440), (9000, 1460)]
    {
        let mut host = baker(plain());
        let offer = Segment { mss: Some(said), sack_permitted: true, ..syn(1000, 500) };
        let answer = host.answer(&offer);
        assert!(!answer.sack_permitted && answer.timestamps.is_none());
        let now = host.now;
        let opened = host.endpoint.handle_segment(now, tuple(1000), &third(&answer, 501));
        let handle = opened.expect("genuine");
        host.said();
        host.connection(handle).write(now, vec![0; 3000].into()).expect("room");
        let longest = host.said().iter().map(|s| s.payload.len()).max();
        assert_eq!(longest, Some(kept), "{said}");
    }
}

#[test]
fn over_ipv6_a_cookie_holds_one_of_the_sizes_of_ipv6() {
    // msstab for IPv6: 1220, 1420, 1440 and 8940. Our MSS is 1440, for an MTU of 1500.
    let address = |host: u16, port| SocketAddr::from(([0xfd00, 0, 0, 1, 0, 0, 0, host], port));
    let tuple = FourTuple { local: address(1, 80), remote: address(2, 1000) };
    let kept = [(400, 1220), (1419, 1220), (1420, 1420), (1439, 1420), (1440, 1440), (9000, 1440)];
    for (said, kept) in kept {
        let mut endpoint = Endpoint::new("host", Seed { seed: 3, run: 0 });
        let listen = ListenConfig { backlog: 0, ..plain().into() };
        endpoint.listen(SocketAddr::from(([0_u16; 8], 80)), listen).expect("nobody listens");
        let offer = Segment { mss: Some(said), ..syn(1000, 500) };
        endpoint.handle_segment(at(0), tuple, &offer);
        let answer = endpoint.poll_transmit(at(0)).expect("a cookie").segment;
        assert_eq!((answer.mss, answer.window, endpoint.len()), (Some(1440), 64_800, 0));
        let opened = endpoint.handle_segment(at(1), tuple, &third(&answer, 501));
        let connection = endpoint.connection_mut(opened.expect("genuine"));
        connection.write(at(1), vec![0; 3000].into()).expect("room");
        let first = endpoint.poll_transmit(at(1)).expect("data").segment;
        assert_eq!(first.payload.len(), kept, "{said}");
    }
}

#[test]
fn a_cookie_is_worth_nothing_changed_elsewhere_or_later() {
    let refused = |change: &dyn Fn(&mut Host, &mut Segment)| {
        let mut host = baker(plain());
        let answer = host.answer(&full(1000));
        let mut third = third(&answer, 501);
        change(&mut host, &mut third);
        let said = host.hear(&third);
        assert!(host.endpoint.is_empty());
        said.len() == 1 && said[0].flags == Flags::RST
    };
    assert!(refused(&|_, third| third.ack = third.ack.add(1)));
    assert!(refused(&|_, third| third.seq = third.seq.add(1)));
    assert!(refused(&|_, third| third.source_port = 1001));
    // MAX_SYNCOOKIE_AGE: a cookie is valid in its own minute and the next one. The cookie here was created at
    // 0 s.
    assert!(refused(&|host, _| drop(host.run_to(at(120_000)))));
    let mut host = baker(plain());
    let answer = host.answer(&full(1000));
    host.run_to(at(119_999));
    assert!(host.endpoint.handle_segment(at(119_999), tuple(1000), &third(&answer, 501)).is_some());
}

#[test]
fn cookie_is_rejected_by_a_host_that_sent_none() {
    // tcp_synq_no_recent_overflow. The same seed gives the same cookies.
    let answer = baker(plain()).answer(&full(1000));
    let mut other = Host::new(plain());
    assert_eq!(other.answer(&third(&answer, 501)).flags, Flags::RST);
}

#[test]
fn a_flood_takes_the_backlog_and_no_more_and_honest_clients_come_through() {
    let mut host = Host::new(ListenConfig { backlog: 16, ..plain().into() });
    for port in 1..=5000 {
        assert_eq!(host.hear(&syn(port, 0)).len(), 1, "one packet for one");
    }
    assert_eq!((host.endpoint.half_open(), host.endpoint.len()), (16, 0));
    for port in 10_000..10_100 {
        host.open(port, 77, Some(5));
    }
    assert_eq!((host.endpoint.half_open(), host.endpoint.len()), (16, 100));
}

const CLIENT_KEY: u64 = 0x0102_0304_0506_0708;

fn capable(keys: CapableKeys) -> MptcpOption {
    MptcpOption::Capable(MpCapable::with_keys(keys))
}

/// Returns a host, its answer to a SYN with `MP_CAPABLE`, and the key in the answer.
fn multipath() -> (Host, Segment, u64) {
    let mut host = baker(Config { multipath: true, ..plain() });
    let offer = Segment { mptcp: vec![capable(CapableKeys::None)], ..full(1000) };
    let answer = host.answer(&offer);
    let [MptcpOption::Capable(MpCapable { keys: CapableKeys::Responder(key), .. })] =
        answer.mptcp[..]
    else {
        panic!("{answer:?}");
    };
    (host, answer, key)
}

#[test]
fn a_third_packet_with_both_keys_opens_mptcp() {
    // RFC 8684 section 3.1: the third packet has both keys, so the server need not store any state.
    let (mut host, answer, key) = multipath();
    let keys = CapableKeys::Both { initiator: CLIENT_KEY, responder: key };
    let third = Segment { mptcp: vec![capable(keys)], ..third(&answer, 501) };
    let now = host.now;
    let handle = host.endpoint.handle_segment(now, tuple(1000), &third).expect("genuine");
    assert!(host.connection(handle).is_multipath());
    assert_eq!(host.connection(handle).token(), Key::new(key).token);
}

#[test]
fn a_third_packet_without_them_opens_plain_tcp() {
    let (mut host, answer, _) = multipath();
    let now = host.now;
    let opened = host.endpoint.handle_segment(now, tuple(1000), &third(&answer, 501));
    assert!(!host.connection(opened.expect("genuine")).is_multipath());
}

#[test]
fn third_packet_with_a_wrong_key_is_reset() {
    let (mut host, answer, key) = multipath();
    let keys = CapableKeys::Both { initiator: CLIENT_KEY, responder: key ^ 2 };
    let third = Segment { mptcp: vec![capable(keys)], ..third(&answer, 501) };
    assert_eq!(host.answer(&third).flags, Flags::RST);
    assert!(host.endpoint.is_empty());
}
