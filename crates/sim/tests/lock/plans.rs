//! Random worlds from a seed: short transfers under all conditions that a plan can describe.
//!
//! Equal seeds give equal plans on every platform. A change to this file changes all digests of the lock.

use std::fmt::Write;

use anabranch_units::{RandomStream, Seed};

use crate::links::{self, Estimate};

/// Schedulers, each with parameters that change its decisions.
const SCHEDULERS: &[&str] = &[
    "linux",
    "linux",
    "linux-6.1",
    "min-rtt",
    "min-rtt-0.9x",
    "min-rtt-0.9x(turn=window)",
    "penalising(ecf)",
    "round-robin",
    "round-robin(num_segments=3,cwnd_limited=false)",
    "redundant",
    "redundant(turn=piece)",
    "dft",
    "spdx",
    "lpcx",
    "letx",
    "rtx-aware(min-rtt)",
    "lpc",
    "let",
    "gr-sty",
    "blest",
    "blest(min-rtt-0.9x)",
    "ecf",
    "ecf(delta=paper)",
    "sttf",
    "daps",
    "wait-or-send",
];

/// Congestion controllers, each with parameters that change its behaviour.
const CONTROLLERS: &[&str] = &[
    "cubic",
    "cubic",
    "cubic",
    "cubic(hystart=off)",
    "cubic(form=printed)",
    "reno",
    "reno",
    "bbr",
    "bbr(form=linux-4.14)",
    "bbr3",
    "bbr3(ecn=true)",
    "compound",
    "compound(gamma=auto)",
    "ccp",
    "ccpd",
    "lia",
    "lia(form=kernel)",
    "olia",
    "olia(form=kernel)",
    "olia(dead=stay)",
    "balia",
    "balia(form=kernel)",
    "wvegas",
    "wvegas(form=kernel)",
];

/// The switches of a profile, each with the probability that it is off.
const PARTS: &[(&str, f64)] = &[
    ("sack", 0.25),
    ("rack", 0.2),
    ("tlp", 0.2),
    ("hystart", 0.1),
    ("prr", 0.15),
    ("receive_autotuning", 0.1),
    ("opportunistic_retransmission", 0.1),
    ("penalisation", 0.1),
];

/// The adaptive bitrate rules.
const RULES: &[&str] = &["vlc-nearoptimal", "hlsjs", "bola", "mpc", "throughput"];

/// Draws a member of a list.
pub(crate) fn pick<T: Copy>(stream: &mut RandomStream, from: &[T]) -> T {
    from[stream.below(from.len() as u64) as usize]
}

/// Returns the plan for a seed as JSON. The name of the plan lists the most important choices.
pub(crate) fn plan(seed: u64) -> String {
    let mut draw = Seed { seed, run: 0 }.stream("lock");
    let paths = pick(&mut draw, &[1, 1, 1, 2, 2, 2, 2, 3, 3, 4]);
    let mut told = format!("{paths} paths");
    let world = links::world(&mut draw, paths, &mut told);
    let transport = transport(&mut draw, paths, &mut told);
    let application = application(&mut draw, world.estimate, &mut told);
    let clients = if draw.chance(0.05) { 2 } else { 1 };
    let host = host(&mut draw);
    format!(
        r#"{{"scenario":"{told}","seed":{seed},"run":0,"clients":{clients},{transport},{application},{host}{},"time_limit_ns":90000000000}}"#,
        world.text
    )
}

