//! Fallback to plain TCP during a connection, and the reset of a subflow whose path drops options (RFC 8684
//! section 3.7; `subflow_check_data_avail`, `__mptcp_try_fallback`).

use anabranch_mptcp::{Announcement, Config, Event};
use anabranch_plugin::PluginChoice;
use anabranch_units::SubflowId;

use crate::dialect::{Script, config, film};

/// A server whose client has sent and acknowledged 100 bytes with MPTCP options.
fn under_way() -> Script {
    let mut s = Script::multipath(config(), 50);
    s.write(100, 100);
    s.us(100, ". 1:101 map=0+100@1");
    s.peer(150, ". 1:101 ack=101 dack4=100 map=0+100@1");
    s.us(150, ". ack=101 dack8=100");
    s
}

#[test]
fn data_without_a_mapping_makes_the_only_subflow_plain_tcp() {
    let mut s = under_way();
    s.peer(200, ". 101:201 ack=101");
    let answer = s.us(200, ". ack=201");
    assert!(answer.dss.is_none() && answer.mptcp.is_empty(), "no more signals: {answer:?}");
    assert!(s.has(Event::FellBack));
    assert_eq!(s.received, film(0, 200), "nothing of it is thrown away");
    // The infinite mapping has length 0 and begins at the last data known to be delivered. Later segments
    // have no mapping.
    s.write(210, 3000);
    s.us(210, ". 101:1521 map=100+0@101");
    assert!(s.us(210, ". 1521:2969").dss.is_none(), "and segments are full again");
    assert!(s.us(210, ". 2969:3101").dss.is_none());
    // The subflow's acknowledgements now free the send buffer.
    s.peer(260, ". 201:301 ack=3101");
    s.us_within(0, 260, 310, ". ack=301");
    assert_eq!(s.received, film(0, 300));
    s.silence(5000);
}

#[test]
fn a_segment_with_the_final_mapping_keeps_it_when_it_is_sent_again() {
    let mut s = under_way();
    s.peer(200, ". 101:201 ack=101");
    s.us(200, ". ack=201");
    s.write(210, 100);
    s.us(210, ". 101:201 map=100+0@101");
    s.us_within(0, 300, 700, ". 101:201 map=100+0@101");
}

/// The largest segment on a path with an MTU of 1400 bytes, including options: 40 bytes are headers.
const LARGEST: usize = 1360;

/// Checks our next segments, none of which may exceed [`LARGEST`].
#[track_caller]
fn fitting(s: &mut Script, ms: u64, lines: &[&str]) {
    for line in lines {
        let segment = s.us(ms, line);
        let size = segment.options_len() + segment.payload.len();
        assert!(size <= LARGEST, "{size} bytes: {line}");
    }
}

#[test]
fn the_segment_with_the_final_mapping_has_room_for_it_when_the_path_becomes_smaller() {
    // 12 bytes of timestamps, and 20 of the infinite mapping without a `DATA_ACK` (RFC 8684 section 3.3), for
    // which 28 are reserved. 1360 - 12 - 28 = 1320; without the mapping, 1360 - 12 = 1348.
    let mut s = under_way();
    s.peer(200, ". 101:201 ack=101");
    s.us(200, ". ack=201");
    s.write(210, 3000);
    for line in [". 101:1521 map=100+0@101", ". 1521:2969", ". 2969:3101"] {
        s.us(210, line);
    }
    assert!(s.path_mtu(0, 220, 1400, 101));
    let pieces = [". 101:1421 map=100+0@101", ". 1421:1521", ". 1521:2869", ". 2869:2969"];
    fitting(&mut s, 220, &pieces);
    s.write(230, 2 * 1348);
    fitting(&mut s, 230, &[". 3101:4449", ". 4449:5797"]);
}

