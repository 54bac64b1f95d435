//! Each scheduler's rule on hand-made views.

use anabranch_scheduler as scheduler;
use anabranch_scheduler::{Decision, SendRequest, SubflowView};
use anabranch_units::{CongestionState, Duration, Instant, Rate, SubflowId};

use super::{build, choice, chosen, questions, request, view};

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
fn window_schedulers_skip_lossy_stale_and_unestablished_subflows() {
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
fn room_waiting_schedulers_wait_if_no_subflow_can_send() {
    let none_can = [
        view(0, 50, 9, 9),
        SubflowView { queued_bytes: 1, ..view(1, 40, 9, 8) },
        SubflowView { state: CongestionState::Loss, ..view(2, 30, 9, 0) },
        SubflowView { stale: true, ..view(3, 20, 9, 0) },
        SubflowView { established: false, ..view(4, 10, 9, 0) },
        SubflowView { backup: true, ..view(5, 10, 9, 9) },
    ];
    let mut waiting = Vec::new();
    for known in scheduler::names() {
        let mut scheduler = build(known.name);
        if !scheduler.waits_for_room() {
            continue;
        }
        waiting.push(known.name);
        for ask in questions() {
            for some in 0..=none_can.len() {
                let decision =
                    scheduler.schedule(&SendRequest { ask, ..request() }, &none_can[..some]);
                assert_eq!(decision, Decision::WAIT, "{}: {ask:?}", known.name);
            }
        }
        let free = view(6, 90, 9, 8);
        let decision = scheduler.schedule(&request(), &[none_can[0], free]);
        assert_eq!(decision, free.one_segment(), "{}", known.name);
    }
    assert_eq!(waiting, ["min-rtt", "spd", "lpc", "let"]);
}

#[test]
fn choice_keeping_schedulers_repeat_a_subflow_until_it_is_full() {
    let all = [view(0, 50, 30, 5), view(1, 40, 9, 4), view(2, 60, 90, 1)];
    let mut keeping = Vec::new();
    for known in scheduler::names() {
        let mut scheduler = build(known.name);
        if !scheduler.keeps_choice() {
            continue;
        }
        keeping.push(known.name);
        for some in 1..=all.len() {
            let mut views = all[..some].to_vec();
            let first = scheduler.schedule(&request(), &views);
            let Decision::Send { on, from: None, burst } = first else { panic!("{first:?}") };
            let id = on.only().expect("one").index();
            assert_eq!(first, views[id].one_segment(), "{}", known.name);
            let mut segments = 0;
            while views[id].can_send() {
                assert_eq!(scheduler.schedule(&request(), &views), first, "{}", known.name);
                views[id].queued_bytes += burst;
                segments += 1;
            }
            assert!(segments >= 5, "{}: {segments}", known.name);
            assert_ne!(scheduler.schedule(&request(), &views), first, "{}", known.name);
        }
    }
    assert_eq!(keeping, ["min-rtt", "spd"]);
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
    // The linger time is memory divided by rate: 100 kB at 5 Mb/s are compared with 100 kB at 10 Mb/s.
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
fn linux_burst_is_bounded_by_64_kib_and_the_window() {
    let mut linux = build("linux");
    let burst = |window_end: u64, linux: &mut dyn scheduler::PathScheduler| {
        let request = SendRequest { window_end, ..request() };
        match linux.schedule(&request, &[view(0, 10, 50, 0)]) {
            Decision::Send { burst, .. } => burst,
            Decision::Wait { .. } | Decision::Penalise(_) => 0,
        }
    };
    // 65,428 bytes end in the second fragment of 32,728 bytes. The burst is extended to the end of that
    // fragment.
    assert_eq!(burst(1 << 20, linux.as_mut()), 65_456);
    assert_eq!(burst(10_000, linux.as_mut()), 10_000);
    assert_eq!(burst(0, linux.as_mut()), 0);
}

#[test]
fn linux_6_1_keeps_its_choice_until_the_burst_is_used_up() {
    let mut kept = build("linux-6.1");
    let mut linux = build("linux");
    // After the first subflow has taken data, it has the longer queue.
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
    // Data sent by the retransmission timer does not count towards the burst. A full buffer only interrupts
    // the burst.
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
    // Acknowledged data is not repeated.
    let ahead = SendRequest { data_una: 100_000, ..request() };
    let Decision::Send { from, .. } = all.schedule(&ahead, &views) else { panic!("room") };
    assert_eq!(from, Some(100_000));
}

#[test]
fn round_robin_may_give_longer_turns_and_wait_for_a_full_one() {
    let views = [view(0, 10, 10, 0), view(1, 20, 10, 10), view(2, 30, 10, 0)];
    let order = |name: &str, views: &[SubflowView]| -> Vec<_> {
        let mut turns = build(name);
        (0..8).map(|_| chosen(&turns.schedule(&request(), views))).collect()
    };
    let long = order("round-robin(num_segments=3)", &views);
    assert_eq!(long, [0, 0, 0, 2, 2, 2, 0, 0].map(Some));
    let strict = order("round-robin(num_segments=2, cwnd_limited=false)", &views);
    assert_eq!(strict[..4], [Some(0), Some(0), None, None], "the second one's turn");
    // A turn ends early if the subflow has no window space. A subflow in Loss gets no turn.
    let mut turns = build("round-robin(num_segments=3)");
    let full = [view(0, 10, 10, 10), views[1], views[2]];
    let asked = [&views, &full, &views].map(|views| chosen(&turns.schedule(&request(), views)));
    assert_eq!(asked, [Some(0), Some(2), Some(2)]);
    let lost = SubflowView { state: CongestionState::Loss, ..views[1] };
    let without = order("round-robin(cwnd_limited=false)", &[views[0], lost, views[2]]);
    assert_eq!(without, [0, 2, 0, 2, 0, 2, 0, 2].map(Some));
}

#[test]
fn ties_of_lpc_go_to_the_smaller_srtt_and_of_let_to_the_older() {
    assert_eq!(choice("lpc", &[view(0, 90, 10, 4), view(1, 50, 20, 14)]), Some(1));
    assert_eq!(choice("lpc", &[view(0, 50, 10, 4), view(1, 50, 20, 14)]), Some(0));
    assert_eq!(choice("let", &[view(0, 100, 20, 0), view(1, 50, 10, 0)]), Some(0));
}

#[test]
fn rtx_aware_waits_for_a_regular_subflow_before_it_takes_a_backup() {
    let busy = SubflowView { state: CongestionState::Recovery, ..view(0, 50, 10, 2) };
    let backup = SubflowView { backup: true, ..view(1, 90, 10, 0) };
    for name in ["spdx", "lpcx", "letx", "rtx-aware(linux)"] {
        assert_eq!(choice(name, &[busy, backup]), None, "{name}");
        assert_eq!(choice(name, &[backup]), Some(1), "{name}");
        let other = SubflowView { state: CongestionState::Cwr, ..view(2, 200, 10, 0) };
        assert_eq!(
            choice(name, &[busy, backup, other]),
            Some(2),
            "{name}: CWR retransmits nothing"
        );
    }
}

#[test]
fn rtx_aware_states_parameter_sets_the_first_excluded_state() {
    use CongestionState::{Cwr, Disorder, Loss, Open, Recovery};
    let named = [
        ("recovery", vec![Recovery, Loss]),
        ("loss", vec![Loss]),
        ("cwr", vec![Cwr, Recovery, Loss]),
        ("disorder", vec![Disorder, Cwr, Recovery, Loss]),
    ];
    for (word, left_out) in named {
        for state in [Open, Disorder, Cwr, Recovery, Loss] {
            // The base is `linux`, which sends in every congestion state.
            let near = SubflowView { state, ..view(0, 50, 10, 2) };
            let far = SubflowView { queued_memory: 50_000, ..view(1, 90, 10, 2) };
            let name = format!("rtx-aware(linux, states={word})");
            let taken = Some(u8::from(left_out.contains(&state)));
            assert_eq!(choice(&name, &[near, far]), taken, "{name}, {state:?}");
        }
    }
}

#[test]
fn rtx_aware_leaves_a_subflow_out_for_so_many_rtts_after_it_retransmitted() {
    let at = |ms: u64| SendRequest { now: Instant::ZERO + Duration::from_millis(ms), ..request() };
    let mut scheduler = build("spdx(hold=2)");
    let busy = SubflowView { state: CongestionState::Recovery, ..view(0, 50, 10, 2) };
    let (calm, far) = (view(0, 50, 10, 2), view(1, 90, 10, 0));
    let full = view(1, 90, 10, 10);
    assert_eq!(chosen(&scheduler.schedule(&at(1000), &[calm, far])), Some(0));
    assert_eq!(chosen(&scheduler.schedule(&at(1010), &[busy, far])), Some(1));
    // The hold is two RTTs of 50 ms from the last time the subflow was in Recovery.
    assert_eq!(chosen(&scheduler.schedule(&at(1109), &[calm, far])), Some(1));
    let until = Some(Instant::ZERO + Duration::from_millis(1110));
    assert_eq!(scheduler.schedule(&at(1109), &[calm, full]), Decision::Wait { until });
    assert_eq!(scheduler.schedule(&at(1109), &[calm]), Decision::Wait { until });
    assert_eq!(chosen(&scheduler.schedule(&at(1110), &[calm, far])), Some(0));
}

#[test]
fn sttf_waits_for_a_full_subflow_that_still_delivers_first() {
    // A full subflow takes 1.5 srtt; a subflow with room takes half an srtt.
    let fast = view(0, 50, 10, 10);
    assert_eq!(choice("sttf", &[fast, view(1, 160, 10, 0)]), None, "75 ms against 80");
    assert_eq!(choice("sttf", &[fast, view(1, 140, 10, 0)]), Some(1), "75 ms against 70");
    // The new segment is the 12th beyond the window. In congestion avoidance, rounds of 11 and 12 segments
    // send it in the second round: 125 ms.
    let reduced = SubflowView { ssthresh: 5, ..view(0, 50, 10, 21) };
    assert_eq!(choice("sttf", &[reduced, view(1, 240, 10, 0)]), Some(1));
    assert_eq!(choice("sttf", &[reduced, view(1, 260, 10, 0)]), None);
    // Slow start doubles the window to 20, so the first round is enough: 75 ms.
    let growing = view(0, 50, 10, 21);
    assert_eq!(choice("sttf", &[growing, view(1, 160, 10, 0)]), None);
    // Rounds of 20, 40 and 80 segments: the 101st segment is sent in the third round, and arrives after 175
    // ms.
    let long = view(0, 50, 10, 110);
    assert_eq!(choice("sttf", &[long, view(1, 340, 10, 0)]), Some(1));
    assert_eq!(choice("sttf", &[long, view(1, 360, 10, 0)]), None);
    let repairing = SubflowView { state: CongestionState::Recovery, ..fast };
    assert_eq!(choice("sttf", &[repairing, view(1, 160, 10, 0)]), Some(1), "left out");
}

#[test]
fn ecf_waits_longer_once_it_waits() {
    // delta is 10 ms, and two windows of the fast subflow are unscheduled. The first comparison is 50 (20 +
    // 10) with 10 (srtt + 10). In the second one, the slow subflow needs 4 windows, which is always too slow.
    let few = SendRequest { data_end: 20 * 1424, ..request() };
    let at = |srtt_ms: u64| [view(0, 50, 10, 10), view(1, srtt_ms, 5, 0)];
    let mut ecf = build("ecf");
    let mut ask = |srtt_ms: u64| chosen(&ecf.schedule(&few, &at(srtt_ms)));
    assert_eq!(ask(139), Some(1));
    assert_eq!(ask(141), None);
    assert_eq!(ask(139), None, "it waits: 1.25 (139 + 10) > 150");
    assert_eq!(ask(109), Some(1), "1.25 (109 + 10) < 150");
    assert_eq!(ask(139), Some(1), "and no longer");
}

#[test]
fn wait_or_send_waits_if_the_fast_subflow_finishes_first() {
    let views = [view(0, 20, 20, 20), view(1, 200, 20, 0)];
    let ask = |name: &str, segments: u64, window: u64| {
        let request =
            SendRequest { data_end: segments * 1424, window_end: window * 1424, ..request() };
        super::choice_of(name, &request, &views)
    };
    // The fast subflow sends 20 segments per 20 ms, and half an srtt of 10 ms is added. The slow one needs 10
    // + 100 ms.
    assert_eq!(ask("wait-or-send", 99, 1000), None);
    assert_eq!(ask("wait-or-send", 101, 1000), Some(1));
    assert_eq!(ask("wait-or-send", 1000, 99), None, "the window counts");
    assert_eq!(ask("wait-or-send(patience=0.5)", 99, 1000), Some(1));
    let lost = SubflowView { state: CongestionState::Loss, ..views[0] };
    assert_eq!(choice("wait-or-send", &[lost, views[1]]), Some(1), "it might never come back");
}

#[test]
fn daps_numbers_segments_by_their_arrival() {
    let mut daps = build("daps");
    // In 100 ms the fast subflow has three rounds, which arrive after 15, 45 and 75 ms. The slow subflow's
    // round arrives after 50 ms.
    let views = [view(0, 30, 2, 0), view(1, 100, 2, 0)];
    let (mut sent, mut next) = ([Vec::new(), Vec::new()], 0u64);
    let mut free = [2, 2];
    for _ in 0..8 {
        let now: Vec<_> =
            (0..2).map(|id| SubflowView { in_flight: 2 - free[id].min(2), ..views[id] }).collect();
        let request = SendRequest { data_next: next, ..request() };
        let Decision::Send { on, from: Some(from), burst } = daps.schedule(&request, &now) else {
            free = [2, free[1]];
            continue;
        };
        let id = on.iter().next().expect("one");
        daps.on_sent(id, from, burst);
        sent[id.index()].push(from / 1424);
        free[id.index()] -= 1;
        while sent.iter().flatten().any(|at| at * 1424 == next) {
            next += 1424;
        }
    }
    assert_eq!(sent, [vec![0, 1, 2, 3], vec![4, 5]]);
    let gone = SendRequest { data_next: next, ..request() };
    let decision = daps.schedule(&gone, &[view(1, 100, 9, 0)]);
    assert!(matches!(decision, Decision::Send { from: None, .. }), "in order first: {decision:?}");
}

#[test]
fn windows_of_any_size_cost_no_more_and_overflow_nothing() {
    for known in scheduler::names() {
        let huge = SubflowView {
            in_flight: u32::MAX,
            queued_bytes: 5000,
            ssthresh: 1 << 30,
            ..view(0, 1, u32::MAX, 0)
        };
        let views = [huge, view(1, 10_000, u32::MAX, 1)];
        let mut scheduler = build(known.name);
        for step in 0..1000 {
            let next = step * 1424;
            let request = SendRequest { data_next: next, data_end: next + 5000, ..request() };
            if let Decision::Send { on, from, burst } = scheduler.schedule(&request, &views) {
                let id = on.iter().next().expect("a subflow");
                scheduler.on_sent(id, from.unwrap_or(next), burst);
            }
        }
    }
}

#[test]
fn daps_replans_when_its_plan_is_exhausted() {
    // One subflow with a window of two segments: each plan is one round of two.
    let mut daps = build("daps");
    for number in 0..5 {
        let data_next = number * 1424;
        let request = SendRequest { data_next, ..request() };
        let decision = daps.schedule(&request, &[view(0, 30, 2, 0)]);
        let Decision::Send { from: Some(from), burst, .. } = decision else {
            panic!("segment {number} waits: {decision:?}");
        };
        assert_eq!((from, burst), (data_next, 1424));
        daps.on_sent(SubflowId(0), from, burst);
    }
}

#[test]
fn linux_6_1_reselects_while_its_subflow_has_no_room() {
    let mut kept = build("linux-6.1");
    let slow = SubflowView { queued_memory: 9_000, ..view(1, 20, 50, 0) };
    let first = kept.schedule(&request(), &[view(0, 10, 50, 0), slow]);
    assert_eq!(chosen(&first), Some(0));
    kept.on_sent(SubflowId(0), 0, 5_000);
    let full = SubflowView { queued_memory: 90_000, send_buffer: 90_000, ..view(0, 10, 50, 0) };
    let next = kept.schedule(&SendRequest { data_next: 5_000, ..request() }, &[full, slow]);
    assert_eq!(chosen(&next), Some(1), "room elsewhere is no room of its own");
}

#[test]
fn redundant_sends_no_more_than_there_is() {
    let mut redundant = build("redundant");
    let mut ask = |data_next: u64| {
        let request = SendRequest { data_next, data_end: 1500, ..request() };
        let decision = redundant.schedule(&request, &[view(0, 10, 10, 0)]);
        let Decision::Send { from: Some(from), burst, .. } = decision else {
            panic!("it waits: {decision:?}");
        };
        redundant.on_sent(SubflowId(0), from, burst);
        (from, burst)
    };
    // A segment, and the remaining 76 bytes.
    assert_eq!((ask(0), ask(1424)), ((0, 1424), (1424, 76)));
}
