//! Tests of the advertised window, its growth, and the SACK blocks.

use anabranch_units::SeqNumber;
use anabranch_wire::SackBlocks;
use bytes::Bytes;

use super::super::fixture::{at, context, subflow};
use super::super::sequence::Sequence;
use super::super::{EmitContext, Tcp};
use super::*;

fn receiver() -> Receiver {
    let mut receiver = Receiver::new(&TcpConfig::default(), 1012, false);
    receiver.on_syn();
    receiver
}

fn bytes(length: usize) -> Bytes {
    Bytes::from(vec![7; length])
}

fn alone(bytes: u32) -> Load {
    Load { bytes, segment: bytes }
}

/// Returns the start of each SACK block.
fn runs(receiver: &Receiver) -> Vec<u64> {
    receiver.assembly.reports.blocks().as_slice().iter().map(|block| block.0).collect()
}

fn take(receiver: &mut Receiver, start: u64, length: usize) -> Arrival {
    receiver.assembly.accept(start, bytes(length), 2 * length as u64, &mut |_, _, _| {})
}

#[test]
fn less_than_half_a_buffer_is_offered_in_segments_and_sixteenths() {
    // __tcp_select_window: `free_space < (full_space >> 1)`: rounded down; 0 if `free_space <
    // (allowed_space >> 4) || free_space < mss`. Otherwise rounded up to the scale.
    let mut receiver = receiver();
    receiver.slow_start = 100_000;
    let offer = |free: u64, allowed: u64, mss: u64, scale: u8| {
        receiver.offer(Space { free, allowed, ..Space::default() }, mss, scale)
    };
    assert_eq!(offer(999, 8192, 1000, 0), 0, "less than a segment");
    assert_eq!(offer(1000, 8192, 1000, 0), 1000);
    assert_eq!(offer(511, 8192, 100, 0), 0, "less than a sixteenth");
    assert_eq!(offer(512, 8192, 100, 0), 512);
    assert_eq!(offer(4095, 8192, 5000, 0), 0);
    assert_eq!(offer(4096, 8192, 5000, 0), 4096, "half of it is free");
    assert_eq!(offer(1000, 8192, 100, 7), 896, "down to units of 128");
    assert_eq!(offer(1000, 1000, 100, 7), 1024, "up to units of 128");
    // 1020 rounded down to units of 128 is 896, which is less than the segment.
    assert_eq!(offer(1020, 8192, 1000, 7), 0);
    receiver.slow_start = 3000;
    assert_eq!(
        receiver.offer(Space { free: 8000, allowed: 8000, ..Space::default() }, 1000, 0),
        3000
    );
    assert_eq!(receiver.could_offer(Space { free: 8000, ..Space::default() }), 3000);
    assert_eq!(receiver.could_offer(Space { free: 2000, ..Space::default() }), 2000);
}

#[test]
fn a_full_segment_opens_the_window_by_two() {
    // tcp_grow_window: `2 * tp->advmss`, up to the buffer, but not for fewer than 128 bytes.
    let mut receiver = receiver();
    // Half of 128 KiB is window, and one segment is reserved. (64 segments of 1012 bytes would be 64,768.) No
    // segment is charged except in the last case.
    assert_eq!((receiver.slow_start, receiver.buffer.window()), (64_536, 65_536));
    receiver.slow_start = 50_000;
    assert!(!receiver.grow(alone(127), true, 0, 1000) && receiver.slow_start == 50_000);
    assert!(receiver.grow(alone(128), true, 0, 1000));
    assert_eq!(receiver.slow_start, 52_000);
    receiver.slow_start = 64_000;
    assert!(receiver.grow(alone(1000), false, 0, 1000));
    assert_eq!(receiver.slow_start, 65_536);
    assert!(!receiver.grow(alone(1000), false, 0, 1000) && receiver.slow_start == 65_536);
    // Out-of-order data reduces the window by half of its memory.
    receiver.slow_start = 63_000;
    assert!(receiver.grow(alone(1000), false, 2000, 1000));
    assert_eq!(receiver.slow_start, 64_536);
    // The segment itself is charged too (tcp_queue_rcv, then tcp_event_data_recv). Half of its 2304 bytes of
    // memory is window: 65,536 - 1,152 = 64,384.
    receiver.slow_start = 64_000;
    assert!(receiver.grow(alone(1000), true, 0, 1000));
    assert_eq!(receiver.slow_start, 64_384);
    assert!(!receiver.grow(alone(1000), true, 0, 1000));
}

