//! The validation of mappings (RFC 8684 section 3.3.1; `validate_mapping`, `get_mapping_status`).

use anabranch_mptcp::Event;

use crate::dialect::{Script, config, film};

/// A server with two subflows, so that a fault on one does not end MPTCP.
fn two() -> Script {
    let mut s = Script::multipath(config(), 50);
    s.join(1, 200, 100);
    s
}

#[test]
fn a_mapping_that_does_not_cover_its_segment_is_not_believed() {
    // The mapping covers later bytes, earlier bytes, or the SYN.
    for map in ["map=500+100@501", "map=0+100@4294967000", "map=0+1@0", "map=0+65535@2147483649"] {
        let mut s = two();
        s.peer(300, &format!(". 1:101 ack=1 dack4=0 {map}"));
        s.us(300, "R. rst=1");
        assert!(s.received.is_empty(), "`{map}`");
        assert!(!s.has(Event::FellBack));
    }
}

#[test]
fn on_the_only_subflow_it_ends_the_connection_too() {
    // Linux continues as plain TCP. However, the peer's options pass, so it would not notice the fallback,
    // and data that it reinjected would be taken for new bytes.
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us(100, ". ack=101 dack8=100");
    s.peer(110, ". 101:201 ack=1 dack4=0 map=600+100@701");
    s.us(110, "R. rst=1");
    assert!(!s.has(Event::FellBack));
    assert_eq!(s.received, film(0, 100));
}

#[test]
fn a_mapping_may_cover_a_part_of_its_segment_if_others_cover_the_rest() {
    // A middlebox has merged two segments and kept only the first option. The second half has no mapping.
    let mut s = two();
    s.peer(300, ". 1:201 ack=1 dack4=0 map=0+100@1");
    s.us(300, "R. rst=6");
    assert_eq!(s.received, film(0, 100));
    // The mapping of the second half arrived before, on an out-of-order segment.
    let mut s = two();
    s.peer(300, ". 101:151 ack=1 dack4=0 map=100+100@101");
    s.us(300, ". ack=1 sack=101:151");
    s.peer(310, ". 1:201 ack=1 dack4=0 map=0+100@1");
    s.us(310, ". ack=201 dack8=200");
    assert_eq!(s.received, film(0, 200));
}

#[test]
fn segments_that_a_middlebox_has_split_share_their_mapping() {
    let mut s = two();
    for (ms, line) in [(300, "1:301"), (301, "301:302"), (302, "302:1001")] {
        s.peer(ms, &format!(". {line} ack=1 dack4=0 map=0+1000@1"));
    }
    assert_eq!(s.received, film(0, 1000));
    // The option is on the first part only.
    s.peer(310, ". 1001:1301 ack=1 dack4=0 map=1000+1000@1001");
    s.peer(311, ". 1301:2001 ack=1");
    assert_eq!(s.received, film(0, 2000));
    assert!(s.rest().iter().all(|(_, _, line)| !line.starts_with('R')));
}

#[test]
fn segments_that_a_middlebox_has_joined_are_plain_data_on_the_only_subflow() {
    // The middlebox kept the first or the second of two options.
    for map in ["map=100+1000@101", "map=1100+300@1101"] {
        let mut s = Script::multipath(config(), 50);
        s.peer(90, ". 1:101 ack=1 dack4=0 map=0+100@1");
        s.rest();
        s.peer(100, &format!(". 101:1401 ack=1 dack4=0 {map}"));
        s.peer(100, ". 1401:2101 ack=1");
        assert!(s.has(Event::FellBack), "`{map}`");
        assert_eq!(s.received, film(0, 2100), "`{map}`");
    }
}

