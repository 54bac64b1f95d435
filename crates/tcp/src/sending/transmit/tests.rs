use super::*;
use crate::Tcp;
use crate::fixture::{at, context, exact, send, subflow};
use anabranch_congestion::Window;
use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};

/// Sends all segments permitted at `now`. Returns their number.
fn send_all(subflow: &mut Tcp, now: Instant) -> u32 {
    let mut segment = Segment::default();
    let mut sent = 0;
    while subflow.next_data_segment(&exact(), &context(now), &mut segment).is_some() {
        sent += 1;
    }
    sent
}

/// A connection with `in_flight` segments of 1000 bytes sent at 0, an RTT of 100 ms and a large window of the
/// peer.
fn flying(in_flight: usize) -> Tcp {
    let (mut subflow, _) = subflow();
    subflow.sending.queue.set_window(10_000_000);
    for _ in 0..in_flight {
        send(&mut subflow, at(0), 1000);
    }
    subflow
}

fn write(subflow: &mut Tcp, segments: usize) {
    subflow.sending.queue.push(Bytes::from(vec![0; 1000 * segments]), 0);
}

#[test]
fn a_send_buffer_grows_where_a_burst_leaves_room_in_the_window() {
    // tcp_event_new_data_sent calls tcp_should_expand_sndbuf after each socket buffer, here of two segments
    // (`tcp_min_tso_segs`). The buffer does not grow while `tcp_packets_in_flight >= snd_cwnd`.
    let grows = |room: u32, waits: usize| {
        let mut subflow = flying(20);
        subflow.sending.buffer.set_blocked(true);
        *subflow.sending.cwnd.window_mut() = Window { cwnd: 20 + room, ssthresh: 1000 };
        write(&mut subflow, waits);
        let sent = send_all(&mut subflow, at(50));
        assert_eq!(sent, room.min(waits as u32));
        let grew = subflow.sending.buffer.take_growth();
        assert_eq!(subflow.sending.buffer.limit() > 2 * 10 * 2304, grew);
        grew
    };
    assert!(!grows(1, 1) && !grows(2, 2) && !grows(2, 9), "one burst fills it");
    assert!(grows(3, 3) && grows(4, 9), "the first burst leaves room");
    assert!(grows(2, 1) && grows(9, 2), "there is not enough to fill it");
}

#[test]
fn a_send_buffer_grows_behind_an_acknowledgement_whose_room_nothing_fills() {
    // tcp_data_snd_check: `tcp_check_space` follows the push, even if tcp_tso_should_defer prevented sending.
    let grows = |room: u32| {
        let mut subflow = flying(0);
        subflow.sending.buffer.set_blocked(true);
        *subflow.sending.cwnd.window_mut() = Window { cwnd: 160, ssthresh: 1000 };
        for n in 0..160 - room {
            send(&mut subflow, at(if n == 0 { 0 } else { 99 }), 1000);
        }
        subflow.sending.update_pacing();
        write(&mut subflow, 20);
        assert!(!subflow.sending.grow_buffer_after_ack(at(99)), "data may go first");
        assert_eq!(send_all(&mut subflow, at(99)), 0);
        subflow.sending.grow_buffer_behind_data(at(100));
        let grew = subflow.sending.buffer.take_growth();
        assert_eq!(grew, subflow.sending.buffer.limit() == 2 * 160 * 2304);
        subflow.sending.cwnd.window_mut().cwnd += 1;
        subflow.sending.grow_buffer_behind_data(at(100));
        assert!(!subflow.sending.buffer.take_growth(), "once for each acknowledgement");
        grew
    };
    assert!(grows(2), "two segments of room wait for a third");
    assert!(!grows(0), "full");
}

#[test]
fn send_buffer_expands_only_for_a_blocked_writer() {
    let mut subflow = flying(2);
    *subflow.sending.cwnd.window_mut() = Window { cwnd: 100, ssthresh: 1000 };
    assert!(!subflow.sending.grow_buffer_if_needed(at(100)));
    subflow.sending.buffer.set_blocked(true);
    assert!(subflow.sending.grow_buffer_if_needed(at(100)));
    assert_eq!(subflow.sending.buffer.limit(), 2 * 100 * 2304);
    assert!(!subflow.sending.grow_buffer_if_needed(at(100)), "as large already");
    subflow.sending.cwnd.window_mut().cwnd = 2;
    assert!(!subflow.sending.grow_buffer_if_needed(at(100)), "full");
}

