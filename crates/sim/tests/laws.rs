//! Compares one Reno flow with laws of TCP throughput: Mathis et al. (CCR 1997), PFTK (Padhye et al., SIGCOMM
//! 1998), and the arithmetic of the sawtooth over a drop-tail queue.

mod common;

use anabranch_sim::Trace;

use common::{numbers, total};

/// The payload of a segment with timestamps, in bytes, and the size of its packet in bits.
const PAYLOAD: f64 = 1448.0;
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// The round-trip time without queues, seconds.
const RTT: f64 = 0.1;

/// Runs a bulk transfer by Reno over one path with an RTT of [`RTT`]. The downlink has losses.
fn transfer(seed: u64, seconds: u64, rate_bps: u64, queue: u64, loss: f64) -> Trace {
    let half_ns = (RTT / 2.0 * 1e9) as u64;
    let text = format!(
        r#"{{"scenario":"laws","seed":{seed},"run":0,
        "application":{{"kind":"bulk","duration_ns":{}}},
        "transport":{{"multipath":false,"scheduler":"linux","congestion":"reno",
          "path_manager":"none","receive_buffer_initial":131072,"receive_buffer_max":6291456,
          "send_buffer_max":4194304,"mss":1460}},
        "links":[
          {{"name":"down","rate_bps":{rate_bps},"queue":{{"packets":{queue}}},"delay_ns":{half_ns},
            "loss":{{"bernoulli":{loss}}}}},
          {{"name":"up","rate_bps":{rate_bps},"queue":{{"packets":1000}},"delay_ns":{half_ns}}}],
        "paths":[{{"name":"only","down":["down"],"up":["up"]}}],
        "time_limit_ns":100000000000000}}"#,
        seconds * 1_000_000_000,
    );
    common::simulate(&text)
}

/// The full model of PFTK (equation 30 without the receiver's window), in packets sent per second. `b`
/// segments are acknowledged together, and `t0` is the first timeout.
fn pftk(p: f64, b: f64, rtt: f64, t0: f64) -> f64 {
    let c = (2.0 + b) / (3.0 * b);
    let window = c + (8.0 * (1.0 - p) / (3.0 * b * p) + c * c).sqrt();
    let s = 1.0 - p;
    let timeouts = ((1.0 - s.powi(3)) * (1.0 + s.powi(3) * (1.0 - s.powf(window - 3.0)))
        / (1.0 - s.powf(window)))
    .min(1.0);
    let backoff: f64 = 1.0 + (0..6).map(|n| 2.0_f64.powi(n) * p.powi(n + 1)).sum::<f64>();
    ((1.0 - p) / p + window + timeouts / (1.0 - p))
        / (rtt * (b / 2.0 * window + 1.0) + timeouts * t0 * backoff / (1.0 - p))
}

/// Independent losses on a path that is never full, from 0.1 % to 3 %.
///
/// Reno in Linux grows by one segment per window of acknowledged *segments* (`tcp_cong_avoid_ai`, like RFC
/// 3465), so delayed acknowledgements do not slow it down. Both laws therefore apply with one acknowledgement
/// per segment, b = 1.
///
/// - Upper bound: C / (RTT sqrt(p)) with C = 1.31, the constant of Mathis et al. for random losses (table 1).
///   For periodic losses, C is sqrt(3/2) = 1.22. With delayed acknowledgements, the table has 0.87 for periodic
///   and 0.93 for random losses. The formula assumes that there are no timeouts and counts every loss once, so
///   it is an upper bound. The constant for periodic losses is no upper bound here, because chance can lift
///   Reno above it if losses are rare (1.26 at 0.1 %, over eight seeds).
/// - Lower bound: PFTK with b = 1. PFTK assumes that all segments after the first loss of a round are lost,
///   and does not model SACK. It therefore predicts more timeouts than independent losses cause. The rate is
///   proportional to p^-1/2, and the p of the run is used, so the error due to chance is less than 1 /
///   sqrt(drops), 2 % here.
fn lies_between_pftk_and_mathis(cases: &[(f64, u64)]) {
    for &(loss, seconds) in cases {
        let trace = transfer(3, seconds, 200_000_000, 10_000, loss);
        let entered = numbers(&trace, "links", "enqueued");
        let drops = numbers(&trace, "links", "dropped_loss")[0];
        assert!(total(&trace, "links", "dropped_queue") < 1.0, "the link is not congested");

        // The losses occurred: their number is within four standard deviations, and each drop was repaired.
        let bound = 4.0 * (entered[0] * loss * (1.0 - loss)).sqrt();
        assert!((drops - entered[0] * loss).abs() < bound, "{drops} of {} at {loss}", entered[0]);
        assert!(drops > 2000.0, "{drops} drops");
        assert!(total(&trace, "subflows", "retransmissions") > drops - 10.0);
        // Acknowledgements were delayed: there are far fewer than one per segment.
        assert!(entered[1] < 0.75 * entered[0], "{} for {}", entered[1], entered[0]);

        let p = drops / entered[0];
        let rate = total(&trace, "subflows", "data_segments") / seconds as f64;
        let above = 1.31 / (RTT * p.sqrt());
        // Linux's timeout is at least SRTT + 200 ms.
        let below = pftk(p, 1.0, RTT, RTT + 0.2) * (1.0 - 1.0 / drops.sqrt());
        assert!(
            (below..above).contains(&rate),
            "{rate} packets a second at {p}: not within {below} and {above}"
        );
        // This is more than any law with delayed acknowledgements permits, because Linux counts acknowledged
        // segments.
        assert!(rate > (3.0_f64 / 4.0).sqrt() / (RTT * p.sqrt()), "{rate} at {p}");
    }
}

