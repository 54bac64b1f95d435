//! Sends packets of a test type through the links of a plan. Expected times and counts are computed by hand:
//! a packet of 1,500 bytes takes 1 ms at 12 Mbit/s.

use anabranch_link::{Damage, Label};
use anabranch_network::crossing::{Aborts, Beginning, FlowDue, Flows, beginnings};
use anabranch_network::{Due, EndpointNews, Happened, Journey, Network, Onward, Passage, Router};
use anabranch_plan::{Family, Plan, StripsPlan};
use anabranch_plugin::Registry;
use anabranch_trace::{Rows, Table};
use anabranch_units::{ByteCount, Duration, Instant};

const BEGIN: Instant = Instant::from_nanos(5_000_000_000);
const MS: Duration = Duration::from_millis(1);
/// The size of a packet that a link sends in 1 ms, bytes.
const SIZE: u64 = 1500;

/// A packet without content.
#[derive(Clone, Debug)]
struct Parcel {
    size: u64,
    journey: Journey,
    /// Whether the packet has MPTCP options.
    options: bool,
    /// Whether the sender is notified if the packet is too large.
    notified: bool,
}

impl Parcel {
    fn new(journey: Journey) -> Self {
        Self { size: SIZE, journey, options: true, notified: true }
    }
}

impl anabranch_network::Packet for Parcel {
    type Notice = Router;

    fn journey(&self) -> Journey {
        self.journey
    }