#[test]
fn the_final_mapping_keeps_its_room_if_the_path_becomes_smaller_before_it_leaves() {
    let mut s = under_way();
    s.peer(200, ". 101:201 ack=101");
    s.us(200, ". ack=201");
    assert!(s.path_mtu(0, 205, 1400, 101));
    s.write(210, 3000);
    fitting(&mut s, 210, &[". 101:1421 map=100+0@101", ". 1421:2769", ". 2769:3101"]);
}

#[test]
fn an_acknowledged_final_mapping_takes_no_room_when_the_path_becomes_smaller() {
    let mut s = under_way();
    s.peer(200, ". 101:201 ack=101");
    s.us(200, ". ack=201");
    s.write(210, 3000);
    s.rest();
    s.peer(260, ". ack=1521");
    assert!(s.path_mtu(0, 270, 1400, 1521));
    fitting(&mut s, 270, &[". 1521:2869", ". 2869:2969"]);
}

#[test]
fn out_of_order_data_also_becomes_plain_after_fallback() {
    let mut s = under_way();
    s.peer(200, ". 201:301 ack=101");
    s.us(200, ". ack=101 sack=201:301");
    assert!(!s.has(Event::FellBack), "its turn has not come");
    s.peer(210, ". 101:201 ack=101 dack4=100 map=100+100@101");
    s.us(210, ". ack=301");
    assert!(s.has(Event::FellBack));
    assert_eq!(s.received, film(0, 300));
}

#[test]
fn an_acknowledgement_of_data_without_a_data_ack_means_plain_tcp() {
    // RFC 8684 section 3.7: the first acknowledgement shows the sender whether options pass.
    let mut s = Script::multipath(config(), 50);
    s.write(100, 3000);
    for line in [". 1:1425 map=0+3000@1", ". 1425:2849 map=0+3000@1", ". 2849:3001 map=0+3000@1"] {
        s.us(100, line);
    }
    s.peer(150, ". ack=3001");
    assert!(s.has(Event::FellBack) && !s.connection().is_multipath());
    s.write(160, 100);
    // The mapping begins at the first byte, because no data was acknowledged at data level.
    s.us(160, ". 3001:3101 map=0+0@1");
    s.peer(210, ". 1:51 ack=3101");
    s.us_within(0, 210, 260, ". ack=51");
    assert_eq!(s.received, film(0, 50));
    s.silence(3000);
}

#[test]
fn old_segment_without_options_does_not_cause_fallback() {
    // The segment acknowledges only the SYN, so it is a keepalive or an old segment.
    let mut s = Script::multipath(config(), 50);
    s.peer(60, ". ack=1");
    s.write(100, 100);
    s.us(100, ". 1:101 map=0+100@1");
    s.peer(150, ". ack=101 dack4=100");
    assert!(!s.has(Event::FellBack));
}

#[test]
fn a_join_that_loses_options_is_reset_as_middlebox_interference() {
    let mut s = under_way();
    s.join(1, 300, 100);
    s.peer_on(1, 400, ". 1:101 ack=1");
    s.us_on(1, 400, "R. ack=101 rst=6");
    assert!(s.has(Event::SubflowClosed(SubflowId(1))) && !s.has(Event::FellBack));
    assert_eq!(s.received.len(), 100);
    // Data that the closed subflow had delivered is sent again on the other one.
    s.peer(500, ". 101:201 ack=101 dack4=100 map=100+100@101");
    s.us(500, ". ack=201 dack8=200");
    assert_eq!(s.received, film(0, 200));
}

#[test]
fn a_join_whose_data_is_acknowledged_without_a_data_ack_is_reset_and_its_data_goes_elsewhere() {
    let scheduler = PluginChoice::named("min-rtt");
    let mut s = Script::multipath(Config { scheduler, ..config() }, 50);
    s.join(1, 300, 100);
    // The first subflow's window of ten segments is full, so the join carries the rest.
    s.write(400, 20_000);
    s.rest();
    let (first, joined) = (s.sent_on(0), s.sent_on(1));
    assert!(first > 0 && joined > 0 && first + joined == 20_000, "{first} {joined}");
    s.peer_on(1, 450, &format!(". ack={}", 1 + joined));
    s.us_on(1, 450, "R. rst=6");
    assert!(s.has(Event::SubflowClosed(SubflowId(1))) && !s.has(Event::FellBack));
    s.peer(460, &format!(". ack={} dack4={first}", 1 + first));
    let again = s.rest();
    assert!(again[0].2.contains(&format!("map={first}+{joined}@")), "{again:?}");
    assert_eq!(s.sent_on(0), 20_000, "what the join had carried went again");
}

