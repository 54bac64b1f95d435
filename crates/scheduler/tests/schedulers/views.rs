//! Checks views and requests against their definitions.

use anabranch_scheduler::{Decision, SendRequest, SubflowSet, SubflowView, candidates, nearer};
use anabranch_units::{CongestionState, SubflowId};

use super::{request, view};

#[test]
fn window_space_excludes_flight_and_queue() {
    let space = |cwnd: u32, in_flight: u32, queued_bytes: u64| {
        SubflowView { queued_bytes, ..view(0, 50, cwnd, in_flight) }.window_space()
    };
    assert_eq!([space(10, 4, 0), space(10, 10, 0), space(10, 12, 0)], [6, 0, 0]);
    assert_eq!([space(10, 4, 1), space(10, 4, 1424), space(10, 4, 1425)], [5, 5, 4]);
    assert_eq!(space(10, 4, 99_999), 0);
}

#[test]
fn held_bytes_are_the_sum_of_flight_and_queue() {
    let held = SubflowView { queued_bytes: 500, ..view(0, 50, 10, 3) };
    assert_eq!(held.held_bytes(), 3 * 1424 + 500);
    assert_eq!(held.one_segment(), Decision::next_on(SubflowId(0), 1424));
}

#[test]
fn a_subflow_can_send_with_space_and_can_queue_with_buffer() {
    let good = view(0, 50, 10, 9);
    assert!(good.alive() && good.can_send() && good.can_queue());
    let full = SubflowView { in_flight: 10, ..good };
    assert!(full.alive() && !full.can_send() && full.can_queue());
    let lost = SubflowView { state: CongestionState::Loss, ..good };
    assert!(lost.alive() && !lost.can_send() && lost.can_queue());
    let recovering = SubflowView { state: CongestionState::Recovery, ..good };
    assert!(recovering.can_send());
    for other in [SubflowView { established: false, ..good }, SubflowView { stale: true, ..good }] {
        assert!(!other.alive() && !other.can_send() && !other.can_queue());
    }
    // `sk_stream_memory_free` requires less than the buffer.
    let charged = |queued_memory: u64| SubflowView { queued_memory, send_buffer: 1000, ..good };
    assert!(charged(999).can_queue() && !charged(1000).can_queue());
}

#[test]
fn backups_are_candidates_where_no_regular_subflow_lives() {
    let ids = |views: &[SubflowView]| candidates(views).map(|view| view.id.0).collect::<Vec<_>>();
    let regular = view(0, 50, 10, 10);
    let backup = SubflowView { backup: true, ..view(1, 10, 10, 0) };
    assert_eq!(ids(&[regular, backup]), [0]);
    assert_eq!(ids(&[SubflowView { stale: true, ..regular }, backup]), [1]);
    assert_eq!(ids(&[SubflowView { established: false, ..regular }, backup]), [1]);
    assert_eq!(ids(&[backup]), [1]);
}

#[test]
fn nearer_is_another_that_answers_and_has_no_larger_srtt() {
    let pair = |views: &[SubflowView], chosen: u8| {
        let found = nearer(views, SubflowSet::one(SubflowId(chosen)));
        found.map(|(near, chosen)| (near.id.0, chosen.id.0))
    };
    let (near, far) = (view(0, 50, 10, 10), view(1, 90, 10, 0));
    assert_eq!(pair(&[near, far], 1), Some((0, 1)));
    assert_eq!(pair(&[near, far], 0), None, "it is the nearest itself");
    assert_eq!(pair(&[near, far], 2), None);
    assert!(nearer(&[near, far], SubflowSet::EMPTY).is_none());
    assert_eq!(pair(&[view(0, 90, 10, 10), far], 1), Some((0, 1)), "as near");
    for silent in [
        SubflowView { potentially_failed: true, ..near },
        SubflowView { stale: true, ..near },
        SubflowView { established: false, ..near },
        SubflowView { backup: true, ..near },
    ] {
        assert_eq!(pair(&[silent, far], 1), None);
    }
    let backups = [near, far].map(|view| SubflowView { backup: true, ..view });
    assert_eq!(pair(&backups, 1), Some((0, 1)));
    // If the chosen subflow's peer does not answer, the nearest subflow is still compared by srtt.
    let chosen = SubflowView { potentially_failed: true, ..view(1, 40, 10, 0) };
    assert_eq!(pair(&[near, chosen], 1), None);
}

#[test]
fn requests_count_from_the_next_unscheduled_byte() {
    let asked = SendRequest { data_next: 1000, data_end: 5000, window_end: 4000, ..request() };
    assert_eq!((asked.unscheduled(), asked.window_left()), (4000, 3000));
    assert_eq!(SendRequest { window_end: 900, ..asked }.window_left(), 0);
    // Byte 1000 + 100 lies in the first fragment, whose end at 32,728 is 31,728 bytes further on. The next
    // fragment has full length.
    let open = SendRequest { window_end: 1 << 20, ..asked };
    assert_eq!(open.whole_fragments(100), 31_728);
    assert_eq!(open.whole_fragments(31_728), 31_728);
    assert_eq!(open.whole_fragments(31_729), 31_728 + 32_728);
    // A fragment that ends at 1,400, followed by two of full length.
    let short = SendRequest { piece_end: 1400, ..open };
    assert_eq!(short.whole_fragments(400), 400);
    assert_eq!(short.whole_fragments(65_428), 400 + 2 * 32_728);
    assert_eq!(asked.whole_fragments(100), 3000, "as far as the window goes");
}

#[test]
fn sets_hold_every_identifier_a_subflow_can_have() {
    let set: SubflowSet = [3, 0, 127, 3].into_iter().map(SubflowId).collect();
    let members: Vec<_> = set.iter().map(|id| id.0).collect();
    assert_eq!((members, set.first()), (vec![0, 3, 127], Some(SubflowId(0))));
    assert!(set.contains(SubflowId(127)) && !set.contains(SubflowId(1)) && !set.is_empty());
    assert!(SubflowSet::EMPTY.is_empty() && SubflowSet::EMPTY.first().is_none());
    assert_eq!(SubflowSet::one(SubflowId(5)).with(SubflowId(5)), SubflowSet::one(SubflowId(5)));
}

#[test]
fn a_set_of_subflows_is_one() {
    use anabranch_scheduler::SubflowSet;
    let [a, b, c] = [0, 5, 127].map(SubflowId);
    let both = SubflowSet::one(a).with(c);
    assert!(both.contains(a) && !both.contains(b) && both.contains(c));
    assert_eq!(both.without(a), SubflowSet::one(c));
    assert_eq!(both.without(b), both);
    assert!(both.without(a).without(c).is_empty() && !both.is_empty());
}
