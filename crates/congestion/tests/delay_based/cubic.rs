//! CUBIC as printed in the papers, and the curve of Linux.

use anabranch_congestion::TransmitStart;
use anabranch_units::Duration;

use super::flow::{Flow, millis};

/// HO20 equation 1, in seconds and segments.
fn printed_curve(plateau: f64, beta: f64, t: f64) -> f64 {
    0.4 * (t - (plateau * beta / 0.4).cbrt()).powi(3) + plateau
}

#[test]
fn cubic_as_printed_falls_twice_and_follows_the_printed_curve() {
    for (beta, first) in [(0.7_f64, 70), (0.5, 50), (0.2, 20)] {
        let mut flow = Flow::new(&format!("cubic(form=printed, beta={beta})"), 100, 100);
        let lost_at = flow.now;
        flow.lose();
        assert_eq!(flow.window.cwnd, first, "cwnd = beta cwnd");
        flow.ack(1, millis(1), Some(millis(100)));
        let start = (100.0 * (1.0 - beta)).round() as u32;
        assert!(flow.window.cwnd.abs_diff(start) <= 1, "the curve starts at {start}");
        let mut compared = 0;
        while flow.now.since(lost_at) < Duration::from_secs(9) {
            flow.round(millis(100));
            let t = flow.now.since(lost_at).as_secs_f64();
            let law = printed_curve(100.0, beta, t);
            assert!((f64::from(flow.window.cwnd) - law).abs() <= 1.0, "{t}: not {law}");
            compared += 1;
        }
        assert!(compared > 80);
    }
    // The reference has only one beta, so 0.7 times the window remains.
    let mut flow = Flow::new("cubic", 100, 100);
    flow.lose();
    flow.ack(1, millis(1), Some(millis(100)));
    assert_eq!(flow.window.cwnd, 70);
}

/// `bictcp_update` in floating point: the target `ahead` seconds after the start of the curve. A loss at
/// 10,000 segments has left 7001. K is the value that the kernel's `cubic_root`, run separately, returns for
/// the difference of 2999. In units of 1/1024 s, the exact value is 20,035.
fn target(ahead: f64) -> f64 {
    let c = 410.0 / 1024.0;
    let k = 20_031.0 / 1024.0;
    10_000.0 + c * (ahead - k).powi(3)
}

/// "do not update within 1/32 s" applies while the window does not change. The curve from 7001 to 10,000
/// segments rises by 14 segments in that time. Each segment therefore needs 7001 / 45 acknowledged segments,
/// and later 7001 / 59.
#[test]
fn the_curve_is_followed_every_32nd_of_a_second() {
    let thirty_second = Duration::from_micros(31_250);
    for (nanos, ahead) in [(0, 0.1), (1, 0.13125)] {
        let mut flow = Flow::new("cubic", 10_000, 10_000);
        flow.ack(1, millis(1), Some(millis(100)));
        flow.window.cwnd = 10_000;
        flow.lose();
        let left = flow.window.cwnd;
        assert_eq!(left, 7001);
        // The first acknowledgement starts the curve.
        flow.ack(1, millis(1), Some(millis(100)));
        assert_eq!(flow.window.cwnd, left);
        flow.ack(10_000, thirty_second + Duration::from_nanos(nanos), Some(millis(100)));
        let per = (7001.0 / (target(ahead) - 7001.0)).floor();
        let grown = f64::from(flow.window.cwnd - left);
        assert!((grown - 10_001.0 / per).abs() <= 2.0, "{grown}, not one for each {per}");
    }
}

/// The Reno-friendly window grows by one when more than `15 / 8` of a window is acknowledged. The rest counts
/// towards the next step (`while (ca->ack_cnt > delta)`). On the plateau, nothing else grows. The steps need
/// 187 segments at 100 and 189 at 101. One segment is then due per window, and 88 of the first segments stay
/// counted.
#[test]
fn the_friendly_region_counts_acknowledged_segments() {
    for (acknowledged, grown) in [(&[187, 1][..], &[100, 101][..]), (&[188, 189], &[101, 103])] {
        let mut flow = Flow::new("cubic", 100, 100);
        flow.ack(1, millis(1), Some(millis(100)));
        flow.lose();
        flow.window.cwnd = 100;
        for (acked, cwnd) in acknowledged.iter().zip(grown) {
            flow.ack(*acked, millis(40), Some(millis(100)));
            assert_eq!(flow.window.cwnd, *cwnd, "{acknowledged:?}");
        }
    }
    // 60 segments in a window of 16 make one step of 30, not two, so the window grows by one per 16 segments.
    // The 61st segment makes the second step, and the window then grows by one per 8 segments.
    for (acked, grown) in [(60, 3), (61, 7)] {
        let mut flow = Flow::new("cubic", 16, 16);
        flow.ack(acked, millis(1), Some(millis(100)));
        assert_eq!(flow.window.cwnd, 16 + grown);
    }
}

/// Idle time does not count on the curve (`cubictcp_cwnd_event`). Here it is five seconds.
#[test]
fn the_curve_waits_for_data() {
    for (idle, ahead) in [(0, 5.14), (5000, 0.14)] {
        let mut flow = Flow::new("cubic", 10_000, 10_000);
        flow.ack(1, millis(1), Some(millis(100)));
        flow.window.cwnd = 10_000;
        flow.lose();
        flow.ack(1, millis(1), Some(millis(100)));
        flow.now += Duration::from_secs(5);
        let (now, min_rtt) = (flow.now, Some(millis(100)));
        let last_sent = now - millis(idle);
        let start = TransmitStart { now, coarse_now: now, last_sent, app_limited: true, min_rtt };
        flow.controller.on_transmit_start(&start, &mut flow.window);
        let left = flow.window.cwnd;
        flow.ack(10_000, millis(40), Some(millis(100)));
        let per = (7001.0 / (target(ahead) - 7001.0)).floor();
        let grown = f64::from(flow.window.cwnd - left);
        assert!((grown / (10_001.0 / per) - 1.0).abs() < 0.02, "{grown}, not one for each {per}");
    }
}
