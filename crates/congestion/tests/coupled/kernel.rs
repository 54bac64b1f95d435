//! The kernel's forms of the coupled controllers. Expected values are computed by hand with the integers of
//! the named functions of the out-of-tree kernel v0.94. Its srtt is in units of 1/8 us: 57 ms are 456,000.

use super::wvegas::{vegas_rounds, vegas_rounds_beside};
use super::*;
use anabranch_congestion::WindowChange;

/// If all values are equal or zero, the initial subflow is the best, because it is last in the kernel's list.
///
/// The paths are (2, 57 ms) and (76, 183 ms). In `mptcp_ccc_recalc_alpha`, 2 << 32 and 76 << 32, divided by
/// the squares of 456,000 and 1,464,000, are both 0. If the first path is the best, the sum is 2048 + 77,824
/// x 456 / 1464 = 26,288, and alpha is (2 << 32) / 26,288^2 = 12. The window then grows at the
/// acknowledgement after 4096 / 12 = 341 others. If the second path is the best, the sum is 6575 + 77,824 =
/// 84,399, alpha is 45, and it grows after 91 others.
#[test]
fn lia_takes_the_initial_path_for_the_best_where_all_are_zero() {
    let initial_first = views(&[path(2, 57), path(76, 183)]);
    let initial_second = views(&[path(76, 183), path(2, 57)]);
    assert_eq!(segments_per_increase("lia(form=kernel)", 0, &initial_first), 342);
    assert_eq!(segments_per_increase("lia(form=kernel)", 1, &initial_second), 92);
    for (own, siblings) in [(0, &initial_first), (1, &initial_second)] {
        assert_eq!(segments_per_increase("lia(form=kernel,best=exact)", own, siblings), 92);
    }
}

/// A path's value (cwnd << 32) / srtt^2 is 1 from 49 segments at 57 ms, 150 at 100 ms and 500 at 183 ms. The
/// initial path has 2 segments at 57 ms. Sums and alphas by hand, below and from these windows: 51,200 and 3,
/// 52,224 and 77; 89,016 and 1, 157,192 and 26; 161,204 and 0 (which becomes 1), 518,575 and 7.
#[test]
fn lia_does_not_see_paths_with_small_windows() {
    let cases = [
        (48, 57, 4096 / 3 + 1),
        (49, 57, 4096 / 77 + 1),
        (149, 100, 4096 + 1),
        (150, 100, 4096 / 26 + 1),
        (499, 183, 4096 + 1),
        (500, 183, 4096 / 7 + 1),
    ];
    for (cwnd, rtt_ms, expected) in cases {
        let siblings = views(&[path(2, 57), path(cwnd, rtt_ms)]);
        let found = segments_per_increase("lia(form=kernel)", 0, &siblings);
        assert_eq!(found, expected, "{cwnd} at {rtt_ms} ms");
    }
}

/// `mptcp_ccc_set_state` and the end of `mptcp_ccc_cong_avoid`: alpha does not change when another window
/// shrinks. It changes when another window grows or another subflow changes its state. Two paths of 10 ms by
/// hand, as windows: sum, alpha, acknowledgements. 10 and 10: 20,480, 102, 40. 10 and 5: 15,360, 182, 22. 10
/// and 20: 30,720, 91, 45.
#[test]
fn lia_keeps_alpha_until_a_window_grows_or_a_state_changes() {
    let penalty: fn(&mut SiblingView) = |view| view.window.cwnd = 5;
    let cut: fn(&mut SiblingView) = |view| {
        view.window.cwnd = 5;
        view.state = CongestionState::Recovery;
    };
    let growth: fn(&mut SiblingView) = |view| view.window.cwnd = 20;
    for (change, expected) in [(penalty, 41), (cut, 23), (growth, 46)] {
        let mut siblings = views(&[path(10, 10), path(10, 10)]);
        let mut controller = build("lia(form=kernel)");
        let mut window = siblings[0].window;
        let mut heard = 0;
        while window.cwnd == 10 {
            controller.on_ack(&ack(0, &siblings, 2), &mut window);
            heard += 1;
            if heard == 1 {
                change(&mut siblings[1]);
            }
        }
        assert_eq!(heard, expected);
    }
}

