//! `MP_CAPABLE` (RFC 8684 section 3.1) and fallback (section 3.7).

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Connection, Event, FourTuple, Origin, Secrets};
use anabranch_units::Seed;
use anabranch_wire::{MptcpOption, Segment, emit_packet};

use crate::dialect::{PEER_KEY, Script, at, config, film};

/// Returns the MPTCP option of a segment in wire format.
fn option_bytes(segment: &Segment) -> Vec<u8> {
    let [from, to] = [1, 2].map(|host| IpAddr::from([10, 1, 0, host]));
    let mut packet = Vec::new();
    emit_packet(from, to, segment, &mut packet).expect("a legal segment");
    let header = 20 + usize::from(packet[32] >> 4) * 4;
    let mut options = &packet[40..header];
    while let [kind, rest @ ..] = options {
        let length = match kind {
            0 => break,
            1 => 1,
            30 => return options[..usize::from(rest[0])].to_vec(),
            _ => usize::from(rest[0]),
        };
        options = &options[length..];
    }
    Vec::new()
}

#[test]
fn the_server_answers_with_its_key_and_waits_for_both() {
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    let answer = option_bytes(&s.us(0, "S. 0:0 ack=1 mpc-key"));
    assert_eq!(answer[..4], [0x1e, 12, 0x01, 0x01], "version 1, H alone");
    assert_eq!(answer.len(), 12);
    assert!(!s.has(Event::Connected));
    s.peer(50, ". ack=1 mpc-keys");
    assert!(s.has(Event::Connected) && s.connection().is_multipath());
    s.silence(1000);
}

#[test]
fn the_client_sends_no_key_then_both_then_both_with_its_first_data() {
    let mut s = Script::client(config(), 1);
    assert_eq!(option_bytes(&s.us(0, "S 0:0 mpc")), [0x1e, 4, 0x01, 0x01]);
    s.peer(50, "S. ack=1 mpc-key");
    let third = option_bytes(&s.us(50, ". 1:1 ack=1 mpc-keys"));
    assert_eq!(third[..4], [0x1e, 20, 0x01, 0x01]);
    assert_eq!(third[12..20], PEER_KEY.to_be_bytes(), "the initiator's key stands first");
    s.write(60, 18);
    let first = option_bytes(&s.us(60, ". 1:19 ack=1 mpc-data=18"));
    assert_eq!(first[..4], [0x1e, 22, 0x01, 0x01]);
    assert_eq!(first[4..20], third[4..20]);
    assert_eq!(first[20..], [0, 18]);
    s.peer(110, ". ack=19 dack8=18");
    s.write(120, 5);
    s.us(120, ". 19:24 map=18+5@19");
}

#[test]
fn either_side_enables_checksums_in_the_handshake() {
    let mut s = Script::server(Config { checksum: true, ..config() });
    s.peer(0, "S mpc");
    assert_eq!(option_bytes(&s.us(0, "S. mpc-key A"))[..4], [0x1e, 12, 0x01, 0x81]);

    let mut s = Script::server(config());
    s.peer(0, "S mpc A");
    s.us(0, "S. mpc-key A");
    s.peer(50, ". mpc-keys A");
    s.write(50, 100);
    s.us(50, ". 1:101 map=0+100@1 checksum");

    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(50, "S. mpc-key A");
    s.us(50, ". mpc-keys A");
}

#[test]
fn an_option_the_server_does_not_understand_means_plain_tcp() {
    // MP_CAPABLE with keys is refused on a SYN, because keys belong on later segments ("strict size checking").
    // MP_CAPABLE beside MP_JOIN is refused too (`subflow_check_req`).
    let forms = ["mpc-key", "mpc-keys", "mpc-data", "mpc-data csum", "mpc join"];
    for option in ["", "mpc v0", "mpc B", "mpc noH"].into_iter().chain(forms) {
        let mut s = Script::server(config());
        s.peer(0, &format!("S {option}"));
        let answer = s.us(0, "S. ack=1");
        assert_eq!(answer.mptcp, [], "`{option}`");
        s.peer(50, ".");
        s.write(60, 1000);
        let data = s.us(60, ". 1:1001");
        assert!(data.dss.is_none() && data.mptcp.is_empty(), "`{option}`");
        assert!(!s.connection().is_multipath());
    }
}

#[test]
fn an_answer_the_client_does_not_understand_means_plain_tcp() {
    let forms = ["mpc", "mpc-keys", "mpc-data"];
    for option in ["", "mpc-key v0", "mpc-key B", "mpc-key noH"].into_iter().chain(forms) {
        let mut s = Script::client(config(), 2);
        s.us(0, "S mpc");
        s.peer(50, &format!("S. {option}"));
        let third = s.us(50, ". ack=1");
        assert!(third.dss.is_none() && third.mptcp.is_empty(), "`{option}`");
        assert!(s.has(Event::FellBack));
        s.write(60, 100);
        assert!(s.us(60, ". 1:101").dss.is_none());
        s.peer(110, ". 1:51 ack=101");
        s.us_within(0, 110, 160, ". ack=51");
        assert_eq!(s.received, film(0, 50), "and no subflow is ever joined");
        s.silence(2000);
    }
}

