//! Tests of queueing, cutting and memory accounting.

use super::super::intent::Urgent;
use super::super::send_buffer::SendBuffer;
use super::*;

/// A queue with segments of 1000 bytes. A buffer needs 832 bytes of memory in addition to its payload.
fn sender(tags: bool) -> Queue {
    let mut sender = Queue::new(&TcpConfig::default(), 1012);
    sender.on_syn();
    sender.set_una(1);
    if tags {
        sender.tagging_mut().begin();
    }
    sender
}

fn bytes(length: usize) -> Bytes {
    Bytes::from(vec![7; length])
}

/// Cuts up to `limit` bytes. Returns their number, and the data, position and length of their tag.
fn cut(sender: &mut Queue, limit: usize) -> Option<(usize, (u64, u64, u16))> {
    let (payload, tag) = sender.cut(limit)?;
    sender.next += payload.len() as u64;
    Some((payload.len(), (tag.data, tag.position, tag.length)))
}

#[test]
fn contiguous_data_shares_a_tag_up_to_64_kib_in_full_segments() {
    let mut sender = sender(true);
    // A tag of 65,215 bytes has space for 65 segments.
    sender.push(bytes(40_000), 0);
    sender.push(bytes(40_000), 40_000);
    assert_eq!((sender.queued_bytes(), sender.held_bytes()), (80_000, 80_000));
    assert_eq!(sender.memory(), 80_000 + 2 * 832);
    assert_eq!(cut(&mut sender, 1000), Some((1000, (0, 1, 65_000))));
    // A part of the first tag was sent, but nothing of the second, so the second one is extended.
    sender.push(bytes(1000), 80_000);
    assert_eq!(sender.memory(), 80_000 + 2 * 832);
    while sender.queued > 16_000 {
        assert_eq!(cut(&mut sender, 1000).map(|c| c.1), Some((0, 1, 65_000)));
    }
    assert_eq!(cut(&mut sender, 1000), Some((1000, (65_000, 65_001, 16_000))));
    // A part of the tag was sent, so the next data has a new tag.
    sender.push(bytes(500), 81_000);
    assert_eq!(sender.memory(), 15_500 + 2 * 832);
    for _ in 0..15 {
        assert_eq!(cut(&mut sender, 1000).map(|c| c.1.0), Some(65_000));
    }
    assert_eq!(cut(&mut sender, 1000), Some((500, (81_000, 81_001, 500))));
    assert_eq!((cut(&mut sender, 1000), sender.memory()), (None, 0));
    // Data that is not adjacent also has a new tag.
    sender.push(bytes(100), 90_000);
    sender.push(bytes(100), 95_000);
    sender.push(bytes(100), 95_100);
    assert_eq!(cut(&mut sender, 1000).map(|c| c.1), Some((90_000, 81_501, 100)));
    assert_eq!(cut(&mut sender, 1000), Some((200, (95_000, 81_601, 200))));
}

#[test]
fn segments_are_filled_across_pieces_and_tags_only_on_plain_tcp() {
    let mut sender = sender(false);
    sender.push(bytes(300), 0);
    cut(&mut sender, 100);
    sender.push(bytes(900), 300);
    // 200 bytes of the first tag and 800 of the next.
    assert_eq!(cut(&mut sender, 1000).map(|c| c.0), Some(1000));
    assert_eq!((sender.queued_bytes(), sender.memory()), (100, 100 + 832));
    assert_eq!(cut(&mut sender, 1000).map(|c| c.0), Some(100));
    assert_eq!(sender.memory(), 0);
}

#[test]
fn buffers_in_flight_take_as_many_full_segments_as_leave_together() {
    let mut sender = sender(false);
    let opens: Vec<bool> = (0..5).map(|n| sender.count_new(1000, n > 0, 3)).collect();
    assert_eq!(opens, [true, false, false, true, false]);
    assert_eq!(sender.memory(), 5000 + 2 * 832);
    assert!(!sender.count_new(999, true, 3), "there was room for one");
    assert!(sender.count_new(1000, true, 3), "a small one ends its buffer");
    assert!(sender.buffer_has_room());
    sender.end_buffer();
    assert!(!sender.buffer_has_room(), "a retransmission came between");
    assert!(sender.count_new(1000, true, 3));
    assert!(sender.count_new(1000, false, 3), "at another time");
    sender.on_acked(3000, -1);
    assert_eq!(sender.memory(), 5999 + 4 * 832);
}