#[test]
fn the_first_subflow_is_reset_when_there_was_ever_another() {
    let mut s = under_way();
    s.join(1, 300, 100);
    s.peer(400, ". 101:201 ack=101");
    s.us(400, "R. rst=6");
    assert!(s.has(Event::SubflowClosed(SubflowId(0))) && !s.has(Event::FellBack));
    s.peer_on(1, 450, ". 1:101 ack=1 dack4=100 map=100+100@1");
    s.us_on(1, 450, ". ack=101 dack8=200");
    assert_eq!(s.received, film(0, 200));
    // The same applies after the other subflow has closed, because the data that it carried may be anywhere
    // in the stream.
    let mut s = under_way();
    s.join(1, 300, 100);
    s.peer_on(1, 350, "R 1:1");
    s.peer(400, ". 101:201 ack=101");
    s.us(400, "R. rst=6");
    assert!(!s.has(Event::FellBack));
}

#[test]
fn options_lost_from_acknowledgements_later_are_found_by_the_timer() {
    // The first acknowledgements had DATA_ACKs. Later the subflow acknowledges data, but there is no progress
    // at data level.
    let mut s = under_way();
    s.write(200, 1000);
    s.us(200, ". 101:1101 map=100+1000@101");
    s.peer(250, ". ack=1101");
    assert!(!s.has(Event::FellBack), "one acknowledgement may be odd");
    s.run_to(crate::dialect::at(1000));
    assert!(s.has(Event::FellBack));
    s.write(1000, 100);
    s.us(1000, ". 1101:1201 map=100+0@101");
    s.peer(1050, ". ack=1201");
    s.silence(4000);
}

#[test]
fn an_acknowledgement_that_was_overtaken_does_not_clear_the_doubt() {
    // The last acknowledgement has no options; the DATA_ACK is older. If the data were reinjected, a peer
    // that has fallen back would take it for new bytes.
    let mut s = under_way();
    s.write(200, 1000);
    s.us(200, ". 101:1101 map=100+1000@101");
    s.peer(250, ". ack=1101");
    s.peer(260, ". ack=101 dack4=100");
    let said = s.rest_until(1000);
    assert!(s.has(Event::FellBack) && said.is_empty(), "{said:?}");
    assert_eq!(s.sent_on(0), 1100);
}

#[test]
fn repeated_data_after_fallback_is_not_delivered() {
    // The peer sends the last 100 bytes again with new subflow sequence numbers. The mapping shows that they
    // are old. In-order data is accepted.
    for (mapping, taken) in [("100+100@201", false), ("200+100@201", true)] {
        let mut s = under_way();
        s.peer(200, ". 101:201 ack=101");
        s.us(200, ". ack=201");
        assert!(s.has(Event::FellBack));
        s.peer(300, &format!(". 201:301 ack=101 dack4=100 map={mapping}"));
        let answer = if taken { ". ack=301" } else { "R. rst=6" };
        s.us_within(0, 300, 350, answer);
        assert_eq!(s.received, film(0, if taken { 300 } else { 200 }));
    }
}

#[test]
fn an_end_that_is_acknowledged_without_options_becomes_a_fin() {
    let mut s = under_way();
    s.peer(160, ". ack=101");
    s.shutdown(200);
    s.us(200, ". 101:101 map=100+1@0 dfin");
    s.peer(250, ". ack=101");
    s.us_within(0, 400, 420, "F. 101:101 map=100+0@101");
    assert!(s.has(Event::FellBack));
    s.peer(450, "F. ack=102");
    s.us(450, ". ack=102");
    assert!(s.has(Event::PeerFinished) && s.has(Event::Closed));
}

