//! The siblings that a coupled controller counts, and its state after a loss.

use super::*;

/// `mptcp_olia_set_state` and `tcp_reno_ssthresh` do not change `mptcp_snd_cwnd_cnt`. LIA and BALIA count in
/// `snd_cwnd_cnt`, which a reduction clears (`tcp_init_cwnd_reduction`).
#[test]
fn what_olia_has_counted_outlives_a_loss() {
    // With one path, nine of ten are counted before the loss, so the next one completes a window of five. Beside an
    // equal path, which is the best one: 79 of 80, and the second of 10 / (10 + 20)^2 = 1 / 90. LIA adds 20 / 30^2,
    // BALIA 10 / 30^2 (1 + 2) / 2 (4 + 2) / 5.
    let two = [path(20, 100), delivered(20, 100, 90_000)];
    for (paths, before, after) in [(&[path(10, 100)][..], 9, [1, 5, 5]), (&two, 79, [2, 45, 50])] {
        for (name, after) in ["olia", "lia", "balia"].into_iter().zip(after) {
            let mut siblings = views(paths);
            let mut controller = build(name);
            let mut window = siblings[0].window;
            let held = window;
            for _ in 0..before {
                controller.on_ack(&ack(0, &siblings, 1), &mut window);
            }
            assert_eq!(window, held, "{name}, {paths:?}");
            controller.on_congestion(&LOSS, &mut window);
            window.cwnd = window.ssthresh;
            siblings[0].window = window;
            let mut heard = 0;
            while window.cwnd == window.ssthresh {
                controller.on_ack(&ack(0, &siblings, 1), &mut window);
                heard += 1;
            }
            assert_eq!(heard, after, "{name}, {paths:?}");
        }
    }
}

/// For a path in fast recovery, RFC 6356 section 4 and OLIA's `mptcp_get_crt_cwnd` use the threshold, and
/// `mptcp_balia_recalc_ai` uses the window.
#[test]
fn a_sibling_in_recovery_counts_with_its_threshold_or_its_window() {
    let mut siblings = views(&[path(20, 100), path(60, 100)]);
    siblings[1].window.ssthresh = 20;
    for state in [CongestionState::Recovery, CongestionState::Loss] {
        siblings[1].state = state;
        let threshold = state == CongestionState::Recovery;
        // Two equal paths: four windows. Or (80 / 20)^2 windows for the better one's share of them,
        // 60 / 80: 4 * 80 / 3, in BALIA by (1 + 3) / 2 (4 + 3) / 5 = 2.8 faster than x / sum^2 = 1 / 320.
        let lia = if threshold { 80 } else { 107 };
        assert_eq!(segments_per_increase("lia", 0, &siblings), lia, "{state:?}");
        assert_eq!(segments_per_increase("balia", 0, &siblings), 114, "{state:?}");
        // 20 / 40^2, or 20 / 80^2 and half a segment a window for the smaller of two paths as good.
        let per_second = if threshold { 20.0 / 1600.0 } else { 20.0 / 6400.0 + 0.5 / 20.0 };
        let grown = growth("olia", 0, &siblings, 8000) as f64;
        assert!((grown - 8000.0 * per_second).abs() <= 1.0, "{state:?}: {grown}");
    }
}

/// `cnt_established` includes a path that has no RTT yet (its handshake was retransmitted). The sums do not include
/// it.
#[test]
fn a_path_without_an_rtt_counts_among_the_paths() {
    let mut siblings =
        views(&[delivered(40, 100, 10_000), delivered(10, 100, 90_000), path(10, 100)]);
    siblings[2].srtt = None;
    for (usable, paths) in [(true, 3.0), (false, 2.0)] {
        siblings[2].usable = usable;
        let rounds = 1000;
        for (own, window, alpha) in [(0, 40.0, -1.0 / paths), (1, 10.0, 1.0 / paths)] {
            let grown = growth("olia", own, &siblings, window as u32 * rounds) as f64;
            let share: f64 = window * window / 2500.0;
            assert!((grown / f64::from(rounds) - (share + alpha)).abs() < 0.002, "{grown}");
        }
    }
    // BALIA's window may fall to one segment where there are several paths (`mptcp_balia_ssthresh`).
    let mut siblings = views(&[path(1, 100), path(10, 100)]);
    siblings[1].srtt = None;
    for (usable, floor) in [(true, 1), (false, 2)] {
        siblings[1].usable = usable;
        let mut controller = build("balia");
        let mut window = siblings[0].window;
        controller.on_ack(&ack(0, &siblings, 1), &mut window);
        window.cwnd = 1;
        controller.on_congestion(&LOSS, &mut window);
        assert_eq!(window.ssthresh, floor);
    }
}