#[test]
fn a_segment_takes_half_of_the_largest_window_or_all_of_a_tiny_one() {
    // tcp_bound_to_half_wnd: half of a window above 536 bytes, otherwise all of it; at least 68 bytes
    // including the TCP header.
    let bound = |window: u64| {
        let mut sender = sender(false);
        sender.window_mut().note_largest(window);
        sender.window().bound_to_half(1448, 36)
    };
    assert_eq!([0, 65_535, 2896, 2895].map(bound), [1448, 1448, 1448, 1447]);
    assert_eq!([1152, 537, 536, 100].map(bound), [576, 268, 536, 100]);
    assert_eq!([36, 35, 1].map(bound), [36; 3]);
}

#[test]
fn only_the_oldest_byte_is_retransmitted_beyond_a_shrunk_window() {
    // __tcp_retransmit_skb: `seq >= tcp_wnd_end && seq != snd_una`.
    let mut sender = sender(false);
    sender.set_una(101);
    sender.update_send_window(7, 102, 1000);
    assert_eq!([101, 102, 1101, 1102].map(|at| sender.admits_again(at)), [true, true, true, false]);
    sender.set_una(102);
    sender.update_send_window(8, 102, 0);
    assert_eq!([102, 103].map(|at| sender.admits_again(at)), [true, false]);
}

#[test]
fn a_tag_has_no_more_than_half_of_the_largest_window() {
    // tcp_bound_to_half_wnd, tcp_xmit_size_goal: whole segments, at least one.
    let first = |window: u64| {
        let mut sender = sender(true);
        sender.window_mut().note_largest(window);
        sender.push(bytes(40_000), 0);
        cut(&mut sender, 1000).expect("data").1.2
    };
    assert_eq!([0, 100_000, 20_000, 19_999].map(first), [40_000, 40_000, 10_000, 9000]);
    assert_eq!([2000, 1000, 536].map(first), [1000; 3]);
}

#[test]
fn a_socket_buffer_ends_with_its_tag() {
    // mptcp_sendmsg_frag: data that cannot be appended to the last buffer sets `eor` on it and begins
    // another.
    let mut sender = sender(true);
    sender.push(bytes(2000), 0);
    sender.push(bytes(2000), 10_000);
    let opens: Vec<bool> = (0..4)
        .map(|n| {
            let (length, _) = cut(&mut sender, 1000).expect("data");
            sender.count_new(length as u64, n > 0, 4)
        })
        .collect();
    assert_eq!(opens, [true, false, true, false]);
}

#[test]
fn a_small_segment_waits_while_another_is_unacknowledged() {
    // tcp_nagle_test, tcp_minshall_check: `snd_sml` after snd_una and less than a segment left.
    let waits = |change: &dyn Fn(&mut Queue)| {
        let mut sender = sender(true);
        sender.push(bytes(999), 0);
        sender.small_end = 2;
        change(&mut sender);
        sender.must_wait_for_more()
    };
    assert!(waits(&|_| {}));
    assert!(!waits(&|s| s.push(bytes(1), 999)), "a full one");
    assert!(!waits(&|s| s.small_end = 1), "acknowledged");
    assert!(!waits(&|s| s.nodelay = true));
    assert!(!waits(&|s| s.fin_queued = true));
    let split = |s: &mut Queue| {
        s.chunks.clear();
        s.queued = 0;
        s.push(bytes(100), 0);
        s.push(bytes(100), 5000);
    };
    assert!(!waits(&split), "another tag follows: this one is all there is of it");
    assert!(waits(&|s| {
        split(s);
        s.tagging = Tagging::Never;
    }));
    // `has_work` depends on this.
    let mut sender = sender(true);
    assert!(!sender.has_work());
    sender.push(bytes(999), 0);
    assert!(sender.has_work());
    sender.small_end = 2;
    assert!(!sender.has_work());
    sender.intent.set_repairs(true);
    assert!(sender.has_work());
}

