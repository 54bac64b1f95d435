//! Floods of joins from an attacker that knows a token but no key (RFC 6181, RFC 7430 sections 3 and 4).

use anabranch_mptcp::Event;
use anabranch_units::SubflowId;

use crate::dialect::{Script, config};

/// Returns the number of SYN/ACKs and of RSTs.
fn answers(s: &mut Script) -> (usize, usize) {
    let said = s.rest();
    let count = |flags: &str| said.iter().filter(|(_, _, line)| line.starts_with(flags)).count();
    (count("S."), count("R"))
}

#[test]
fn a_flood_of_joins_without_keys_does_not_stop_an_honest_one() {
    let mut s = Script::multipath(config(), 50);
    for port in 0..5000u16 {
        s.speak_from(1, 10_000 + port);
        s.peer_on(1, 100, "S join");
    }
    assert_eq!(answers(&mut s), (5000, 0), "one packet for each");
    s.join(2, 200, 50);
    assert!(s.has(Event::SubflowEstablished(SubflowId(1))));
    s.write(300, 100);
    assert_eq!(s.rest().len(), 1);
}

#[test]
fn a_join_that_is_half_open_gives_no_room_to_send() {
    // `__mptcp_sync_sndbuf` counts the subflows of the connection. A half-open join is not a subflow.
    let mut s = Script::multipath(config(), 50);
    let before = s.connection().writable();
    for port in 0..100u16 {
        s.speak_from(1, 10_000 + port);
        s.peer_on(1, 100, "S join");
    }
    s.rest();
    assert_eq!(s.connection().writable(), before);
    s.join(2, 200, 50);
    // Each subflow adds 2 * 10 * 2304 bytes, and the connection has 4096 (`tcp_wmem[0]`).
    assert_eq!((before, s.connection().writable()), (50_176, 96_256));
}

#[test]
fn an_honest_join_survives_a_flood_in_the_midst_of_it() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(2, 100, "S join");
    s.us_on(2, 100, "S. join-hmac");
    for port in 0..5000u16 {
        s.speak_from(1, 10_000 + port);
        s.peer_on(1, 120, "S join");
    }
    assert_eq!(answers(&mut s), (5000, 0));
    s.peer_on(2, 150, ". 1:1 ack=1 join-ack");
    s.us_on(2, 150, ". ack=1 dack4=0");
}

#[test]
fn a_join_waits_for_its_third_packet_as_long_as_linux_repeats_a_syn_ack() {
    // 1 + 2 + 4 + 8 + 16 + 32 s. An older join is removed when another SYN arrives.
    for (later, waits) in [(62_999, true), (63_000, false), (70_000, false)] {
        let mut s = Script::multipath(config(), 50);
        s.peer_on(1, 100, "S join");
        s.us_on(1, 100, "S. join-hmac");
        s.peer_on(2, 100 + later, "S join");
        s.us_on(2, 100 + later, "S. join-hmac");
        s.peer_on(1, 100 + later, ". 1:1 ack=1 join-ack");
        assert_eq!(s.has(Event::SubflowEstablished(SubflowId(1))), waits, "{later}");
    }
}

#[test]
fn third_packets_without_keys_end_nothing_but_themselves() {
    let mut s = Script::multipath(config(), 50);
    for port in 0..1000u16 {
        s.speak_from(1, 10_000 + port);
        s.peer_on(1, 100, "S join");
        s.us_on(1, 100, "S. join-hmac");
        s.peer_on(1, 100, ". 1:1 ack=1 join-ack forged");
        s.us_on(1, 100, "R. 1:1 ack=1 rst=1");
    }
    assert_eq!(s.connection().view().counters().refused_joins, 1000);
    s.join(2, 200, 50);
    assert!(s.has(Event::SubflowEstablished(SubflowId(1))));
    assert!(!s.has(Event::SubflowClosed(SubflowId(1))), "they never were subflows");
}

#[test]
fn a_third_packet_out_of_place_ends_nothing() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join");
    s.us_on(1, 100, "S. join-hmac");
    // RFC 5961: a RST or an acknowledgement that an attacker could guess has no effect.
    s.peer_on(1, 110, "R 500:500");
    s.peer_on(1, 111, ". 900000000:900000000 ack=1 join-ack forged");
    s.peer_on(1, 112, ". 1:1 ack=77 join-ack forged");
    s.silence(119);
    s.peer_on(1, 120, ". 1:1 ack=1 join-ack");
    s.us_on(1, 120, ". ack=1 dack4=0");
}