fn transport(draw: &mut RandomStream, paths: u64, told: &mut String) -> String {
    let multipath = paths > 1 || draw.chance(0.4);
    let profile = pick(draw, &["linux-6.18", "linux-6.18", "mptcp-0.94"]);
    let (scheduler, mut congestion) = (pick(draw, SCHEDULERS), pick(draw, CONTROLLERS));
    // The profile sets a slow-start exit, which the printed form of CUBIC does not have.
    if profile == "mptcp-0.94" && congestion.contains("printed") {
        congestion = "cubic";
    }
    let manager =
        pick(draw, &["full-mesh", "full-mesh", "full-mesh", "full-mesh", "range", "none"]);
    let off: Vec<String> = PARTS
        .iter()
        .filter(|(_, chance)| draw.chance(*chance))
        // The printed form of CUBIC has no slow-start exit that could be switched off.
        .filter(|(name, _)| *name != "hystart" || !congestion.contains("printed"))
        .map(|(name, _)| format!(r#""{name}":false"#))
        .collect();
    let off = off.join(",");
    let initial = pick(draw, &[4_096, 16_384, 65_536, 131_072, 131_072, 131_072]);
    let largest = pick(draw, &[4_096, 16_384, 40_000, 131_072, 1_000_000, 6_291_456, 6_291_456]);
    let send = pick(draw, &[16_384, 65_536, 262_144, 4_194_304, 4_194_304, 4_194_304]);
    let mss = pick(draw, &[536, 1_200, 1_400, 1_460, 1_460, 1_460]);
    let ecn = ["off", "request", "accept", "accept"];
    let (client, server) = (pick(draw, &ecn), pick(draw, &ecn));
    let (checksum, pacing) = (draw.chance(0.15), draw.chance(0.15));
    let _ = write!(told, ", {profile}, {scheduler}, {congestion}");
    if !off.is_empty() {
        let _ =
            write!(told, ", {}", off.replace('"', "").replace(":false", " off").replace(',', ", "));
    }
    format!(
        r#""transport":{{"multipath":{multipath},"scheduler":"{scheduler}","congestion":"{congestion}","path_manager":"{manager}","receive_buffer_initial":{},"receive_buffer_max":{largest},"send_buffer_max":{send},"mss":{mss},"checksum":{checksum},"pacing":{pacing},"ecn":{{"client":"{client}","server":"{server}"}},"profile":"{profile}","stack":{{{off}}}}}"#,
        initial.min(largest)
    )
}

/// Draws an application that transfers about a thousand segments, or as many as the paths allow in a few
/// seconds.
fn application(draw: &mut RandomStream, estimate: Estimate, told: &mut String) -> String {
    let seconds = estimate.seconds;
    match draw.below(20) {
        0..12 => {
            told.push_str(", bulk");
            format!(r#""application":{{"kind":"bulk","bytes":{}}}"#, estimate.bytes)
        }
        12..16 => {
            told.push_str(", paced");
            let share = pick(draw, &[0.3, 0.7, 0.9, 1.2]);
            let rate = ((estimate.bytes * 8) as f64 / seconds * share) as u64;
            let span = (seconds * 1e9) as u64;
            format!(
                r#""application":{{"kind":"paced","rate_bps":{},"duration_ns":{span}}}"#,
                rate.max(80_000)
            )
        }
        16..18 => {
            told.push_str(", progressive");
            let film = draw.below(8);
            format!(
                r#""application":{{"kind":"progressive","duration_ns":20000000000}},"film":{{"synthetic":{{"name":"film {film}","rate_bps":{},"duration_ns":6000000000}}}}"#,
                pick(draw, &[300_000, 700_000, 1_500_000])
            )
        }
        _ => {
            told.push_str(", adaptive");
            let rule = pick(draw, RULES);
            format!(
                r#""application":{{"kind":"adaptive","duration_ns":20000000000,"adaptive":{{"abr":{{"name":"{rule}"}}}}}},"ladder":{{"synthetic":{{"name":"uq18-jp","duration_ns":12000000000,"chunk_ns":2000000000}}}}"#
            )
        }
    }
}

fn host(draw: &mut RandomStream) -> String {
    let tick = pick(draw, &[1_000_000, 4_000_000, 4_000_000, 4_000_000, 10_000_000]);
    let phase = draw.below(tick);
    let one = draw.chance(0.2);
    format!(r#""host":{{"timer_tick_ns":{tick},"one_processor":{one},"clock_phase_ns":{phase}}},"#)
}