#[test]
fn an_infinite_mapping_ends_mptcp_on_the_only_subflow() {
    let mut s = under_way();
    s.peer(200, ". 101:201 ack=101 map=100+0@101");
    let answer = s.us(200, ". ack=201");
    assert!(s.has(Event::FellBack) && answer.dss.is_none());
    assert_eq!(s.received, film(0, 200));
    // A fallback is permanent: the bytes of a mapping option have no meaning any more.
    s.peer(210, ". 201:301 ack=101 dack4=100 map=7000+100@201");
    s.us(210, ". ack=301");
    assert_eq!(s.received.len(), 300);
    assert!(!s.connection().is_multipath());
    // A DATA_ACK frees nothing either.
    s.write(212, 1000);
    s.us(212, ". 101:1101 map=100+0@101");
    s.peer(215, ". ack=101 dack8=1100 win=500");
    let full = s.connection().writable();
    s.peer(217, ". ack=1101");
    assert!(s.connection().writable() > full, "the subflow's acknowledgement does");
    s.peer(220, "F. ack=1101");
    s.us(220, ". ack=302");
    assert!(s.has(Event::PeerFinished));
}

#[test]
fn an_infinite_mapping_beside_another_subflow_is_no_fallback() {
    let mut s = under_way();
    s.join(1, 300, 100);
    s.peer(400, ". ack=101 map=100+0@101");
    s.silence(450);
    assert!(!s.has(Event::FellBack));
    s.peer(500, ". 101:201 ack=101 map=100+0@101");
    s.us(500, "R. rst=1");
    assert!(!s.has(Event::FellBack) && s.connection().is_multipath());
}

#[test]
fn no_join_follows_a_fallback_and_one_under_way_ends() {
    let mut s = under_way();
    s.peer_on(1, 200, "S join");
    s.us_on(1, 200, "S. join-hmac");
    s.peer(250, ". 101:201 ack=101");
    let said = s.rest();
    assert!(s.has(Event::FellBack));
    assert!(said.iter().any(|(_, path, line)| *path == 1 && line.starts_with('R')), "{said:?}");
    s.peer_on(2, 300, "S join");
    s.us_on(2, 300, "R. rst=1");
}

#[test]
fn fallback_resets_a_pending_join_with_its_reason() {
    // RFC 8684 section 3.6: reason 6 is middlebox interference. A join whose SYN was not answered gets no
    // RST.
    for answered in [true, false] {
        let mut s = Script::multipath_client(config(), 2);
        s.peer(100, ". ack=1 dack4=0");
        s.us_on(1, 100, "S join");
        if answered {
            s.peer_on(1, 150, "S. join-hmac");
            s.us_on(1, 150, ". join-ack");
        }
        s.peer(200, ". 1:101 ack=1");
        assert!(s.has(Event::FellBack) && s.has(Event::SubflowClosed(SubflowId(1))));
        s.us(200, ". ack=101");
        if answered {
            s.us_on(1, 200, "R. rst=6");
        }
        s.silence(20_000);
    }
}

#[test]
fn a_subflow_that_carried_data_twice_is_ahead_of_the_stream_for_that_alone() {
    let mut s = under_way();
    s.write(200, 1000);
    s.us(200, ". 101:1101 map=100+1000@101");
    s.peer(250, ". ack=1101 dack4=100");
    s.us_within(0, 400, 600, ". 1101:2101 map=100+1000@1101");
    // The acknowledgement has no options and covers the first 400 bytes of the reinjected data. The subflow's
    // bytes up to 1400 are acknowledged, but no data of the stream is known to be delivered.
    s.peer(650, ". ack=1501");
    let said = s.rest_until(3000);
    assert!(said.iter().all(|(_, _, line)| !line.starts_with('R')), "{said:?}");
    assert!(!s.has(Event::SubflowClosed(SubflowId(0))) && !s.has(Event::FellBack));
}

