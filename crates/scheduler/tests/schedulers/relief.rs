//! The out-of-tree kernel's penalisation, opportunistic retransmission and reinjection.

use anabranch_scheduler::{Ask, Carried, Decision, SendRequest, SubflowSet, SubflowView};
use anabranch_units::{CongestionState, Duration, Instant, SubflowId};

use super::{build, choice, chosen, request, view};

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn set(ids: &[u8]) -> SubflowSet {
    ids.iter().map(|id| SubflowId(*id)).collect()
}

fn head(by: &[u8]) -> Carried {
    Carried { from: 7000, to: 9000, by: set(by) }
}

fn asked(ask: Ask, ms: u64) -> SendRequest {
    SendRequest { ask, now: at(ms), data_una: 7000, data_next: 80_000, ..request() }
}

fn blocked(by: &[u8], ms: u64) -> SendRequest {
    asked(Ask::WindowBlocked { head: head(by) }, ms)
}

fn again(id: u8, burst: u64) -> Decision {
    Decision::Send { on: set(&[id]), from: Some(7000), burst }
}

#[test]
fn slower_carriers_of_the_head_are_penalised_once_a_round_trip_of_the_fast_one() {
    let views = [view(0, 50, 10, 0), view(1, 90, 20, 20), view(2, 70, 20, 20), view(3, 40, 20, 20)];
    let mut dft = build("min-rtt-0.9x");
    // Subflow 0 has room. Subflow 3 is faster although it is full, and subflow 2 carried nothing.
    assert_eq!(dft.schedule(&blocked(&[1, 3], 1000), &views), Decision::Penalise(set(&[1])));
    assert_eq!(dft.schedule(&blocked(&[1, 3], 1000), &views), Decision::WAIT);
    assert_eq!(dft.schedule(&blocked(&[1, 3], 1049), &views), Decision::WAIT);
    assert_eq!(dft.schedule(&blocked(&[1, 2], 1050), &views), Decision::Penalise(set(&[1, 2])));
    // In favour of another subflow, a penalty is due at once.
    let other = [view(0, 50, 10, 10), views[1], view(2, 70, 20, 0), views[3]];
    assert_eq!(dft.schedule(&blocked(&[1, 0], 1060), &other), Decision::Penalise(set(&[1])));
}

#[test]
fn only_an_open_subflow_is_penalised_and_only_for_one_that_can_send() {
    for (state, expected) in [
        (CongestionState::Open, Decision::Penalise(set(&[1]))),
        (CongestionState::Disorder, Decision::WAIT),
        (CongestionState::Cwr, Decision::WAIT),
        (CongestionState::Recovery, Decision::WAIT),
        (CongestionState::Loss, Decision::WAIT),
    ] {
        let slow = SubflowView { state, ..view(1, 90, 20, 20) };
        let got = build("dft").schedule(&blocked(&[1], 0), &[view(0, 50, 10, 0), slow]);
        assert_eq!(got, expected, "{state:?}");
    }
    let full = [view(0, 50, 10, 10), view(1, 90, 20, 20)];
    assert_eq!(build("dft").schedule(&blocked(&[1], 0), &full), Decision::WAIT);
    assert_eq!(build("dft").schedule(&blocked(&[1], 0), &full[1..]), Decision::WAIT);
}

#[test]
fn the_head_goes_again_where_the_fast_one_is_much_faster_or_the_slow_window_small() {
    let fast = view(0, 50, 10, 0);
    for (srtt_ms, cwnd, by, expected) in [
        (201, 20, &[1][..], again(0, 1424)),
        (200, 20, &[1], Decision::WAIT),
        (90, 5, &[1], Decision::WAIT),
        (90, 4, &[1], again(0, 1424)),
        (201, 20, &[0, 1], Decision::WAIT),
        (201, 20, &[], Decision::WAIT),
    ] {
        let slow = view(1, srtt_ms, cwnd, cwnd);
        let mut dft = build("dft");
        let mut got = dft.schedule(&blocked(by, 0), &[fast, slow]);
        if let Decision::Penalise(_) = got {
            got = dft.schedule(&blocked(by, 0), &[fast, slow]);
        }
        assert_eq!(got, expected, "{srtt_ms} ms, {cwnd} segments, {by:?}");
    }
    // All carriers are checked in order. The first one that meets a condition decides.
    let views = [fast, view(1, 300, 20, 20), view(2, 90, 20, 20)];
    let mut dft = build("dft");
    dft.schedule(&blocked(&[1, 2], 0), &views);
    assert_eq!(dft.schedule(&blocked(&[1, 2], 0), &views), Decision::WAIT);
}

