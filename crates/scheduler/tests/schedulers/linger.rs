//! `linux`: the average pacing rate and its decisions, by hand (`mptcp_subflow_get_send`).

use anabranch_scheduler::{Decision, PathScheduler, SendRequest, SubflowView};
use anabranch_units::{Rate, SubflowId};

use super::{build, chosen, request, view};

/// A subflow that holds `memory` bytes and is paced at `rate` bytes a second.
fn paced(id: u8, memory: u64, rate: u64) -> SubflowView {
    SubflowView {
        queued_memory: memory,
        pacing_rate: Rate::from_bytes_per_second(rate),
        ..view(id, 50, 50, 0)
    }
}

/// Asks about a stream with `window` bytes of window left.
fn ask(linux: &mut dyn PathScheduler, window: u64, views: &[SubflowView]) -> Option<u8> {
    let request = SendRequest { window_end: window, ..request() };
    chosen(&linux.schedule(&request, views))
}

#[test]
fn the_average_rate_weighs_what_is_queued_against_the_burst() {
    // avg = (avg wmem + pacing burst) / (burst + wmem). First 1 MB/s; then 30,000 bytes are queued at
    // that rate and 10,000 go at 5 MB/s: (30,000 * 1 + 10,000 * 5) / 40,000 = 2 MB/s.
    // 30,000 bytes at 2 MB/s linger 15 ms. The other, always at 1 MB/s, lingers less with 14,900
    // bytes and more with 15,100.
    for (others, expected) in [(14_900, 1), (15_100, 0)] {
        let mut linux = build("linux");
        assert_eq!(ask(linux.as_mut(), 10_000, &[paced(0, 0, 1_000_000)]), Some(0));
        assert_eq!(ask(linux.as_mut(), 10_000, &[paced(0, 30_000, 5_000_000)]), Some(0));
        let views = [paced(0, 30_000, 9_000_000), paced(1, others, 1_000_000)];
        assert_eq!(ask(linux.as_mut(), 10_000, &views), Some(expected), "{others}");
    }
}

#[test]
fn a_rate_is_taken_as_it_is_the_first_time_and_only_the_chosen_ones_moves() {
    let mut linux = build("linux");
    let first = [paced(0, 1_000, 1_000_000), paced(1, 2_000, 1_000_000)];
    assert_eq!(ask(linux.as_mut(), 10_000, &first), Some(0));
    // The second one's average is 1 MB/s still, whatever its rate is now: 2 ms against 1 ms.
    let faster = [paced(0, 1_000, 1_000_000), paced(1, 2_000, 900_000_000)];
    assert_eq!(ask(linux.as_mut(), 10_000, &faster), Some(0));
    // One without a rate is not chosen (`if (!pace) continue` of an unmeasured subflow).
    let mut linux = build("linux");
    assert_eq!(ask(linux.as_mut(), 10_000, &[paced(0, 0, 0), paced(1, 90_000, 1_000)]), Some(1));
    assert_eq!(ask(linux.as_mut(), 10_000, &[paced(0, 0, 0)]), None);
}

#[test]
fn an_empty_window_sends_nothing_and_moves_no_average() {
    let mut linux = build("linux");
    assert_eq!(ask(linux.as_mut(), 0, &[paced(0, 0, 1_000_000)]), None);
    let decision = linux.schedule(&SendRequest { window_end: 1, ..request() }, &[paced(0, 0, 7)]);
    assert_eq!(decision, Decision::next_on(SubflowId(0), 1));
    // 1 MB/s was noted at the first question: (1,000,000 * 0 + 7 * 1) / 1 = 7 since. 700 bytes linger
    // 100 s, and the other's 99 s.
    let views = [paced(0, 700, 1_000_000), paced(1, 99, 1)];
    assert_eq!(ask(linux.as_mut(), 10, &views), Some(1));
    // A linger is exact where it matters: equal ones go to the older.
    let mut linux = build("linux");
    let even = [paced(0, 2_000, 2_000), paced(1, 1_000, 1_000)];
    assert_eq!(ask(linux.as_mut(), 10, &even), Some(0));
}

/// `mptcp_subflow_get_send` runs while data waits, whether or not the window is open (`__mptcp_push_pending`), and
/// takes a new subflow's rate at its first call.
#[test]
fn a_rate_is_taken_while_the_window_is_closed_and_forgotten_with_its_subflow() {
    for name in ["linux", "linux-6.1"] {
        let chosen_after = |closed: bool| {
            let mut linux = build(name);
            if closed {
                linux.on_window_closed(&[paced(0, 0, 1_000), paced(1, 0, 9_000)]);
            }
            // By these rates the first lingers 1 s and the second 2 s; by those before, 9 s and 2 s.
            ask(linux.as_mut(), 10, &[paced(0, 9_000, 9_000), paced(1, 18_000, 9_000)])
        };
        assert_eq!(chosen_after(false), Some(0), "{name}");
        assert_eq!(chosen_after(true), Some(1), "{name}");
        let mut linux = build(name);
        linux.on_window_closed(&[paced(0, 0, 9_000), paced(1, 0, 1_000)]);
        linux.on_replaced(SubflowId(1));
        let views = [paced(0, 9_000, 9_000), paced(1, 4_500, 9_000)];
        assert_eq!(
            ask(linux.as_mut(), 10, &views),
            Some(1),
            "{name}: 0.5 s, not 4.5 of 1,000 bytes/s"
        );
    }
}