#[test]
fn a_small_segment_opens_the_window_by_two_as_they_come() {
    // tcp_grow_window: if `tcp_win_from_space(sk, truesize) <= skb->len`, two announced segments. Otherwise
    // __tcp_grow_window: `2 * rcv_mss`, if its memory is at most its payload after being halved with the
    // largest window.
    let config = TcpConfig { receive_buffer_max: 131_072, ..TcpConfig::default() };
    let mut receiver = Receiver::new(&config, 1012, false);
    // 988 * 256 / 2304 = 109. The window is 981 bytes for a full segment, and 545 bytes for 500 bytes in 1280
    // of memory.
    receiver.buffer.on_segment_size(988);
    receiver.slow_start = 20_000;
    assert!(receiver.grow(alone(988), true, 0, 988));
    assert_eq!(receiver.slow_start, 22_000);
    assert!(receiver.grow(alone(500), true, 0, 988));
    assert_eq!(receiver.slow_start, 23_976);
    // Half of 131,072 * 109 / 256 = 55,808.
    receiver.slow_start = 27_904;
    assert!(receiver.grow(alone(500), true, 0, 988));
    receiver.slow_start = 27_905;
    assert!(!receiver.grow(alone(500), true, 0, 988));
    assert_eq!(receiver.slow_start, 27_905);
    // 130 bytes have 545 bytes of window. Halved to 272, 136 and 68, they leave 27,904, 13,952 and 6976.
    receiver.slow_start = 13_952;
    assert!(!receiver.grow(alone(130), true, 0, 988));
    receiver.slow_start = 6976;
    assert!(receiver.grow(alone(130), true, 0, 988));
    // Out-of-order data has no minimum size (tcp_data_queue_ofo) and is not charged yet.
    receiver.slow_start = 6976;
    assert!(!receiver.grow(alone(127), true, 0, 988));
    assert!(receiver.grow(alone(127), false, 0, 988));
}

#[test]
fn a_window_of_which_less_than_half_is_free_ends_quick_acknowledgements() {
    // __tcp_select_window: `full_space = min_t(int, tp->window_clamp, allowed_space)`; `if (free_space <
    // (full_space >> 1)) icsk_ack.quick = 0`. The connection's own buffer has 65,536 bytes.
    let acknowledged = |free: u64, allowed: u64| {
        let (mut subflow, _) = subflow();
        subflow.receive.ack.begin_quick_acks(16);
        let space = Space { free, allowed, ..Space::default() };
        let context = EmitContext { space, ..context(at(1000)) };
        subflow.add_acknowledgement(&context, Bytes::new(), &mut Segment::default());
        subflow.receive.ack.quick_mode()
    };
    assert!(acknowledged(20_000, 40_000));
    assert!(!acknowledged(19_999, 40_000));
    assert!(acknowledged(32_768, 100_000), "of the subflow's, where that is less");
    assert!(!acknowledged(32_767, 100_000));
}

#[test]
fn aggregated_segments_grow_the_window_by_twice_their_size() {
    // tcp_grow_window: `incr = max_t(int, incr, 2 * skb->len)`. `tcp_space` includes all of its memory.
    let mut receiver = receiver();
    receiver.slow_start = 10_000;
    assert!(receiver.grow(Load { bytes: 8500, segment: 1000 }, false, 0, 1000));
    assert_eq!(receiver.slow_start, 27_000);
    assert!(receiver.grow(Load { bytes: 500, segment: 300 }, false, 0, 1000));
    assert_eq!(receiver.slow_start, 29_000, "two full segments at least");
    // Each segment has a buffer: 8 with 2304 bytes and one with 1280 (500 bytes of data and 456 of overhead,
    // in 1024 + 256). Half of this is 9856 bytes of window, of 65,536.
    receiver.slow_start = 55_000;
    assert!(receiver.grow(Load { bytes: 8500, segment: 1000 }, true, 0, 1000));
    assert_eq!(receiver.slow_start, 55_680);
}

