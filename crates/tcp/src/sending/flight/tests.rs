//! Tests of marks, counts and the order of transmission of outstanding segments.

use super::*;
use crate::fixture::fresh;

fn board(segments: u64) -> Flight {
    let mut board = Flight::default();
    for i in 0..segments {
        board.push(fresh(1 + i * 100, 100, Instant::from_nanos(i), TxStamp::default()));
    }
    board
}

/// Returns outstanding segments. Those in `opening` begin a socket buffer.
pub(crate) fn board_of(segments: u64, opening: &[u64]) -> Flight {
    let mut board = board(segments);
    for (number, sent) in (0..).zip(&mut board.entries) {
        sent.opens_buffer = opening.contains(&number);
    }
    board
}

/// Returns the numbers of the segments that a SACK block `[left, right)` newly covers.
fn newly_reported(board: &mut Flight, left: u64, right: u64) -> Vec<u64> {
    let mut number = board.first_reported(left);
    let mut found = Vec::new();
    while let Some(next) = board.next_reported(number, right) {
        found.push(next);
        number = next + 1;
    }
    found
}

#[test]
fn repeated_sack_block_is_skipped_in_few_steps() {
    let mut board = board(100);
    for (left, right) in [(2001, 3001), (4001, 4101), (3001, 4001), (1001, 2001)] {
        for number in newly_reported(&mut board, left, right) {
            board.mark_sacked(number);
        }
        board.note_report(&[]);
    }
    // The block covers 1001 to 4101 again. The whole range is skipped in one or two steps.
    assert_eq!(newly_reported(&mut board, 1001, 4201), [41]);
    let mut leaps = 0;
    let mut at = 10;
    while board.entries[at].sacked {
        at += board.entries[at].leap as usize;
        leaps += 1;
    }
    assert_eq!(at, 41, "no leap goes too far");
    assert!(leaps < 20, "{leaps} leaps");
    assert_eq!(newly_reported(&mut board, 1, 1101), (0..10).collect::<Vec<_>>());
    // A block that ends inside the range, and one that covers a part of a segment.
    assert_eq!(newly_reported(&mut board, 2001, 2501), []);
    assert_eq!(newly_reported(&mut board, 4102, 4350), [42]);
    board.clear_sacked();
    assert_eq!(newly_reported(&mut board, 4001, 4201), [40, 41]);
    assert_eq!((board.sacked_out, board.highest_sacked_start), (0, 0));
}

#[test]
fn in_flight_follows_every_mark() {
    let mut board = board(10);
    assert_eq!(board.in_flight(), 10);
    for number in newly_reported(&mut board, 301, 501) {
        assert!(board.mark_sacked(number).is_some());
    }
    assert_eq!((board.sacked_out, board.in_flight()), (2, 8));
    assert!(board.mark_lost(0));
    assert!(!board.mark_lost(0), "lost once");
    assert_eq!(board.in_flight(), 7);
    assert_eq!(board.next_lost(), Some(0));
    board.retransmit(0, Instant::from_nanos(99), TxStamp::default());
    assert_eq!(board.in_flight(), 8);
    assert_eq!(board.next_lost(), None);
    while board.front().is_some_and(|sent| sent.end() <= 501) {
        board.remove_front();
    }
    assert_eq!((board.packets_out(), board.in_flight()), (5, 5));
    assert_eq!((board.sacked_out, board.lost_out, board.retrans_out), (0, 0, 0));
}

#[test]
fn transmission_order_length_is_bounded_by_the_flight_size() {
    // Ten segments are always in flight, and a hundred thousand are sent. Some of them are retransmitted.
    let mut board = board(10);
    for i in 10..100_000 {
        let (transmission, retransmitted) = (1, false);
        let start = 1 + i * 100;
        board.push(Sent { start, transmission, retransmitted, ..board.entries[0].clone() });
        if i % 7 == 0 {
            board.retransmit(board.base + 5, Instant::from_nanos(i), TxStamp::default());
        }
        board.remove_front();
        assert!(board.order.len() <= 40, "{} places for ten segments", board.order.len());
    }
    // One segment is retransmitted repeatedly while the oldest one stays outstanding.
    let mut board = self::board(10);
    for i in 0..1000 {
        board.retransmit(board.base + 5, Instant::from_nanos(i), TxStamp::default());
        assert!(board.order.len() <= 40, "{} places for ten segments", board.order.len());
    }
    assert_eq!(board.find_oldest_transmission(), Some(0));
}

#[test]
fn a_report_is_looked_at_once() {
    let mut board = board(10);
    for number in newly_reported(&mut board, 301, 501) {
        board.mark_sacked(number);
    }
    board.note_report(&[(301, 501)]);
    assert_eq!(newly_reported(&mut board, 301, 701), [5, 6]);
}

#[test]
fn unmarked_losses_return_to_the_transmission_order() {
    // Segments 1 to 3 remain, because the first one was acknowledged.
    let mut board = board(4);
    while board.front().is_some_and(|sent| sent.end() <= 101) {
        board.remove_front();
    }
    for number in [2, 3] {
        board.mark_lost(number);
    }
    assert_eq!(board.find_oldest_transmission(), Some(1));
    board.take_oldest();
    assert_eq!(board.find_oldest_transmission(), None, "the others are judged");
    board.clear_lost();
    assert_eq!((board.lost_out, board.in_flight()), (0, 3));
    for number in [2, 3] {
        assert_eq!(board.find_oldest_transmission(), Some(number));
        board.take_oldest();
    }
    assert_eq!(board.find_oldest_transmission(), None);
}

