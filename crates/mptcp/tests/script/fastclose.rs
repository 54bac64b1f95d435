//! `MP_FASTCLOSE` and `MP_TCPRST` (RFC 8684 sections 3.5 and 3.6), handled and sent as in Linux.

use anabranch_mptcp::{Event, path_manager::Candidate};
use anabranch_units::SubflowId;
use anabranch_wire::{Flags, MptcpOption};
use bytes::Bytes;

use crate::dialect::{Script, config, tcp};

/// A server with subflows on paths 0 and 1.
fn two() -> Script {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s
}

/// A client with subflows on paths 0 and 1, both usable at 200 ms.
fn client_of_two() -> Script {
    let mut s = Script::multipath_client(config(), 2);
    s.peer(100, ". ack=1 dack4=0");
    s.us_on(1, 100, "S join");
    s.peer_on(1, 150, "S. join-hmac");
    s.us_on(1, 150, ". join-ack");
    s.peer_on(1, 200, ". ack=1 dack4=0");
    s
}

fn position(s: &Script, event: Event) -> usize {
    s.events.iter().position(|(_, e)| *e == event).unwrap_or_else(|| panic!("no {event:?}"))
}

#[test]
fn a_fast_close_on_an_acknowledgement_resets_every_subflow() {
    let mut s = two();
    s.peer(300, ". ack=1 dack4=0 fastclose");
    s.us_on(0, 300, "R. 1:1 ack=1 rst=0");
    s.us_on(1, 300, "R. 1:1 ack=1 rst=0");
    assert!(position(&s, Event::Aborted) < position(&s, Event::Closed));
    assert!(s.connection().is_closed());
    let now = s.now;
    assert!(s.connection().write(now, Bytes::from_static(b"late")).is_err());
    s.silence(100_000);
    assert_eq!(s.connection().poll_timeout(), None, "nothing is left to wait for");
}

#[test]
fn a_fast_close_on_a_reset_ends_the_other_subflows_too() {
    let mut s = two();
    s.peer(300, "R. 1:1 ack=1 fastclose");
    s.us_on(1, 300, "R. 1:1 ack=1 rst=0");
    assert!(s.has(Event::Aborted) && s.connection().is_closed());
    s.silence(5000);
}

#[test]
fn a_fast_close_without_our_key_is_ignored_and_challenged() {
    let mut s = two();
    s.peer(300, ". ack=1 dack4=0 fastclose forged");
    s.us(300, ". 1:1 ack=1 dack4=0");
    // RFC 5961 section 7: challenge ACKs are rate-limited.
    for ms in 301..400 {
        s.peer(ms, ". ack=1 dack4=0 fastclose forged");
    }
    s.silence(600);
    assert!(!s.has(Event::Aborted) && !s.connection().is_closed());
    assert_eq!(s.connection().view().counters().forged_fast_closes, 100);
    s.write(700, 100);
    assert_eq!(s.rest().len(), 1, "it goes on");
}

#[test]
fn a_reset_with_a_wrong_key_ends_its_subflow_only() {
    let mut s = two();
    s.peer(300, "R. 1:1 ack=1 fastclose forged");
    assert!(s.has(Event::SubflowClosed(SubflowId(0))) && !s.has(Event::Aborted));
    s.write(400, 100);
    s.us_on(1, 400, ". 1:101");
}

#[test]
fn fast_close_outside_the_window_is_ignored() {
    let mut s = two();
    // RFC 8684 sections 3 and 3.5: the checks of TCP come first. The window ends at 64,240 bytes.
    s.peer(300, ". 900000000:900000000 ack=1 dack4=0 fastclose");
    s.us(300, ". 1:1 ack=1");
    s.peer(310, "R. 900000000:900000000 ack=1 fastclose");
    s.peer(320, "R. 1000:1000 ack=1 fastclose");
    // An acknowledgement of data that was never sent (RFC 5961 section 5.2).
    s.peer(330, ". 1:1 ack=5000 dack4=0 fastclose");
    assert!(!s.has(Event::Aborted) && !s.connection().is_closed());
    assert!(!s.has(Event::SubflowClosed(SubflowId(0))));
}

#[test]
fn mptcp_signals_outside_the_window_are_ignored() {
    let far = "900000000:900000000";
    for signal in ["prio=B", "add=5,10.3.0.2", "remove=1", "rst=1"] {
        let mut s = two();
        s.peer(300, &format!(". {far} ack=1 dack4=0 {signal}"));
        s.us(300, ". 1:1 ack=1");
        s.silence(400);
        assert!(!s.events.iter().any(|(_, e)| matches!(
            e,
            Event::PriorityChanged { .. } | Event::SubflowClosed(_) | Event::SubflowReset { .. }
        )));
    }
}