#[test]
fn reno_under_random_loss_lies_between_pftk_and_mathis() {
    lies_between_pftk_and_mathis(&[(0.01, 3000)]);
}

#[test]
#[ignore = "long: 13,000 s of a flow"]
fn reno_under_any_random_loss_lies_between_pftk_and_mathis() {
    lies_between_pftk_and_mathis(&[(0.001, 6000), (0.003, 4000), (0.03, 3000)]);
}

/// Without random loss, the window grows by one segment per round trip until the queue overflows, and is then
/// halved. It falls from W = P + q to W / 2, where P packets are in flight without a queue, and q is the
/// queue's capacity. While the window is below P, the round trip is constant and the link is partly idle.
/// Above P, the queue grows and the link is full. The utilisation follows from the packets and the time of
/// both parts. This omits the round trip of recovery, with W / 2 packets per sawtooth.
#[test]
#[ignore = "long: five flows of 1000 s"]
fn reno_utilisation_on_drop_tail_matches_the_sawtooth() {
    // A packet takes one millisecond, so P = 100.
    let (rate_bps, pipe) = (12_000_000, 100.0);
    for queue in [10, 25, 50, 100, 200] {
        let seconds = 1000;
        let trace = transfer(3, seconds, rate_bps, queue, 0.0);
        let room = queue as f64;
        let (top, low) = (pipe + room, f64::midpoint(pipe, room));
        let law = if low >= pipe {
            1.0
        } else {
            let filling = (top * top - pipe * pipe) / 2.0;
            (top * top - low * low) / 2.0 / (pipe * (pipe - low) + filling)
        };
        let packets = total(&trace, "connections", "bytes_read") / PAYLOAD;
        let used = packets / (seconds as f64 * rate_bps as f64 / PACKET_BITS);
        assert!(
            (law - 2.0 / top..law + 0.5 / top).contains(&used),
            "queue {queue}: {used}, not {law}"
        );

        // After slow start, the largest window is the capacity of path and queue plus the growth of one more
        // round trip, because the loss is detected one round trip later. A segment waits at most for a full
        // queue, and for one more service time if it is the second segment of a delayed acknowledgement.
        let late = |column| {
            let all = numbers(&trace, "samples", column);
            all[all.len() / 5..].iter().copied().fold(0.0, f64::max)
        };
        let peak = late("cwnd_segments");
        assert!((top..=top + 3.0).contains(&peak), "queue {queue}: {peak}, not {top}");
        let longest = late("srtt_ms") - RTT * 1000.0;
        assert!((room - 1.0..room + 1.5).contains(&longest), "queue {queue}: {longest} ms");

        // Each drop is repaired once, no segment is retransmitted needlessly, and no timer expires.
        let dropped = total(&trace, "links", "dropped_queue");
        assert!(dropped > 50.0, "{dropped} drops");
        let again = total(&trace, "subflows", "retransmissions");
        assert!((again - dropped).abs() < 0.5, "{again} for {dropped} drops");
        assert!(total(&trace, "subflows", "timeouts") < 0.5);
    }
}