#[test]
fn a_fin_goes_when_everything_is_out() {
    let mut sender = sender(false);
    assert!(!sender.fin_due());
    sender.fin_queued = true;
    assert!(sender.fin_due() && sender.has_work());
    sender.push(bytes(10), 0);
    assert!(!sender.fin_due());
    cut(&mut sender, 10);
    sender.fin_sent = true;
    assert!(!sender.fin_due() && sender.fin_sent());
}

#[test]
fn only_head_probe_and_small_window_sends_are_urgent() {
    let urged = |change: &dyn Fn(&mut Queue)| {
        let mut sender = sender(false);
        change(&mut sender);
        sender.intent().is_urgent()
    };
    assert!(!urged(&|_| {}) && !urged(&|s| s.intent.set_repairs(true)));
    for first in [Urgent::Head, Urgent::Probe, Urgent::SmallWindow] {
        assert!(urged(&|s| s.intent.set_urgent(first)));
    }
}

#[test]
fn the_edge_goes_back_on_plain_tcp_only_and_with_a_segment_that_counts() {
    // tcp_may_update_window, tcp_ack_update_window; RFC 9293 section 3.10.7.4: SND.WL1 < SEG.SEQ, or both are
    // equal and SND.WL2 <= SEG.ACK.
    let mut sender = sender(false);
    sender.set_window(5000);
    assert_eq!((sender.window().initial(), sender.window().largest()), (5000, 5000));
    assert!(!sender.window_mut().advance(1, 5000) && sender.window_mut().advance(1, 5001));
    sender.set_una(1);
    for (position, ack, window, edge) in [
        // The segment acknowledges more, is newer, opens the window, or closes it.
        (7, 2, 4000, 4002),
        (8, 1, 3000, 3001),
        (8, 1, 3001, 3002),
        (8, 1, 0, 1),
        (9, 1, 10, 11),
    ] {
        assert!(sender.update_send_window(position, ack, window), "{position} {ack} {window}");
        assert_eq!(sender.window_end(), edge);
    }
    // A duplicate with a smaller window, and an older segment with any window.
    for (position, window) in [(9, 9), (8, 5000), (8, 0)] {
        assert!(!sender.update_send_window(position, 1, window));
        assert_eq!((sender.window_end(), sender.window().size()), (11, 10));
    }
    sender.tagging_mut().begin();
    assert!(!sender.update_send_window(10, 1, 9) && sender.window_end() == 11);
    assert!(!sender.update_send_window(11, 1, 0) && sender.window_end() == 11);
    assert!(sender.update_send_window(11, 3, 10) && sender.window_end() == 13);
    let sender = &mut sender;
    // The queue is shut out if it has data but the window has no space for a segment of it.
    assert!(!sender.shut_out());
    sender.push(bytes(12), 0);
    assert!(!sender.shut_out(), "1 + 12 = 13");
    sender.push(bytes(1), 12);
    assert!(sender.shut_out());
    sender.set_window_end(1001);
    sender.push(bytes(5000), 13);
    assert!(!sender.shut_out(), "a segment of a thousand fits");
    sender.set_window_end(1000);
    assert!(sender.shut_out());
}

#[test]
fn a_duplicate_takes_nothing_of_the_window_that_is_believed() {
    // tcp_may_update_window: `after(ack, snd_una) || after(ack_seq, snd_wl1) || (ack_seq == snd_wl1 && (nwin >
    // snd_wnd || !nwin))`.
    let believed = |position: u64, ack: u64, window: u64| {
        let mut sender = sender(false);
        sender.set_una(100);
        sender.update_send_window(7, 101, 5000);
        sender.update_send_window(position, ack, window);
        sender.window().size()
    };
    assert_eq!([believed(7, 100, 4999), believed(7, 100, 5001)], [5000, 5001]);
    assert_eq!([believed(7, 101, 4999), believed(8, 100, 4999)], [4999, 4999]);
    assert_eq!([believed(6, 100, 6000), believed(7, 100, 0)], [5000, 0]);
    // mptcp_check_allowed_size: `snd_wnd` is raised to the remaining window of the layer above.
    let mut sender = sender(false);
    sender.set_window(5000);
    sender.window_mut().grow_to(4000);
    assert_eq!(sender.window().size(), 5000);
    sender.window_mut().grow_to(6000);
    assert_eq!(sender.window().size(), 6000);
}

