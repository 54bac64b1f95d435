//! Tests of the policy and of a connection's acknowledgements.

use anabranch_units::SeqNumber;
use anabranch_wire::Ecn;

use super::super::super::fixture::{at, exact, subflow};
use super::*;
use crate::config::TcpConfig;
use crate::negotiated::Agreed;
use crate::receive_buffer::Load;

const RTO: Duration = Duration::from_millis(300);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A policy after the first segment: 1000 bytes at 1 s.
fn begun() -> AckPolicy {
    let mut policy = AckPolicy::new(1012, 65_535);
    assert_eq!(policy.received_mss(), 536, "a guess (`TCP_MSS_DEFAULT`)");
    policy.on_data(at(1000), 1000, false, Arrival::InOrder, false, RTO);
    policy
}

#[test]
fn the_first_data_is_acknowledged_sixteen_times_at_once() {
    // tcp_event_data_recv: there is no ATO yet, so it is `TCP_ATO_MIN`, with `TCP_MAX_QUICKACKS`.
    let mut policy = begun();
    assert_eq!((policy.quick, policy.delay, policy.received_mss()), (16, ms(40), 1000));
    assert!(policy.scheduled);
    for left in (0..16).rev() {
        assert!(policy.quick_mode());
        policy.on_ack_sent();
        assert_eq!((policy.quick, policy.scheduled, policy.is_due()), (left, false, false));
    }
    assert!(!policy.quick_mode());
    policy.on_ack_sent();
    assert_eq!(policy.quick, 0);
}

#[test]
fn the_delay_follows_the_gaps_between_segments() {
    // tcp_event_data_recv: if `m <= TCP_ATO_MIN / 2`, the delay is ato / 2 + 20. If `m < ato`, it is ato / 2
    // + m, at most the RTO. If `m > rto`, quick acknowledgements start. Otherwise it does not change.
    let after = |delay: u64, gap: u64| {
        let mut policy = AckPolicy { delay: ms(delay), quick: 0, ..begun() };
        policy.on_data(at(1000 + gap), 1000, false, Arrival::InOrder, false, RTO);
        (policy.delay.as_millis(), policy.quick)
    };
    assert_eq!(after(40, 5), (40, 0));
    assert_eq!(after(160, 5), (100, 0), "it falls by half of what is above 40 ms");
    assert_eq!(after(100, 20), (70, 0));
    assert_eq!(after(100, 21), (71, 0));
    assert_eq!(after(40, 30), (50, 0));
    assert_eq!(after(100, 99), (149, 0));
    assert_eq!(after(100, 100), (100, 0), "as long as the delay itself: it is left");
    assert_eq!(after(500, 299), (300, 0), "549, but the RTO");
    assert_eq!(after(100, 300), (100, 0));
    assert_eq!(after(100, 301), (100, 16), "the peer restarts");
    // The gap is measured between data segments only.
    let mut policy = AckPolicy { delay: ms(100), ..begun() };
    policy.on_data(at(1010), 1000, false, Arrival::InOrder, false, RTO);
    policy.on_data(at(1035), 1000, false, Arrival::InOrder, false, RTO);
    assert_eq!(policy.delay, ms(60), "100 -> 70 -> 35 + 25");
}

#[test]
fn out_of_order_or_duplicate_data_is_no_interarrival_sample() {
    let mut policy = AckPolicy { quick: 0, ..begun() };
    policy.on_ack_sent();
    policy.on_data(at(1005), 1100, false, Arrival::OutOfOrder, true, RTO);
    assert!(!policy.is_due() && policy.scheduled, "when is another question (tcp_data_queue_ofo)");
    assert_eq!((policy.quick, policy.last_received), (0, at(1000)));
    assert_eq!(policy.received_mss(), 1100, "it counts for the size of segments");
    policy.on_data(at(1005), 1200, false, Arrival::Duplicate, true, RTO);
    assert!(policy.is_due() && policy.pushed == 0);
    assert_eq!((policy.received_mss(), policy.last_received), (1100, at(1000)));
    // The last gap is filled: "SHOULD send immediate ACK".
    let mut policy = begun();
    policy.on_data(at(1005), 1000, false, Arrival::FilledGap, false, RTO);
    assert!(policy.is_due());
    let mut policy = AckPolicy { quick: 0, ..begun() };
    policy.on_data(at(1005), 1000, false, Arrival::InOrder, true, RTO);
    assert!(!policy.is_due() && policy.quick == 1, "tcp_grow_window");
    policy.quick = 16;
    policy.on_own_window_grown();
    assert_eq!(policy.quick, 17);
}

