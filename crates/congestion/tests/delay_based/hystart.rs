//! `HyStart` of Linux's CUBIC (`hystart_update`): the end of slow start.

use anabranch_units::{Duration, Rate};

use super::flow::{Flow, MSS, millis};

/// Creates a flow of `cwnd` segments that has measured its minimum RTT. A round has just begun.
fn starting(cwnd: u32, min_rtt: Duration) -> Flow {
    let mut flow = Flow::new("cubic", cwnd - 1, u32::MAX);
    flow.ack(1, millis(10), Some(min_rtt));
    flow.next = 1 << 40;
    flow
}

/// Acknowledges one segment at a time with this RTT. The acknowledgements are too far apart for an ACK train.
fn hear(flow: &mut Flow, count: usize, rtt: Duration) {
    (0..count).for_each(|_| flow.ack(1, millis(10), Some(rtt)));
}

/// `HYSTART_DELAY_THRESH` is an eighth of the minimum RTT, limited to 4 to 16 ms. If the RTT is more than
/// this above the minimum, the ninth sample of a round ends slow start (`HYSTART_MIN_SAMPLES`).
#[test]
fn rising_delay_ends_slow_start() {
    for (least, rise_us) in
        [(16, 4000), (32, 4000), (40, 5000), (100, 12_500), (128, 16_000), (400, 16_000)]
    {
        for (over, ends) in [(0, false), (1, true)] {
            let mut flow = starting(20, millis(least));
            let rtt = millis(least) + Duration::from_micros(rise_us + over);
            hear(&mut flow, 8, rtt);
            assert!(flow.window.in_slow_start(), "eight samples of {rtt}");
            assert_eq!(flow.window.cwnd, 28);
            hear(&mut flow, 1, rtt);
            assert_eq!(!flow.window.in_slow_start(), ends, "{rtt} over {least} ms");
            assert_eq!(flow.window.ssthresh, if ends { 28 } else { u32::MAX });
        }
    }
    // The smallest sample of the round counts.
    let mut flow = starting(20, millis(100));
    flow.next = flow.una + 28 * MSS;
    hear(&mut flow, 7, millis(150));
    hear(&mut flow, 1, millis(112));
    hear(&mut flow, 20, millis(150));
    assert!(flow.window.in_slow_start());
    // Data sent from now on belongs to another round, with new samples.
    flow.next = 1 << 40;
    hear(&mut flow, 8, millis(150));
    assert!(flow.window.in_slow_start());
    hear(&mut flow, 1, millis(150));
    assert!(!flow.window.in_slow_start());
}

/// Below `hystart_low_window`, 16 segments, the detector is off.
#[test]
fn below_sixteen_segments_slow_start_goes_on() {
    let mut flow = starting(14, millis(100));
    hear(&mut flow, 2, millis(200));
    assert_eq!(flow.window.cwnd, 16);
    hear(&mut flow, 8, millis(200));
    assert!(flow.window.in_slow_start());
    hear(&mut flow, 1, millis(200));
    assert_eq!((flow.window.cwnd, flow.window.ssthresh), (24, 24));
}

/// An ACK train ends slow start. Its acknowledgements are at most 2 ms apart, and it lasts longer than the
/// minimum RTT plus an allowance. The allowance is the time of four bursts of 64 KiB, at most 1 ms
/// (`hystart_ack_delay`). Without pacing, half of this duration is enough.
#[test]
fn a_long_train_of_acknowledgements_ends_slow_start() {
    let millisecond = Duration::from_millis(1);
    // At 10 Gbit/s, 262,144 bytes take 0.21 ms.
    let (slow, fast) = (Rate::from_bps(10_000_000), Rate::from_bps(10_000_000_000));
    for (paced, rate, gap, last) in [
        (false, slow, millisecond, 50),
        (true, slow, millisecond, 101),
        (true, fast, Duration::from_micros(100), 1002),
        (true, slow, Duration::from_millis(2), 50),
        (false, slow, Duration::from_micros(500), 101),
    ] {
        let mut flow = starting(20, millis(100));
        (flow.paced, flow.pacing_rate) = (paced, rate);
        flow.ack(1, millis(10), Some(millis(100)));
        let rest = |flow: &mut Flow, count: u32| {
            (0..count).for_each(|_| flow.ack(1, gap, Some(millis(100))));
        };
        rest(&mut flow, last);
        assert!(flow.window.in_slow_start(), "{last} times {gap}, paced: {paced}");
        rest(&mut flow, 1);
        assert!(!flow.window.in_slow_start(), "{last} times {gap} and one more, paced: {paced}");
    }
    // A gap longer than 2 ms ends the train for this round.
    let mut flow = starting(20, millis(100));
    flow.ack(1, millis(10), Some(millis(100)));
    flow.ack(1, Duration::from_micros(2001), Some(millis(100)));
    (0..300).for_each(|_| flow.ack(1, Duration::from_millis(1), Some(millis(100))));
    assert!(flow.window.in_slow_start());
}

/// Once slow start has ended, `HyStart` stays off until a timeout (`bictcp_reset`). Samples in the first
/// second of a curve do not count.
#[test]
fn hystart_stays_off_until_a_timeout() {
    let mut flow = starting(20, millis(100));
    flow.next = flow.una + 50 * MSS;
    hear(&mut flow, 9, millis(200));
    assert!(!flow.window.in_slow_start());
    flow.window.ssthresh = 1000;
    hear(&mut flow, 30, millis(200));
    assert!(flow.window.in_slow_start(), "it is not looked for again");
    flow.time_out(20);
    flow.window.ssthresh = 1000;
    flow.next = 1 << 40;
    hear(&mut flow, 1, millis(100));
    // Ten samples are for data sent before, and the next nine are those of a round.
    hear(&mut flow, 18, millis(200));
    assert!(flow.window.in_slow_start());
    hear(&mut flow, 1, millis(200));
    assert!(!flow.window.in_slow_start());

    // `cubictcp_acked`: "Discard delay samples right after fast recovery", for the first second of the curve.
    for (seconds, ends) in [(0, false), (1, true)] {
        let mut flow = Flow::new("cubic", 40, 40);
        flow.ack(1, millis(10), Some(millis(100)));
        flow.window.ssthresh = 1000;
        flow.next = 1 << 40;
        flow.now += Duration::from_secs(seconds);
        hear(&mut flow, 20, millis(200));
        assert_eq!(!flow.window.in_slow_start(), ends, "{seconds} s");
    }
}
