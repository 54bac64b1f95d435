//! Tests of SACK blocks and of compressed acknowledgements.

use super::super::super::fixture::{at, subflow};
use super::*;

fn told(reports: &Reports) -> Vec<(u64, u64)> {
    reports.blocks().as_slice().to_vec()
}

fn noted(segments: &[(u64, u64)]) -> Reports {
    let mut reports = Reports::default();
    for (start, end) in segments {
        reports.note(*start, *end);
    }
    reports
}

#[test]
fn the_latest_block_is_first_and_those_that_join_are_one() {
    // tcp_sack_new_ofo_skb: a new block is put first, and a block that grows is moved there.
    let mut reports = noted(&[(10, 15), (30, 35), (50, 55)]);
    assert_eq!(told(&reports), [(50, 55), (30, 35), (10, 15)]);
    reports.note(15, 20);
    assert_eq!(told(&reports), [(10, 20), (50, 55), (30, 35)]);
    // tcp_sack_maybe_coalesce: first 10 to 35 and 50 to 55, then one block.
    reports.note(20, 30);
    assert_eq!(told(&reports), [(10, 35), (50, 55)]);
    reports.note(35, 50);
    assert_eq!(told(&reports), [(10, 55)]);
    reports.note(20, 25);
    assert_eq!(told(&reports), [(10, 55)], "what is known moves nothing");
}

#[test]
fn four_blocks_are_remembered() {
    // TCP_NUM_SACKS: "If the sack array is full, forget about the last one."
    let mut reports = noted(&[(10, 15), (30, 35), (50, 55), (70, 75), (90, 95)]);
    assert_eq!(told(&reports), [(90, 95), (70, 75), (50, 55), (30, 35)]);
    // Of a dropped block's range, only later segments are reported.
    reports.note(15, 20);
    assert_eq!(told(&reports), [(15, 20), (90, 95), (70, 75), (50, 55)]);
    // tcp_sack_remove: blocks that begin at or before the next expected position are removed.
    reports.advance(20);
    assert_eq!(told(&reports), [(90, 95), (70, 75), (50, 55)]);
    reports.advance(70);
    assert_eq!(told(&reports), [(90, 95)]);
    // Truncation at the end of the data, then removal of all blocks (tcp_sack_reset).
    reports.note(70, 75);
    reports.truncate(92);
    assert_eq!(told(&reports), [(70, 75), (90, 92)]);
    reports.truncate(90);
    assert_eq!(told(&reports), [(70, 75)]);
    reports.discard();
    assert!(told(&reports).is_empty() && !reports.is_empty());
}

#[test]
fn three_duplicates_go_at_once_and_up_to_44_wait_for_one_another() {
    // __tcp_ack_snd_check: `dup_ack_counter < TCP_FASTRETRANS_THRESH`, then `compressed_ack` up to
    // `tcp_comp_sack_nr`.
    let mut reports = noted(&[(10, 15)]);
    let mut waits = |next: u64, ms: u64| (reports.admit_wait(next, at(ms)), reports.deadline());
    for _ in 0..3 {
        assert_eq!(waits(5, 1), (false, None));
    }
    for ms in 2..46 {
        assert_eq!(waits(5, ms), (true, Some(at(2))), "the first sets the timer");
    }
    assert_eq!(waits(5, 46), (false, Some(at(2))), "44 wait");
    // tcp_event_ack_sent: any acknowledgement replaces the compressed one. The count of duplicates is kept.
    reports.on_ack_sent();
    assert_eq!(reports.deadline(), None);
    assert!(reports.admit_wait(5, at(50)));
    // Progress resets the count.
    let mut waits = |next: u64| reports.admit_wait(next, at(60));
    assert_eq!([waits(7), waits(7), waits(7), waits(7)], [false, false, false, true]);
}

#[test]
fn compressed_ack_is_sent_before_a_third_sack_block() {
    // tcp_sack_new_ofo_skb: if `this_sack >= TCP_SACK_BLOCKS_EXPECTED`, tcp_sack_compress_send_ack runs
    // before the segment is stored.
    let mut reports = noted(&[(10, 15), (30, 35)]);
    for _ in 0..4 {
        reports.admit_wait(5, at(1));
    }
    reports.note(15, 20);
    assert!(!reports.owes(), "the second of two");
    reports.note(50, 55);
    assert!(reports.owes() && reports.deadline().is_none());
    // tcp_event_ack_sent clears the request of tcp_data_queue_ofo, so tcp_ack_snd_check sends nothing for the
    // segment.
    assert!(reports.take_answered(), "which is all that the new one brings about");
    assert!(reports.admit_wait(5, at(3)) && !reports.take_answered(), "the next one waits");
    // The acknowledgement with earlier blocks does not replace the compressed one.
    reports.on_ack_sent();
    assert_eq!(reports.take_blocks().as_slice(), [(10, 20), (30, 35)]);
    assert!(!reports.owes());
    assert_eq!(reports.deadline(), Some(at(3)));
    assert_eq!(reports.take_blocks().as_slice(), [(50, 55), (10, 20), (30, 35)]);
    // Growth of the third block also causes this, but only if an acknowledgement is delayed.
    reports.note(35, 40);
    assert!(reports.owes());
    reports.take_blocks();
    reports.on_ack_sent();
    reports.note(60, 65);
    assert!(!reports.owes());
}

#[test]
fn they_wait_a_twentieth_of_the_round_trip_up_to_a_millisecond() {
    // `min(tcp_comp_sack_delay_ns, rtt * (NSEC_PER_USEC >> 3) / 20)` plus 0.1 ms of slack. The shorter of the
    // two known RTTs is used. Without an RTT of the receiver, acknowledgements are sent at once.
    let waits = |received: u64, sent: u64| {
        let (mut subflow, _) = subflow();
        subflow.receive.negotiated.sack_permitted = true;
        let host = super::super::super::fixture::exact();
        subflow.sending.measure(&host, Duration::from_millis(sent));
        subflow.receive.rtt8 = 8_000 * received;
        for _ in 0..4 {
            subflow.receive.ack.on_ack_sent();
            subflow.receive.acknowledge_gap(at(1000), subflow.sending.rtt());
        }
        assert!(!subflow.receive.ack.is_due());
        let until = subflow.receive.assembly.reports.deadline().expect("one waits");
        subflow
            .receive
            .handle_timeout(until - Duration::from_nanos(1), subflow.sending.rtt().rto());
        assert!(!subflow.receive.ack.is_due());
        subflow.receive.handle_timeout(until, subflow.sending.rtt().rto());
        assert!(subflow.receive.ack.is_due());
        until.since(at(1000)).as_micros()
    };
    assert_eq!(waits(10, 100), 600);
    assert_eq!(waits(100, 10), 600);
    assert_eq!(waits(20, 20), 1100);
    assert_eq!(waits(300, 300), 1100);
    assert_eq!(waits(0, 300), 100);
}

#[test]
fn without_sack_or_in_older_stacks_nothing_waits() {
    for (sack, compresses) in [(false, true), (true, false)] {
        let (mut subflow, _) = subflow();
        subflow.receive.negotiated.sack_permitted = sack;
        subflow.receive.rules.compresses = compresses;
        for _ in 0..10 {
            subflow.receive.ack.on_ack_sent();
            subflow.receive.acknowledge_gap(at(1000), subflow.sending.rtt());
            assert!(subflow.receive.ack.is_due());
        }
    }
}