#[test]
fn a_third_packet_without_the_option_means_plain_tcp() {
    let forms = [". mpc", ". mpc-key", ". mpc-data"];
    for third in [".", ". mpc-keys v0", ". mpc-keys B", ". mpc-keys noH"].into_iter().chain(forms) {
        let mut s = Script::server(config());
        s.peer(0, "S mpc");
        s.us(0, "S. mpc-key");
        s.peer(50, third);
        assert!(s.has(Event::FellBack), "`{third}`");
        s.write(50, 10);
        assert!(s.us(50, ". 1:11").dss.is_none());
        s.peer(100, ". 1:11");
        assert_eq!(s.received, film(0, 10));
    }
}

#[test]
fn first_data_stands_for_a_lost_third_packet() {
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    s.us(0, "S. mpc-key");
    s.peer(60, ". 1:19 mpc-data");
    s.us(60, ". ack=19 dack8=18");
    assert!(s.connection().is_multipath());
    assert_eq!(s.received, film(0, 18));
}

#[test]
fn a_data_ack_missing_from_the_first_answer_means_plain_tcp() {
    let mut s = Script::client(config(), 2);
    s.us(0, "S mpc");
    s.peer(50, "S. mpc-key");
    s.us(50, ". mpc-keys");
    s.peer(60, ". 1:101 ack=1");
    assert!(s.has(Event::FellBack));
    s.us_within(0, 60, 110, ". ack=101");
    assert_eq!(s.received, film(0, 100), "what came without mapping is plain data");
    s.silence(3000);
}

#[test]
fn the_fourth_syn_goes_without_the_option() {
    let mut s = Script::client(config(), 1);
    for ms in [0, 1000, 2000] {
        s.us(ms, "S mpc");
    }
    assert_eq!(s.us(3000, "S").mptcp, []);
    s.peer(3050, "S.");
    assert_eq!(s.us(3050, ".").mptcp, []);
    assert!(s.has(Event::Connected) && s.has(Event::FellBack));
}

#[test]
fn a_third_packet_that_was_lost_is_given_again() {
    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(50, "S. mpc-key");
    s.us(50, ". mpc-keys");
    s.peer(1050, "S. mpc-key");
    s.us(1050, ". mpc-keys");
    s.peer(1100, ". ack=1 dack4=0");
    s.write(1110, 10);
    s.us(1110, ". 1:11 map=0+10@1");
}

#[test]
fn a_syn_ack_is_repeated_while_the_third_packet_is_missing() {
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    // `tcp_syn_linear_timeouts` "has no effect on SYNACK at the passive TCP side" (ip-sysctl.rst).
    for ms in [0, 1000, 3000, 7000] {
        s.us(ms, "S. mpc-key");
    }
    s.peer(7050, ". mpc-keys");
    assert!(s.connection().is_multipath());
    s.silence(9000);
}

#[test]
fn an_answer_to_another_syn_changes_nothing() {
    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(40, "S. ack=999");
    assert!(!s.has(Event::FellBack), "an old duplicate does not decide");
    s.peer(50, "S. ack=1 mpc-key");
    s.rest();
    assert!(s.connection().is_multipath());
}

#[test]
fn a_later_version_is_answered_with_the_one_spoken_here() {
    // RFC 8684 section 3.1: the responder answers with a supported version that is not higher.
    let mut s = Script::server(config());
    s.peer(0, "S mpc v2");
    assert_eq!(option_bytes(&s.us(0, "S. mpc-key"))[..4], [0x1e, 12, 0x01, 0x01]);
    s.peer(50, ". mpc-keys");
    assert!(s.connection().is_multipath());

    let mut s = Script::client(config(), 1);
    s.us(0, "S mpc");
    s.peer(50, "S. mpc-key v2");
    assert_eq!(s.us(50, ".").mptcp, [], "what is higher than the offer is no answer");
}

/// Returns the first connection of an endpoint and the number of calls of `taken`. `taken` returns whether a
/// token is in use.
fn opened(taken: impl Fn(usize) -> bool, syn: Option<&Segment>) -> (Connection, usize) {
    let asked = Cell::new(0);
    let taken = |_: u32| {
        asked.set(asked.get() + 1);
        taken(asked.get())
    };
    let stream = Seed { seed: 1, run: 0 }.stream("keys");
    let [local, remote] = [1, 2].map(|host| SocketAddr::from(([10, 1, 0, host], 80)));
    let candidate = Candidate { address_id: 0, local, remote, backup: false, rate: None };
    let config = Config { candidates: vec![candidate], ..config() };
    let tuple = FourTuple { local, remote };
    let mut secrets = Seed { seed: 1, run: 0 }.stream("secrets");
    let secrets = Arc::new(Secrets::draw(&mut secrets));
    let origin = Origin { now: at(0), random: stream, secrets, taken: &taken };
    let connection = match syn {
        Some(syn) => Connection::accept(config, origin, tuple, syn),
        None => Connection::connect(config, origin),
    };
    (connection.expect("known plug-ins"), asked.get())
}

#[test]
fn a_key_whose_token_another_connection_has_is_not_used() {
    let syn = Script::server(config()).composed("S mpc");
    for syn in [None, Some(&syn)] {
        let (first, _) = opened(|_| false, syn);
        let (mut other, asked) = opened(|nth| nth <= 3, syn);
        assert!(asked >= 4 && first.token() != other.token());
        let option = other.poll_transmit(at(0)).expect("a SYN").segment.mptcp;
        assert!(matches!(option[..], [MptcpOption::Capable(_)]));
        // RFC 8684 section 3.1: a connection without a unique token does not use MPTCP.
        let (mut none, asked) = opened(|_| true, syn);
        assert!(asked < 100, "it gives up");
        assert_eq!(none.poll_transmit(at(0)).expect("a SYN").segment.mptcp, []);
    }
}
