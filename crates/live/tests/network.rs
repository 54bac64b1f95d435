//! Tests of the network between client and server without devices: real packets on the links of a plan, in
//! virtual time. Expected values are computed by hand.

use std::net::{IpAddr, Ipv4Addr};

use anabranch_live::{Crossed, Datagram, InterfaceChange, Network};
use anabranch_network::EndpointNews;
use anabranch_plan::{InterfacePlan, Plan};
use anabranch_trace::{Column, Rows, Table};
use anabranch_units::{Duration, Instant, SeqNumber};
use anabranch_wire::{
    CapableKeys, Dss, Ecn, Flags, MpCapable, MptcpOption, Segment, emit_packet, parse_packet,
};
use bytes::Bytes;

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 0, 1));
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 1, 1, 1));
/// The length of an IPv4 and a TCP header without options, bytes.
const HEADERS: usize = 40;
/// The length of every data packet, bytes. At the links' 12 Mbit/s, this is 1 ms.
const PACKET: usize = 1500;
const MS: Duration = Duration::from_millis(1);
/// The delay of each link.
const DELAY: Duration = Duration::from_millis(10);
/// The start of the plan's time.
const BEGIN: Instant = Instant::from_nanos(7_000_000_000);

/// Returns a plan with one path over links of 12 Mbit/s and 10 ms. The arguments are further keys: of the
/// downlink (`down`), the path (`path`) and the plan (`rest`).
fn plan(down: &str, path: &str, rest: &str) -> Plan {
    let link = r#""rate_bps":12000000,"delay_ns":10000000"#;
    let text = format!(
        r#"{{"scenario":"t","seed":1,"run":0,"application":{{"kind":"bulk"}},
        "transport":{{"scheduler":"linux","congestion":"cubic","path_manager":"full-mesh",
          "receive_buffer_initial":131072,"receive_buffer_max":1048576,"send_buffer_max":4194304,"mss":1460}},
        "links":[{{"name":"p.down",{link}{down}}},{{"name":"p.up",{link}}}],
        "paths":[{{"name":"p","down":["p.down"],"up":["p.up"]{path}}}],
        "time_limit_ns":100000000000{rest}}}"#
    );
    Plan::from_json(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Returns a data packet whose sequence number is `number`.
fn data(number: u32, ecn: Ecn) -> Vec<u8> {
    let payload = Bytes::from(vec![0; PACKET - HEADERS]);
    let segment =
        Segment { seq: SeqNumber(number), flags: Flags::ACK, ecn, payload, ..Segment::default() };
    bytes_of(&segment)
}

fn bytes_of(segment: &Segment) -> Vec<u8> {
    let mut bytes = Vec::new();
    emit_packet(SERVER, CLIENT, segment, &mut bytes).expect("a segment that can stand");
    bytes
}

/// The segments that left the path, with their times since [`BEGIN`].
type Arrived = Vec<(Duration, Segment)>;

/// Sends packets on the downlink at the given times, and runs the network until it is empty.
fn through(
    network: &mut Network<'_>,
    rows: &mut Rows,
    packets: Vec<(Duration, Vec<u8>)>,
) -> Arrived {
    let mut packets = packets.into_iter().peekable();
    loop {
        let next = packets.peek().map(|(at, _)| BEGIN + *at);
        let Some(now) = [network.poll_timeout(), next].into_iter().flatten().min() else { break };
        network.handle_timeout(now, rows);
        while let Some((_, bytes)) = packets.next_if(|(at, _)| BEGIN + *at <= now) {
            network.handle_packet(now, 0, true, bytes);
        }
    }
    let mut arrived = Vec::new();
    while let Some(delivery) = network.poll_delivery() {
        assert!((delivery.path, delivery.down) == (0, true));
        // The parser verifies all checksums.
        let packet = parse_packet(&delivery.bytes.into()).expect("a whole packet");
        arrived.push((delivery.at.since(BEGIN), packet.segment));
    }
    arrived
}

fn numbers(arrived: &Arrived) -> Vec<u32> {
    arrived.iter().map(|(_, segment)| segment.seq.0).collect()
}

fn named<'a>(tables: &'a [Table], name: &str) -> &'a Table {
    tables.iter().find(|table| table.name == name).expect("a table")
}

/// Returns the value of a counter of the downlink.
fn counted(network: &Network<'_>, column: &str) -> u64 {
    let mut rows = Rows::default();
    network.report(&mut rows);
    named(&rows.into_tables(), "links").numbers(column)[0] as u64
}