#[test]
fn transmission_order_skips_sacked_and_lost_segments() {
    let mut board = board(4);
    assert_eq!(board.find_oldest_transmission(), Some(0));
    board.mark_lost(0);
    assert_eq!(board.find_oldest_transmission(), Some(1));
    board.retransmit(0, Instant::from_nanos(9), TxStamp::default());
    for number in 1..4 {
        board.mark_sacked(number);
    }
    assert_eq!(board.find_oldest_transmission(), Some(0), "the retransmission awaits judgement");
}

#[test]
fn losses_that_are_undone_again_and_again_leave_no_places_behind() {
    let mut board = board(1000);
    for _ in 0..100 {
        for number in board.numbers() {
            board.mark_lost(number);
        }
        board.clear_lost();
        assert!(board.order.len() <= 2016, "{} places", board.order.len());
    }
    // Each segment is examined once, in order.
    board.collapse_order();
    for number in board.numbers() {
        assert_eq!(board.find_oldest_transmission(), Some(number));
        board.take_oldest();
    }
    assert_eq!(board.find_oldest_transmission(), None);
}

#[test]
fn lost_segment_is_pending_until_it_is_retransmitted() {
    let mut board = board(5);
    // A segment retransmitted by a probe was not lost (tcp_send_loss_probe). One segment is lost, and another
    // one was retransmitted.
    board.retransmit(4, Instant::from_nanos(9), TxStamp::default());
    assert!(board.mark_lost(1));
    assert_eq!((board.lost_waiting(), board.next_lost()), (1, Some(1)));
    assert!(board.mark_lost(2) && board.mark_lost(3));
    board.retransmit(1, Instant::from_nanos(10), TxStamp::default());
    assert_eq!((board.lost_waiting(), board.next_lost()), (2, Some(2)));
}

#[test]
fn oversized_segments_are_split_marked_lost_and_kept_in_order() {
    // tcp_simple_retransmit, tcp_fragment. Segment 1 was SACKed, 3 is small, 4 is retransmitted, 5 is lost.
    let mut board = board(6);
    board.remove_front();
    board.mark_sacked(1);
    board.entries[2].payload.truncate(60);
    board.mark_lost(4);
    board.retransmit(4, Instant::from_nanos(9), TxStamp::default());
    board.mark_lost(5);
    board.entries[4].fin = true;
    assert!(!board.cut_larger(|_| 100), "all are small enough");
    assert!(board.cut_larger(|_| 60));
    let pieces: Vec<_> = board
        .entries
        .iter()
        .map(|sent| (sent.start, sent.payload.len(), sent.sacked, sent.lost))
        .collect();
    assert_eq!(
        pieces,
        [
            (101, 100, true, false),
            (201, 60, false, true),
            (261, 40, false, true),
            (301, 60, false, false),
            (401, 60, false, true),
            (461, 40, false, true),
            (501, 60, false, true),
            (561, 40, false, true),
        ]
    );
    assert_eq!((board.sacked_out, board.lost_out, board.retrans_out), (1, 6, 0));
    assert_eq!(board.in_flight(), 1);
    // The FIN follows the last byte, and each buffer is charged once.
    let fins: Vec<_> = board.entries.iter().map(|sent| sent.fin).collect();
    assert_eq!((fins.iter().filter(|fin| **fin).count(), fins[7]), (1, true));
    assert_eq!(board.entries.iter().filter(|sent| sent.opens_buffer).count(), 5);
    // The new numbers follow the old ones. Lost segments are retransmitted in that order.
    assert_eq!(board.numbers(), 6..14);
    let mut again = Vec::new();
    while let Some(number) = board.next_lost() {
        again.push(number);
        board.retransmit(number, Instant::from_nanos(10), TxStamp::default());
    }
    assert_eq!(again, [7, 8, 10, 11, 12, 13]);
    // The small segment was sent before all of these, and is examined first.
    assert_eq!(board.find_oldest_transmission(), Some(9));
    board.take_oldest();
    assert_eq!(board.find_oldest_transmission(), Some(7));
    assert!(!board.cut_larger(|_| 60), "what was reported is left as it is");
}

#[test]
fn unexamined_segments_keep_their_transmission_order() {
    let mut board = board(6);
    while board.front().is_some_and(|sent| sent.end() <= 201) {
        board.remove_front();
    }
    // Segment 3 is retransmitted before two more are sent.
    board.retransmit(3, Instant::from_nanos(7), TxStamp::default());
    for number in 6..8 {
        board.push(fresh(1 + number * 100, 100, Instant::from_nanos(8), TxStamp::default()));
    }
    let mut found = Vec::new();
    while let Some(number) = board.find_oldest_transmission() {
        found.push(number);
        board.take_oldest();
    }
    assert_eq!(found, [2, 4, 5, 3, 6, 7]);
}
