//! CCP and CCPD: the control law of SD18 (equation 4), and the reconstructed parts.

use anabranch_congestion::{CongestionState, RateSample, Window};
use anabranch_units::Duration;
use proptest::prelude::*;

use super::flow::{Flow, MSS, millis};

/// Simulates a link of 500 segments per second: two acknowledgements of segments sent together arrive 2 ms
/// apart, first with the shortest RTT and then with the longest one.
fn probe(flow: &mut Flow, longest: Duration) {
    flow.ack(1, millis(500), Some(millis(100)));
    flow.ack(1, millis(2), Some(millis(102)));
    flow.ack(1, millis(500), Some(longest));
}

const CAPACITY: f64 = 500.0;

/// The fixed point of the law is x = (Kp B - 3 C m) / (Kp + 3). For 3 m / M < Kp < 3 M / m, it is between an
/// empty and a full buffer.
#[test]
fn ccp_stands_still_at_its_closed_form() {
    let (least, longest) = (0.1, 0.2);
    for kp in [2.0, 3.0, 4.0, 5.0] {
        let (storage, pipe) = (CAPACITY * longest, CAPACITY * least);
        let backlog = (kp * storage - 3.0 * pipe) / (kp + 3.0);
        assert!((0.0..=storage - pipe).contains(&backlog));
        let mut flow = Flow::new(&format!("ccp(kp={kp})"), 60, 60);
        probe(&mut flow, Duration::from_secs_f64(longest));
        flow.in_flight = (pipe + backlog).round() as u32;
        let rtt = Duration::from_secs_f64(least + backlog / CAPACITY);
        flow.ack(1, millis(500), Some(rtt));
        let stays = pipe + backlog;
        assert!(
            (f64::from(flow.window.cwnd) - stays).abs() <= 1.0,
            "Kp {kp}: {} instead of {stays}",
            flow.window.cwnd
        );
    }
}

/// With a constant backlog, each step of the law halves the distance to the fixed point and changes its sign.
#[test]
fn the_inner_loop_of_ccp_has_the_eigenvalue_minus_a_half() {
    let mut flow = Flow::new("ccp", 60, 60);
    probe(&mut flow, millis(200));
    // B = 100, x = 20: W = Kp (B - x) / 3 = 80.
    flow.in_flight = 16;
    let mut expected = 64.0;
    for _ in 0..6 {
        flow.ack(1, millis(500), Some(millis(140)));
        let off = f64::from(flow.window.cwnd) - 80.0;
        expected /= -2.0;
        assert!((off + -expected).abs() <= 1.0 || (off - -expected).abs() <= 1.0, "{off}");
        assert!(expected.abs() < 2.0 || off.signum() == -expected.signum(), "{off} {expected}");
        flow.in_flight = flow.window.cwnd;
    }
    assert!(flow.window.cwnd.abs_diff(80) <= 2);
}

/// Computes the law from the whole history: the capacity of the pair with the smallest delays, the longest
/// RTT and the shortest RTT.
#[derive(Default)]
struct CcpByTheBook {
    history: Vec<(f64, f64, u32)>,
}