#[test]
fn first_mapping_of_a_byte_is_kept() {
    let mut s = two();
    s.peer(300, ". 501:1001 ack=1 dack4=0 map=0+1000@1");
    s.rest();
    // Another DSN for the same bytes.
    s.peer(310, ". 1:501 ack=1 dack4=0 map=7000+1000@1");
    s.us(310, "R. rst=1");
    assert!(s.received.is_empty());
    // A mapping is checked only when its bytes are delivered. A second mapping of bytes that were
    // already delivered has no effect.
    let mut s = two();
    s.peer(300, ". 1:501 ack=1 dack4=0 map=0+500@1");
    s.rest();
    s.peer(310, ". 1:501 ack=1 dack4=0 map=7000+500@1");
    s.us(310, ". ack=501 dack8=500 sack=1:501");
    assert_eq!(s.received, film(0, 500));
}

#[test]
fn overlapping_mappings_that_agree_are_one() {
    let mut s = two();
    s.peer(300, ". 501:1001 ack=1 dack4=0 map=500+500@501");
    s.peer(301, ". 1501:2001 ack=1 dack4=0 map=1000+1000@1001");
    s.peer(302, ". 1:501 ack=1 dack4=0 map=0+1200@1");
    assert_eq!(s.received, film(0, 1000));
    s.peer(303, ". 1001:1501 ack=1");
    assert_eq!(s.received, film(0, 2000));
    assert!(s.rest().iter().all(|(_, _, line)| !line.starts_with('R')));
}

#[test]
fn data_received_first_wins_where_two_subflows_bring_the_same() {
    let mut s = two();
    s.peer_on(1, 300, ". 1:101 ack=1 dack4=0 map=50+100@1");
    s.peer(310, ". 1:101 ack=1 dack4=0 map=0+100@1 altered");
    let mut expected: Vec<u8> = film(0, 50).iter().map(|byte| byte ^ 0x55).collect();
    expected.extend_from_slice(&film(50, 100));
    assert_eq!(s.received, expected, "positions 50 to 100 came before");
}

#[test]
fn a_retransmission_declares_the_mapping_it_had() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 3000);
    let said = s.rest();
    assert!(said.iter().all(|(_, _, line)| line.contains("map=0+3000@1")), "{said:?}");
    s.write(110, 5000);
    s.rest();
    let again = s.rest_until(2000);
    let first = again.iter().filter(|(_, _, line)| line.starts_with(". 1:1425"));
    let all = first.map(|(_, _, line)| assert!(line.contains("map=0+3000@1"), "{line}")).count();
    assert!(all > 0, "{again:?}");
}

#[test]
fn every_segment_has_its_mapping_until_the_first_data_ack() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 14_000);
    let said = s.rest();
    assert_eq!(said.len(), 10);
    assert!(said.iter().all(|(_, _, line)| line.contains("map=0+14000@1")), "{said:?}");
}

#[test]
fn the_segment_that_is_waited_for_is_taken_however_many_mappings_there_are() {
    // Mappings of ten bytes, as from an application that makes small writes.
    for sealed in [false, true] {
        let mut s = Script::server(config());
        let (flag, sum) = if sealed { (" A", " csum") } else { ("", "") };
        s.peer(0, &format!("S mpc{flag}"));
        s.us(0, &format!("S. mpc-key{flag}"));
        s.peer(50, &format!(". mpc-keys{flag}"));
        s.join(1, 200, 100);
        let line = |n: u64| {
            // Every second piece of the stream, so that no two mappings can be merged.
            let (from, position) = (1 + 10 * n, 20 * n);
            let to = from + 10;
            format!(". {from}:{to} ack=1 dack4=0 map={position}+10@{from}{sum}")
        };
        for n in 1..1500 {
            s.peer(300, &line(n));
        }
        s.rest();
        s.peer(310, &line(0));
        assert_eq!(s.received, film(0, 10), "with checksums: {sealed}");
        // Dropped data is sent again. There is space after the application has read.
        for n in 1..1500 {
            s.peer(400, &line(n));
        }
        let heard = s.rest_until(600);
        assert!(heard[heard.len() - 1].2.contains("ack=15001"), "{:?}", heard.last());
    }
}