#[test]
fn a_third_packet_that_is_too_old_leaves_no_subflow() {
    // The sender has the keys, but its timestamp is older than that of the SYN (RFC 7323 section 5.3).
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join");
    s.us_on(1, 100, "S. join-hmac");
    s.stamp = Some(50);
    s.peer_on(1, 120, ". 1:1 ack=1 join-ack");
    s.us_on(1, 120, "R. 1:1 rst=1");
    s.stamp = None;
    assert!(!s.has(Event::SubflowEstablished(SubflowId(1))));
    assert_eq!(s.connection().view().tuples().count(), 1);
}

#[test]
fn a_reset_in_its_place_ends_a_half_open_join() {
    let mut s = Script::multipath(config(), 50);
    s.peer_on(1, 100, "S join");
    s.us_on(1, 100, "S. join-hmac");
    s.peer_on(1, 110, "R 1:1");
    s.peer_on(1, 120, ". 1:1 ack=1 join-ack");
    s.us_on(1, 120, "R 1:1");
    assert!(!s.has(Event::SubflowEstablished(SubflowId(1))));
}

#[test]
fn refusals_of_guessed_tokens_are_rationed() {
    let mut s = Script::multipath(config(), 50);
    for port in 0..1000u16 {
        s.speak_from(1, 10_000 + port);
        s.peer_on(1, 100, "S join forged");
    }
    assert_eq!(answers(&mut s), (0, 64));
    // One second later, RSTs are sent again.
    s.peer_on(1, 1100, "S join forged");
    s.us_on(1, 1100, "R. 0:0 ack=1 rst=1");
}

#[test]
fn addresses_may_change_for_as_long_as_a_connection_lives() {
    // 5000 times, a subflow joins, carries some data and ends. This is forty times the number of slots.
    let mut s = Script::multipath(config(), 50);
    for round in 0..5000u64 {
        let ms = 100 + round * 100;
        s.speak_from(1, 10_000 + (round % 50_000) as u16);
        s.join(1, ms + 50, 50);
        let position = round * 10;
        s.peer_on(1, ms + 60, &format!(". 1:11 ack=1 dack4=0 map={position}+10@1"));
        s.peer_on(1, ms + 70, "R 11:11");
        s.rest();
    }
    assert_eq!(s.received.len(), 50_000);
    let summaries: Vec<_> = s.connection().view().summaries().collect();
    assert!(summaries.len() <= 128 + 1024, "{} are remembered", summaries.len());
    let ended = s.events.iter().filter(|(_, e)| matches!(e, Event::SubflowClosed(_))).count();
    assert_eq!(ended, 5000);
    s.write(600_000, 100);
    s.us(600_000, ". 1:101");
}

#[test]
fn a_pair_of_addresses_may_be_used_again() {
    // This includes the addresses and ports of the first subflow.
    for path in [0, 1] {
        let mut s = Script::multipath(config(), 50);
        s.join(1, 150, 50);
        s.peer_on(path, 200, "R 1:1");
        s.speak_from(path, 40_000);
        s.join(path, 300, 50);
        s.peer_on(path, 310, ". 1:11 ack=1 dack4=0 map=0+10@1");
        s.us_on(path, 310, ". ack=11 dack8=10");
        s.peer_on(path, 320, ". 11:21 ack=1 dack4=0 map=10+10@11");
        assert_eq!(s.received, crate::dialect::film(0, 20));
    }
}

#[test]
fn totals_outlive_the_place_of_a_subflow() {
    let mut s = Script::multipath(config(), 50);
    // The peer makes the first subflow a backup, so that the joined ones carry the data.
    s.peer(60, ". ack=1 dack4=0 prio=B");
    let mut written = 0;
    for round in 0..200u64 {
        let ms = 100 + round * 100;
        s.speak_from(1, 10_000 + round as u16);
        s.join(1, ms + 50, 50);
        s.write(ms + 60, 10);
        s.us_on(1, ms + 60, &format!(". 1:11 map={written}+10@1"));
        written += 10;
        s.peer_on(1, ms + 70, &format!(". ack=11 dack4={written}"));
        s.peer_on(1, ms + 80, "R 1:1");
        s.rest();
    }
    let carried: u64 = s.connection().view().summaries().map(|s| s.totals.bytes_sent).sum();
    assert_eq!(carried, 2000);
    let mut ordinals: Vec<_> = s.connection().view().summaries().map(|s| s.ordinal).collect();
    ordinals.sort_unstable();
    assert_eq!(ordinals, (0..=200).collect::<Vec<_>>());
}
