//! CUBIC as the papers print it.

use anabranch_units::Duration;

use super::flow::{Flow, millis};

/// HO20 equation 1 in seconds and segments.
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
    // The reference keeps to one beta: 0.7 stays 0.7.
    let mut flow = Flow::new("cubic", 100, 100);
    flow.lose();
    flow.ack(1, millis(1), Some(millis(100)));
    assert_eq!(flow.window.cwnd, 70);
}