/// `mptcp_olia_cong_avoid`. With two paths of 20 segments, an acknowledgement adds (20,480^2 << 10) / (20 x
/// 40,961^2) = 12 of 1023. Then growth moves from a window of 40 to a window of 10 with more bytes between
/// losses. The smaller window adds ((51,201^2 + 2 x 10,240^2) << 10) / (2 x 10 x 51,201^2) = 55, and the
/// larger one ((2 x 40,960^2 - 51,201^2) << 10) / (2 x 40 x 51,201^2) = 3. The counter restarts at zero after
/// each whole segment.
#[test]
fn olia_counts_whole_parts_of_a_segment() {
    let equal = views(&[path(20, 100), path(20, 100)]);
    assert_eq!(segments_per_increase("olia(form=kernel)", 0, &equal), 1023_u32.div_ceil(12));
    assert_eq!(growth("olia(form=kernel)", 0, &equal, 10 * 86), 10);
    let moving = views(&[delivered(40, 100, 10_000), delivered(10, 100, 90_000)]);
    assert_eq!(segments_per_increase("olia(form=kernel)", 0, &moving), 1023 / 3);
    assert_eq!(segments_per_increase("olia(form=kernel)", 1, &moving), 1023_u32.div_ceil(55));
}

/// `mptcp_get_epsilon` multiplies in 64 bits. 24,000,000 bytes x 880,000^2 (110 ms) wrap around 2^64 to
/// 1.4e17. The second path has 20,000,000 x 400,000^2 = 3.2e18, which is more, so it counts as the best path:
/// ((276,481^2 + 2 x 51,200^2) << 10) / (2 x 50 x 276,481^2) = 10. With 23,000,000 bytes nothing wraps. The
/// initial path then is the best and has the largest window. It adds (51,200^2 << 10) / (50 x 276,481^2) = 0,
/// so the window never grows.
#[test]
fn olia_overflows_where_losses_are_rare() {
    for (bytes, grown) in [(24_000_000, 10), (23_000_000, 0)] {
        let siblings = views(&[delivered(100, 50, bytes), delivered(50, 110, 20_000_000)]);
        assert_eq!(growth("olia(form=kernel)", 1, &siblings, 1030), grown, "{bytes}");
    }
}

/// `mptcp_loss3` changes only with acknowledgements that may grow the window. During a reduction there are
/// none.
#[test]
fn olia_ignores_segments_delivered_during_a_reduction() {
    let mut siblings = views(&[delivered(40, 100, 10_000), delivered(10, 100, 90_000)]);
    siblings[1].state = CongestionState::Recovery;
    siblings[1].window.ssthresh = 10;
    // The first path is the best and has the largest window: (40,960^2 << 10) / (40 x 51,201^2) = 16.
    let found = segments_per_increase("olia(form=kernel)", 0, &siblings);
    assert_eq!(found, 1023_u32.div_ceil(16));
}

/// `mptcp_balia_recalc_ai` for two paths of 20 segments and 100 ms. The rate is 1448 x 20 x 8,000,000 /
/// 800,000 = 289,600 bytes per second. The window grows at the acknowledgement after (579,200^2 x 10 /
/// 579,200) x 20 / (5 x 289,600) = 80 others.
#[test]
fn balia_counts_acknowledgements() {
    let siblings = views(&[path(20, 100), path(20, 100)]);
    assert_eq!(acknowledgements_after_slow_start("balia", &siblings), 81);
}

/// `mptcp_balia_recalc_ai` shifts rates above 2^25 by five bits, because their squares would overflow. Two paths
/// of 500 segments and 1 ms have 1448 x 500 x 8,000,000 / 8,000 = 724,000,000 bytes per second each, or 22,625,000
/// after the shift. The window grows after (45,250,000^2 x 10 / 45,250,000) x 500 / (5 x 22,625,000) = 2,000
/// others.
#[test]
fn balia_scales_large_rates() {
    let siblings = views(&[path(500, 1), path(500, 1)]);
    assert_eq!(acknowledgements_after_slow_start_at(500, "balia", &siblings), 2001);
}