#[test]
fn ack_permits_sending_of_lost_or_sendable_queued_data() {
    // tcp_data_snd_check. Data that is sent causes its own checks.
    assert!(!flying(2).sending.can_send_after_ack(at(1)), "nothing waits");
    let mut subflow = flying(2);
    write(&mut subflow, 1);
    assert!(subflow.sending.can_send_after_ack(at(1)));
    subflow.sending.queue.set_window(2000);
    assert!(!subflow.sending.can_send_after_ack(at(1)), "the peer has no room");
    let mut subflow = flying(2);
    subflow.sending.flight.set_lost_out(1);
    assert!(subflow.sending.can_send_after_ack(at(1)));
}

#[test]
fn mptcp_applies_idle_restart_once_per_socket_buffer() {
    // tcp_skb_entail in mptcp_sendmsg_frag: packets_out and lsndtime do not change while several buffers are
    // filled. Each buffer halves the window for the one timeout (300 ms) that has passed. Buffers have 65
    // segments of 1000 bytes (MPTCP_MAX_GSO_SIZE). tcp_sendmsg sends the first buffer before it fills the
    // second.
    let rested = |multipath: bool, segments: usize| {
        let mut subflow = flying(1);
        subflow.sending.flight.remove_front();
        subflow.sending.sent.bytes = 1000;
        subflow.sending.queue.forget_sent();
        *subflow.sending.cwnd.window_mut() = Window { cwnd: 80, ssthresh: 60 };
        if multipath {
            subflow.sending.queue.tagging_mut().begin();
        }
        write(&mut subflow, segments);
        send_all(&mut subflow, at(400));
        subflow.sending.cwnd.window().cwnd
    };
    assert_eq!([1, 65, 66, 130, 131].map(|n| rested(true, n)), [40, 40, 20, 20, 10]);
    assert_eq!([1, 131].map(|n| rested(false, n)), [40, 40]);
}

#[test]
fn a_burst_waits_for_the_acknowledgement_of_the_next_millisecond() {
    // tcp_tso_should_defer since 5.0: 160 segments per 100 ms at twice the rate are 3.2 MB/s, or three
    // segments per millisecond. The window has space for two. The two segments wait if a segment was sent in
    // the last millisecond and the head's acknowledgement is expected within one.
    let waits = |sent_at_us: u64, room: u32, now_us: u64| {
        let us = |us: u64| Instant::ZERO + Duration::from_micros(us);
        let mut subflow = flying(0);
        *subflow.sending.cwnd.window_mut() = Window { cwnd: 160, ssthresh: 1000 };
        for n in 0..160 - room {
            let moment = if n == 0 { 0 } else { sent_at_us };
            send(&mut subflow, us(moment), 1000);
        }
        subflow.sending.update_pacing();
        assert_eq!(super::super::deferral::burst_segments(&subflow.sending), 3);
        write(&mut subflow, 20);
        let sent = send_all(&mut subflow, us(now_us));
        assert_eq!(sent == 0, subflow.sending.queue.is_deferred());
        sent == 0
    };
    assert!(waits(99_000, 2, 99_500));
    assert!(!waits(99_000, 3, 99_500), "all of it may go");
    assert!(!waits(98_000, 2, 98_500), "the acknowledgement is 1.5 ms away");
    assert!(!waits(98_400, 2, 99_500), "the last one left 1.1 ms ago");
    assert!(!waits(99_000, 54, 99_500), "a third of the window is free");
}

#[test]
fn burst_size_is_counted_in_payload_per_segment() {
    // tcp_tso_autosize(sk, mss_now, ...): `bytes / mss_now`, where the rate is computed with `mss_cache`. 152
    // segments of 1000 bytes per 100 ms at twice the rate are 3.04 MB/s, or 2968 bytes per millisecond.
    let mut subflow = flying(0);
    *subflow.sending.cwnd.window_mut() = Window { cwnd: 152, ssthresh: 1000 };
    subflow.sending.update_pacing();
    assert_eq!(super::super::deferral::burst_segments(&subflow.sending), 2);
    subflow.sending.queue.set_mss(989);
    subflow.sending.update_pacing();
    assert_eq!(super::super::deferral::burst_segments(&subflow.sending), 3);
}