fn burst(count: u32) -> Vec<(Duration, Vec<u8>)> {
    (0..count).map(|number| (Duration::ZERO, data(number, Ecn::NotEct))).collect()
}

#[test]
fn a_burst_fills_a_drop_tail_queue_exactly() {
    let plan = plan(r#","queue":{"packets":10}"#, "", "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let arrived = through(&mut network, &mut Rows::default(), burst(30));
    // The queue holds ten packets, including the one in service. One packet leaves per millisecond.
    assert_eq!(numbers(&arrived), (0..10).collect::<Vec<_>>());
    for (place, (at, _)) in arrived.iter().enumerate() {
        assert_eq!(*at, DELAY + MS * (place as u64 + 1));
    }
    assert_eq!(counted(&network, "dropped_queue"), 20);
    assert_eq!(counted(&network, "bytes_delivered"), 10 * PACKET as u64);
}

#[test]
fn losses_are_those_of_the_seed() {
    let lost_of = |seed: u64| {
        let mut plan = plan(r#","loss":{"bernoulli":0.1}"#, "", "");
        plan.seed = seed;
        let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
        let packets = (0..2000).map(|number| (MS * u64::from(number), data(number, Ecn::NotEct)));
        let arrived = through(&mut network, &mut Rows::default(), packets.collect());
        assert_eq!(counted(&network, "dropped_loss"), 2000 - arrived.len() as u64);
        numbers(&arrived)
    };
    let first = lost_of(1);
    assert_eq!(first, lost_of(1));
    assert_ne!(first, lost_of(2));
    // 200 losses are expected, with a standard deviation of 13.4. The tolerance is six standard deviations.
    assert!((2000 - first.len()).abs_diff(200) < 81, "{}", first.len());
}

#[test]
fn a_queue_marks_ecn_capable_packets_and_drops_others() {
    let down = r#","queue":{"packets":1000},
        "discipline":{"name":"codel","values":{"target":5000000,"interval":20000000,"ecn":1}}"#;
    let plan = plan(down, "", "");
    let marks = |ecn: Ecn| {
        let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
        // One packet per 0.5 ms is twice the rate of the link.
        let packets = (0..600).map(|number| (MS / 2 * u64::from(number), data(number, ecn)));
        let arrived = through(&mut network, &mut Rows::default(), packets.collect());
        let ce = arrived.iter().filter(|(_, segment)| segment.ecn == Ecn::Ce).count() as u64;
        assert_eq!(counted(&network, "marked"), ce);
        (ce, counted(&network, "dropped_aqm"))
    };
    let ((capable, dropped), (incapable, instead)) = (marks(Ecn::Ect0), marks(Ecn::NotEct));
    assert!(capable > 3 && dropped == 0, "{capable} marks, {dropped} drops");
    assert!(incapable == 0 && instead > 3, "{incapable} marks, {instead} drops");
}

#[test]
fn links_change_at_the_times_of_the_plan() {
    let events = r#","events":[{"at_ns":100000000,"link":"p.down","change":"down"},
        {"at_ns":200000000,"link":"p.down","change":"up"},
        {"at_ns":300000000,"link":"p.down","change":{"rate_bps":6000000}},
        {"at_ns":400000000,"link":"p.down","change":{"delay_ns":30000000}}]"#;
    let plan = plan("", "", events);
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let sent = [50, 150, 250, 350, 450];
    let packets = sent.iter().zip(0..).map(|(at, number)| (MS * *at, data(number, Ecn::NotEct)));
    let mut rows = Rows::default();
    let arrived = through(&mut network, &mut rows, packets.collect());
    let told: Vec<_> = arrived.iter().map(|(at, segment)| (segment.seq.0, *at)).collect();
    // The packet that is sent while the link is down is lost. At half the rate, a packet takes twice as long.
    let expected = [(0, 50 + 1 + 10), (2, 250 + 1 + 10), (3, 350 + 2 + 10), (4, 450 + 2 + 30)];
    assert_eq!(told, expected.map(|(number, ms)| (number, MS * ms)));
    assert_eq!(counted(&network, "dropped_down"), 1);
    let tables = rows.into_tables();
    assert_eq!(named(&tables, "events").numbers("t_s"), [0.1, 0.2, 0.3, 0.4]);
}

#[test]
fn interfaces_change_at_the_times_of_the_plan() {
    let events = r#","events":[{"at_ns":100000000,"path":"p","interface":"removed"},
        {"at_ns":250000000,"path":"p","interface":"up"}]"#;
    let plan = plan("", "", events);
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let mut rows = Rows::default();
    let mut changes = Vec::new();
    while let Some(now) = network.poll_timeout() {
        assert_eq!(network.poll_change(), None, "no change before its time");
        network.handle_timeout(now, &mut rows);
        let (change, news) = network.poll_change().expect("the event that was due");
        changes.push((now.since(BEGIN), change, news));
    }
    let change = |ms, what, news| (MS * ms, InterfaceChange { path: 0, what }, Some(news));
    let expected = [
        change(100, InterfacePlan::Removed, EndpointNews::Removed),
        change(250, InterfacePlan::Up, EndpointNews::Added),
    ];
    assert_eq!(changes, expected);
    let tables = rows.into_tables();
    let Some(Column::Text(what)) = named(&tables, "events").column("what") else {
        panic!("events say what");
    };
    assert_eq!(what.iter().collect::<Vec<_>>(), ["removed", "up"]);
}