/// Like [`acknowledgements_after_slow_start_at`], for 20 segments.
fn acknowledgements_after_slow_start(name: &str, siblings: &[SiblingView]) -> u32 {
    acknowledgements_after_slow_start_at(20, name, siblings)
}

/// Counts the ACKs, of two segments each, until the window grows from `cwnd` segments by one. Slow start ends at
/// `cwnd` segments, and includes the first computation.
fn acknowledgements_after_slow_start_at(cwnd: u32, name: &str, siblings: &[SiblingView]) -> u32 {
    let mut controller = build(&format!("{name}(form=kernel)"));
    let mut window = Window { cwnd: cwnd - 1, ssthresh: cwnd };
    controller.on_ack(&ack(0, siblings, 1), &mut window);
    assert_eq!(window.cwnd, cwnd);
    let mut heard = 0;
    while window.cwnd == cwnd {
        controller.on_ack(&ack(0, siblings, 2), &mut window);
        heard += 1;
    }
    heard
}

/// Creates a controller with 21 segments after an acknowledgement in slow start. The other path has `other`
/// segments.
fn balia_beside(other: u32) -> (Box<dyn CongestionController>, Window) {
    let siblings = views(&[path(20, 100), path(other, 100)]);
    let mut controller = build("balia(form=kernel)");
    let mut window = Window { cwnd: 20, ssthresh: 100 };
    controller.on_ack(&ack(0, &siblings, 1), &mut window);
    assert_eq!(window.cwnd, 21);
    (controller, window)
}

fn cut(controller: &mut Box<dyn CongestionController>, mut window: Window) -> u32 {
    controller.on_congestion(&LOSS, &mut window);
    window.ssthresh
}

/// The ratio of the rates is rounded down to a whole number, so it has no effect up to twice this path's
/// rate. With windows of 42 and 21 it is two, which is limited to 1.5. The reduction is half of 21, which is
/// 10, or 1.5 times that, 15.
#[test]
fn balia_cuts_by_a_whole_ratio() {
    for (other, left) in [(10, 11), (41, 11), (42, 6), (400, 6)] {
        let (mut controller, window) = balia_beside(other);
        assert_eq!(cut(&mut controller, window), left, "beside {other}");
    }
}

/// `mptcp_balia_ssthresh` is max((u32)(cwnd - md), 1) with the stored reduction, here 10. Two penalties halve
/// the window from 21 to 10 and then to 5. 10 - 10 gives the minimum of one, and 5 - 10 wraps around to a
/// huge threshold. The end of a reduction computes a new value: a window of 5 next to a window of 20 loses
/// 1.5 x 2.
#[test]
fn balia_has_no_threshold_where_the_cut_is_more_than_the_window() {
    let siblings = views(&[path(5, 100), path(20, 100)]);
    for (cwnd, left) in [(10, 1), (9, u32::MAX), (5, u32::MAX)] {
        let (mut controller, _) = balia_beside(20);
        let mut window = Window { cwnd, ssthresh: 5 };
        // A change of state that does not end a reduction computes nothing.
        for state in [CongestionState::Disorder, CongestionState::Open] {
            controller.on_state(Instant::ZERO, state, &mut window);
        }
        controller.on_ack(&ack(0, &siblings, 1), &mut window);
        assert_eq!(cut(&mut controller, window), left, "{cwnd}");
    }
    let (mut controller, _) = balia_beside(20);
    let mut window = Window { cwnd: 5, ssthresh: 5 };
    controller.on_window_changed(WindowChange::Reduction, &mut window);
    assert_eq!(cut(&mut controller, window), 2);
}

