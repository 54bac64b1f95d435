//! The links, paths, events and cross traffic of a random world.

use std::fmt::Write;

use anabranch_units::RandomStream;

use crate::plans::pick;

/// The size of a short transfer in a world.
#[derive(Clone, Copy)]
pub(crate) struct Estimate {
    /// The number of bytes in at most about a thousand segments.
    pub(crate) bytes: u64,
    /// The duration of the transfer without losses.
    pub(crate) seconds: f64,
}

/// The network part of a plan.
pub(crate) struct World {
    pub(crate) text: String,
    pub(crate) estimate: Estimate,
}

/// The two links of a path.
#[derive(Clone, Copy)]
struct Way {
    rate_bps: u64,
    delay_ns: u64,
    ipv6: bool,
}

const MILLISECOND: u64 = 1_000_000;

/// Draws the network. A word for each impairment is appended to `told`.
pub(crate) fn world(draw: &mut RandomStream, paths: u64, told: &mut String) -> World {
    let (mut links, mut list, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    for path in 0..paths {
        let way = Way {
            rate_bps: pick(
                draw,
                &[300, 1_000, 2_000, 5_000, 5_000, 10_000, 20_000, 50_000, 200_000],
            ) * 1_000,
            delay_ns: pick(draw, &[0, 1, 5, 10, 10, 25, 25, 50, 100, 250]) * MILLISECOND
                + draw.below(MILLISECOND),
            ipv6: draw.chance(0.2),
        };
        links.push(link(draw, path, way, true, told));
        links.push(link(draw, path, way, false, told));
        list.push(path_text(draw, path, way, told));
        ways.push(way);
    }
    let total: u64 = ways.iter().map(|way| way.rate_bps).sum();
    let slowest = ways.iter().map(|way| way.delay_ns).max().unwrap_or(0);
    let wanted = pick(draw, &[20_000, 100_000, 300_000, 600_000, 1_000_000, 1_500_000]);
    let bytes = wanted.min(total / 8 * 6);
    let seconds = (bytes * 8) as f64 / total as f64 + slowest as f64 * 8e-9 + 0.3;
    let events = events(draw, &ways, seconds, told);
    let cross = cross_traffic(draw, ways[0], told);
    let text = format!(
        r#""links":[{}],"paths":[{}],"events":[{events}],"cross_traffic":[{cross}]"#,
        links.join(","),
        list.join(",")
    );
    World { text, estimate: Estimate { bytes, seconds } }
}

/// Draws one direction of a path. Acknowledgements are impaired less often than data.
fn link(draw: &mut RandomStream, path: u64, way: Way, down: bool, told: &mut String) -> String {
    let often = if down { 1.0 } else { 0.4 };
    let side = if down { "down" } else { "up" };
    let mut text = format!(
        r#"{{"name":"p{path}.{side}","rate_bps":{},"delay_ns":{}"#,
        way.rate_bps, way.delay_ns
    );
    let packets = pick(draw, &[2, 4, 6, 10, 15, 20, 30, 60, 100, 100, 300]);
    let limit = if draw.chance(0.15) { ("bytes", packets * 1_500) } else { ("packets", packets) };
    let _ = write!(text, r#","queue":{{"{}":{}}}"#, limit.0, limit.1);
    let mut say = |word: &str| {
        let _ = write!(told, ", {word}{}", if down { "" } else { " (up)" });
    };
    if draw.chance(0.2 * often) {
        let (name, ecn) = (pick(draw, &["codel", "fq-codel"]), draw.below(2));
        let _ = write!(text, r#","discipline":{{"name":"{name}","values":{{"ecn":{ecn}}}}}"#);
        say(name);
    }
    if draw.chance(0.25) {
        let jitter = draw.below(way.delay_ns / 2 + MILLISECOND);
        let _ = write!(text, r#","jitter_ns":{jitter}"#);
    }
    if draw.chance(0.6 * often) {
        if draw.chance(0.6) {
            let share = pick(draw, &[0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25]);
            let _ = write!(text, r#","loss":{{"bernoulli":{share}}}"#);
            say("loss");
        } else {
            let (p, r) = (pick(draw, &[0.005, 0.02, 0.05]), pick(draw, &[0.05, 0.2, 0.5]));
            let h = pick(draw, &[0.0, 0.3]);
            let _ = write!(
                text,
                r#","loss":{{"gilbert_elliott":{{"p":{p},"r":{r},"h":{h},"k":1.0}}}}"#
            );
            say("bursts of loss");
        }
        if draw.chance(0.2) {
            text.push_str(r#","loss_at":"entry""#);
        }
    }
    if draw.chance(0.25 * often) {
        let (share, gap) = (pick(draw, &[0.01, 0.05, 0.2, 0.5]), pick(draw, &[1, 1, 5, 20]));
        let by = pick(draw, &[1, 3, 10, 30, 100, 300]) * MILLISECOND;
        let _ = write!(text, r#","reorder":{{"share":{share},"by_ns":{by},"gap":{gap}}}"#);
        say("reordering");
    }
    if draw.chance(0.15 * often) {
        let _ = write!(text, r#","duplicate":{}"#, pick(draw, &[0.005, 0.03, 0.2]));
        say("duplicates");
    }
    if draw.chance(0.04 * often) {
        let _ = write!(text, r#","corrupt":0.02,"corrupt_passes":{}"#, pick(draw, &[0.0, 0.5]));
        say("corruption");
    }
    if draw.chance(0.1 * often) {
        let mtu = pick(draw, &[1_280, 1_300, 1_400, 1_480]);
        let _ = write!(text, r#","mtu":{mtu},"icmp":{}"#, draw.chance(0.7));
        say("small MTU");
    }
    text + "}"
}

fn path_text(draw: &mut RandomStream, path: u64, way: Way, told: &mut String) -> String {
    let mut text = format!(r#"{{"name":"p{path}","down":["p{path}.down"],"up":["p{path}.up"]"#);
    if way.ipv6 {
        text.push_str(r#","family":"ipv6""#);
        told.push_str(", IPv6");
    }
    if draw.chance(0.1) {
        text.push_str(r#","backup":true"#);
        told.push_str(", backup");
    }
    if draw.chance(0.04) {
        let strips = pick(draw, &["true", r#"["syn"]"#, r#"["third-ack"]"#, r#"["data"]"#]);
        let _ = write!(text, r#","strips_mptcp":{strips}"#);
        told.push_str(", options stripped");
    }
    text + "}"
}

/// Draws outages, delay spikes, rate changes and bursts of losses during the transfer.
fn events(draw: &mut RandomStream, ways: &[Way], seconds: f64, told: &mut String) -> String {
    let mut list: Vec<(u64, String)> = Vec::new();
    let count = pick(draw, &[0, 0, 1, 1, 2, 3, 5]);
    for _ in 0..count {
        let path = draw.below(ways.len() as u64);
        let way = ways[path as usize];
        let at = (draw.uniform() * seconds * 1e9) as u64 + 1;
        let spans = [5, 20, 80, 200, 500, 1_500, 4_000];
        let end = at + pick(draw, &spans) * MILLISECOND + draw.below(MILLISECOND);
        happen(draw, &mut list, (path, way), (at, end), told);
    }
    list.sort();
    list.into_iter()
        .map(|(at, what)| format!(r#"{{"at_ns":{at},{what}}}"#))
        .collect::<Vec<_>>()
        .join(",")
}

fn happen(
    draw: &mut RandomStream,
    list: &mut Vec<(u64, String)>,
    (path, way): (u64, Way),
    (at, end): (u64, u64),
    told: &mut String,
) {
    let change = |side: &str, what: &str| format!(r#""link":"p{path}.{side}","change":{what}"#);
    let interface = |what: &str| format!(r#""path":"p{path}","interface":"{what}""#);
    let side = pick(draw, &["down", "down", "up"]);
    match draw.below(8) {
        0 => {
            told.push_str(", cut");
            for side in ["down", "up"] {
                list.push((at, change(side, r#""down""#)));
                list.push((end, change(side, r#""up""#)));
            }
        }
        1 => {
            told.push_str(", one direction cut");
            list.push((at, change(side, r#""down""#)));
            list.push((end, change(side, r#""up""#)));
        }
        2 => {
            let what = pick(draw, &["down", "removed"]);
            let _ = write!(told, ", interface {what}");
            list.push((at, interface(what)));
            list.push((end, interface("up")));
        }
        3 | 4 => {
            told.push_str(", delay spike");
            let more = pick(draw, &[50, 200, 500, 1_500]) * MILLISECOND;
            list.push((at, change(side, &format!(r#"{{"delay_ns":{}}}"#, way.delay_ns + more))));
            list.push((end, change(side, &format!(r#"{{"delay_ns":{}}}"#, way.delay_ns))));
        }
        5 => {
            told.push_str(", rate change");
            let slow = (way.rate_bps / pick(draw, &[2, 5, 20])).max(100_000);
            list.push((at, change(side, &format!(r#"{{"rate_bps":{slow}}}"#))));
            list.push((end, change(side, &format!(r#"{{"rate_bps":{}}}"#, way.rate_bps))));
        }
        6 => {
            told.push_str(", burst of loss");
            let share = pick(draw, &[0.3, 0.6, 1.0, 1.0]);
            list.push((at, change(side, &format!(r#"{{"loss":{{"bernoulli":{share}}}}}"#))));
            list.push((end, change(side, r#"{"loss":null}"#)));
        }
        _ => {
            told.push_str(", smaller MTU");
            list.push((at, change("down", r#"{"mtu":1320}"#)));
        }
    }
}

/// With probability 0.12, adds a background flow over the first path.
fn cross_traffic(draw: &mut RandomStream, way: Way, told: &mut String) -> String {
    if !draw.chance(0.12) || way.rate_bps > 20_000_000 {
        return String::new();
    }
    told.push_str(", cross traffic");
    let rate = way.rate_bps / 2;
    let kind = match draw.below(3) {
        0 => r#""kind":"bulk","bytes":200000,"congestion":"cubic""#.to_owned(),
        1 => format!(r#""kind":"udp","rate_bps":{rate},"size":1200,"duration_ns":4000000000"#),
        _ => format!(
            r#""kind":"on-off","rate_bps":{rate},"size":1000,"on_ns":100000000,"off_ns":200000000,"duration_ns":4000000000"#
        ),
    };
    format!(
        r#"{{"name":"other","data":["p0.down"],"acks":["p0.up"],"count":1,"start_ns":100000000,{kind}}}"#
    )
}