#[test]
fn a_fast_close_on_plain_tcp_is_nothing() {
    let mut s = Script::plain_with(tcp(), 50);
    s.peer(100, ". ack=1 fastclose");
    assert!(!s.has(Event::Aborted) && !s.has(Event::Closed));
}

#[test]
fn an_abort_resets_every_subflow_with_the_peers_key() {
    for mut s in [two(), client_of_two()] {
        s.abort(300);
        for path in 0..2 {
            let reset = s.us_on(path, 300, "R. 1:1 ack=1 fastclose rst=0");
            assert!(reset.flags.contains(Flags::RST) && reset.options_len() == 16);
        }
        assert!(s.has(Event::Closed) && !s.has(Event::Aborted), "it was our own wish");
        s.silence(100_000);
        // Later segments are answered like those of any closed connection.
        s.peer(100_100, ". 1:101 ack=1 dack4=0 map=0+100@1");
        s.us(100_100, "R 1:1");
    }
}

#[test]
fn an_abort_of_plain_tcp_is_a_plain_reset() {
    let mut s = Script::plain_with(tcp(), 50);
    s.abort(100);
    assert_eq!(s.us(100, "R. 1:1 ack=1").mptcp, []);
}

#[test]
fn subflow_reset_event_carries_the_reason() {
    for (word, reason, transient) in [("rst=2,T", 2, true), ("rst=3", 3, false)] {
        let mut s = two();
        s.peer_on(1, 300, &format!("R 1:1 {word}"));
        let id = SubflowId(1);
        let told = position(&s, Event::SubflowReset { id, reason, transient });
        assert!(told < position(&s, Event::SubflowClosed(id)), "{word}");
        assert!(!s.has(Event::SubflowClosed(SubflowId(0))) && !s.has(Event::Closed));
    }
}

#[test]
fn a_reason_without_a_reset_is_nothing() {
    // mp_reset of packetdrill: the option is valid only on a RST.
    let mut s = two();
    s.peer(300, ". ack=1 dack4=0 rst=1");
    s.silence(1000);
    assert!(!s.events.iter().any(|(_, e)| matches!(e, Event::SubflowReset { .. })));
    assert!(!s.has(Event::SubflowClosed(SubflowId(0))));
}

/// The interface of a path is available again.
fn returns(s: &mut Script, ms: u64, path: u8) {
    s.run_to(crate::dialect::at(ms));
    s.elsewhere = Some(Vec::new());
    let now = s.now;
    let local = ([10, path + 1, 0, 1], 80).into();
    let remote = ([10, path + 1, 0, 2], 40_000).into();
    let back = Candidate { address_id: 9, local, remote, backup: false, rate: None };
    s.connection().handle_address_added(now, back);
}

#[test]
fn permanently_refused_join_is_not_retried() {
    for (word, again) in [("rst=1", false), ("rst=3", false), ("rst=2,T", true), ("", true)] {
        let mut s = client_of_two();
        s.peer_on(1, 300, &format!("R 1:1 {word}"));
        returns(&mut s, 400, 1);
        s.run_to(crate::dialect::at(401));
        let joins = s.joins_elsewhere().len();
        assert_eq!(joins, usize::from(again), "`{word}`");
    }
}

#[test]
fn a_join_that_was_reset_is_not_tried_again() {
    // RFC 8684 section 3.9: this also applies to a join whose answer had no MP_JOIN.
    for answer in ["R. 0:0 ack=1", "R. 0:0 ack=1 rst=3", "S."] {
        let mut s = Script::multipath_client(config(), 2);
        s.peer(100, ". ack=1 dack4=0");
        s.us_on(1, 100, "S join");
        s.peer_on(1, 150, answer);
        s.rest();
        returns(&mut s, 400, 1);
        s.run_to(crate::dialect::at(70_000));
        assert_eq!(s.joins_elsewhere().len(), 0, "{answer}");
    }
}

#[test]
fn reserved_bits_of_a_reset_are_zero() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join forged");
    let reset = s.us_on(1, 100, "R.");
    let [from, to] = [1, 2].map(|host| std::net::IpAddr::from([10, 2, 0, host]));
    let mut packet = Vec::new();
    anabranch_wire::emit_packet(from, to, &reset, &mut packet).expect("a legal segment");
    assert_eq!(packet[40..], [0x1e, 4, 0x80, 1], "U, V, W and T clear");
    assert!(matches!(reset.mptcp[..], [MptcpOption::TcpRst(_)]));
}