#[test]
fn latest_sack_blocks_come_first_and_merged_ones_are_removed() {
    let mut receiver = receiver();
    for start in [1001, 3001, 5001, 7001] {
        assert_eq!(take(&mut receiver, start, 500), Arrival::OutOfOrder);
    }
    assert_eq!(runs(&receiver), [7001, 5001, 3001, 1001]);
    take(&mut receiver, 3501, 100);
    assert_eq!(runs(&receiver), [3001, 7001, 5001, 1001]);
    // One block from 3001 to 5501.
    take(&mut receiver, 3601, 1400);
    assert_eq!(runs(&receiver), [3001, 7001, 1001]);
    // The new segment touches a block from below.
    take(&mut receiver, 6901, 100);
    assert_eq!(runs(&receiver), [6901, 3001, 1001]);
    let block = |blocks: SackBlocks| -> Vec<(u32, u32)> {
        blocks.as_slice().iter().map(|b| (b.left.0, b.right.0)).collect()
    };
    let sequence = Sequence::new(SeqNumber(0));
    assert_eq!(block(receiver.assembly.take_sack(&sequence, 2)), [(6901, 7501), (3001, 5501)]);
    assert_eq!(take(&mut receiver, 1101, 10), Arrival::OutOfOrder);
    assert_eq!(receiver.assembly.duplicate, Some((1101, 1111)));
    assert_eq!(block(receiver.assembly.take_sack(&sequence, 3))[..2], [(1101, 1111), (1001, 1501)]);
    assert_eq!(receiver.assembly.duplicate, None, "told once");
    // Other blocks remain, but they do not cause an acknowledgement (tcp_data_queue).
    assert_eq!(take(&mut receiver, 1, 1000), Arrival::InOrder);
    assert_eq!((receiver.next(), runs(&receiver)), (1501, vec![6901, 3001]));
    assert_eq!((receiver.assembly.span(), receiver.assembly.out_of_order_bytes()), (6000, 3100));
    receiver.discard();
    assert!(!receiver.assembly.out_of_order() && receiver.assembly.reports.is_empty());
}

#[test]
fn a_round_trip_is_measured_by_the_first_echo_of_each_kind() {
    // tcp_rcv_rtt_measure_ts, tcp_rcv_rtt_update (6.16): a smaller sample is used at once, a larger one with
    // weight 1/8.
    let mut receiver = receiver();
    let clock = |ms: u64| timestamp_clock(at(ms));
    assert_eq!(receiver.rtt(), None);
    receiver.sample_rtt(at(100), clock(50), true);
    assert_eq!(receiver.rtt(), Some(Duration::from_millis(50)));
    receiver.sample_rtt(at(180), clock(50), true);
    assert_eq!(receiver.rtt(), Some(Duration::from_millis(50)), "the same echo");
    receiver.sample_rtt(at(180), clock(90), true);
    assert_eq!(receiver.rtt(), Some(Duration::from_micros(55_000)), "50 + (90 - 50) / 8");
    receiver.sample_rtt(at(200), clock(180), true);
    assert_eq!(receiver.rtt(), Some(Duration::from_millis(20)));
    receiver.sample_rtt(at(210), clock(210), true);
    receiver.sample_rtt(at(70_300), clock(10_299), true);
    assert_eq!(receiver.rtt(), Some(Duration::from_millis(20)), "nothing, and too long ago");
}

#[test]
fn echo_first_seen_on_a_small_segment_gives_no_rtt_sample() {
    // tcp_rcv_rtt_measure_ts stores `rcv_rtt_last_tsecr` before it checks for a full segment.
    let mut receiver = receiver();
    let clock = |ms: u64| timestamp_clock(at(ms));
    receiver.sample_rtt(at(100), clock(50), false);
    receiver.sample_rtt(at(110), clock(50), true);
    assert_eq!(receiver.rtt(), None);
    receiver.sample_rtt(at(190), clock(100), true);
    assert_eq!(receiver.rtt(), Some(Duration::from_millis(90)));
}

#[test]
fn data_beyond_a_fin_is_discarded() {
    let mut receiver = receiver();
    take(&mut receiver, 301, 100);
    receiver.assembly.note_fin(351);
    assert_eq!((receiver.assembly.span(), receiver.assembly.fin_at), (350, Some(351)));
    receiver.assembly.note_fin(401);
    assert_eq!(receiver.assembly.fin_at, Some(351), "the first in the stream counts");
    assert_eq!(receiver.assembly.before_fin(341, &bytes(100)).len(), 10);
    assert_eq!(receiver.assembly.before_fin(251, &bytes(100)).len(), 100);
    assert_eq!(receiver.assembly.before_fin(500, &bytes(100)).len(), 0);
    take(&mut receiver, 1, 100);
    receiver.assembly.note_fin(50);
    assert_eq!(receiver.assembly.fin_at, Some(351), "that was data");
    receiver.assembly.note_fin(301);
    assert_eq!(
        (receiver.assembly.fin_at, runs(&receiver).len(), receiver.assembly.span()),
        (Some(301), 0, 0)
    );
}