#[test]
fn a_duplicate_is_answered_fast_as_long_as_half_of_the_window_lasts() {
    // tcp_enter_quickack_mode(sk, TCP_MAX_QUICKACKS): `rcv_wnd / (2 * rcv_mss)`, 2 if this is zero, and at
    // most 16. The flow is no longer interactive. The advertised window is 64,768 bytes.
    for (mss, quick) in [(1000, 16), (2024, 16), (2025, 15), (32_384, 1), (32_385, 2)] {
        let (mut subflow, _) = subflow();
        subflow.receive.ack = AckPolicy { quick: 0, interactive: true, delay: ms(90), ..begun() };
        subflow.receive.ack.received_mss = mss;
        subflow.receive.ack.begin_quick_acks_for_duplicate(subflow.receive.window());
        assert_eq!((subflow.receive.ack.quick, subflow.receive.ack.interactive), (quick, false));
        assert_eq!(subflow.receive.ack.delay, ms(40));
    }
}

#[test]
fn an_answer_within_the_delay_makes_the_flow_interactive() {
    // inet_csk_enter_pingpong_mode: data is sent less than an ATO after data arrived.
    for (gap, interactive) in [(39, true), (40, false)] {
        let mut policy = begun();
        policy.on_data_sent(at(1000 + gap));
        assert_eq!((policy.interactive, policy.quick_mode()), (interactive, !interactive));
    }
    let mut silent = AckPolicy::new(1012, 65_535);
    silent.on_data_sent(at(0));
    assert!(!silent.interactive, "nothing has come");
}

#[test]
fn small_segment_marks_incoming_data_as_pushed() {
    // tcp_measure_rcv_mss, tcp_cleanup_rbuf: ICSK_ACK_PUSHED2 is set, or PUSHED in a flow that is not
    // interactive.
    let mut policy = begun();
    assert!(!policy.came_to_an_end());
    policy.on_data(at(1001), 999, false, Arrival::InOrder, false, RTO);
    assert!(policy.came_to_an_end());
    policy.interactive = true;
    assert!(!policy.came_to_an_end());
    policy.on_data(at(1002), 999, false, Arrival::InOrder, false, RTO);
    assert!(policy.came_to_an_end());
    policy.on_data(at(1003), 999, false, Arrival::InOrder, false, RTO);
    assert!(policy.came_to_an_end());
    policy.on_ack_sent();
    assert!(!policy.came_to_an_end());
}

#[test]
fn pushed_full_segments_set_only_the_first_pushed_flag() {
    // tcp_measure_rcv_mss: a segment of `rcv_mss` with PSH sets ICSK_ACK_PUSHED. ICSK_ACK_PUSHED2 is set only
    // by a smaller segment while PUSHED is set.
    let mut policy = begun();
    policy.on_data(at(1001), 1000, true, Arrival::InOrder, false, RTO);
    assert!(policy.came_to_an_end());
    policy.interactive = true;
    policy.on_data(at(1002), 1000, true, Arrival::InOrder, false, RTO);
    assert!(!policy.came_to_an_end());
    policy.on_data(at(1003), 999, true, Arrival::InOrder, false, RTO);
    assert!(policy.came_to_an_end());
}