#[test]
fn a_burst_waits_for_room_in_the_window_as_it_is_now() {
    // tcp_tso_should_defer: `send_win = tcp_wnd_end(tp) - TCP_SKB_CB(skb)->seq`, and a third of `snd_wnd`.
    // The largest window of the past is not used. 100 of 160 segments are outstanding.
    let waits = |segments: u64| {
        let us = |us: u64| Instant::ZERO + Duration::from_micros(us);
        let mut subflow = flying(0);
        *subflow.sending.cwnd.window_mut() = Window { cwnd: 160, ssthresh: 1000 };
        for n in 0..100 {
            send(&mut subflow, us(if n == 0 { 0 } else { 99_000 }), 1000);
        }
        subflow.sending.update_pacing();
        write(&mut subflow, 20);
        subflow.sending.queue.update_send_window(7, 1, 1000 * segments);
        let sent = send_all(&mut subflow, us(99_500));
        assert!(sent == 0 || sent == 3, "{sent}");
        sent == 0
    };
    assert!(waits(102), "two segments");
    assert!(!waits(103), "a burst of three");
    assert!(waits(5), "less is told than was");
}

#[test]
fn a_window_is_full_where_a_burst_waits_for_it_and_not_for_the_peers() {
    // tcp_tso_should_defer: `if (cong_win < send_win) { if (cong_win <= skb->len) *is_cwnd_limited = true;
    // }`. If either window has space for two segments, a burst of three waits.
    let full = |cwnd: u32, peer: u64| {
        let us = |us: u64| Instant::ZERO + Duration::from_micros(us);
        let mut subflow = flying(0);
        *subflow.sending.cwnd.window_mut() = Window { cwnd, ssthresh: 1000 };
        for n in 0..158 {
            send(&mut subflow, us(if n == 0 { 0 } else { 99_000 }), 1000);
        }
        subflow.sending.cwnd.measure_use(Instant::ZERO);
        subflow.sending.update_pacing();
        write(&mut subflow, 20);
        subflow.sending.queue.update_send_window(7, 1, 1000 * peer);
        assert_eq!(send_all(&mut subflow, us(99_500)), 0);
        assert!(subflow.sending.queue.is_deferred());
        subflow.sending.cwnd.was_full()
    };
    assert!(full(160, 400), "want of congestion window");
    assert!(!full(170, 160), "want of the peer's window");
}

#[test]
fn a_socket_buffer_takes_memory_until_its_last_segment_is_acknowledged() {
    // tcp_clean_rtx_queue: tcp_trim_head frees payload, and sk_wmem_free_skb frees the descriptor.
    let mut subflow = flying(0);
    *subflow.sending.cwnd.window_mut() = Window { cwnd: 20, ssthresh: 1000 };
    write(&mut subflow, 4);
    assert_eq!(send_all(&mut subflow, at(50)), 4);
    let memory = |acked: u64| 4000 - acked + 832 * (4000 - acked).div_ceil(2000);
    assert_eq!(subflow.sending.queue.memory(), memory(0), "two buffers of two segments");
    for acked in [1000, 2000, 3000, 4000] {
        let ack = Segment {
            flags: Flags::ACK,
            ack: subflow.sequence.local(1 + acked),
            window: 65_535,
            ..Segment::default()
        };
        subflow.handle_ack(&exact(), at(150), &ack, false, &mut []);
        assert_eq!(subflow.sending.queue.memory(), memory(acked), "{acked}");
    }
}

#[test]
fn idle_restart_keeps_the_previous_pacing_rate() {
    // tcp_cwnd_restart does not change sk_pacing_rate. tcp_update_pacing_rate runs at the next
    // acknowledgement.
    let mut subflow = flying(1);
    subflow.sending.flight.remove_front();
    subflow.sending.sent.bytes = 1000;
    *subflow.sending.cwnd.window_mut() = Window { cwnd: 80, ssthresh: 60 };
    subflow.sending.update_pacing();
    let before = subflow.sending.cwnd.pacing_rate();
    write(&mut subflow, 1);
    assert_eq!(send_all(&mut subflow, at(400)), 1);
    assert_eq!(
        (subflow.sending.cwnd.window().cwnd, subflow.sending.cwnd.pacing_rate()),
        (40, before)
    );
    subflow.sending.update_pacing();
    assert!(subflow.sending.cwnd.pacing_rate() < before);
}
