//! `MP_PRIO` during a connection (RFC 8684 section 3.3.8).

use anabranch_mptcp::{Announcement, Config, Event};
use anabranch_units::SubflowId;
use anabranch_wire::{MptcpOption, emit_packet, parse_packet};

use crate::dialect::{Script, config};

/// A server with subflows on paths 0 and 1.
fn two() -> Script {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s
}

/// Returns the path of data written at `ms`.
fn way(s: &mut Script, ms: u64) -> usize {
    let before = s.written;
    s.write(ms, 100);
    let said = s.rest();
    assert_eq!(said.len(), 1, "{said:?}");
    let path = said[0].1;
    s.peer_on(path, ms + 1, &format!(". dack4={}", before + 100));
    s.rest();
    path
}

#[test]
fn the_bit_redirects_data_at_once_and_back() {
    let mut s = two();
    for (ms, subflow) in [(300, 0), (400, 1)] {
        s.peer_on(subflow, ms, ". ack=1 prio=B");
        assert!(s.has(Event::PriorityChanged { id: SubflowId(subflow as u8), backup: true }));
        assert_eq!(way(&mut s, ms + 10), 1 - subflow, "the other one");
        s.peer_on(subflow, ms + 50, ". prio=0");
        assert!(s.has(Event::PriorityChanged { id: SubflowId(subflow as u8), backup: false }));
    }
    s.peer_on(1, 500, ". prio=B");
    s.peer_on(0, 510, ". prio=B");
    // If all subflows are backups, they are used.
    s.write(520, 100);
    assert_eq!(s.rest().len(), 1);
}

#[test]
fn mp_prio_in_version_0_form_is_ignored() {
    let mut s = two();
    let segment = s.composed(". ack=1 dack4=0 prio=B");
    assert_eq!(segment.mptcp, [MptcpOption::Prio { backup: true }]);
    let [from, to] = [2, 1].map(|host| std::net::IpAddr::from([10, 1, 0, host]));
    let mut packet = Vec::new();
    emit_packet(from, to, &segment, &mut packet).expect("a legal segment");
    // Kind 30 with three bytes, padded with a NOP, is changed to four bytes with an address identifier.
    let at = packet.windows(4).position(|w| w == [30, 3, 0x51, 1]).expect("the option");
    packet[at + 1] = 4;
    // The NOP becomes identifier 1, so that only the length differs.
    let sum = u16::from_be_bytes([packet[36], packet[37]]);
    let sum = !(u32::from(!sum) + 1).min(0xffff) as u16;
    packet[36..38].copy_from_slice(&sum.to_be_bytes());
    let parsed = parse_packet(&packet.into()).expect("a packet");
    assert_eq!(parsed.segment.mptcp, [], "ignored as in Linux");
    s.deliver(300, &parsed.segment);
    assert!(!s.has(Event::PriorityChanged { id: SubflowId(0), backup: true }));
}

#[test]
fn a_flood_of_changes_is_rationed_and_the_last_wish_counts() {
    let mut s = two();
    let mut last = "prio=0";
    for turn in 0..1001u64 {
        last = if turn % 2 == 0 { "prio=B" } else { "prio=0" };
        s.peer_on(1, 300 + turn / 10, &format!(". ack=1 {last}"));
        s.rest();
    }
    assert_eq!(last, "prio=B");
    let changes = |s: &Script| {
        s.events.iter().filter(|(_, e)| matches!(e, Event::PriorityChanged { .. })).count()
    };
    assert_eq!(changes(&s), 4);
    // Every second request was for the current priority.
    assert!(s.connection().view().counters().deferred_priorities > 400);
    // A second after the first change, changes are permitted again, and the last request is applied.
    s.peer_on(1, 1400, ". ack=1");
    assert_eq!(changes(&s), 5);
    assert_eq!(way(&mut s, 1410), 0);
}

#[test]
fn local_backup_change_is_sent_on_its_subflow_and_applied() {
    let mut s = two();
    s.run_to(crate::dialect::at(300));
    let now = s.now;
    s.connection().set_backup(now, [10, 2, 0, 1].into(), true);
    s.us_on(1, 300, ". 1:1 ack=1 dack4=0 prio=B");
    assert_eq!(way(&mut s, 310), 0);
    // Of many changes at once, only the last one is sent.
    for turn in 0..100 {
        let now = s.now;
        s.connection().set_backup(now, [10, 2, 0, 1].into(), turn % 2 == 0);
    }
    s.us_on(1, 311, ". prio=0");
    s.silence(2000);
}

#[test]
fn a_signal_is_no_sign_of_congestion() {
    // RFC 8684 sections 3, 3.3.8 and 3.4.1: a duplicate acknowledgement with an MPTCP option other than the
    // DSS does not count as a duplicate, even without SACK.
    for signal in ["prio=B", "prio=0", "add=5,10.3.0.2", "echo=5,10.3.0.2", "remove=9"] {
        let mut s = Script::server(config());
        s.peer(0, "S mpc nosack");
        s.us(0, "S. mpc-key");
        s.peer(50, ". mpc-keys");
        s.write(100, 14_240);
        s.rest();
        for ms in 110..114 {
            s.peer(ms, &format!(". ack=1 {signal}"));
        }
        let said = s.rest();
        assert!(said.iter().all(|(_, _, line)| !line.contains(" 1:1425")), "{signal}: {said:?}");
        assert_eq!(s.cwnd(), 10, "{signal}");
    }
}

#[test]
fn never_more_than_two_signals_in_a_row_that_repeat_an_acknowledgement() {
    // RFC 8684 section 3: a TCP without MPTCP could interpret three as a loss.
    let announce = (1..=6).map(|id| Announcement {
        address_id: id,
        address: [10, 2, id, 1].into(),
        port: None,
    });
    let mut s = Script::multipath(Config { announce: announce.collect(), ..config() }, 50);
    for id in 1..=6_u64 {
        s.us(50 * id, &format!(". add={id},10.2.{id}.1"));
        s.peer(50 * (id + 1), &format!(". ack=1 dack4=0 echo={id},10.2.{id}.1"));
    }
    s.silence(400);
    let now = s.now;
    for id in 1..=6 {
        s.connection().handle_address_removed(now, [10, 2, id, 1].into());
        s.connection().set_backup(now, [10, 1, 0, 1].into(), id % 2 == 0);
    }
    let said: Vec<String> = s.rest_until(401).into_iter().map(|(_, _, line)| line).collect();
    assert!((1..=2).contains(&said.len()), "{said:?}");
    for id in 1..=6 {
        let told = |line: &String| {
            let ids = line.split(" remove=").skip(1).flat_map(|w| w.split([',', ' ']));
            ids.take(6).any(|word| word == id.to_string())
        };
        assert!(said.iter().any(told), "{id} in {said:?}");
    }
    assert!(said.iter().any(|line| line.contains("prio=B")), "the last word: {said:?}");
}