    fn journey_mut(&mut self) -> &mut Journey {
        &mut self.journey
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn label(&self) -> Label {
        Label { size: ByteCount(self.size), flow: 0, ect: false }
    }

    fn mark(&mut self) {}

    fn damage(&mut self, _: Damage) -> bool {
        true
    }

    fn strip(&mut self, kinds: StripsPlan) -> bool {
        kinds != StripsPlan::NONE && std::mem::take(&mut self.options)
    }

    fn is_mptcp_syn(&self) -> bool {
        self.options
    }

    fn notice(&self, router: Router) -> Option<Router> {
        self.notified.then_some(router)
    }
}

/// Additional keys for parts of the plan.
#[derive(Default)]
struct Keys {
    /// Keys of the links next to the client: towards the client, and from the client.
    near_down: &'static str,
    near_up: &'static str,
    path: &'static str,
    rest: &'static str,
}

/// Returns a plan with one path over two links in each direction. Each link takes 1 ms to send a packet. The
/// delays towards the client are 10 ms each. From the client they are 3 ms near the client and 4 ms near the
/// server.
fn plan(keys: &Keys) -> Plan {
    let link = |name: &str, ms: u64, keys: &str| {
        format!(r#"{{"name":"{name}","rate_bps":12000000,"delay_ns":{ms}000000{keys}}}"#)
    };
    let links = [
        link("far.down", 10, ""),
        link("near.down", 10, keys.near_down),
        link("near.up", 3, keys.near_up),
        link("far.up", 4, ""),
    ];
    let text = format!(
        r#"{{"scenario":"t","seed":1,"run":0,"application":{{"kind":"bulk"}},
        "transport":{{"scheduler":"linux","congestion":"cubic","path_manager":"full-mesh",
          "receive_buffer_initial":131072,"receive_buffer_max":1048576,"send_buffer_max":4194304,"mss":1460}},
        "links":[{}],
        "paths":[{{"name":"p","down":["far.down","near.down"],"up":["near.up","far.up"]{}}}],
        "time_limit_ns":100000000000{}}}"#,
        links.join(","),
        keys.path,
        keys.rest,
    );
    Plan::from_json(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Everything that happened, with the times.
#[derive(Debug, Default)]
struct Log {
    arrived: Vec<Duration>,
    refused: Vec<Duration>,
    too_large: Vec<(Duration, usize)>,
    blocked: u32,
    notices: Vec<(Duration, Router)>,
    /// The numbers of copies and of changed packets that links delivered.
    copies: usize,
    changed: usize,
    options: usize,
    news: Vec<Option<EndpointNews>>,
    rows: Rows,
}

impl Log {
    fn proceed(&mut self, at: Instant, onward: Onward<Parcel>) {
        let at = at.since(BEGIN);
        match onward {
            Onward::Entered { .. } => {}
            Onward::Arrived(parcel) => {
                self.options += usize::from(parcel.options);
                self.arrived.push(at);
            }
            Onward::Refused(_) => self.refused.push(at),
            Onward::Blocked(_) => self.blocked += 1,
            Onward::TooLarge { link, .. } => self.too_large.push((at, link)),
        }
    }

    /// Runs a network until nothing is due.
    fn run(&mut self, network: &mut Network<'_, Parcel>) {
        while let Some((at, due)) = network.poll_timeout() {
            match due {
                Due::Medium(medium) => {
                    while let Some(passage) = network.poll_medium(at, medium) {
                        let Passage::Passed { packet, copy, changed, .. } = passage else {
                            continue;
                        };
                        self.copies += usize::from(copy);
                        self.changed += usize::from(changed);
                        let onward = network.forward(at, packet);
                        self.proceed(at, onward);
                    }
                }
                Due::Event => {
                    let happened = network.handle_event(at, &mut self.rows);
                    if let Some(Happened::Interface { news, .. }) = happened {
                        self.news.push(news);
                    }
                }
                Due::Notice => {
                    while let Some(router) = network.poll_notice(at) {
                        self.notices.push((at.since(BEGIN), router));
                    }
                }
            }
        }
    }
}

/// Handles `events` events, sends one packet, and runs the network until nothing is due.
fn send_one(network: &mut Network<'_, Parcel>, events: usize, parcel: Parcel) -> Log {
    let mut log = Log::default();
    for _ in 0..events {
        network.handle_event(BEGIN, &mut log.rows);
    }
    let onward = network.send(BEGIN, parcel);
    log.proceed(BEGIN, onward);
    log.run(network);
    log
}

fn one(plan: &Plan, events: usize, parcel: Parcel) -> Log {
    let mut network = Network::new(plan, BEGIN).expect("a plan that runs");
    send_one(&mut network, events, parcel)
}

fn down() -> Parcel {
    Parcel::new(Journey::new(0, true))
}

fn up() -> Parcel {
    Parcel::new(Journey::new(0, false))
}

/// Returns a column of the table of links, which are far.down, near.down, near.up and far.up.
fn links(network: &Network<'_, Parcel>, column: &str) -> Vec<f64> {
    let mut rows = Rows::default();
    network.report(&mut rows);
    numbers(&rows.into_tables(), "links", column)
}

fn numbers(tables: &[Table], table: &str, column: &str) -> Vec<f64> {
    tables.iter().find(|it| it.name == table).expect("a table").numbers(column)
}

#[test]
fn a_packet_crosses_the_links_of_its_direction_in_order() {
    let plan = plan(&Keys::default());
    assert_eq!(one(&plan, 0, down()).arrived, [MS * (1 + 10 + 1 + 10)]);
    assert_eq!(one(&plan, 0, up()).arrived, [MS * (1 + 3 + 1 + 4)]);
}

#[test]
fn the_sender_of_a_packet_that_is_too_large_is_notified_over_the_way_back() {
    let keys = Keys { near_down: r#","mtu":1499"#, ..Keys::default() };
    let small = plan(&keys);
    let mut network = Network::new(&small, BEGIN).expect("a plan that runs");
    let log = send_one(&mut network, 0, down());
    // The packet has passed the first link. The links back have delays of 3 ms and 4 ms.
    assert_eq!(log.too_large, [(MS * 11, 1)]);
    let router = Router { route: 0, family: Family::Ipv4, mtu: 1499 };
    assert_eq!(log.notices, [(MS * (11 + 7), router)]);
    assert_eq!(links(&network, "dropped_mtu"), [0.0, 1.0, 0.0, 0.0]);
    // A packet of exactly the MTU passes.
    let fits = one(&small, 0, Parcel { size: 1499, ..down() });
    assert_eq!((fits.arrived.len(), fits.too_large.len()), (1, 0));
}

#[test]
fn no_message_comes_from_a_silent_router_or_over_a_link_that_is_down() {
    let cut = r#","events":[{"at_ns":0,"link":"far.up","change":"down"}]"#;
    let small = || Keys { near_down: r#","mtu":1499"#, ..Keys::default() };
    let silent = Keys { near_down: r#","mtu":1499,"icmp":false"#, ..Keys::default() };
    for (keys, events, parcel) in [
        (silent, 0, down()),
        (Keys { rest: cut, ..small() }, 1, down()),
        (small(), 0, Parcel { notified: false, ..down() }),
    ] {
        let log = one(&plan(&keys), events, parcel);
        assert_eq!((log.too_large.len(), log.notices.len()), (1, 0));
    }
}

#[test]
fn an_interface_that_is_down_refuses_packets_and_discards_messages() {
    let events = r#","events":[{"at_ns":0,"path":"p","interface":"down"}]"#;
    let keys = Keys { near_up: r#","mtu":1499"#, rest: events, ..Keys::default() };
    let plan = plan(&keys);
    let log = one(&plan, 1, down());
    assert_eq!((log.arrived.len(), log.refused), (0, vec![MS * 22]));
    // The first router drops the client's packet. Its message arrives at an interface that is down.
    let log = one(&plan, 1, up());
    assert_eq!((log.too_large.len(), log.notices.len()), (1, 0));
    // The interfaces of kernels are not simulated. The message takes the delays of both links towards the
    // client.
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs").with_kernel_clients();
    let log = send_one(&mut network, 1, up());
    assert_eq!(log.notices[0].0, MS * 20);
    assert_eq!(send_one(&mut network, 0, down()).arrived.len(), 1);
}

#[test]
fn the_removal_of_an_end_point_is_news_and_a_kernel_gets_none() {
    let events = r#","events":[{"at_ns":1000000,"path":"p","interface":"removed"},
        {"at_ns":2000000,"path":"p","interface":"up"},{"at_ns":3000000,"path":"p","interface":"down"}]"#;
    let plan = plan(&Keys { rest: events, ..Keys::default() });
    let news = |network: Network<'_, Parcel>| {
        let (mut log, mut network) = (Log::default(), network);
        log.run(&mut network);
        let at = numbers(&log.rows.into_tables(), "events", "t_s");
        assert_eq!(at, [0.001, 0.002, 0.003]);
        log.news
    };
    let new = || Network::new(&plan, BEGIN).expect("a plan that runs");
    assert_eq!(news(new()), [Some(EndpointNews::Removed), Some(EndpointNews::Added), None]);
    assert_eq!(news(new().with_kernel_clients()), [None; 3]);
}

#[test]
fn a_change_of_a_link_takes_effect_at_its_time() {
    // The packet leaves the first link's queue at 1 ms, and is on the wire until 11 ms.
    let down_at = |ns: u64| {
        let rest = format!(r#","events":[{{"at_ns":{ns},"link":"far.down","change":"down"}}]"#);
        let keys = Keys { rest: rest.leak(), ..Keys::default() };
        one(&plan(&keys), 0, down()).arrived.len()
    };
    // A packet that arrives at the time of the event is delivered before it.
    assert_eq!([10_999_999, 11_000_000].map(down_at), [0, 1]);
}

#[test]
fn link_corruption_and_duplication_are_reported_and_counted() {
    let keys = r#","duplicate":1,"corrupt":1,"corrupt_passes":1"#;
    let plan = plan(&Keys { near_up: keys, ..Keys::default() });
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    let log = send_one(&mut network, 0, up());
    assert_eq!((log.arrived.len(), log.copies, log.changed), (2, 1, 2));
    assert_eq!(links(&network, "changed"), [0.0, 0.0, 2.0, 0.0]);
    assert_eq!(links(&network, "duplicated"), [0.0, 0.0, 1.0, 0.0]);
}

const CROSSING: &str = r#","cross_traffic":[{"name":"c","kind":"udp","count":1,"start_ns":2000000,
    "duration_ns":3500000,"data":["near.down"],"acks":["near.up"],"rate_bps":12000000,"size":1500}]"#;

#[test]
fn a_middlebox_is_on_paths_only() {
    let keys = Keys { path: r#","strips_mptcp":true"#, rest: CROSSING, ..Keys::default() };
    let plan = plan(&keys);
    let mut network = Network::new(&plan, BEGIN).expect("a plan that runs");
    assert_eq!(send_one(&mut network, 0, down()).options, 0);
    assert_eq!(network.stripped(), [1]);
    // The data of a background flow passes one link.
    let crossing = Journey::new(network.crossing(0), true);
    assert!(network.is_crossing(crossing.route()) && !network.is_crossing(0));
    let log = send_one(&mut network, 0, Parcel::new(crossing));
    assert_eq!((log.arrived.len(), log.options, network.stripped()), (1, 1, &[1][..]));
    assert_eq!(links(&network, "delivered"), [1.0, 2.0, 0.0, 0.0]);
}

#[test]
fn a_firewall_is_behind_the_middlebox_of_its_path() {
    let keys = Keys { path: r#","drops_mptcp":true"#, ..Keys::default() };
    let plan_with_firewall = plan(&keys);
    let mut network = Network::new(&plan_with_firewall, BEGIN).expect("a plan that runs");
    let log = send_one(&mut network, 0, down());
    assert_eq!((log.arrived.len(), log.blocked, network.blocked()), (0, 1, &[1][..]));
    // A middlebox removes the options first. The firewall then has no reason to drop the packet.
    let keys = Keys { path: r#","strips_mptcp":true,"drops_mptcp":true"#, ..Keys::default() };
    let plan_with_both = plan(&keys);
    let mut network = Network::new(&plan_with_both, BEGIN).expect("a plan that runs");
    let log = send_one(&mut network, 0, down());
    assert_eq!((log.arrived.len(), log.blocked, network.blocked()), (1, 0, &[0][..]));
}

#[test]
fn datagrams_are_sent_at_their_rate_until_their_time_is_over() {
    let plan = plan(&Keys { rest: CROSSING, ..Keys::default() });
    let mut flows: Flows<'_, ()> = Flows::new(&plan, &Registry::TABLES, BEGIN);
    for beginning in beginnings(&plan, BEGIN) {
        let Beginning::Datagrams(flow, source) = beginning else { panic!("datagrams") };
        assert_eq!(flows.add_datagrams(flow, source), FlowDue::Datagram(0));
    }
    let mut sent = Vec::new();
    while let Some((at, due)) = flows.poll_timeout() {
        assert_eq!(due, FlowDue::Datagram(0));
        if let Some(datagram) = flows.send_datagram(0, at) {
            sent.push((at.since(BEGIN), datagram.number));
            assert_eq!((datagram.size, datagram.group), (SIZE, 0));
        }
    }
    // One datagram per millisecond from 2 ms on, for 3.5 ms.
    assert_eq!(sent, [2, 3, 4, 5].map(|ms| (MS * ms, ms - 1)));
    flows.arrive(0, BEGIN + MS * 13, BEGIN + MS * 2);
    flows.arrive(0, BEGIN + MS * 16, BEGIN + MS * 3);
    flows.lose(0);
    let mut rows = Rows::default();
    let hosts = |(): &()| unreachable!("datagrams have no hosts");
    flows.report(BEGIN + MS * 20, hosts, &mut rows).expect("names that are known");
    let tables = rows.into_tables();
    let count = |column| numbers(&tables, "cross_traffic", column)[0];
    let counts = ["datagrams_sent", "datagrams_delivered", "datagrams_lost"]
        .map(|column| count(column) as u64);
    assert_eq!(counts, [4, 2, 1]);
    // The mean of 11 ms and 13 ms.
    assert!((count("datagram_delay_ms") - 12.0).abs() < 1e-9);
}

#[test]
fn the_client_aborts_a_flow_that_its_server_does_not_know() {
    let crossing = r#","cross_traffic":[{"name":"c","kind":"bulk","congestion":"cubic","count":1,"start_ns":0,
        "duration_ns":3000000,"data":["near.down"],"acks":["near.up"]}]"#;
    let plan = plan(&Keys { rest: crossing, ..Keys::default() });
    let mut flows = Flows::new(&plan, &Registry::TABLES, BEGIN);
    for beginning in beginnings(&plan, BEGIN) {
        let Beginning::Connection(flow, name) = beginning else { panic!("a TCP flow") };
        let hosts = flows.hosts(&flow, &name).expect("names that are known");
        assert_eq!(flows.add_connection(flow, hosts), Some(FlowDue::End(0)));
    }
    assert_eq!(flows.poll_timeout(), Some((BEGIN + MS * 3, FlowDue::End(0))));
    let aborts = flows.end(0, <[_; 2]>::each_ref);
    assert_eq!((aborts, flows.poll_timeout()), (Some(Aborts::Client), None));
    flows.note(0, BEGIN + MS * 3, <[_; 2]>::each_ref);
    let (fate, end) = flows.life(0).end(None, BEGIN + MS * 9);
    assert_eq!((fate, end), ("stopped", Some(BEGIN + MS * 3)));
}
