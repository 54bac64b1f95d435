//! Saving and restoring the window (`bbr_save_cwnd`), and `ProbeRTT` phases.

use super::*;

const WITHIN: Said = Said { round: false, ..FULL };

/// Creates a flow whose minimum RTT has just expired, with four segments in flight.
fn visiting() -> Flow {
    let mut flow = Flow::probing(1, FULL);
    flow.now += Duration::from_secs(11);
    flow.hear(Said { in_flight: 4, ..FULL });
    assert_eq!(flow.window.cwnd, 4);
    flow
}

/// `prior_cwnd` is the window before the current recovery, not before an earlier one.
#[test]
fn the_window_before_the_trouble_comes_back() {
    let give_back = |flow: &mut Flow| {
        flow.enter(CongestionState::Open);
        flow.hear(Said { acked: 1, ..WITHIN });
        flow.window.cwnd
    };
    let mut flow = Flow::probing(1, FULL);
    flow.window.cwnd = 150;
    flow.enter(CongestionState::Recovery);
    flow.hear(Said { in_flight: 40, ..WITHIN });
    assert_eq!(flow.window.cwnd, 42);
    // A timeout during the recovery does not save a smaller window.
    flow.enter(CongestionState::Loss);
    flow.window.cwnd = 1;
    flow.hear(WITHIN);
    assert_eq!(give_back(&mut flow), 151);

    // The next recovery saves the current window.
    flow.window.cwnd = 100;
    flow.enter(CongestionState::Recovery);
    flow.hear(Said { in_flight: 40, ..WITHIN });
    assert_eq!(give_back(&mut flow), 101);

    // The window of four segments in a `ProbeRTT` phase is not restored.
    let mut flow = visiting();
    flow.enter(CongestionState::Recovery);
    flow.hear(Said { in_flight: 4, ..WITHIN });
    flow.enter(CongestionState::Open);
    flow.hear(Said { in_flight: 4, ..FULL });
    flow.hear(Said { in_flight: 4, after: RTT * 3, ..FULL });
    assert!(flow.window.cwnd >= 200, "{}", flow.window.cwnd);
}

/// An acknowledgement that delivers nothing does not change the window, even if it reports losses.
#[test]
fn loss_without_delivery_keeps_the_window() {
    let mut flow = Flow::probing(1, FULL);
    flow.window.cwnd = 100;
    flow.hear(Said { acked: 0, newly_lost: 5, ..WITHIN });
    assert_eq!(flow.window.cwnd, 100);
}

/// The minimum RTT expires after more than ten seconds. It was measured 2 ms after the start at 100 s.
#[test]
fn a_visit_comes_after_more_than_ten_seconds() {
    let mut flow = Flow::probing(1, FULL);
    flow.now = Instant::ZERO + Duration::from_millis(110_000);
    flow.hear(WITHIN);
    assert!(flow.window.cwnd > 4);
    flow.hear(Said { after: Duration::from_nanos(1), ..WITHIN });
    assert_eq!(flow.window.cwnd, 4);
}

/// A `ProbeRTT` phase ends after one round and 200 ms, or after an idle period.
#[test]
fn a_visit_ends_after_a_round_and_200_ms() {
    let held = Said { in_flight: 4, after: Duration::from_millis(10), ..FULL };
    let mut flow = visiting();
    flow.hear(held);
    flow.hear(held);
    flow.hear(Said { round: false, after: RTT * 2, ..held });
    assert!(flow.window.cwnd > 4, "{}", flow.window.cwnd);

    let mut flow = visiting();
    flow.now += RTT;
    flow.start(true);
    assert_eq!(flow.window.cwnd, 4, "`bbr_cwnd_event` asks the clock");
    flow.now += RTT * 2;
    flow.start(true);
    assert!(flow.window.cwnd > 100, "{}", flow.window.cwnd);
}

/// After an idle period, `idle_restart` prevents `ProbeRTT` until something is delivered.
#[test]
fn idleness_spares_the_visit_until_something_is_delivered() {
    for (rate, spared) in [(100, false), (0, true)] {
        let mut flow = Flow::probing(1, FULL);
        flow.start(true);
        flow.hear(Said { rate, ..WITHIN });
        flow.now += Duration::from_secs(11);
        flow.hear(WITHIN);
        assert_eq!(flow.window.cwnd > 4, spared, "{rate} delivered");
    }
    // The flow then continues at the rate of the path.
    let mut flow = Flow::raised();
    flow.start(true);
    assert!(close(flow.gain(1000.0), 1.0, 1e-3), "{}", flow.gain(1000.0));
}