#[test]
fn plain_tcp_announces_no_addresses() {
    // RFC 8684 section 3.7: no MPTCP option is sent after a fallback. The announcement has no echo yet.
    let announce = (1..=2).map(|id| Announcement {
        address_id: id,
        address: [10, 9, 0, id].into(),
        port: None,
    });
    let mut s = Script::multipath(Config { announce: announce.collect(), ..config() }, 50);
    s.us(50, ". ack=1 add=1,10.9.0.1");
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us_within(0, 100, 150, ". ack=101 dack8=100");
    s.peer(160, ". 101:201 ack=1");
    s.us_within(0, 160, 200, ". ack=201");
    assert!(s.has(Event::FellBack));
    let said = s.rest_until(400_000);
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn pending_address_signals_are_dropped_on_fallback() {
    let mut s = under_way();
    s.peer(200, ". ack=101 dack4=100 map=100+0@101 add=5,10.2.0.2");
    assert!(s.has(Event::FellBack));
    let said = s.rest_until(1000);
    assert!(said.is_empty(), "{said:?}");
}

#[test]
fn a_client_falls_back_as_a_server_does() {
    let mut s = Script::multipath_client(config(), 1);
    s.peer(100, ". 1:101 ack=1 dack4=0 map=0+100@1");
    s.us_within(0, 100, 150, ". ack=101 dack8=100");
    s.peer(200, ". 101:201 ack=1");
    s.us_within(0, 200, 250, ". ack=201");
    assert!(s.has(Event::FellBack));
    assert_eq!(s.received, film(0, 200));
    s.write(300, 100);
    s.us(300, ". 1:101 map=0+0@1");
}

#[test]
fn client_sends_an_infinite_mapping_after_a_plain_first_ack() {
    let mut s = Script::multipath_client(config(), 1);
    s.write(60, 100);
    s.us(60, ". 1:101 mpc-data=100");
    s.peer(110, ". ack=101");
    assert!(s.has(Event::FellBack));
    s.write(120, 100);
    s.us(120, ". 101:201 map=0+0@1");
}

#[test]
fn fin_replaces_the_data_fin_after_fallback() {
    let mut s = under_way();
    s.shutdown(200);
    s.us(200, ". 101:101 map=100+1@0 dfin");
    s.peer(250, ". 101:201 ack=101 dack4=100 map=100+0@101");
    assert!(s.has(Event::FellBack));
    s.us_within(0, 250, 300, "F. 101:101 ack=201");
    s.peer(350, ". ack=102");
    s.silence(100_000);
}

#[test]
fn unanswered_data_fin_is_replaced_by_a_fin() {
    // Segments without data lose their options on the way to the peer, so the peer does not receive the
    // DATA_FIN.
    let mut s = under_way();
    s.shutdown(200);
    for ms in [200, 400, 800, 1600, 3200, 6400] {
        s.us(ms, ". 101:101 map=100+1@0 dfin");
    }
    s.us(12_800, ". 101:101 map=100+1@0 dfin");
    s.us(25_600, "F. 101:101 map=100+0@101");
    assert!(s.has(Event::FellBack));
    s.peer(25_650, "F. ack=102");
    s.us(25_650, ". ack=102");
    assert!(s.has(Event::PeerFinished) && s.has(Event::Closed));
}

#[test]
fn a_fin_without_options_on_the_only_subflow_is_the_end() {
    let mut s = under_way();
    s.peer(200, "F. ack=101");
    s.us(200, ". ack=102");
    assert!(s.has(Event::FellBack) && s.has(Event::PeerFinished));
    // A FIN with a DATA_ACK closes only a subflow.
    let mut s = under_way();
    s.peer(200, "F. ack=101 dack4=100");
    s.us(200, "F. ack=102");
    assert!(!s.has(Event::FellBack) && !s.has(Event::PeerFinished));
}