/// `mptcp_wvegas_cong_avoid` where it differs from the reference form. Without any delay, the window is
/// halved: 41 x ((100,001 << 16) / 200,002) >> 16. ssthresh is the window, not one less.
#[test]
fn weighted_vegas_drains_an_empty_queue() {
    let choice = "wvegas(form=kernel)";
    let avoiding = Window { cwnd: 40, ssthresh: 20 };
    let drained = Window { cwnd: 20, ssthresh: 20 };
    assert_eq!(vegas_rounds(choice, &[100], avoiding), drained);
    assert_eq!(vegas_rounds(choice, &[104], avoiding), Window { cwnd: 41, ssthresh: 30 });
    // 40 x 10 / 110 = 3 segments are queued. Slow start ends with 40 x 100,001 / 110,001 + 1 segments.
    let ended = Window { cwnd: 37, ssthresh: 37 };
    assert_eq!(vegas_rounds(choice, &[110], Window { cwnd: 40, ssthresh: 100 }), ended);
    let shrunk = Window { cwnd: 39, ssthresh: 39 };
    let least = "wvegas(form=kernel,total_alpha=1)";
    assert_eq!(vegas_rounds(least, &[110], Window { cwnd: 40, ssthresh: 40 }), shrunk);
}

/// `mptcp_wvegas_weight`: 40 segments in 106,001 us are (40 << 16) / 106,001 = 24 units. If the other path
/// has 72 units, the weight is a quarter, that is, two of ten segments. Two are queued, so the window stays.
/// If the other path has 48 units, the weight is a third, and the window grows. Plain TCP has no other path.
#[test]
fn weighted_vegas_shares_by_whole_rates() {
    let avoiding = Window { cwnd: 40, ssthresh: 20 };
    let choice = "wvegas(form=kernel)";
    for (units, cwnd) in [(72_u64, 40), (48, 41)] {
        let rate = Some(Rate::from_bps((units * u64::from(MSS) * 8_000_000) >> 16));
        let others = [SiblingView { published_rate: rate, ..path(40, 100).view(1) }];
        assert_eq!(vegas_rounds_beside(choice, &[106], avoiding, &others).cwnd, cwnd, "{units}");
    }
}

/// On plain TCP these controllers behave like Reno for segments and losses (`tcp_reno_cong_avoid`,
/// `tcp_reno_ssthresh`).
#[test]
fn on_plain_tcp_they_are_reno() {
    for name in ["lia", "olia", "balia"] {
        let mut random = stream("plain");
        let (mut reno, mut kernel) = (build("reno"), build(&format!("{name}(form=kernel)")));
        let mut windows = [Window { cwnd: 10, ssthresh: 30 }; 2];
        for step in 0..5000 {
            let siblings = [SiblingView { window: windows[1], ..path(1, 37).view(0) }];
            let acked = 1 + (random.uniform() * 3.0) as u32;
            let sample = AckSample { multipath: false, ..ack(0, &siblings, acked) };
            let lost = random.uniform() < 0.01;
            for (controller, window) in [&mut reno, &mut kernel].into_iter().zip(&mut windows) {
                controller.on_ack(&sample, window);
                if lost {
                    controller.on_congestion(&LOSS, window);
                    window.cwnd = window.ssthresh;
                }
            }
            assert_eq!(windows[0], windows[1], "{name} at step {step}");
        }
    }
}

/// A single path of Multipath TCP is not plain TCP. The window grows at the acknowledgement after a window of
/// others.
#[test]
fn alone_they_count_acknowledgements() {
    let siblings = views(&[path(20, 100)]);
    // LIA: alpha = (20 << 32) / 20,480^2 = 204, and 4096 / 204 = 20. OLIA: (20,480^2 << 10) / (20 x 20,481^2)
    // = 51. BALIA: (289,600^2 x 10 / 579,200) x 20 / (5 x 289,600) = 20.
    for (name, expected) in [("lia", 21), ("olia", 1023_u32.div_ceil(51)), ("balia", 21)] {
        assert_eq!(acknowledgements_after_slow_start(name, &siblings), expected, "{name}");
    }
}
