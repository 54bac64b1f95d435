//! Weighted Vegas: complete equilibria, and single rounds computed by hand.

use super::*;

/// Simulates weighted Vegas on separate paths, window by window. The base RTT is 100 ms, and a queue holds
/// the data beyond rate times base RTT. Returns the segments in each queue at the end.
fn queued(choice: &str, capacities: &[f64]) -> Vec<f64> {
    let base = 0.1;
    let mut controllers: Vec<_> = capacities.iter().map(|_| build(choice)).collect();
    let mut windows = vec![Window { cwnd: 10, ssthresh: u32::MAX }; capacities.len()];
    for round in 0..2000 {
        for own in 0..capacities.len() {
            let view = |id: usize| SiblingView {
                published_rate: controllers[id].published_rate(),
                ..path(windows[id].cwnd, 100).view(id)
            };
            let siblings: Vec<_> = (0..capacities.len()).map(view).collect();
            let rtt = (f64::from(windows[own].cwnd) / capacities[own]).max(base);
            for number in 1..=u64::from(windows[own].cwnd) {
                let sample = AckSample {
                    rtt: Some(Duration::from_secs_f64(rtt)),
                    snd_una: round * 1_000_000 + number,
                    snd_nxt: (round + 1) * 1_000_000,
                    ..ack(own, &siblings, 1)
                };
                controllers[own].on_ack(&sample, &mut windows[own]);
            }
        }
    }
    let surplus = |(window, capacity): (&Window, &f64)| f64::from(window.cwnd) - capacity * base;
    windows.iter().zip(capacities).map(surplus).collect()
}

/// In equilibrium, each queue holds alpha segments. alpha is the path's part of `total_alpha`, according to
/// its part of the total rate. Whole segments cause deviations: one less if alpha is just below a whole
/// number, up to one more in the queue, and one because the mean RTT lags.
#[test]
fn weighted_vegas_keeps_its_share_of_segments_in_queues() {
    let cases: [(_, &[f64], &[f64]); 4] = [
        ("wvegas", &[1000.0], &[10.0]),
        ("wvegas", &[1000.0, 1000.0], &[5.0, 5.0]),
        ("wvegas(total_alpha=40)", &[3000.0, 1000.0], &[30.0, 10.0]),
        ("wvegas(total_alpha=12)", &[3000.0, 2000.0, 1000.0], &[6.0, 4.0, 2.0]),
    ];
    for (choice, capacities, alphas) in cases {
        let found = queued(choice, capacities);
        for (queue, alpha) in found.iter().zip(alphas) {
            assert!(
                (*alpha - 1.0..*alpha + 2.0).contains(queue),
                "{choice}: {found:?}, not {alphas:?}"
            );
        }
    }
}

/// Runs rounds of four acknowledgements. Sets the window before the last round, and returns the window after
/// it. The base RTT is 100 ms.
pub(super) fn vegas_rounds(choice: &str, rtts_ms: &[u64], before: Window) -> Window {
    vegas_rounds_beside(choice, rtts_ms, before, &[])
}

/// Like `vegas_rounds`, with other subflows in the connection.
pub(super) fn vegas_rounds_beside(
    choice: &str,
    rtts_ms: &[u64],
    before: Window,
    others: &[SiblingView],
) -> Window {
    let mut controller = build(choice);
    let siblings = [&[path(before.cwnd, 100).view(0)], others].concat();
    let mut window = before;
    let samples = rtts_ms.iter().flat_map(|rtt| [*rtt; 4]);
    for (position, rtt) in (1..).zip([100].into_iter().chain([100; 4]).chain(samples)) {
        window = before;
        let sample = AckSample {
            rtt: Some(Duration::from_millis(rtt)),
            snd_una: position,
            snd_nxt: position + 3,
            ..ack(0, &siblings, 1)
        };
        controller.on_ack(&sample, &mut window);
    }
    window
}

/// `mptcp_wvegas_cong_avoid` in integers: a window of 40 has 40 x 4 / 104 = 1, 40 x 6 / 106 = 2 and 40 x 10 /
/// 110 = 3 segments in the queue, at 104, 106 and 110 ms.
#[test]
fn weighted_vegas_steps_by_the_segments_queued() {
    let avoiding = Window { cwnd: 40, ssthresh: 20 };
    let three_quarters = |cwnd: u32| cwnd / 2 + cwnd / 4;
    let grown = Window { cwnd: 41, ssthresh: three_quarters(41) };
    // Without a queue, the window grows and is not reduced.
    assert_eq!(vegas_rounds("wvegas", &[100], avoiding), grown);
    assert_eq!(vegas_rounds("wvegas", &[104], avoiding), grown);
    // alpha begins with `initial_alpha`, two. Once the rate is known, it is ten for a single path.
    assert_eq!(vegas_rounds("wvegas", &[106], avoiding), grown);
    assert_eq!(vegas_rounds("wvegas(initial_alpha=3)", &[106], avoiding), grown);
    // alpha is at least two.
    let kept = Window { cwnd: 40, ssthresh: three_quarters(40) };
    assert_eq!(vegas_rounds("wvegas(total_alpha=1)", &[106], avoiding), kept);
    let shrunk = Window { cwnd: 39, ssthresh: three_quarters(39) };
    assert_eq!(vegas_rounds("wvegas(total_alpha=1)", &[110], avoiding), shrunk);
    // The delay is twice the smallest one. 41 x 100.001 / (2 x 108.001) segments remain.
    let drained = Window { cwnd: 18, ssthresh: 20 };
    assert_eq!(vegas_rounds("wvegas", &[104, 108], avoiding), drained);

    // Slow start continues with up to gamma segments in the queue, and ends with more.
    let starting = Window { cwnd: 40, ssthresh: 100 };
    let faster = Window { cwnd: 41, ssthresh: 100 };
    assert_eq!(vegas_rounds("wvegas", &[104], starting), faster);
    let ended = Window { cwnd: 39, ssthresh: 38 };
    assert_eq!(vegas_rounds("wvegas(gamma=0)", &[104], starting), ended);
}