impl CcpByTheBook {
    /// Returns (B, x) after an acknowledgement at `now`, in seconds.
    fn see(&mut self, now: f64, rtt: f64, acked: u32) -> Option<(f64, f64)> {
        self.history.push((now, rtt, acked));
        let pairs = self.history.windows(2).filter_map(|pair| {
            let ((t0, r0, _), (t1, r1, n)) = (pair[0], pair[1]);
            let sent_apart = (t1 - r1) - (t0 - r0);
            let pair = (r0 + r1, f64::from(n) / (t1 - t0));
            (sent_apart > -1e-9 && sent_apart < 0.001 + 1e-9).then_some(pair)
        });
        // If several pairs are equal, the newest one is used.
        let best = pairs.reduce(|best, next| if next.0 <= best.0 + 1e-12 { next } else { best })?;
        let longest = self.history.iter().map(|seen| seen.1).fold(0.0, f64::max);
        Some(((best.1 * longest - 1e-9).ceil(), best.1 * (rtt - 0.1).max(0.0)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Sends bursts over a link, for less than half of CCP's memory. Each window must equal the one computed
    /// from the whole history.
    #[test]
    fn ccp_follows_its_equation(
        kp in 1_u32..5,
        bursts in prop::collection::vec((0_u64..80, 1_u64..4, 0_u32..120, 1_u32..6), 2..12),
    ) {
        let mut flow = Flow::new(&format!("ccp(kp={kp}, ceiling=1.5)"), 60, 60);
        let mut book = CcpByTheBook::default();
        for (queued, service, in_flight, length) in bursts {
            flow.in_flight = in_flight;
            for n in 0..u64::from(length) {
                let rtt = millis(100 + queued + n * service);
                flow.ack(1, if n == 0 { millis(1000) } else { millis(service) }, Some(rtt));
                let seen = book.see(flow.now.as_secs_f64(), rtt.as_secs_f64(), 1);
                let Some((storage, backlog)) = seen else { continue };
                let law = (f64::from(kp) * (storage - backlog) - f64::from(in_flight)) / 2.0;
                let law = law.clamp(2.0, (1.5 * storage).max(2.0));
                let found = f64::from(flow.window.cwnd);
                prop_assert!((found - law).abs() <= 0.51, "{found}, not {law}");
            }
        }
    }
}

#[test]
fn ccpd_subtracts_the_backlog_growth_of_a_round() {
    let window = |name: &str| {
        let mut flow = Flow::new(name, 60, 60);
        probe(&mut flow, millis(200));
        flow.in_flight = 50;
        let mut windows = Vec::new();
        // Each acknowledgement is a round. The backlogs x are 10, 30 and 30 segments.
        for rtt in [120, 160, 160] {
            flow.ack(1, millis(500), Some(millis(rtt)));
            flow.next = flow.una;
            windows.push(flow.window.cwnd);
        }
        windows
    };
    let (plain, half, whole) = (window("ccp"), window("ccpd"), window("ccpd(kd=1)"));
    // (Kp (B - x) - in_flight) / 2 with B = 100: 110, 80 and 80.
    assert_eq!(plain, [110, 80, 80]);
    assert_eq!((plain[1] - half[1], plain[1] - whole[1]), (5, 10), "Kd 20 / 2");
    assert_eq!((half[2], whole[2]), (80, 80), "no change, no term");
}

#[test]
fn ccp_starts_like_reno_and_is_cut_by_nothing() {
    // Slow start lasts until half of B = 100 is reached. Then the law applies.
    let mut flow = Flow::new("ccp", 10, u32::MAX);
    probe(&mut flow, millis(200));
    let mut last = flow.window.cwnd;
    while flow.window.in_slow_start() {
        last = flow.window.cwnd;
        flow.ack(1, millis(500), Some(millis(100)));
        assert!(flow.window.cwnd <= last + 1 || !flow.window.in_slow_start());
    }
    assert_eq!(last, 50);
    // With `start=loss`, slow start lasts until the first loss.
    let mut flow = Flow::new("ccp(start=loss)", 10, u32::MAX);
    probe(&mut flow, millis(200));
    (0..90).for_each(|_| flow.ack(1, millis(100), Some(millis(100))));
    assert_eq!(flow.window.cwnd, 103);
    flow.lose();
    assert_eq!(flow.window.cwnd, 103, "no cut");
    flow.in_flight = 60;
    flow.ack(1, millis(500), Some(millis(100)));
    assert_eq!(flow.window.cwnd, (3 * 100 - 60) / 2);
    // After a timeout, slow start begins at one segment and ends at the window before the timeout.
    flow.time_out(1);
    assert_eq!(flow.window, Window { cwnd: 1, ssthresh: 120 });
    flow.ack(1, millis(500), Some(millis(100)));
    assert_eq!(flow.window.cwnd, 2);
}

/// A pair 2 ms apart measures 500 segments per second. At 102 ms, the path stores 51 segments:
/// (3 (51 - 1) - 60) / 2. A pair is invalid if there was a loss between its acknowledgements, or if one of them has no RTT
/// or no new data.
#[test]
fn a_pair_is_two_acknowledgements_in_a_row_without_losses() {
    let window = |between: &dyn Fn(&mut Flow), acked: u32| {
        let mut flow = Flow::new("ccp", 60, 60);
        flow.ack(1, millis(500), Some(millis(100)));
        between(&mut flow);
        flow.ack(acked, millis(2), Some(millis(102)));
        flow.window.cwnd
    };
    let enter =
        |state| move |flow: &mut Flow| flow.controller.on_state(flow.now, state, &mut flow.window);
    assert_eq!(window(&|_| (), 1), 45);
    assert_eq!(window(&enter(CongestionState::Open), 1), 45);
    assert_eq!(window(&enter(CongestionState::Recovery), 1), 60, "no capacity, no law");
    assert_eq!(window(&|flow| flow.ack(1, millis(0), None), 1), 60);
    assert_eq!(window(&|_| (), 0), 60);
}

/// 50 segments in 100 ms are 500 per second too, so B = 50 and the window is (3 * 50 - 60) / 2.
#[test]
fn delivery_rates_tell_the_capacity_where_no_pair_does() {
    for name in ["ccp", "ccp(capacity=delivery-rate)"] {
        let mut flow = Flow::new(name, 60, 60);
        flow.rate = RateSample { delivered: 50, interval: millis(100), ..RateSample::default() };
        flow.ack(1, millis(500), Some(millis(100)));
        assert_eq!(flow.window.cwnd, 45, "{name}");
    }
    // Slower samples do not replace the best one of the last 30 s.
    let mut flow = Flow::new("ccp(capacity=delivery-rate)", 60, 60);
    for delivered in [50, 20] {
        flow.rate = RateSample { delivered, interval: millis(100), ..RateSample::default() };
        flow.ack(1, millis(500), Some(millis(100)));
    }
    assert_eq!(flow.window.cwnd, 45);
}

/// The law sets the window even if it is not fully used. Slow start does not. During recovery, the window
/// stays.
#[test]
fn ccp_speaks_only_when_it_may() {
    for (may_grow, cwnd) in [(true, 45), (false, 60)] {
        let mut flow = Flow::new("ccp", 60, 60);
        (flow.may_grow, flow.cwnd_limited) = (may_grow, false);
        flow.ack(1, millis(500), Some(millis(100)));
        flow.ack(1, millis(2), Some(millis(102)));
        assert_eq!(flow.window.cwnd, cwnd);
    }
    for (cwnd_limited, cwnd) in [(true, 11), (false, 10)] {
        let mut flow = Flow::new("ccp(start=loss)", 10, u32::MAX);
        flow.cwnd_limited = cwnd_limited;
        flow.ack(1, millis(500), Some(millis(100)));
        assert_eq!(flow.window.cwnd, cwnd);
    }
}

/// A round ends when data beyond the position at its start is acknowledged.
#[test]
fn the_trend_is_that_of_whole_rounds() {
    let windows = |name: &str| {
        let mut flow = Flow::new(name, 60, 60);
        probe(&mut flow, millis(200));
        flow.in_flight = 50;
        flow.next = flow.una + 2 * MSS;
        let mut windows = Vec::new();
        // The first acknowledgement ends a round. The third one ends the round that began with the first.
        for rtt in [120, 160, 160] {
            flow.ack(1, millis(500), Some(millis(rtt)));
            windows.push(flow.window.cwnd);
        }
        windows
    };
    let (plain, whole) = (windows("ccp"), windows("ccpd(kd=1)"));
    // The previous round reduced the queue from 50 segments to 10, and ends with data that is already sent.
    assert_eq!(whole[1] - plain[1], 20);
    assert_eq!(plain[2] - whole[2], 10, "30 segments in the queue and 10 a round ago, half of 20");
}
