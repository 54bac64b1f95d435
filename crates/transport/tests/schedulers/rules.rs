//! Each scheduler's rule on hand-made views.

use anabranch_transport::congestion::CongestionState;
use anabranch_transport::scheduler::{self, Decision, SendRequest, SubflowView};
use anabranch_units::{Rate, SubflowId};

use super::{build, choice, chosen, request, view};

#[test]
fn min_rtt_prefers_low_rtt_until_its_window_fills() {
    assert_eq!(choice("min-rtt", &[view(0, 100, 10, 0), view(1, 50, 10, 0)]), Some(1));
    assert_eq!(choice("min-rtt", &[view(0, 100, 10, 0), view(1, 50, 10, 10)]), Some(0));
    assert_eq!(choice("min-rtt", &[view(0, 100, 10, 10), view(1, 50, 10, 10)]), None);
    assert_eq!(
        choice("spd", &[view(0, 50, 10, 0), view(1, 50, 10, 0)]),
        Some(0),
        "ties: the older"
    );
}

#[test]
fn window_schedulers_leave_out_what_is_in_loss_stale_or_not_established() {
    for name in ["min-rtt", "round-robin", "redundant"] {
        for spoil in 0..3 {
            let mut fast = view(0, 10, 10, 0);
            match spoil {
                0 => fast.state = CongestionState::Loss,
                1 => fast.stale = true,
                _ => fast.established = false,
            }
            assert_eq!(choice(name, &[fast, view(1, 90, 10, 0)]), Some(1), "{name} {spoil}");
        }
    }
}

#[test]
fn a_backup_serves_only_when_there_is_nothing_else() {
    for name in ["min-rtt", "linux", "linux-6.1", "round-robin", "redundant"] {
        let backup = SubflowView { backup: true, ..view(0, 10, 10, 0) };
        let full = SubflowView { send_buffer: 100, ..view(1, 90, 10, 10) };
        assert_eq!(
            choice(name, &[backup, full]),
            None,
            "{name}: a busy regular path is waited for"
        );
        assert_eq!(choice(name, &[backup]), Some(0), "{name}");
    }
}

#[test]
fn linux_takes_the_least_linger_and_waits_when_that_one_is_full() {
    // Linger is memory over rate: 100 kB at 5 Mb/s against 100 kB at 10 Mb/s.
    let slow = SubflowView { queued_memory: 100_000, ..view(0, 10, 50, 40) };
    let fast = SubflowView {
        queued_memory: 100_000,
        pacing_rate: Rate::from_bps(10_000_000),
        ..view(1, 200, 50, 40)
    };
    assert_eq!(choice("linux", &[slow, fast]), Some(1), "the RTT does not count");
    let full = SubflowView { send_buffer: 90_000, ..fast };
    assert_eq!(choice("linux", &[slow, full]), None, "no fall-back to the second best");
}

#[test]
fn linux_bursts_are_64_kib_or_what_the_window_leaves() {
    let mut linux = build("linux");
    let burst = |window_end: u64, linux: &mut dyn scheduler::PathScheduler| {
        let request = SendRequest { window_end, ..request() };
        match linux.schedule(&request, &[view(0, 10, 50, 0)]) {
            Decision::Send { burst, .. } => burst,
            Decision::Wait { .. } | Decision::Penalise(_) => 0,
        }
    };
    // 65,428 bytes end in the second piece of 32,728; the burst goes on to that piece's end.
    assert_eq!(burst(1 << 20, linux.as_mut()), 65_456);
    assert_eq!(burst(10_000, linux.as_mut()), 10_000);
    assert_eq!(burst(0, linux.as_mut()), 0);
}

#[test]
fn linux_6_1_keeps_its_choice_until_the_burst_is_used_up() {
    let mut kept = build("linux-6.1");
    let mut linux = build("linux");
    // What the first one takes makes it the longer queue at once.
    let empty = [view(0, 10, 50, 0), SubflowView { queued_memory: 9_000, ..view(1, 20, 50, 0) }];
    let held = [SubflowView { queued_memory: 90_000, ..empty[0] }, empty[1]];
    let ask = |s: &mut dyn scheduler::PathScheduler, from: u64, views: &[SubflowView]| {
        s.schedule(&SendRequest { data_next: from, ..request() }, views)
    };
    for scheduler in [kept.as_mut(), linux.as_mut()] {
        assert_eq!(ask(scheduler, 0, &empty), Decision::next_on(SubflowId(0), 65_456));
        scheduler.on_sent(SubflowId(0), 0, 5_428);
    }
    assert_eq!(chosen(&ask(linux.as_mut(), 5_428, &held)), Some(1), "a new choice at every push");
    assert_eq!(ask(kept.as_mut(), 5_428, &held), Decision::next_on(SubflowId(0), 60_028));
    // The retransmission timer's data is not of the burst; a full buffer only interrupts it.
    kept.on_sent(SubflowId(1), 0, 5_000);
    assert_eq!(ask(kept.as_mut(), 5_428, &held), Decision::next_on(SubflowId(0), 60_028));
    kept.on_sent(SubflowId(0), 5_428, 60_028);
    assert_eq!(chosen(&ask(kept.as_mut(), 65_456, &held)), Some(1), "the burst is used up");
    kept.on_sent(SubflowId(1), 65_456, 1_000);
    let back = ask(kept.as_mut(), 0, &empty);
    assert_eq!(chosen(&back), Some(0), "sending everything again ends a burst");
}

#[test]
fn round_robin_takes_turns_and_skips_the_full() {
    let mut turns = build("round-robin");
    let views = [view(0, 10, 10, 0), view(1, 20, 10, 10), view(2, 30, 10, 0)];
    let order: Vec<_> = (0..4).map(|_| chosen(&turns.schedule(&request(), &views))).collect();
    assert_eq!(order, [Some(0), Some(2), Some(0), Some(2)]);
}

#[test]
fn redundant_gives_every_subflow_all_data_from_its_own_position() {
    let mut all = build("redundant");
    let views = [view(0, 10, 10, 0), view(1, 20, 10, 0)];
    let mut positions = [0u64; 2];
    for _ in 0..20 {
        let Decision::Send { on, from: Some(from), burst } = all.schedule(&request(), &views)
        else {
            panic!("there is data and room");
        };
        let id = on.iter().next().expect("a subflow");
        assert_eq!(from, positions[id.index()]);
        positions[id.index()] += burst;
        all.on_sent(id, from, burst);
    }
    assert_eq!(positions, [10 * 1424; 2]);
    // What is acknowledged is not repeated.
    let ahead = SendRequest { data_una: 100_000, ..request() };
    let Decision::Send { from, .. } = all.schedule(&ahead, &views) else { panic!("room") };
    assert_eq!(from, Some(100_000));
}