#[test]
fn a_send_buffer_with_room_is_no_reason_to_penalise() {
    let views = [view(0, 50, 10, 0), view(1, 300, 20, 20)];
    let full = |left: u64| asked(Ask::BufferFull { head: head(&[1]), left }, 0);
    assert_eq!(build("dft").schedule(&full(0), &views), Decision::Penalise(set(&[1])));
    assert_eq!(build("dft").schedule(&full(1), &views), again(0, 1424));
}

#[test]
fn a_piece_is_reinjected_where_it_was_not_yet_and_then_anywhere() {
    let piece = |by: &[u8]| asked(Ask::Reinject(head(by)), 0);
    let [fast, slow] = [view(0, 50, 10, 0), view(1, 90, 10, 0)];
    let ask = |by: &[u8], views: &[SubflowView]| build("dft").schedule(&piece(by), views);
    assert_eq!(ask(&[], &[fast, slow]), again(0, 1424));
    assert_eq!(ask(&[0], &[fast, slow]), again(1, 1424));
    assert_eq!(ask(&[0, 1], &[fast, slow]), again(0, 1424), "all have carried it");
    let busy = view(1, 90, 10, 10);
    assert_eq!(ask(&[0], &[fast, busy]), Decision::WAIT, "the unused one is waited for");
    let backup = SubflowView { backup: true, ..slow };
    assert_eq!(ask(&[0], &[fast, backup]), again(1, 1424), "also a backup");
    assert_eq!(ask(&[], &[fast, backup]), again(0, 1424));
}

#[test]
fn a_subflow_that_does_not_answer_gets_nothing_and_its_backup_steps_in() {
    let silent = SubflowView { potentially_failed: true, ..view(0, 50, 10, 0) };
    let backup = SubflowView { backup: true, ..view(1, 90, 10, 0) };
    assert_eq!(choice("dft", &[silent, view(1, 90, 10, 0)]), Some(1));
    assert_eq!(choice("dft", &[silent, backup]), Some(1));
    assert_eq!(choice("dft", &[silent]), None);
    assert_eq!(choice("min-rtt", &[silent, backup]), Some(0), "SPD as printed knows nothing of it");
}

#[test]
fn any_base_can_be_run_the_out_of_tree_kernels_way() {
    // LPC would send on 1. The head was carried by 2, and 1 is much faster.
    let views = [view(0, 40, 10, 8), view(1, 50, 30, 0), view(2, 300, 20, 20)];
    for name in ["penalising(lpc)", "penalising(rtx-aware(lpc))", "rtx-aware(penalising(lpc))"] {
        let mut scheduler = build(name);
        assert!(scheduler.wants_idle() && scheduler.reinjects(), "{name}");
        assert_eq!(chosen(&scheduler.schedule(&request(), &views)), Some(1), "{name}");
        let first = scheduler.schedule(&blocked(&[2], 10), &views);
        assert_eq!(first, Decision::Penalise(set(&[2])), "{name}");
        assert_eq!(scheduler.schedule(&blocked(&[2], 10), &views), again(1, 1424), "{name}");
    }
    // The base's position in the stream is kept. Redundant has one for each subflow.
    let mut redundant = build("penalising(redundant)");
    let Decision::Send { from, .. } = redundant.schedule(&request(), &views) else {
        panic!("there is room");
    };
    assert_eq!(from, Some(0));
}

#[test]
fn a_base_that_reads_the_window_relieves_a_full_one_too() {
    let full = SendRequest { window_end: 80_000, ..blocked(&[1], 10) };
    let slow = view(1, 300, 20, 20);
    for base in ["linux", "linux-6.1", "min-rtt", "sticky", "round-robin", "blest", "ecf"] {
        let mut relieving = build(&format!("penalising({base})"));
        let views = [view(0, 50, 10, 0), slow];
        assert_eq!(relieving.schedule(&full, &views), Decision::Penalise(set(&[1])), "{base}");
        assert_eq!(relieving.schedule(&full, &views), again(0, 1424), "{base}");
        // The subflow is full. Least linger would only queue the head.
        let busy = [SubflowView { queued_memory: 0, ..view(0, 50, 10, 10) }, slow];
        assert_eq!(relieving.schedule(&full, &busy), Decision::WAIT, "{base}");
    }
}
