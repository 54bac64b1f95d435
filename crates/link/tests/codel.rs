//! Compares `CoDel` with the pseudo-code of RFC 8289, packet by packet, and checks its goals.

mod oracle;

use anabranch_link::queue::{self, Queue, Ticket};
use anabranch_link::{
    DropReason, Fate, FixedLink, Label, Link, LinkConfig, QueueLimit, Queued, VaryingLink,
};
use anabranch_plugin::PluginChoice;
use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use oracle::{CoDelQueue, Packet, Parameters, Said, ask};

const MS: u64 = 1_000_000;

fn seed(run: u64) -> Seed {
    Seed { seed: 8289, run }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

fn choice(parameters: Parameters) -> PluginChoice {
    PluginChoice::named("codel")
        .with("target", parameters.target)
        .with("interval", parameters.interval)
        .with("ecn", u64::from(parameters.ecn))
}

fn queue(choice: &PluginChoice, limit: QueueLimit) -> Box<dyn Queue> {
    queue::build(choice, limit, seed(0).stream("queue")).expect("there is such a queue")
}

/// Draws the largest numbers of arrivals and of requests per step: floods, trickles, silence.
fn pace(luck: &mut RandomStream) -> (u64, u64) {
    [(1, 4), (1, 2), (2, 2), (3, 2), (8, 1), (1, 9)][luck.below(6) as usize]
}

#[test]
fn every_packet_has_the_fate_of_the_rfc() {
    let (mut dropped, mut marked, mut entered, mut resumed) = (0, 0, 0, 0);
    for run in 0..60 {
        let mut luck = seed(run).stream("life");
        let parameters = Parameters {
            target: [5 * MS, MS, 20 * MS][run as usize % 3],
            interval: [100 * MS, 20 * MS][run as usize % 2],
            ecn: run % 4 == 3,
            maxpacket: 1500,
        };
        let mut tested = queue(&choice(parameters), QueueLimit::Unlimited);
        let mut rfc = CoDelQueue::new(parameters);
        let (mut now, mut id) = (0, 0);
        let (mut said, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..40 {
            let (comes, goes) = pace(&mut luck);
            for _ in 0..luck.below(800) {
                now += luck.below(MS);
                for _ in 0..luck.below(comes + 1) {
                    let size = 40 + luck.below(1461);
                    let ect = luck.chance(0.5);
                    let ticket = Ticket { number: id, size: ByteCount(size), flow: 7, ect };
                    tested.admit(at(now), ticket, Queued::default(), &mut Vec::new());
                    rfc.enqueue(now, Packet { id, size, flow: 7, ect, tstamp: 0 });
                    id += 1;
                }
                for _ in 0..luck.below(goes + 1) {
                    ask(&mut *tested, now, &mut said);
                    rfc.dequeue(now, &mut expected);
                    assert_eq!(said, expected, "run {run}, {now} ns");
                    dropped += said.iter().filter(|word| matches!(word, Said::Dropped(_))).count();
                    marked += said.iter().filter(|word| matches!(word, Said::Marked(_))).count();
                    said.clear();
                    expected.clear();
                }
            }
        }
        entered += rfc.entered;
        resumed += rfc.resumed;
    }
    // The random runs must reach all states, or they would test nothing.
    assert!(dropped > 10_000 && marked > 1_000, "{dropped} dropped, {marked} marked");
    assert!(entered > 200 && resumed > 50, "{entered} rows of drops, {resumed} resumed");
}

/// The rate, 10 Mb/s. A packet of 1,250 bytes takes a millisecond.
const RATE: Rate = Rate::from_bps(10_000_000);
const SIZE: u64 = 1250;

fn config(discipline: Option<PluginChoice>, limit: QueueLimit) -> LinkConfig {
    let plain = LinkConfig::new("wifi.down", RATE, limit, Duration::from_millis(20));
    LinkConfig { discipline, ..plain }
}

fn link(config: LinkConfig) -> Box<dyn Link<u64>> {
    if config.is_plain() {
        Box::new(FixedLink::new(config, seed(0)))
    } else {
        Box::new(VaryingLink::of_set_rate(config, seed(0)))
    }
}

/// Returns the fates of packets that arrive at these times, in the order of the reports.
fn fates(link: &mut dyn Link<u64>, arrivals: &[(u64, Label)]) -> Vec<Fate<u64>> {
    let mut told = Vec::new();
    for (id, &(time, label)) in (0..).zip(arrivals) {
        while let Some(due) = link.poll_timeout().filter(|&due| due <= at(time)) {
            told.extend(std::iter::from_fn(|| link.poll_fate(due)));
        }
        link.enter(at(time), id, label);
    }
    while let Some(due) = link.poll_timeout() {
        told.extend(std::iter::from_fn(|| link.poll_fate(due)));
    }
    assert_eq!(link.in_transit(), 0);
    told
}

/// Returns the decisions and their times according to the RFC. The server dequeues whenever it is free, and the queue
/// has room for 50 packets, including the one in service.
fn expected(parameters: Parameters, arrivals: &[(u64, Label)]) -> Vec<(u64, Said)> {
    let mut rfc = CoDelQueue::new(parameters);
    let mut met = Vec::new();
    let mut busy: Option<(u64, Said)> = None;
    let serve = |now: u64, rfc: &mut CoDelQueue, met: &mut Vec<(u64, Said)>| {
        let mut said = Vec::new();
        let packet = rfc.dequeue(now, &mut said);
        let served = packet.map(|packet| {
            let word = said.pop().expect("the decision about the served packet");
            (now + RATE.transmit_time(ByteCount(packet.size)).as_nanos(), word)
        });
        met.extend(said.into_iter().map(|word| (now, word)));
        served
    };
    let times = arrivals.iter().map(|&(time, _)| time).chain([u64::MAX]);
    for (id, time) in (0..).zip(times) {
        while let Some((done, word)) = busy.filter(|&(done, _)| done <= time) {
            met.push((done, word));
            busy = serve(done, &mut rfc, &mut met);
        }
        let Some(&(_, label)) = arrivals.get(id as usize) else { break };
        if rfc.packets() + u64::from(busy.is_some()) == 50 {
            met.push((time, Said::Full(id)));
            continue;
        }
        let Label { size, flow, ect } = label;
        rfc.enqueue(time, Packet { id, size: size.0, flow, ect, tstamp: 0 });
        if busy.is_none() {
            busy = serve(time, &mut rfc, &mut met);
        }
    }
    met.sort_unstable();
    met
}

#[test]
fn a_link_behind_codel_is_a_server_behind_the_rfc() {
    let (mut full, mut dropped, mut marked) = (0, 0, 0);
    for run in 0..20 {
        let mut luck = seed(run).stream("arrivals");
        let ecn = run % 2 == 1;
        let parameters = Parameters { target: 5 * MS, interval: 40 * MS, ecn, maxpacket: 1500 };
        let mut now = 0;
        let arrivals: Vec<(u64, Label)> = (0..4000)
            .map(|n| {
                // Overload and rest alternate.
                now += luck.below(if n / 500 % 2 == 0 { MS } else { 3 * MS });
                let size = ByteCount(40 + luck.below(1461));
                (now, Label { size, flow: luck.below(5), ect: luck.chance(0.3) })
            })
            .collect();
        let mut link = link(config(Some(choice(parameters)), QueueLimit::Packets(50)));
        let mut met: Vec<(u64, Said)> = fates(&mut *link, &arrivals)
            .into_iter()
            .map(|fate| match fate {
                Fate::Delivered { at, packet, marked, .. } => {
                    let word = if marked { Said::Marked(packet) } else { Said::Passed(packet) };
                    (at.as_nanos() - 20 * MS, word)
                }
                Fate::Dropped { at, packet, why: DropReason::QueueFull, .. } => {
                    (at.as_nanos(), Said::Full(packet))
                }
                Fate::Dropped { at, packet, why, .. } => {
                    assert_eq!(why, DropReason::Aqm);
                    (at.as_nanos(), Said::Dropped(packet))
                }
            })
            .collect();
        met.sort_unstable();
        assert_eq!(met, expected(parameters, &arrivals), "run {run}");
        let stats = link.stats();
        full += stats.dropped_queue;
        dropped += stats.dropped_aqm;
        marked += stats.marked;
        assert!(ecn || stats.marked == 0);
    }
    assert!(full > 100 && dropped > 200 && marked > 50, "{full}, {dropped}, {marked}");
}

/// A burst of 100 ms, followed by exactly the link's rate: the queue never shrinks.
fn standing() -> Vec<(u64, Label)> {
    let label = Label::of_size(ByteCount(SIZE));
    let burst = (0..100).map(|_| (0, label));
    burst.chain((1..10_000).map(|n| (n * MS, label))).collect()
}

/// Returns the queueing delays in ns, including the service, of packets that arrive after 6 s.
fn delays(link: &mut dyn Link<u64>, arrivals: &[(u64, Label)]) -> Vec<u64> {
    let late = |packet: u64| arrivals[packet as usize].0 > 6_000 * MS;
    let delay = |fate| match fate {
        Fate::Delivered { at, packet, .. } if late(packet) => {
            Some(at.as_nanos() - 20 * MS - arrivals[packet as usize].0)
        }
        _ => None,
    };
    fates(link, arrivals).into_iter().filter_map(delay).collect()
}

#[test]
fn a_standing_queue_is_brought_down_to_the_target_and_not_below() {
    let arrivals = standing();
    let limit = QueueLimit::Packets(1000);
    let stands = delays(&mut *link(config(None, limit)), &arrivals);
    assert!(stands.iter().all(|&delay| delay == 100 * MS), "drop-tail keeps the 100 packets");
    let mut codel = link(config(Some(PluginChoice::named("codel")), limit));
    let kept = delays(&mut *codel, &arrivals);
    // A packet's wait is its delay minus its service. `CoDel` drops packets while the wait is at least 5 ms and more
    // than 1,500 bytes are behind the packet. In the end 5 packets are in the queue, one of them in service. The last
    // drop comes 100 ms (1 + sum of 1 / sqrt(n), n < 95) = 1.9 s after the burst.
    assert!(kept.iter().all(|&delay| delay == 5 * MS), "{kept:?}");
    assert_eq!(codel.stats().dropped_aqm, 95);
    assert_eq!(codel.stats().dropped_queue, 0);
}

#[test]
fn one_full_packet_behind_the_first_is_no_standing_queue() {
    // At 1 Mb/s a packet of 1,500 bytes takes 12 ms, longer than the target. The burst has 50 of them.
    let label = Label::of_size(ByteCount(1500));
    let burst = (0..50).map(|_| (0, label));
    let arrivals: Vec<_> = burst.chain((1..1000).map(|n| (n * 12 * MS, label))).collect();
    let discipline = Some(PluginChoice::named("codel"));
    let plain = config(discipline, QueueLimit::Packets(1000));
    let mut codel = link(LinkConfig { rate: Rate::from_bps(1_000_000), ..plain });
    let kept = delays(&mut *codel, &arrivals);
    // `CoDel` drops until one packet is left behind the packet in service. A new packet then finds one in service and
    // one waiting, and leaves 36 ms later.
    assert!(kept.len() > 400 && kept.iter().all(|&delay| delay == 36 * MS), "{kept:?}");
    assert_eq!(codel.stats().dropped_aqm, 47);
}

#[test]
fn a_burst_that_drains_within_the_interval_is_not_dropped() {
    let label = Label::of_size(ByteCount(SIZE));
    // Bursts that fill 90 ms of queue every 200 ms. The queue is empty again before it has stood for an interval.
    let arrivals: Vec<_> = (0..20).flat_map(|n| [(n * 200 * MS, label)].repeat(90)).collect();
    let mut codel = link(config(Some(PluginChoice::named("codel")), QueueLimit::Packets(1000)));
    fates(&mut *codel, &arrivals);
    assert_eq!((codel.stats().delivered, codel.stats().dropped()), (1800, 0));
}

#[test]
fn ecn_capable_packets_are_marked_and_others_dropped() {
    let choice = PluginChoice::named("codel").with("ecn", 1);
    for ect in [false, true] {
        let arrivals: Vec<_> =
            standing().into_iter().map(|(time, label)| (time, Label { ect, ..label })).collect();
        let mut codel = link(config(Some(choice.clone()), QueueLimit::Packets(1000)));
        let told = fates(&mut *codel, &arrivals);
        let stats = codel.stats();
        let marked =
            told.iter().filter(|fate| matches!(fate, Fate::Delivered { marked: true, .. })).count();
        assert_eq!(stats.marked, marked as u64);
        // Marked packets stay in the standing queue, so marks continue, more and more often.
        assert!(if ect { marked > 1000 } else { marked == 0 }, "{marked}");
        assert_eq!(stats.dropped_aqm, if ect { 0 } else { 95 });
    }
}

#[test]
fn unknown_queues_and_parameters_are_refused() {
    let check = |choice: PluginChoice| queue::check(&choice).unwrap_err().to_string();
    assert_eq!(check(PluginChoice::named("codle")), "unknown queue: `codle`");
    let unknown = PluginChoice::named("codel").with("quantum", 1514);
    assert_eq!(check(unknown), "unknown parameter of codel: `quantum`");
    let zero = PluginChoice::named("codel").with("target", 0);
    assert_eq!(check(zero), "`target` of codel is a whole number from 1 to 10000000000, not `0`");
    let discipline = Some(PluginChoice::named("red"));
    assert!(config(discipline, QueueLimit::Unlimited).check().is_err());
}
