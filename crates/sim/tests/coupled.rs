//! The three goals of RFC 6356 section 2 (improve throughput, do no harm, balance congestion), measured for
//! LIA, OLIA and BALIA. They compete with plain TCP (Reno) at bottlenecks and are compared with uncoupled
//! Reno, which does not reach the goals. The results are in docs/coupled.md.

mod common;

use anabranch_sim::Trace;

use common::{numbers, simulate};

const COUPLED: [&str; 3] = ["lia", "olia", "balia"];
const SEEDS: std::ops::RangeInclusive<u64> = 1..=12;
/// The tolerance for chance in ratios of means over the seeds. The fraction of the link that one Reno flow
/// gets among others has a standard deviation of 7 % over seeds. The mean of twelve seeds has 2 %, and a
/// ratio of two such means 3 %.
const CHANCE: f64 = 0.1;
/// The excess of LIA over one TCP on two equal paths through one bottleneck, a known deviation. With 36 seeds
/// the ratio is 1.09, which would use up [`CHANCE`]. The cause is that the data is pushed, not the
/// controller: a single subflow with pushed data has an even larger excess (docs/coupled.md).
const KNOWN_EXCESS: f64 = 0.05;

/// A network with bottlenecks of 12 Mbit/s (one packet per millisecond) and queues of 100 packets. The access
/// links behind them only add delay. Their jitter prevents the flows from synchronising.
#[derive(Clone, Copy)]
struct Network {
    /// One-way delays of the client's paths `a` and `b`, milliseconds.
    delays_ms: [u64; 2],
    /// The number of TCP flows at the bottlenecks of `a` and `b`. With `None`, both paths cross the
    /// bottleneck of `a`.
    flows: (u32, Option<u32>),
    /// The duration of a transfer.
    seconds: u64,
}

fn link(name: &str, rate_mbps: u64, delay_ms: u64, more: &str) -> String {
    format!(
        r#"{{"name":"{name}","rate_bps":{rate_mbps}000000,"queue":{{"packets":100}},
        "delay_ns":{delay_ms}000000{more}}}"#
    )
}

fn path(name: &str, bottleneck: &str) -> String {
    format!(r#"{{"name":"{name}","down":["{bottleneck}","{name}.down"],"up":["{name}.up"]}}"#)
}

fn flows(bottleneck: &str, count: u32) -> String {
    format!(
        r#"{{"name":"{bottleneck}","data":["{bottleneck}","x.down"],"acks":["x.up"],"kind":"bulk",
        "congestion":"reno","count":{count},"start_ns":0}}"#
    )
}

/// Returns a plan with a bulk transfer over `paths`, with MPTCP or plain TCP.
fn plan(
    (seed, seconds): (u64, u64),
    (congestion, multipath): (&str, bool),
    links: &[String],
    paths: &[String],
    more: &str,
) -> String {
    format!(
        r#"{{"scenario":"coupled","seed":{seed},"run":0,
        "application":{{"kind":"bulk","duration_ns":{seconds}000000000}},
        "transport":{{"multipath":{},"scheduler":"min-rtt","congestion":"{congestion}",
          "path_manager":"full-mesh","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[{}],"paths":[{}],
        "time_limit_ns":100000000000000{more}}}"#,
        multipath,
        links.join(","),
        paths.join(",")
    )
}

/// The results of a transfer, as means over the seeds.
#[derive(Clone, Copy, Debug, Default)]
struct Got {
    /// Goodput of the application, Mbit/s.
    goodput: f64,
    /// The goodput divided by that of an average competing TCP flow in the same run.
    share: f64,
    /// The fraction of its bytes that were sent over path `a`.
    over_a: f64,
}

impl Network {
    /// Measures a transfer over the client's paths with these indices. Over one path it is plain TCP.
    fn measure(&self, congestion: &str, used: &[usize]) -> Got {
        self.measure_with(congestion, used, used.len() > 1)
    }

