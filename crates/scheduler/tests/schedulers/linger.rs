//! Checks the average pacing rate of `linux` and its decisions by hand (`mptcp_subflow_get_send`).

use anabranch_scheduler::{Decision, PathScheduler, SendRequest, SubflowView};
use anabranch_units::{Rate, SubflowId};

use super::{build, chosen, request, view};

/// Returns a subflow with `memory` queued bytes and a pacing rate of `rate` bytes per second.
fn paced(id: u8, memory: u64, rate: u64) -> SubflowView {
    SubflowView {
        queued_memory: memory,
        pacing_rate: Rate::from_bytes_per_second(rate),
        ..view(id, 50, 50, 0)
    }
}

/// Calls the scheduler with `window` bytes left in the connection-level window.
fn ask(linux: &mut dyn PathScheduler, window: u64, views: &[SubflowView]) -> Option<u8> {
    let request = SendRequest { window_end: window, ..request() };
    chosen(&linux.schedule(&request, views))
}

#[test]
fn average_pacing_rate_is_weighted_by_queue_and_burst() {
    // The average is (avg * wmem + pacing * burst) / (burst + wmem). The first call sets it to 1 MB/s. At the
    // second call, 30,000 bytes are queued and 10,000 are sent at 5 MB/s: (30,000 * 1 + 10,000 * 5) / 40,000
    // = 2 MB/s. At 2 MB/s, 30,000 bytes linger 15 ms. The other subflow stays at 1 MB/s: 14,900 bytes linger
    // less, and 15,100 bytes linger longer.
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
    // The second subflow was not chosen, so its average is still 1 MB/s: 2 ms against 1 ms.
    let faster = [paced(0, 1_000, 1_000_000), paced(1, 2_000, 900_000_000)];
    assert_eq!(ask(linux.as_mut(), 10_000, &faster), Some(0));
    // A subflow without a pacing rate is not chosen (`if (!pace) continue` for an unmeasured subflow).
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
    // The first call set the average to 1 MB/s. The second one had nothing queued and sent 1 byte at 7 bytes/s,
    // so the average is (1,000,000 * 0 + 7 * 1) / (0 + 1) = 7 bytes/s. 700 bytes therefore linger 100 s, and
    // the other subflow's 99 bytes linger 99 s.
    let views = [paced(0, 700, 1_000_000), paced(1, 99, 1)];
    assert_eq!(ask(linux.as_mut(), 10, &views), Some(1));
    // Both subflows linger exactly 1 s. The older one is chosen.
    let mut linux = build("linux");
    let even = [paced(0, 2_000, 2_000), paced(1, 1_000, 1_000)];
    assert_eq!(ask(linux.as_mut(), 10, &even), Some(0));
}

/// `mptcp_subflow_get_send` runs while data waits, even if the window is closed (`__mptcp_push_pending`). Its
/// first call for a subflow initialises the average rate.
#[test]
fn a_rate_is_taken_while_the_window_is_closed_and_forgotten_with_its_subflow() {
    for name in ["linux", "linux-6.1", "rtx-aware(linux)"] {
        let chosen_after = |closed: bool| {
            let mut linux = build(name);
            if closed {
                linux.on_window_closed(&[paced(0, 0, 1_000), paced(1, 0, 9_000)]);
            }
            // At the present rates, the subflows linger 1 s and 2 s. At the earlier rates, they linger 9 s
            // and 2 s.
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