/// At 106 ms, a window of 40 has 2 segments in the queue and 4.4 Mbit/s. The other path has nine times that
/// rate, so one of ten segments is this path's part. alpha is at least two, so the window stays. Without the
/// other path, alpha is ten, and the window grows.
#[test]
fn the_rate_of_a_dead_subflow_leaves_the_sum_or_stays() {
    let published = |change: fn(&mut SiblingView)| {
        let rate = Some(Rate::from_bps(40_000_000));
        let mut view = SiblingView { published_rate: rate, ..path(40, 100).view(1) };
        change(&mut view);
        [view]
    };
    let avoiding = Window { cwnd: 40, ssthresh: 20 };
    let beside = |choice: &str, others: &[SiblingView]| {
        vegas_rounds_beside(choice, &[106], avoiding, others).cwnd
    };
    let alive = published(|_| ());
    let once = published(|view| view.consecutive_timeouts = 1);
    let stale = published(|view| view.stale = true);
    let silent = published(|view| view.consecutive_timeouts = 2);
    let closed = published(|view| view.usable = false);
    let unknown = published(|view| view.published_rate = None);
    for choice in ["wvegas", "wvegas(dead=leave)", "wvegas(dead=stay)"] {
        let dead = if choice.contains("stay") { 40 } else { 41 };
        assert_eq!(beside(choice, &alive), 40, "{choice}");
        assert_eq!(beside(choice, &once), 40, "{choice}: one timeout does not make it dead");
        assert_eq!(beside(choice, &stale), dead, "{choice}, stale");
        assert_eq!(beside(choice, &silent), dead, "{choice}, timed out");
        assert_eq!(beside(choice, &closed), 41, "{choice}: closed it never counts");
        assert_eq!(beside(choice, &unknown), 41, "{choice}: no rate, no share");
    }
}

#[test]
fn weighted_vegas_is_reno_outside_of_open() {
    let siblings = views(&[path(40, 100)]);
    let mut controller = build("wvegas");
    let mut window = siblings[0].window;
    controller.on_state(Instant::ZERO, CongestionState::Disorder, &mut window);
    for _ in 0..40 {
        controller.on_ack(&ack(0, &siblings, 1), &mut window);
    }
    assert_eq!(window.cwnd, 41);
    controller.on_congestion(&LOSS, &mut window);
    assert_eq!(window.ssthresh, 20);
    assert_eq!(controller.published_rate(), None);
}

/// `mptcp_wvegas_weight` sums the rates of subflows with RTT samples in their round (`sampled_rtt`). Just
/// after the end of a round, a subflow has no samples.
#[test]
fn a_rate_is_published_while_its_round_has_samples() {
    let siblings = views(&[path(40, 100)]);
    let mut controller = build("wvegas");
    let mut published = Vec::new();
    // A round has four samples. The last one of the second round finds two segments in the queue and sets the
    // rate.
    for (position, rtt) in (1..).zip([100, 100, 100, 100, 100, 106, 106, 106, 106, 106, 106]) {
        let mut window = Window { cwnd: 40, ssthresh: 20 };
        let sample = AckSample {
            rtt: Some(Duration::from_millis(rtt)),
            snd_una: position,
            snd_nxt: position + 3,
            ..ack(0, &siblings, 1)
        };
        controller.on_ack(&sample, &mut window);
        published.push(controller.published_rate().map(Rate::bytes_per_second));
    }
    // 40 segments in 106.001 ms.
    let rate = Some((40.0 * f64::from(MSS) / 0.106_001) as u64);
    assert_eq!(published[8..], [None, rate, rate], "{published:?}");
    // A recovery does not change the rate, and a timeout resets it (`CA_EVENT_LOSS`).
    for (state, expected) in [(CongestionState::Recovery, rate), (CongestionState::Loss, None)] {
        controller.on_state(Instant::ZERO, state, &mut Window { cwnd: 40, ssthresh: 20 });
        assert_eq!(controller.published_rate().map(Rate::bytes_per_second), expected);
    }
}

/// The base RTT and the round are measured again after an idle period (`CA_EVENT_CWND_RESTART`).
#[test]
fn idleness_makes_weighted_vegas_forget_its_base() {
    let siblings = views(&[path(40, 100)]);
    for (restarts, cwnd) in [(false, 39), (true, 41)] {
        let mut controller = build("wvegas(total_alpha=1)");
        let mut window = siblings[0].window;
        for (position, rtt) in (1..).zip([100, 100, 100, 100, 100, 110, 110, 110, 110, 110]) {
            if position == 6 && restarts {
                controller.on_idle_restart(Instant::ZERO);
            }
            window = Window { cwnd: 40, ssthresh: 20 };
            let sample = AckSample {
                rtt: Some(Duration::from_millis(rtt)),
                snd_una: position,
                snd_nxt: position + 3,
                ..ack(0, &siblings, 1)
            };
            controller.on_ack(&sample, &mut window);
            if window.cwnd != 40 && position > 5 {
                break;
            }
        }
        assert_eq!(
            window.cwnd, cwnd,
            "110 ms are three segments of queue over a base of 100 ms, none over one of 110 ms"
        );
    }
}
