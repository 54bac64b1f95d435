//! The siblings that a coupled controller includes in its sums, and its counters after a loss.

use super::*;

/// `mptcp_olia_set_state` and `tcp_reno_ssthresh` do not change OLIA's counter `mptcp_snd_cwnd_cnt`. LIA and
/// BALIA use `snd_cwnd_cnt`, which a reduction clears (`tcp_init_cwnd_reduction`).
#[test]
fn olia_increase_counter_survives_a_loss() {
    // With one path and a window of ten, nine segments are counted before the loss. The next segment then
    // completes a window of five. If a second path is the best, 79 of 80 segments are counted. OLIA
    // adds 10 / (10 + 20)^2 = 1 / 90 per segment after the loss, LIA 20 / 30^2, and BALIA 10 / 30^2 (1 + 2) /
    // 2 (4 + 2) / 5.
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

/// A path in fast recovery enters the sums with its threshold in RFC 6356 section 4 and in OLIA's
/// `mptcp_get_crt_cwnd`. In `mptcp_balia_recalc_ai` it enters with its window.
#[test]
fn a_sibling_in_recovery_counts_with_its_threshold_or_its_window() {
    let mut siblings = views(&[path(20, 100), path(60, 100)]);
    siblings[1].window.ssthresh = 20;
    for state in [CongestionState::Recovery, CongestionState::Loss] {
        siblings[1].state = state;
        let threshold = state == CongestionState::Recovery;
        // With equal windows, one segment per four windows, that is, 80 segments. Otherwise the windows are
        // 20 and 60. LIA needs 80^2 / 60 = 107 segments. BALIA's 1 / 320 grows by the factor
        // (1 + 3) / 2 (4 + 3) / 5 = 2.8.
        let lia = if threshold { 80 } else { 107 };
        assert_eq!(segments_per_increase("lia", 0, &siblings), lia, "{state:?}");
        assert_eq!(segments_per_increase("balia", 0, &siblings), 114, "{state:?}");
        // With the threshold, OLIA adds 20 / 40^2 per segment. Without it, OLIA adds 20 / 80^2, and half a
        // segment per window because the path has the smaller window of two equally good paths.
        let per_second = if threshold { 20.0 / 1600.0 } else { 20.0 / 6400.0 + 0.5 / 20.0 };
        let grown = growth("olia", 0, &siblings, 8000) as f64;
        assert!((grown - 8000.0 * per_second).abs() <= 1.0, "{state:?}: {grown}");
    }
}

/// `cnt_established` includes a path without an RTT, whose handshake was retransmitted. The sums exclude it.
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
    // With several paths, BALIA's window may fall to one segment (`mptcp_balia_ssthresh`).
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