#[test]
fn a_middlebox_removes_options_from_the_configured_segments() {
    let plan = plan("", r#","strips_mptcp":["syn","data"]"#, "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let capable = |keys| vec![MptcpOption::Capable(MpCapable::with_keys(keys))];
    let syn =
        Segment { flags: Flags::SYN, mptcp: capable(CapableKeys::None), ..Segment::default() };
    let both = CapableKeys::Both { initiator: 1, responder: 2 };
    let third = Segment { flags: Flags::ACK, mptcp: capable(both), ..Segment::default() };
    let dss = Some(Dss { data_ack: Some(anabranch_wire::DataAck::Short(9)), ..Dss::default() });
    let acknowledgement = Segment { flags: Flags::ACK, dss, ..Segment::default() };
    let tcp = Segment { flags: Flags::ACK, ..Segment::default() };
    let sent = [syn, third, acknowledgement, tcp];
    let packets = sent.iter().zip(0..).map(|(it, place)| (MS * place, bytes_of(it)));
    let arrived = through(&mut network, &mut Rows::default(), packets.collect());
    let arrived: Vec<_> = arrived.into_iter().map(|(_, segment)| segment).collect();
    let bare = |segment: &Segment| Segment { dss: None, mptcp: Vec::new(), ..segment.clone() };
    let [syn, third, acknowledgement, tcp] = sent;
    assert_eq!(arrived, [bare(&syn), third, bare(&acknowledgement), tcp]);
    assert_eq!(network.stripped(), [2]);
}

#[test]
fn a_firewall_drops_syns_with_mptcp_options_only() {
    let plan = plan("", r#","drops_mptcp":true"#, "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let capable = |keys| vec![MptcpOption::Capable(MpCapable::with_keys(keys))];
    let syn =
        Segment { flags: Flags::SYN, mptcp: capable(CapableKeys::None), ..Segment::default() };
    let tcp = Segment { flags: Flags::SYN, ..Segment::default() };
    let both = CapableKeys::Both { initiator: 1, responder: 2 };
    let third = Segment { flags: Flags::ACK, mptcp: capable(both), ..Segment::default() };
    let sent = [syn, tcp, third];
    let packets = sent.iter().zip(0..).map(|(it, place)| (MS * place, bytes_of(it)));
    let arrived = through(&mut network, &mut Rows::default(), packets.collect());
    let arrived: Vec<_> = arrived.into_iter().map(|(_, segment)| segment).collect();
    let [_, tcp, third] = sent;
    assert_eq!(arrived, [tcp, third]);
    assert_eq!(network.blocked(), [1]);
}

#[test]
fn a_link_changes_a_payload_and_no_checksum_detects_it() {
    let plan = plan(r#","corrupt":1,"corrupt_passes":1"#, "", "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    // The receiver verifies the checksums. An acknowledgement has no payload that could be modified.
    let acknowledgement = bytes_of(&Segment { flags: Flags::ACK, ..Segment::default() });
    let packets = vec![(Duration::ZERO, data(7, Ecn::NotEct)), (MS, acknowledgement)];
    let arrived = through(&mut network, &mut Rows::default(), packets);
    let (_, segment) = &arrived[0];
    assert_eq!((arrived.len(), segment.seq.0), (2, 7));
    assert_eq!(segment.payload.iter().filter(|byte| **byte != 0).count(), 1);
    assert_eq!(counted(&network, "changed"), 1);
}

#[test]
fn an_interface_that_is_down_refuses_packets_but_counts_no_messages() {
    let events = r#","events":[{"at_ns":0,"path":"p","interface":"down"}]"#;
    let plan = plan(r#","mtu":1499"#, "", events);
    let passed = |network: Network<'_>, down: bool| {
        let (mut network, mut rows) = (network, Rows::default());
        network.handle_timeout(BEGIN, &mut rows);
        network.handle_packet(BEGIN, 0, down, data(1, Ecn::NotEct));
        while let Some(now) = network.poll_timeout() {
            network.handle_timeout(now, &mut rows);
        }
        network.poll_delivery().map(|it| (it.down, it.passes))
    };
    let new = |plan| Network::new(plan, BEGIN).expect("a plan that runs");
    // The server is notified of a packet that is too large, because its interfaces stay up.
    assert_eq!(passed(new(&plan), true), Some((false, true)));
    let mut swapped = plan.clone();
    swapped.links.swap(0, 1);
    for (index, name) in ["p.down", "p.up"].into_iter().enumerate() {
        swapped.links[index].name = name.to_owned();
    }
    // The client's packet is too large. The message about it does not leave the network.
    assert_eq!(passed(new(&swapped), false), None);
    assert_eq!(passed(new(&swapped), true), Some((true, false)));
    assert_eq!(passed(new(&swapped).with_kernel_client(), true), Some((true, true)));
}

#[test]
fn packets_that_are_not_tcp_pass_unchanged() {
    let plan = plan("", r#","strips_mptcp":true"#, "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let mut rows = Rows::default();
    for bytes in [vec![], vec![0x45], vec![0xff; 90]] {
        network.handle_packet(BEGIN, 0, false, bytes.clone());
        while let Some(at) = network.poll_timeout() {
            network.handle_timeout(at, &mut rows);
        }
        let delivery = network.poll_delivery().expect("it passes");
        assert_eq!((delivery.bytes, delivery.down), (bytes, false));
    }
    assert_eq!(network.stripped(), [0]);
}

#[test]
fn the_queue_of_a_path_is_reported() {
    let plan = plan("", "", "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that can run");
    let mut rows = Rows::default();
    for number in 0..5 {
        network.handle_packet(BEGIN, 0, true, data(number, Ecn::default()));
    }
    // A packet takes 1 ms. After 2.5 ms, two packets have left the queue, and the third is in service.
    for (after, packets) in [(Duration::ZERO, 5), (MS * 5 / 2, 3), (MS * 5, 0)] {
        network.handle_timeout(BEGIN + after, &mut rows);
        let queued = network.queued(BEGIN + after, 0);
        assert_eq!((queued.packets, queued.bytes.0), (packets, packets * PACKET as u64));
    }
    // Packets in the other direction are not counted.
    network.handle_packet(BEGIN + MS * 6, 0, false, data(9, Ecn::default()));
    assert_eq!(network.queued(BEGIN + MS * 6, 0).packets, 0);
}

/// Returns all packets that leave the network after one data packet, and the number of packets dropped
/// because of the MTU.
fn out_of(plan: &Plan, at: Duration) -> (Vec<(Duration, bool, Vec<u8>)>, u64) {
    let mut network = Network::new(plan, BEGIN).expect("a plan that runs");
    let mut rows = Rows::default();
    network.handle_timeout(BEGIN + at, &mut rows);
    network.handle_packet(BEGIN + at, 0, true, data(9, Ecn::NotEct));
    while let Some(now) = network.poll_timeout() {
        network.handle_timeout(now, &mut rows);
    }
    let out = std::iter::from_fn(|| network.poll_delivery());
    let out = out.map(|it| (it.at.since(BEGIN), it.down, it.bytes)).collect();
    (out, counted(&network, "dropped_mtu"))
}

#[test]
fn a_packet_above_the_mtu_is_dropped_and_reported_to_its_sender() {
    // The packet is exactly as long as the MTU.
    let (out, dropped) = out_of(&plan(r#","mtu":1500"#, "", ""), MS);
    assert_eq!((out.len(), out[0].1, dropped), (1, true, 0));
    // The error message returns over the uplink, which takes 10 ms.
    let (out, dropped) = out_of(&plan(r#","mtu":1499"#, "", ""), MS);
    let [(at, false, word)] = &out[..] else { panic!("{out:?}") };
    assert_eq!((*at, dropped), (MS + DELAY, 1));
    // Destination unreachable, fragmentation needed (RFC 1191 section 4), from the router to the server.
    assert_eq!(
        (word[9], &word[20..22], &word[26..28]),
        (1, &[3, 4][..], &1499u16.to_be_bytes()[..])
    );
    assert_eq!((&word[12..16], &word[16..20]), (&[10, 1, 0, 254][..], &[10, 1, 0, 1][..]));
    assert_eq!(word[28..], data(9, Ecn::NotEct)[..word.len() - 28], "it is quoted");
    // A silent link sends no message. If the uplink is down, the message does not arrive.
    let silent = plan(r#","mtu":1499,"icmp":false"#, "", "");
    let cut = r#","events":[{"at_ns":0,"link":"p.up","change":"down"}]"#;
    for plan in [silent, plan(r#","mtu":1499"#, "", cut)] {
        assert_eq!(out_of(&plan, MS), (Vec::new(), 1));
    }
}

#[test]
fn an_event_gives_a_link_its_mtu() {
    let event = r#","events":[{"at_ns":5000000,"link":"p.down","change":{"mtu":1400}}]"#;
    for (at, dropped) in [(MS * 4, 0), (MS * 5, 1)] {
        assert_eq!(out_of(&plan("", "", event), at).1, dropped);
    }
}

#[test]
fn packets_of_background_flows_leave_separately() {
    let crossing = r#","cross_traffic":[{"name":"c","kind":"udp","count":1,"start_ns":0,
        "data":["p.down"],"acks":["p.up"],"rate_bps":1000000,"size":1500}]"#;
    let plan = plan(r#","queue":{"packets":1},"mtu":1500"#, "", crossing);
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let datagram = |flow| Datagram { flow, sent: BEGIN };
    let bytes = || data(0, Ecn::NotEct);
    // The first datagram is in transit, the second finds a full queue, and the third is too long.
    network.handle_crossing(BEGIN, 0, true, Some(datagram(1)), bytes());
    network.handle_crossing(BEGIN, 0, true, Some(datagram(2)), bytes());
    network.handle_crossing(BEGIN, 0, true, Some(datagram(3)), vec![0; 1501]);
    network.handle_crossing(BEGIN, 0, false, None, bytes());
    while let Some(now) = network.poll_timeout() {
        network.handle_timeout(now, &mut Rows::default());
    }
    assert!(network.poll_delivery().is_none(), "nothing is the client's");
    let (mut lost, mut came) = (Vec::new(), Vec::new());
    while let Some(crossed) = network.poll_crossed() {
        match crossed {
            Crossed::Lost(datagram) => lost.push(datagram.flow),
            Crossed::Datagram(at, datagram) => came.push((at.since(BEGIN), datagram.flow)),
            Crossed::Packet { at, down, .. } => {
                assert!(!down);
                assert_eq!(at.since(BEGIN), DELAY + MS);
            }
        }
    }
    lost.sort_unstable();
    assert_eq!((lost, came), (vec![2, 3], vec![(DELAY + MS, 1)]));
}

#[test]
fn a_buffer_that_comes_back_is_empty() {
    let plan = plan("", "", "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    assert!(network.buffer().is_empty());
    network.recycle(vec![1; 100]);
    let buffer = network.buffer();
    assert!(buffer.is_empty() && buffer.capacity() >= 100, "its memory serves again");
}

#[test]
fn packets_on_the_uplink_reach_the_server() {
    let plan = plan("", "", "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    network.handle_packet(BEGIN, 0, false, data(1, Ecn::NotEct));
    assert!(network.poll_delivery().is_none(), "it is under way");
    assert_eq!(network.poll_timeout(), Some(BEGIN + MS + DELAY));
    network.handle_timeout(BEGIN + MS + DELAY, &mut Rows::default());
    let delivery = network.poll_delivery().expect("it has come");
    assert_eq!((delivery.down, delivery.path, delivery.at), (false, 0, BEGIN + MS + DELAY));
    assert_eq!(counted(&network, "delivered"), 0, "the link down has had nothing");
    assert!(network.poll_timeout().is_none());
}

#[test]
fn reports_of_routers_arrive_in_order() {
    let plan = plan(r#","mtu":1499"#, "", "");
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    for number in 1..=3 {
        network.handle_packet(BEGIN, 0, true, data(number, Ecn::NotEct));
    }
    network.handle_timeout(BEGIN + DELAY, &mut Rows::default());
    // The quoted sequence number follows two IP headers, an ICMP header and the ports.
    let quoted = |bytes: &[u8]| u32::from_be_bytes(bytes[52..56].try_into().expect("four bytes"));
    let words: Vec<_> = std::iter::from_fn(|| network.poll_delivery())
        .map(|it| (it.at.since(BEGIN), it.down, quoted(&it.bytes)))
        .collect();
    assert_eq!(words, [(DELAY, false, 1), (DELAY, false, 2), (DELAY, false, 3)]);
}