#[test]
fn the_timer_waits_for_the_delay_within_its_bounds() {
    // tcp_send_delayed_ack: a delay above 40 ms is limited to half a second, or 200 ms in an interactive
    // flow, or one RTT; finally `TCP_DELACK_MAX`.
    let waits = |delay: u64, interactive: bool, srtt: u64| {
        let (mut subflow, _) = subflow();
        subflow.sending.measure(&exact(), ms(srtt));
        subflow.receive.ack = AckPolicy { delay: ms(delay), interactive, ..begun() };
        let srtt = subflow.sending.rtt().srtt();
        subflow.receive.arm_delayed_ack(&exact(), at(1000), srtt);
        subflow.receive.ack.deadline().since(at(1000)).as_millis()
    };
    assert_eq!(waits(40, false, 10), 40);
    assert_eq!(waits(100, false, 400), 100);
    assert_eq!(waits(100, false, 60), 60);
    assert_eq!(waits(100, false, 10), 40, "no less than the least");
    assert_eq!(waits(190, false, 400), 190);
    assert_eq!(waits(450, false, 400), 200);
    assert_eq!(waits(450, true, 400), 200);
}

#[test]
fn one_timer_is_armed_where_an_acknowledgement_is_owed() {
    let (mut subflow, _) = subflow();
    subflow.receive.arm_delayed_ack(&exact(), at(1000), subflow.sending.rtt().srtt());
    assert_eq!(subflow.receive.ack.deadline(), Instant::FAR_FUTURE, "nothing is owed");
    subflow.receive.ack = begun();
    subflow.receive.ack.now_due = true;
    subflow.receive.arm_delayed_ack(&exact(), at(1000), subflow.sending.rtt().srtt());
    assert_eq!(subflow.receive.ack.deadline(), Instant::FAR_FUTURE, "it goes at once");
    subflow.receive.ack.now_due = false;
    subflow.receive.arm_delayed_ack(&exact(), at(1000), subflow.sending.rtt().srtt());
    subflow.receive.arm_delayed_ack(&exact(), at(1010), subflow.sending.rtt().srtt());
    assert_eq!(subflow.receive.ack.deadline(), at(1040), "the first stands");
    subflow.receive.handle_timeout(at(1039), subflow.sending.rtt().rto());
    assert!(!subflow.receive.ack.is_due() && subflow.receive.ack.is_held_back());
    // tcp_delack_timer_handler: "Delayed ACK missed: inflate ATO", up to the RTO.
    subflow.receive.handle_timeout(at(1040), subflow.sending.rtt().rto());
    assert!(subflow.receive.ack.is_due() && !subflow.receive.ack.is_held_back());
    assert_eq!(subflow.receive.ack.delay, ms(80));
    subflow.receive.ack.delay = ms(200);
    subflow.receive.ack.deadline = at(1100);
    subflow.receive.handle_timeout(at(1100), subflow.sending.rtt().rto());
    assert_eq!(subflow.receive.ack.delay, ms(300));
    // The flow is no longer interactive, and the delay is reset to the minimum.
    subflow.receive.ack.interactive = true;
    subflow.receive.ack.deadline = at(1200);
    subflow.receive.handle_timeout(at(1200), subflow.sending.rtt().rto());
    assert_eq!((subflow.receive.ack.interactive, subflow.receive.ack.delay), (false, ms(40)));
    // The end of quick mode resets the delay (tcp_dec_quickack_mode).
    subflow.receive.ack = AckPolicy { delay: ms(80), quick: 2, ..begun() };
    subflow.receive.ack.on_ack_sent();
    assert_eq!(subflow.receive.ack.delay, ms(80));
    subflow.receive.ack.on_ack_sent();
    assert_eq!(subflow.receive.ack.delay, ms(40));
}

