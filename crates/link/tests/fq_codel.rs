//! Compares `FQ-CoDel` with the text of RFC 8290, packet by packet, and checks its goals.

mod oracle;

use anabranch_link::queue::{self, Queue, Ticket};
use anabranch_link::{Fate, Label, Link, LinkConfig, QueueLimit, Queued, VaryingLink};
use anabranch_plugin::PluginChoice;
use anabranch_units::{ByteCount, Duration, Instant, RandomStream, Rate, Seed};

use oracle::{FqCoDel, Packet, Parameters, Said, ask};

const MS: u64 = 1_000_000;
/// The rate, 10 Mb/s. A packet of 1,250 bytes takes a millisecond.
const RATE: Rate = Rate::from_bps(10_000_000);

fn seed(run: u64) -> Seed {
    Seed { seed: 8290, run }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(nanos)
}

/// Returns a queue with 65,536 flows, so that the few flows of a test have different hashes.
fn queue(parameters: Parameters, quantum: u64, limit: u64) -> Box<dyn Queue> {
    let choice = PluginChoice::named("fq-codel")
        .with("target", parameters.target)
        .with("interval", parameters.interval)
        .with("ecn", u64::from(parameters.ecn))
        .with("quantum", quantum)
        .with("flows", 65_536);
    queue::build(&choice, QueueLimit::Packets(limit), seed(0).stream("queue")).expect("a queue")
}