#[test]
fn an_acknowledgement_is_due_when_more_than_a_segment_is_owed_and_the_window_holds() {
    // __tcp_ack_snd_check: `rcv_nxt - rcv_wup > rcv_mss` and `__tcp_select_window >= rcv_wnd`.
    let due = |unacked: u64, free: u64, tagged: bool| {
        let (mut subflow, _) = subflow();
        subflow.receive.assembly.next += unacked;
        let space = Space { free, allowed: free, ..Space::default() };
        subflow.receive.check_ack(at(1000), space, tagged, subflow.sending.rtt());
        subflow.receive.is_ack_due()
    };
    // The estimated segment size is 536 bytes, and 64,768 bytes were advertised.
    assert!(!due(536, 64_768, false));
    assert!(due(537, 64_768, false));
    assert!(due(537, 64_768 - 537, false), "the edge stays where it was");
    assert!(!due(537, 64_768 - 538, false), "it would go back");
    assert!(due(537, 0, true), "the layer above leaves nothing to read");
}

#[test]
fn a_second_segment_waits_for_the_read_where_the_window_would_shrink() {
    // __tcp_ack_snd_check: `rcv_nxt - rcv_wup > rcv_mss`, and nothing unread (`sk_rcvlowat`; with MPTCP
    // subflow_data_ready) or `__tcp_select_window(sk) >= rcv_wnd`. 64,768 bytes were advertised and may be
    // advertised again.
    let due = |unacked: u64, free: u64, unread: bool| {
        let (mut subflow, _) = subflow();
        subflow.receive.assembly.next += unacked;
        subflow.receive.slow_start = 64_768;
        let space = Space { free, allowed: free, ..Space::default() };
        subflow.receive.check_ack_filed(at(1000), space, unread, subflow.sending.rtt());
        subflow.receive.is_ack_due()
    };
    assert!(!due(536, 70_000, true));
    assert!(due(537, 70_000, true), "the window opens no further than it did");
    assert!(!due(537, 64_768 - 128, true), "a unit of the window field less");
    assert!(due(537, 64_768 - 128, false));
    assert!(!due(536, 0, false));
}

#[test]
fn blocks_take_room_from_data_as_far_as_options_go() {
    // 40 bytes of options: 12 for timestamps, 4 for SACK and 8 per block. With 20 bytes of DSS on a data
    // segment, no block fits.
    let taken = |runs: u64, dss: u32, change: &dyn Fn(&mut Tcp)| {
        let (mut subflow, _) = subflow();
        subflow.sending.queue_mut().set_mss(1000 - dss);
        for n in 0..runs {
            take(&mut subflow.receive, 1001 + 100 * n, 10);
        }
        change(&mut subflow);
        subflow.sack_bytes()
    };
    assert_eq!([taken(0, 0, &|_| {}), taken(1, 0, &|_| {}), taken(2, 0, &|_| {})], [0, 12, 20]);
    assert_eq!([taken(3, 0, &|_| {}), taken(9, 0, &|_| {})], [28, 28]);
    assert_eq!([taken(9, 8, &|_| {}), taken(9, 16, &|_| {}), taken(9, 17, &|_| {})], [20, 12, 0]);
    assert_eq!(taken(9, 0, &|s| s.receive.negotiated.sack_permitted = false), 0);
    assert_eq!(taken(9, 0, &|s| s.receive.negotiated.timestamps = false), 4 + 8 * 4);
    assert_eq!(taken(0, 0, &|s| s.receive.assembly.report_duplicate(0, 1)), 12);
    assert_eq!(taken(1, 0, &|s| s.receive.assembly.report_duplicate(0, 1)), 20);
}

#[test]
fn overlapping_segments_deliver_and_charge_only_new_bytes() {
    // RFC 9293 section 3.10.7.4: "segments with higher beginning sequence numbers may be held". Only the new
    // part of an overlapping segment is used.
    let mut receiver = receiver();
    let (mut handed, mut charged) = (0, 0);
    let mut up = |_: u64, piece: Bytes, memory: u64| {
        handed += piece.len();
        charged += memory;
    };
    receiver.assembly.accept(101, bytes(100), 300, &mut up);
    assert_eq!(receiver.assembly.accept(1, bytes(150), 600, &mut up), Arrival::FilledGap);
    assert_eq!((receiver.next(), receiver.assembly.span()), (201, 0));
    // All of the memory of the first in-order segment, and half of the other's.
    assert_eq!((handed, charged), (200, 600 + 150));
}

#[test]
fn subflow_window_follows_the_payload_ratio_of_segments() {
    // tcp_measure_rcv_mss: the ratio is 128/256 until a segment arrives. 1728 bytes in 2304 are 192/256.
    let mut receiver = receiver();
    let half = receiver.buffer.window();
    receiver.buffer.on_segment_size(1728);
    assert_eq!(receiver.buffer.window(), half * 3 / 2);
}