#[test]
fn two_smaller_segments_alike_are_full_ones_from_now_on() {
    // tcp_measure_rcv_mss: `len += skb->data - skb_transport_header(skb)`, minus `tcp_header_len`. 52 bytes
    // of header are 20, plus twelve of timestamps and twenty of a DSS.
    let mut policy = begun();
    let mut hear = |length: u32, header: u32, push: bool| {
        match length {
            1000.. => policy.last_smaller = 0,
            _ => policy.on_smaller(length, header, 32, push),
        }
        policy.on_data(at(1001), length, push, Arrival::InOrder, false, RTO);
        (policy.received_mss, policy.pushed)
    };
    assert_eq!(hear(800, 52, false), (1000, 1));
    assert_eq!(hear(800, 52, false), (820, 1), "with the options of MPTCP");
    assert_eq!(hear(1000, 52, false), (1000, 1), "a full one again");
    // Different small segments, or payload reduced by SACK blocks, do not count. A segment of less than 536
    // bytes plus header counts only without PSH.
    assert_eq!(hear(800, 52, false), (1000, 2));
    assert_eq!(hear(788, 52, false), (1000, 2));
    assert_eq!(hear(800, 52, false), (1000, 2));
    assert_eq!(hear(788, 64, false), (820, 2), "twelve bytes of SACK instead of payload");
    assert_eq!(hear(1000, 52, false), (1000, 2));
    assert_eq!(hear(300, 52, true), (1000, 2));
    assert_eq!(hear(300, 52, true), (1000, 2));
    assert_eq!(hear(300, 52, false), (1000, 2));
    assert_eq!(hear(300, 52, false), (320, 2));
}

#[test]
fn read_that_opens_the_connection_window_acks_on_the_subflow() {
    // mptcp_cleanup_rbuf: `cleanup`, or more than a segment is unacknowledged, or all data was read and a PSH
    // segment is unacknowledged. Then tcp_cleanup_rbuf considers the connection's own memory. 64,536 bytes
    // may be advertised, and 20,000 were.
    let asked = |opened: bool,
                 emptied: bool,
                 pushed: u8,
                 unacked: u64,
                 multipath: bool,
                 ahead: bool| {
        let (mut subflow, _) = subflow();
        let start = if ahead { 500 } else { 1 };
        let (seq, flags) = (SeqNumber(start), Flags::ACK);
        let segment =
            Segment { seq, flags, payload: vec![0; unacked as usize].into(), ..Segment::default() };
        let load = Load::of(&segment, None);
        let arriving = (&segment, start.into());
        subflow.handle_payload(at(1), arriving, load, Space::default(), &mut |_, _, _| {});
        subflow.receive.ack = AckPolicy { scheduled: true, pushed, received_mss: 1000, ..begun() };
        let space = Space { free: 64_536, allowed: 64_536, ..Space::default() };
        subflow.receive.on_read(space, opened, emptied, multipath.then_some(0));
        subflow.receive.ack.is_due()
    };
    assert!(asked(true, false, 1, 300, true, false), "of its own it has nothing left");
    assert!(!asked(true, false, 1, 300, true, true), "but for what lies ahead of a gap");
    assert!(!asked(false, false, 1, 300, true, false));
    assert!(asked(false, true, 1, 300, true, false), "all was read");
    assert!(asked(false, false, 0, 1001, true, false), "more than a segment");
    assert!(!asked(true, true, 0, 300, true, false), "nothing says that more will not come");
    assert!(!asked(true, false, 1, 300, false, false), "plain TCP asks for its own");
}

#[test]
fn an_acknowledgement_with_the_earlier_mark_is_sent_before_other_segments() {
    // dctcp_ece_ack_update: if a delayed acknowledgement is pending when marks begin, it is sent at once,
    // with the earlier position and mark (RFC 8257 section 3.2).
    let config = TcpConfig::default();
    let mut receiver = Receiver::new(&config, 1012, true);
    receiver.on_syn();
    receiver.on_negotiated(Agreed::offer(&config), true);
    let Receiver { ecn, ack, .. } = &mut receiver;
    ecn.on_data(Ecn::Ect0, 1001, ack);
    ack.deadline = at(40);
    ecn.on_data(Ecn::Ce, 2001, ack);
    assert!(receiver.has_urgent_ack());
    assert_eq!(receiver.ecn.take_owed(), Some((1001, false)));
    assert!(!receiver.has_urgent_ack());
}