#[test]
fn the_buffer_holds_some_windows_and_does_not_shrink() {
    // tcp_sndbuf_expand: factor * max(cwnd, 10) * per_mss, at most `tcp_wmem[2]`.
    let mut buffer = SendBuffer::new(&TcpConfig::default());
    assert_eq!(buffer.limit(), 2 * 10 * 2304);
    assert!(!buffer.grow(10, 2) && !buffer.grow(3, 2));
    assert!(buffer.grow(11, 2) && buffer.limit() == 2 * 11 * 2304);
    assert!(buffer.grow(3, 3) && buffer.limit() == 3 * 10 * 2304);
    assert!(!buffer.grow(14, 2) && buffer.limit() == 3 * 10 * 2304);
    assert!(buffer.grow(100_000, 2) && buffer.limit() == 4 << 20);
}

#[test]
fn unsent_data_can_be_drained_from_the_queue() {
    let mut sender = sender(true);
    sender.push(bytes(2500), 0);
    cut(&mut sender, 1000);
    sender.discard_unsent();
    assert_eq!((sender.queued_bytes(), sender.write_end, sender.memory()), (0, 1001, 0));
    assert_eq!(cut(&mut sender, 1000), None);
}

#[test]
fn oldest_valid_ack_is_limited_by_max_window_and_bytes_acked() {
    // tcp_ack: `max_window = min(tp->max_window, tp->bytes_acked)`.
    let mut sender = sender(false);
    sender.set_window(5000);
    sender.next = 3001;
    assert_eq!(sender.oldest_answer(), 3000 + 1);
    sender.una = 20_001;
    sender.next = 23_001;
    assert_eq!(sender.oldest_answer(), 3000 + 5000);
}

#[test]
fn only_work_with_room_in_the_window_makes_a_subflow_speak() {
    // tcp_write_xmit: data is queued, and `tcp_cwnd_test`: in flight < cwnd.
    let (mut subflow, _) = crate::fixture::subflow();
    subflow.sending.cwnd.window_mut().cwnd = 1;
    assert!(!subflow.may_transmit(), "no work");
    subflow.sending.queue.push(bytes(2000), 0);
    assert!(subflow.may_transmit());
    crate::fixture::send(&mut subflow, crate::fixture::at(0), 1000);
    assert!(!subflow.may_transmit(), "no room");
    subflow.sending.cwnd.window_mut().cwnd = 2;
    assert!(subflow.may_transmit());
}

#[test]
fn connection_window_admits_its_size_and_queued_data() {
    // mptcp_check_allowed_size: the connection's own edge does not limit the data; a closed window permits
    // nothing.
    let (mut subflow, _) = crate::fixture::subflow();
    subflow.sending.queue.tagging_mut().begin();
    subflow.sending.queue.set_window(0);
    subflow.sending.queue.admit(0);
    assert_eq!(subflow.sending.queue.window_end(), 1);
    subflow.sending.queue.admit(500);
    assert_eq!(subflow.sending.queue.window_end(), 501);
    subflow.sending.queue.push(bytes(2000), 0);
    subflow.sending.queue.admit(600);
    assert_eq!(subflow.sending.queue.window_end(), 2001);
}

#[test]
fn the_longest_tag_leaves_room_for_headers() {
    // MPTCP_MAX_GSO_SIZE: 65,536 minus headers of 321 bytes is enough for 45 segments of 1424. 65,536 would
    // be enough for 46.
    let mut sender = sender(true);
    sender.set_mss(1424);
    sender.push(bytes(70_000), 0);
    assert_eq!(cut(&mut sender, 1424), Some((1424, (0, 1, 45 * 1424))));
}
