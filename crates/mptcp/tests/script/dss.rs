//! Data sequence signals (RFC 8684 section 3.3).

use anabranch_mptcp::Event;
use anabranch_wire::crypto::Key;
use anabranch_wire::{CapableKeys, DataAck, MappingDsn, MptcpOption};

use crate::dialect::{Script, config, film};

#[test]
fn one_mapping_covers_a_whole_write() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 3000);
    s.us(100, ". 1:1425 dack4=0 map=0+3000@1");
    s.us(100, ". 1425:2849 dack4=0 map=0+3000@1");
    s.us(100, ". 2849:3001 dack4=0 map=0+3000@1");
    // One small segment is unacknowledged, so the next one waits.
    s.write(110, 1000);
    s.silence(149);
    s.peer(150, ". ack=3001 dack4=3000");
    s.us(150, ". 3001:4001 map=3000+1000@3001");
    s.peer(200, ". ack=4001 dack8=4000");
    s.silence(3000);
}

#[test]
fn the_width_of_the_data_ack_follows_the_peers_mappings() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 dack4=0 map4=0+100@1");
    s.us(100, ". ack=101 dack4=100");
    s.peer(200, ". 101:201 ack=1 dack4=0 map=100+100@101");
    s.us(200, ". ack=201 dack8=200");
    assert_eq!(s.received, film(0, 200));
}

#[test]
fn acks_of_unsent_data_are_ignored() {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 1000);
    s.us(100, ". 1:1001");
    s.peer(150, ". ack=1 dack8=5000");
    s.peer(151, ". ack=9001 dack8=1000");
    // RFC 9293 section 3.10.7.4: an acknowledgement of unsent data is answered with an acknowledgement.
    s.us(151, ". ack=1");
    // The segment is still retransmitted. The PTO of a lone segment is limited by the RTO, 250 ms.
    s.us(350, ". 1:1001 map=0+1000@1");
    s.peer(400, ". ack=1001 dack8=1000");
    s.silence(3000);
}

#[test]
fn data_ack_beyond_sent_data_is_not_taken_as_the_data_fin() {
    // The peer's window delays most of the data. The byte after the sent data is not the DATA_FIN.
    let mut s = Script::server(config());
    s.peer(0, "S mpc");
    s.us(0, "S. mpc-key");
    s.peer(50, ". mpc-keys win=8");
    s.write(100, 60_000);
    s.shutdown(100);
    let sent = s.sent_on(0);
    assert!((1..59_000).contains(&sent), "{sent}");
    s.peer(150, &format!(". dack8={}", sent + 1));
    s.peer(150, &format!(". dack8={sent}"));
    s.run_to(crate::dialect::at(3000));
}

#[test]
fn a_mapping_may_span_segments_and_come_twice() {
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:501 ack=1 dack4=0 map=0+1500@1");
    s.us(100, ". ack=501 dack8=500");
    s.peer(110, ". 1001:1501 ack=1 dack4=0 map=0+1500@1");
    s.us(110, ". ack=501 dack8=500 sack=1001:1501");
    s.peer(120, ". 501:1001 ack=1");
    s.us(120, ". ack=1501 dack8=1500");
    assert_eq!(s.received, film(0, 1500));
    s.peer(130, ". 501:1001 ack=1 dack4=0 map=0+1500@1");
    s.us(130, ". ack=1501 dack8=1500 sack=501:1001");
    assert_eq!(s.received.len(), 1500);
}

#[test]
fn short_numbers_are_completed_across_their_wrap() {
    // Seeds are tried until the low half of our IDSN wraps within the first 200 kB.
    let near = (0..40_000).find(|seed| {
        let mut s = Script::seeded_server(config(), *seed);
        s.peer(0, "S mpc");
        let answer = s.us(0, "S. mpc-key");
        answer.mptcp.iter().any(|option| match option {
            MptcpOption::Capable(c) => match c.keys {
                CapableKeys::Responder(key) => Key::new(key).idsn.0 as u32 > u32::MAX - 200_000,
                _ => false,
            },
            _ => false,
        })
    });
    let mut s = Script::seeded_server(config(), near.expect("one key in 20 thousand"));
    s.open_multipath(50);
    let (mut position, mut ms, mut wrapped, mut before) = (0u64, 100, false, 0);
    while position < 260_000 {
        s.write(ms, 14_240);
        position += 14_240;
        for (_, _, line) in s.rest() {
            assert!(line.contains(" map="), "{line}");
        }
        ms += 50;
        // The application writes ten segments per round trip, so all of them are sent.
        let segment = s.composed(&format!(". dack4={position}"));
        let low = match segment.dss.and_then(|dss| dss.data_ack) {
            Some(DataAck::Short(low)) => low,
            other => panic!("{other:?}"),
        };
        wrapped |= low < before;
        before = low;
        s.peer(ms, &format!(". dack4={position}"));
        s.silence(ms);
    }
    assert!(wrapped, "the wrap was crossed");
    s.silence(ms + 3000);
}

#[test]
fn the_peers_short_numbers_are_completed_across_their_wrap() {
    let near = (1..60_000).find(|key| Key::new(*key).idsn.0 as u32 > u32::MAX - 200_000);
    let mut s = Script::server(config());
    s.peer_key(near.expect("one key in 20 thousand"));
    s.open_multipath(50);
    let mut wrapped = false;
    let (mut position, mut ms, mut before) = (0u64, 100, 0);
    while position < 260_000 {
        let (from, to) = (position + 1, position + 1001);
        let line = format!(". {from}:{to} ack=1 dack4=0 map4={position}+1000@{from}");
        let dsn = s.composed(&line).dss.and_then(|dss| dss.mapping).map(|map| map.dsn);
        let Some(MappingDsn::Short(low)) = dsn else { panic!("{dsn:?}") };
        wrapped |= low < before;
        before = low;
        s.peer(ms, &line);
        position += 1000;
        ms += 5;
    }
    assert!(wrapped, "the wrap was crossed");
    assert_eq!(s.received, film(0, 260_000));
    assert!(!s.has(Event::SubflowClosed(anabranch_units::SubflowId(0))));
}

#[test]
fn a_wider_data_ack_leaves_less_room_for_data() {
    // 20 IP + 20 TCP + 12 timestamps + 28 DSS: 1420 bytes. The dialect checks every packet's size.
    let mut s = Script::multipath(config(), 50);
    s.peer(100, ". 1:101 ack=1 mpc-data map=0+100@1");
    s.us(100, ". ack=101 dack8=100");
    s.write(110, 5000);
    s.us(110, ". 1:1421 dack8=100 map=0+5000@1");
    s.us(110, ". 1421:2841");
}