/// Runs a queue with random packets next to the oracle. Adds the number of packets with each of the four fates to
/// `counts`.
fn live(run: u64, counts: &mut [usize; 4]) {
    let mut luck: RandomStream = seed(run).stream("life");
    let parameters = Parameters {
        target: [5 * MS, MS][run as usize % 2],
        interval: [100 * MS, 20 * MS][run as usize % 2],
        ecn: run % 4 == 3,
        maxpacket: 1500,
    };
    let (quantum, limit) = ([1514, 300][run as usize % 2], [1000, 120][run as usize % 2]);
    let mut tested = queue(parameters, quantum, limit);
    let mut rfc = FqCoDel::new(parameters, quantum as i64, limit);
    let (mut now, mut id) = (0, 0);
    let (mut said, mut expected, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..25 {
        let (comes, goes) =
            [(1, 4), (1, 2), (2, 2), (3, 2), (8, 1), (1, 9)][luck.below(6) as usize];
        let flows = 1 + luck.below(6);
        for _ in 0..luck.below(500) {
            now += luck.below(MS);
            for _ in 0..luck.below(comes + 1) {
                // Each flow has its own packet size and share: some are sparse, some have much data.
                let flow = luck.below(flows).min(luck.below(flows));
                let size = 100 + 200 * flow + luck.below(200);
                let ect = luck.chance(0.5);
                let held = Queued { packets: rfc.packets(), bytes: ByteCount(rfc.bytes()) };
                let ticket = Ticket { number: id, size: ByteCount(size), flow, ect };
                tested.admit(at(now), ticket, held, &mut out);
                said.extend(out.drain(..).map(Said::Full));
                let packet = Packet { id, size, flow, ect, tstamp: 0 };
                rfc.enqueue(now, packet, 0, &mut expected);
                id += 1;
            }
            for _ in 0..luck.below(goes + 1) {
                ask(&mut *tested, now, &mut said);
                rfc.dequeue(now, &mut expected);
            }
            assert_eq!(said, expected, "run {run}, {now} ns");
            for word in said.drain(..) {
                counts[match word {
                    Said::Dropped(_) => 0,
                    Said::Full(_) => 1,
                    Said::Marked(_) => 2,
                    Said::Passed(_) => 3,
                }] += 1;
            }
            expected.clear();
        }
    }
}

#[test]
fn every_packet_has_the_fate_of_the_rfc() {
    let mut counts = [0; 4];
    for run in 0..40 {
        live(run, &mut counts);
    }
    let [dropped, full, marked, passed] = counts;
    assert!(dropped > 1_000 && full > 1_000 && marked > 1_000 && passed > 10_000, "{counts:?}");
}

fn link(choice: PluginChoice) -> VaryingLink<u64> {
    let limit = QueueLimit::Packets(10_240);
    let plain = LinkConfig::new("wifi.down", RATE, limit, Duration::from_millis(20));
    VaryingLink::of_set_rate(LinkConfig { discipline: Some(choice), ..plain }, seed(0))
}

/// Sends packets of these flows, each given by its number, the microseconds between packets and their bytes. Returns
/// the flow and the delay in ms of each packet that arrives within 10 s.
fn carry(link: &mut dyn Link<u64>, flows: &[(u64, u64, u64)]) -> Vec<(u64, f64)> {
    let mut arrivals: Vec<(u64, u64, u64)> = Vec::new();
    for &(flow, every_us, size) in flows {
        arrivals.extend((0..10_000_000 / every_us).map(|n| (n * every_us * 1000, flow, size)));
    }
    arrivals.sort_unstable();
    let mut told = Vec::new();
    for (id, &(time, flow, size)) in (0..).zip(&arrivals) {
        while let Some(due) = link.poll_timeout().filter(|&due| due <= at(time)) {
            told.extend(std::iter::from_fn(|| link.poll_fate(due)));
        }
        link.enter(at(time), id, Label { size: ByteCount(size), flow, ect: false });
    }
    let delivered = |fate| match fate {
        Fate::Delivered { at, packet, .. } => {
            let (time, flow, _) = arrivals[packet as usize];
            Some((flow, (at.as_nanos() - 20 * MS - time) as f64 / MS as f64))
        }
        Fate::Dropped { .. } => None,
    };
    told.into_iter().filter_map(delivered).collect()
}

#[test]
fn flows_share_the_link_equally_in_bytes() {
    // 20, 10 and 7.5 Mb/s with packets of 1,250, 500 and 300 bytes, over 10 Mb/s.
    let flows = [(1, 500, 1250), (2, 400, 500), (3, 320, 300)];
    let mut fair = link(PluginChoice::named("fq-codel"));
    let told = carry(&mut fair, &flows);
    for (flow, _, size) in flows {
        let bytes = told.iter().filter(|&&(other, _)| other == flow).count() as f64 * size as f64;
        // A third of 12.5 MB each. With a quantum of 1,514 bytes, they differ by at most two quanta and the delay of
        // 20 ms.
        assert!((bytes * 3.0 / 12.5e6 - 1.0).abs() < 0.01, "flow {flow}: {bytes} bytes");
    }
    assert!(fair.stats().dropped_aqm > 1000, "they are held down by drops");
    // With one queue for all flows, packets leave in the order of arrival.
    let mut unfair = link(PluginChoice::named("codel"));
    let told = carry(&mut unfair, &flows);
    let bytes = told.iter().filter(|&&(flow, _)| flow == 1).count() as f64 * 1250.0;
    assert!(bytes > 0.45 * 12.5e6, "{bytes} bytes");
}

#[test]
fn a_sparse_flow_goes_first() {
    // A bulk flow at twice the rate, and a packet of 100 bytes every 50 ms.
    let flows = [(1, 500, 1250), (2, 50_000, 100)];
    let mut fair = link(PluginChoice::named("fq-codel"));
    let sparse: Vec<f64> =
        carry(&mut fair, &flows).iter().filter(|told| told.0 == 2).map(|told| told.1).collect();
    // A packet waits at most for the packet in service, 1 ms, and takes 0.08 ms itself. It is never dropped. The
    // first packet waits longer: the bulk flow is new then, too, and its quantum of 1,514 bytes is two packets.
    assert!(sparse.len() >= 199 && (sparse[0] - 2.08).abs() < 1e-9, "{sparse:?}");
    assert!(sparse[1..].iter().all(|&ms| ms <= 1.08), "{sparse:?}");
    let mut unfair = link(PluginChoice::named("codel"));
    let behind: Vec<f64> =
        carry(&mut unfair, &flows).iter().filter(|told| told.0 == 2).map(|told| told.1).collect();
    let mean = behind.iter().sum::<f64>() / behind.len() as f64;
    assert!(mean > 100.0, "in one queue it waits with the others: {mean} ms");
}

#[test]
fn flows_of_one_hash_share_a_queue() {
    let flows = [(1, 500, 1250), (2, 50_000, 100)];
    let mut single = link(PluginChoice::named("fq-codel").with("flows", 1));
    let told = carry(&mut single, &flows);
    assert!(told.iter().any(|&(flow, ms)| flow == 2 && ms > 50.0), "no flow is preferred");
}