    /// Like `measure`, with MPTCP or plain TCP as given.
    fn measure_with(&self, congestion: &str, used: &[usize], multipath: bool) -> Got {
        let (flows_a, flows_b) = self.flows;
        let [a, b] = self.delays_ms;
        let jitter = r#","jitter_ns":2000000"#;
        let mut links = vec![link("first", 12, 5, ""), link("second", 12, 5, "")];
        for (name, delay) in [("a", a), ("b", b), ("x", 20)] {
            links.push(link(&format!("{name}.down"), 1000, delay, jitter));
            links.push(link(&format!("{name}.up"), 1000, delay, jitter));
        }
        let other = if flows_b.is_some() { "second" } else { "first" };
        let paths = [path("a", "first"), path("b", other)];
        let used: Vec<String> = used.iter().map(|index| paths[*index].clone()).collect();
        let groups = [Some(flows("first", flows_a)), flows_b.map(|count| flows("second", count))];
        let groups: Vec<String> = groups.into_iter().flatten().collect();
        let crossed = format!(r#","cross_traffic":[{}]"#, groups.join(","));
        let mut got = Got::default();
        let mut shares = Vec::new();
        for seed in SEEDS {
            let (time, transport) = ((seed, self.seconds), (congestion, multipath));
            let trace = simulate(&plan(time, transport, &links, &used, &crossed));
            let goodput =
                numbers(&trace, "connections", "bytes_read")[0] * 8e-6 / self.seconds as f64;
            let beside = numbers(&trace, "cross_traffic", "goodput_mbps");
            let bytes = numbers(&trace, "subflows", "bytes");
            let count = SEEDS.count() as f64;
            shares.push(goodput * beside.len() as f64 / beside.iter().sum::<f64>());
            got.goodput += goodput / count;
            got.share += shares[shares.len() - 1] / count;
            got.over_a += bytes[0] / bytes.iter().sum::<f64>() / count;
        }
        println!(
            "{congestion} over {}, MPTCP {multipath}: {got:.2?}, shares {shares:.2?}",
            used.len()
        );
        got
    }
}

/// Goal 2 at one bottleneck: a connection with two subflows gets as much as one TCP. Without coupling, it
/// gets as much as two if the RTTs are equal, and otherwise more than one. With equal RTTs, this is also
/// goal 1. With different RTTs, the coupled controllers do not reach goal 1 (docs/coupled.md). A single subflow
/// with pushed data gets more than one TCP, and more than the coupled controllers.
#[test]
#[ignore = "long: 120 transfers of 200 s beside other flows"]
fn at_a_shared_bottleneck_they_take_no_more_than_one_tcp() {
    let network = |delay_b| Network { delays_ms: [20, delay_b], flows: (3, None), seconds: 200 };
    let tcp = network(20).measure("reno", &[0]).share;
    assert!((tcp - 1.0).abs() < CHANCE, "TCP among TCPs: {tcp}");
    let one = network(20).measure_with("reno", &[0], true).share / tcp;
    assert!(one > 1.0 + CHANCE, "pushed segments take more: {one}");
    for (delay_b, impaired) in [(20, 2.0), (60, 1.0 + 2.0 * CHANCE)] {
        let uncoupled = network(delay_b).measure("reno", &[0, 1]).share / tcp;
        assert!(uncoupled > impaired * (1.0 - CHANCE), "{delay_b} ms: uncoupled {uncoupled}");
        for name in COUPLED {
            let share = network(delay_b).measure(name, &[0, 1]).share / tcp;
            let known = if delay_b == 20 { KNOWN_EXCESS } else { 0.0 };
            assert!(share < 1.0 + CHANCE + known, "{name}, {delay_b} ms: {share} of one TCP");
            assert!(delay_b != 20 || share > 1.0 - CHANCE, "{name}: {share} of one TCP");
            assert!(
                share < one,
                "{name}, {delay_b} ms: {share} of one TCP, a single subflow {one}"
            );
        }
    }
}

/// Goals 1 and 3 with two bottlenecks, one of which has three times as many flows as the other.
///
/// In equilibrium, uncoupled windows are proportional to p^-1/2 and those of LIA to 1 / p. With equal RTTs,
/// the ratio of LIA's windows is therefore the square of the uncoupled ratio. OLIA and BALIA use the worse
/// path even less (Khalili et al. 2012, Peng et al. 2016).
#[test]
#[ignore = "long: 72 transfers of 200 s beside 16 flows"]
fn over_two_bottlenecks_they_get_no_less_and_leave_the_worse_one() {
    let network = Network { delays_ms: [20, 20], flows: (4, Some(12)), seconds: 200 };
    let best = network.measure("reno", &[0]).goodput;
    assert!(network.measure("reno", &[1]).goodput < best / 2.0, "the second path is worse");
    let uncoupled = network.measure("reno", &[0, 1]);
    let ratio = (1.0 - uncoupled.over_a) / uncoupled.over_a;
    let expected = 1.0 / (1.0 + ratio * ratio);
    assert!(expected > uncoupled.over_a + CHANCE, "there is something to balance");
    for name in COUPLED {
        let got = network.measure(name, &[0, 1]);
        assert!(got.goodput > best * (1.0 - CHANCE), "{name}: {got:?}, one TCP {best}");
        assert!(got.over_a > expected - CHANCE / 2.0, "{name}: {got:?}, LIA's balance {expected}");
    }
}

/// Goals 1 and 2 with two equal bottlenecks, where MPTCP can gain. It gets more than one TCP, and not more
/// than the competing TCP flows. Without coupling, it gets almost twice that.
#[test]
#[ignore = "long: 60 transfers of 100 s beside other flows"]
fn over_equal_bottlenecks_they_gain_and_do_no_harm() {
    let network = Network { delays_ms: [20, 20], flows: (1, Some(1)), seconds: 100 };
    let best = network.measure("reno", &[0]).goodput;
    let uncoupled = network.measure("reno", &[0, 1]);
    // A TCP at this position has a single competitor, as above. Of two competing flows, the one that is ahead
    // stays ahead for long.
    assert!(uncoupled.goodput > 2.0 * best * (1.0 - CHANCE), "uncoupled {uncoupled:?}, one {best}");
    assert!(uncoupled.share > 1.0 + 2.0 * CHANCE, "there is harm to do: {uncoupled:?}");
    for name in COUPLED {
        let got = network.measure(name, &[0, 1]);
        assert!(got.goodput > best, "{name}: {got:?}, one TCP {best}");
        assert!(got.share < 1.0 + CHANCE, "{name}: {got:?}");
    }
}

/// Runs a transfer over paths with an RTT of 100 ms, whose random losses keep the rate far below the links'
/// rate.
fn lossy(congestion: &str, seed: u64, paths: usize, more: &str) -> Trace {
    let loss = r#","loss":{"bernoulli":0.002}"#;
    let mut links = Vec::new();
    for name in ["a", "b"] {
        links.push(link(&format!("{name}.core"), 100, 25, loss));
        links.push(link(&format!("{name}.down"), 100, 25, ""));
        links.push(link(&format!("{name}.up"), 100, 50, ""));
    }
    let all = [path("a", "a.core"), path("b", "b.core")];
    simulate(&plan((seed, 200), (congestion, true), &links, &all[..paths], more))
}

#[test]
fn over_one_path_they_are_reno_to_the_byte() {
    let reno = lossy("reno", 1, 1, "");
    assert!(numbers(&reno, "subflows", "retransmissions")[0] > 50.0);
    for name in ["lia", "balia"] {
        assert_eq!(lossy(name, 1, 1, "").summary.digest, reno.summary.digest, "{name}");
    }
    // After a loss, OLIA keeps its count towards the next segment, and Reno restarts it.
    let bytes = |trace: &_| numbers(trace, "subflows", "bytes")[0];
    let gain = bytes(&lossy("olia", 1, 1, "")) / bytes(&reno);
    assert!((0.97..1.03).contains(&gain) && (gain - 1.0).abs() > 1e-6, "{gain}");
    assert_ne!(lossy("wvegas", 1, 1, "").summary.digest, reno.summary.digest);
}

/// Returns the rate acknowledged on the first subflow from 50 s on, Mbit/s. If there is a second path, it is
/// dead from 40 s on.
fn after_death(congestion: &str, paths: usize) -> f64 {
    let down = |link: &str| format!(r#"{{"at_ns":40000000000,"link":"{link}","change":"down"}}"#);
    let events = format!(r#","events":[{},{}]"#, down("b.core"), down("b.up"));
    let survivor = |seed| {
        let trace = lossy(congestion, seed, paths, &events);
        let (times, subflows) =
            (numbers(&trace, "samples", "t_s"), numbers(&trace, "samples", "subflow"));
        let bytes = numbers(&trace, "samples", "bytes_acked");
        let of_first = (0..times.len()).filter(|row| subflows[*row] < 0.5 && times[*row] >= 50.0);
        let rows: Vec<usize> = of_first.collect();
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        (bytes[last] - bytes[first]) * 8e-6 / (times[last] - times[first])
    };
    let rates: Vec<f64> = (1..=3).map(survivor).collect();
    rates.iter().sum::<f64>() / rates.len() as f64
}

/// If the dead path is excluded from the sums, the remaining subflow grows like Reno. Otherwise the dead path
/// is in the sums with a window of one segment and its last RTT.
///
/// LIA's growth is then multiplied by (w / (w + 1))^2 for a window of w segments. The rate is multiplied by w
/// / (w + 1), which is 3 % less for the 30 segments of this test.
///
/// OLIA may regard the dead path as the best one. alpha of the remaining subflow is then -1/2, and its growth
/// per round trip is 0.94 - 0.5 segments. The rate is proportional to the square root of the growth, 0.66,
/// compared with 0.97 for LIA. It depends on chance which path went longer without a loss. If both paths are
/// alike, the probability is one half. At a probability of one tenth, OLIA would lose 0.03 more than LIA.
#[test]
#[ignore = "long: 21 transfers of 200 s"]
fn the_dead_slow_a_survivor_down_only_if_they_stay() {
    let alone = after_death("reno", 1);
    let [lia, olia, balia] = COUPLED.map(|name| {
        let left = after_death(name, 2);
        let stayed = after_death(&format!("{name}(dead=stay)"), 2);
        assert!((left / alone - 1.0).abs() < CHANCE, "{name}: {left}, alone {alone}");
        stayed / left
    });
    assert!(lia < 0.98 && balia < 0.98, "LIA {lia}, BALIA {balia}");
    assert!(olia < lia - 0.03, "OLIA {olia}, LIA {lia}");
}
