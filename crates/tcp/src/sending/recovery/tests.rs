//! Tests of window reductions and their undo.

use anabranch_units::Duration;

use super::super::flight::TxStamp;
use super::*;
use crate::Tcp;
use crate::config::{Moment, TcpConfig};
use crate::fixture::{at, send, subflow};

/// Acknowledgements that repair nothing. The first advances SND.UNA, the second does not.
const ADVANCED: AckFlags = AckFlags { una_advanced: true, ..STILL };
const STILL: AckFlags = AckFlags {
    una_advanced: false,
    data_sacked: false,
    original_acked: false,
    retransmission_acked: false,
    dsack: false,
    probe_duplicated: false,
    set_timer: false,
    not_duplicate: false,
    echo: false,
    duplicate: false,
};

/// Computes the window after one acknowledgement of a reduction.
fn reduce(subflow: &mut Tcp, delivered: u32, verdict: Verdict, flags: &AckFlags) {
    let (recovery, _, parts) = subflow.sending.split(at(0));
    recovery.reduce(parts.cwnd, parts.flight.in_flight(), delivered, verdict, flags);
}

fn in_loss(subflow: &mut Tcp, now: Instant, flags: &AckFlags, echo: Option<u32>) -> Repair {
    let (recovery, losses, mut parts) = subflow.sending.split(now);
    recovery.answer_in_loss(&mut parts, losses, flags, echo)
}

fn in_recovery(subflow: &mut Tcp, now: Instant, flags: &AckFlags, echo: Option<u32>) {
    let (recovery, losses, mut parts) = subflow.sending.split(now);
    recovery.answer_in_recovery(&mut parts, losses, flags, echo);
}

/// Handles an acknowledgement of a probe up to the position `una`.
fn probe_answer(subflow: &mut Tcp, una: u64, flags: &AckFlags) {
    let (recovery, _, mut parts) = subflow.sending.split(at(9));
    parts.una = una;
    recovery.answer_probe(&mut parts, flags);
}

/// Twenty outstanding segments with a window of twenty, ssthresh ten, in recovery.
fn twenty() -> Tcp {
    let (mut subflow, _) = subflow();
    for _ in 0..20 {
        send(&mut subflow, at(0), 1000);
    }
    *subflow.sending.cwnd.window_mut() = Window { cwnd: 20, ssthresh: 10 };
    subflow.sending.recovery.prior_cwnd = 20;
    subflow.sending.cwnd.force_state(CongestionState::Recovery);
    subflow
}

#[test]
fn reduction_is_proportional_while_more_than_ssthresh_is_in_flight() {
    // tcp_cwnd_reduction: sndcnt = ceil(prr_delivered ssthresh / prior_cwnd) - prr_out.
    let mut subflow = twenty();
    for number in 0..4 {
        subflow.sending.flight.mark_sacked(number);
    }
    subflow.sending.recovery.prr_out = 1;
    // 16 segments are in flight. 4 were delivered, so 2 are permitted, and 1 was sent.
    reduce(&mut subflow, 4, Verdict::default(), &STILL);
    assert_eq!(
        (subflow.sending.recovery.prr_delivered, subflow.sending.cwnd.window().cwnd),
        (4, 17)
    );
    // ceil(5/2) = 3.
    reduce(&mut subflow, 1, Verdict::default(), &STILL);
    assert_eq!(subflow.sending.cwnd.window().cwnd, 18);
    // An acknowledgement that delivers nothing has no effect, and neither has one outside a reduction.
    subflow.sending.cwnd.window_mut().cwnd = 3;
    reduce(&mut subflow, 0, Verdict { lost: 5, ..Verdict::default() }, &ADVANCED);
    assert_eq!(
        (subflow.sending.cwnd.window().cwnd, subflow.sending.recovery.prr_delivered),
        (3, 5)
    );
    subflow.sending.recovery.prior_cwnd = 0;
    reduce(&mut subflow, 2, Verdict::default(), &ADVANCED);
    assert_eq!(
        (subflow.sending.cwnd.window().cwnd, subflow.sending.recovery.prr_delivered),
        (3, 5)
    );
}

#[test]
fn prr_refills_the_window_by_delivered_data_below_ssthresh() {
    // sndcnt = max(prr_delivered - prr_out, newly delivered), plus one if SND.UNA advances and nothing is
    // lost, but at most ssthresh - in flight.
    let filled = |in_flight: u64, delivered: u32, out: u32, lost: u32, advanced: bool| {
        let mut subflow = twenty();
        for number in 0..20 - in_flight {
            subflow.sending.flight.mark_sacked(number);
        }
        subflow.sending.recovery.prr_delivered = 6;
        subflow.sending.recovery.prr_out = out;
        reduce(
            &mut subflow,
            delivered,
            Verdict { lost, ..Verdict::default() },
            if advanced { &ADVANCED } else { &STILL },
        );
        subflow.sending.cwnd.window().cwnd
    };
    assert_eq!(filled(4, 1, 4, 1, true), 4 + 3, "7 - 4");
    assert_eq!(filled(4, 2, 7, 1, true), 4 + 2, "as many as were delivered");
    assert_eq!(filled(4, 2, 7, 0, true), 4 + 3, "and one more");
    assert_eq!(filled(4, 2, 7, 0, false), 4 + 2);
    assert_eq!(filled(9, 2, 2, 0, true), 10, "no more than ssthresh");
    assert_eq!(filled(10, 2, 2, 0, true), 10);
    // The first segment of a recovery is always permitted (`fast_rexmit`).
    assert_eq!(filled(10, 1, 0, 0, false), 11);
    assert_eq!(filled(16, 1, 9, 0, false), 16, "what went too early is waited for");
}

#[test]
fn linux_4_14_prr_grows_flight_only_after_an_acked_retransmit() {
    // tcp_cwnd_reduction of 4.14, at or below ssthresh: FLAG_RETRANS_DATA_ACKED without
    // FLAG_LOST_RETRANS: min(delta, max(prr_delivered - prr_out, newly) + 1); else min(delta, newly).
    let filled = |repaired: bool, lost_again: bool, delivered: u32, out: u32| {
        let mut subflow = twenty();
        subflow.sending.recovery.reduction = crate::stack::TcpStack::MPTCP_0_94.reduction;
        for number in 0..16 {
            subflow.sending.flight.mark_sacked(number);
        }
        subflow.sending.recovery.prr_delivered = 6;
        subflow.sending.recovery.prr_out = out;
        let flags = AckFlags { retransmission_acked: repaired, ..ADVANCED };
        let verdict = Verdict { lost_retransmission: lost_again, ..Verdict::default() };
        reduce(&mut subflow, delivered, verdict, &flags);
        subflow.sending.cwnd.window().cwnd
    };
    assert_eq!(filled(false, false, 1, 3), 4 + 1, "one delivered, whatever is owed");
    assert_eq!(filled(true, false, 1, 3), 4 + 5, "7 - 3, and one more");
    assert_eq!(filled(true, true, 1, 3), 4 + 1, "what was sent again was lost again");
    assert_eq!(filled(true, false, 1, 0), 10, "no more than ssthresh");
}

#[test]
fn without_prr_the_window_falls_at_once() {
    // RFC 6675 section 5, step 4.2: cwnd = ssthresh.
    let mut subflow = twenty();
    subflow.sending.recovery.reduction = Reduction::AtOnce;
    subflow.sending.flight.mark_sacked(1);
    reduce(&mut subflow, 1, Verdict::default(), &STILL);
    assert_eq!(subflow.sending.cwnd.window().cwnd, 10);
}

#[test]
fn saved_ssthresh_depends_on_the_congestion_state() {
    // tcp_current_ssthresh: unchanged in CWR and Recovery, otherwise at least three quarters of the window.
    for (state, expected) in [
        (CongestionState::Open, 15),
        (CongestionState::Disorder, 15),
        (CongestionState::Cwr, 10),
        (CongestionState::Recovery, 10),
        (CongestionState::Loss, 15),
    ] {
        let mut subflow = twenty();
        subflow.sending.cwnd.force_state(state);
        assert_eq!(subflow.sending.cwnd.current_ssthresh(), expected, "{state:?}");
        assert_eq!(subflow.sending.cwnd.is_reducing(), expected == 10);
    }
    let mut subflow = twenty();
    subflow.sending.cwnd.force_state(CongestionState::Open);
    subflow.sending.cwnd.window_mut().ssthresh = 16;
    assert_eq!(subflow.sending.cwnd.current_ssthresh(), 16);
}

#[test]
fn undo_counts_retransmissions_and_their_duplicates() {
    let mut recovery = Recovery::new(&crate::stack::TcpStack::LINUX_6_18);
    assert!(!recovery.all_duplicates(), "no reduction");
    recovery.set_undo(1000, 0);
    recovery.on_dsack(2000, 1);
    assert!(!recovery.all_duplicates(), "nothing was retransmitted");
    recovery.on_retransmit(5);
    recovery.on_retransmit(6);
    assert_eq!(recovery.retrans_stamp, NonZeroU32::new(5), "of the first");
    recovery.on_dsack(1000, 1);
    assert_eq!(recovery.undo_retrans, 2, "before the reduction began");
    recovery.on_dsack(1001, 1);
    assert!(!recovery.all_duplicates());
    recovery.on_dsack(1001, 1);
    assert!(recovery.all_duplicates());
    recovery.on_dsack(1001, 1);
    assert_eq!(recovery.undo_retrans, 0);
    recovery.set_undo(1000, 3);
    assert_eq!(recovery.undo_retrans, 3);
}

#[test]
fn an_echo_from_before_the_first_retransmission_answers_an_original() {
    // RFC 3522: the echo is older than the retransmission's timestamp, even if the clock has wrapped.
    let answered = |stamp: u32, echo: u32| {
        let mut recovery = Recovery::new(&crate::stack::TcpStack::LINUX_6_18);
        recovery.set_undo(1, 0);
        recovery.on_retransmit(stamp);
        recovery.may_undo(Some(echo))
    };
    assert!(answered(100, 99) && !answered(100, 100) && !answered(100, 101));
    assert!(answered(5, u32::MAX) && !answered(u32::MAX, 5));
    let mut recovery = Recovery::new(&crate::stack::TcpStack::LINUX_6_18);
    recovery.set_undo(1, 0);
    assert!(!recovery.may_undo(Some(1)), "nothing was retransmitted");
    recovery.on_retransmit(100);
    assert!(!recovery.may_undo(None) && recovery.may_undo(Some(50)));
    recovery.undo_marker = None;
    assert!(!recovery.may_undo(Some(50)), "undone already");
}

/// A timeout at 300 ms with five outstanding segments. The head was retransmitted.
fn timed_out() -> Tcp {
    let (mut subflow, _) = subflow();
    for _ in 0..5 {
        send(&mut subflow, at(0), 1000);
    }
    subflow.sending.timers.arm(
        Moment { host: &crate::fixture::exact(), now: at(0) },
        super::super::timers::Pending::Timeout,
        Duration::from_millis(300),
    );
    assert!(subflow.handle_timeout(Moment { host: &crate::fixture::exact(), now: at(300) }));
    subflow.sending.flight.retransmit(0, at(300), TxStamp::default());
    subflow.sending.recovery.on_retransmit(301);
    subflow
}

#[test]
fn a_timeout_is_undone_by_an_echo_of_the_original() {
    // tcp_process_loss: FLAG_SND_UNA_ADVANCED and tcp_may_undo (RFC 4015).
    let mut subflow = timed_out();
    assert_eq!(
        (subflow.sending.cwnd.state(), subflow.sending.cwnd.window().cwnd),
        (CongestionState::Loss, 1)
    );
    assert_eq!((subflow.sending.cwnd.window().ssthresh, subflow.sending.recovery.frto), (5, true));
    subflow.sending.recovery.frto = false;
    let flags = AckFlags { una_advanced: true, ..AckFlags::default() };
    subflow.sending.queue.set_una(1001);
    subflow.sending.flight.remove_front();
    assert_eq!(in_loss(&mut subflow, at(310), &flags, Some(1)), Repair::None);
    assert_eq!(
        (subflow.sending.cwnd.state(), subflow.sending.cwnd.window().cwnd),
        (CongestionState::Open, 10)
    );
    assert_eq!((subflow.sending.flight.lost_out(), subflow.sending.totals().undos), (0, 1));
    assert_eq!(subflow.sending.recovery.consecutive_timeouts, 0);
}

#[test]
fn a_timeout_is_undone_by_a_report_of_the_duplicate() {
    let mut subflow = timed_out();
    subflow.sending.recovery.frto = false;
    subflow.sending.recovery.on_dsack(1001, 1);
    let flags = AckFlags { una_advanced: true, dsack: true, ..AckFlags::default() };
    subflow.sending.queue.set_una(1001);
    subflow.sending.flight.remove_front();
    assert_eq!(in_loss(&mut subflow, at(310), &flags, None), Repair::None);
    assert_eq!(
        (subflow.sending.cwnd.state(), subflow.sending.cwnd.window().cwnd),
        (CongestionState::Open, 10)
    );
    // The reduction is not undone either if nothing is acknowledged.
    let mut subflow = timed_out();
    subflow.sending.recovery.frto = false;
    subflow.sending.recovery.on_dsack(1001, 1);
    let flags = AckFlags { dsack: true, ..AckFlags::default() };
    assert_eq!(in_loss(&mut subflow, at(310), &flags, Some(1)), Repair::Lost);
    assert_eq!(subflow.sending.cwnd.state(), CongestionState::Loss);
}

#[test]
fn frto_detects_a_spurious_timeout_with_new_data() {
    // RFC 5682 section 2.1: (2b) The first acknowledgement advances, so new data is sent first. (3b) The next
    // one covers data that was sent only once: the timeout was spurious. (3a) It only SACKs more data: the
    // timeout was justified.
    let mut subflow = timed_out();
    subflow.sending.queue.push(bytes::Bytes::from(vec![0; 3000]), 5000);
    subflow.sending.queue.set_una(1001);
    subflow.sending.flight.remove_front();
    let flags = AckFlags { una_advanced: true, retransmission_acked: true, ..AckFlags::default() };
    assert_eq!(in_loss(&mut subflow, at(400), &flags, None), Repair::New);
    assert_eq!(subflow.sending.recovery.high_seq, 5001);
    send(&mut subflow, at(400), 1000);
    let reported = |mut subflow: Tcp, flags: AckFlags| {
        let repair = in_loss(&mut subflow, at(500), &flags, None);
        (repair, subflow.sending.recovery.frto, subflow.sending.cwnd.state())
    };
    let advanced = AckFlags { una_advanced: true, original_acked: true, ..AckFlags::default() };
    let (repair, _, state) = reported(subflow, advanced);
    assert_eq!((repair, state), (Repair::None, CongestionState::Open));

    let again = || {
        let mut subflow = timed_out();
        send(&mut subflow, at(400), 1000);
        subflow
    };
    let sacked = AckFlags { data_sacked: true, ..AckFlags::default() };
    assert_eq!(reported(again(), sacked), (Repair::Lost, false, CongestionState::Loss));
    let nothing = AckFlags::default();
    assert_eq!(reported(again(), nothing), (Repair::Lost, true, CongestionState::Loss));
    let duplicate = AckFlags { duplicate: true, ..AckFlags::default() };
    assert!(reported(again(), duplicate).1, "with SACK a bare duplicate says nothing");
    // F-RTO needs new data to send. Without any, the timeout counts as justified.
    let mut subflow = timed_out();
    subflow.sending.queue.set_una(1001);
    subflow.sending.flight.remove_front();
    let flags = AckFlags { una_advanced: true, ..AckFlags::default() };
    assert_eq!(in_loss(&mut subflow, at(400), &flags, None), Repair::Lost);
    assert!(!subflow.sending.recovery.frto);
}

#[test]
fn ack_decides_whether_a_loss_probe_repaired_a_loss() {
    // tcp_process_tlp_ack.
    let probed = |retransmitted: bool| {
        let mut subflow = twenty();
        subflow.sending.cwnd.force_state(CongestionState::Open);
        subflow.sending.recovery.probe_high = Some(20_001);
        subflow.sending.recovery.probe_retransmitted = retransmitted;
        subflow
    };
    let advanced = AckFlags { una_advanced: true, ..AckFlags::default() };
    let mut subflow = probed(true);
    probe_answer(&mut subflow, 20_000, &advanced);
    assert!(subflow.sending.recovery.probe_high.is_some(), "not yet");
    probe_answer(&mut subflow, 20_001, &advanced);
    assert!(subflow.sending.recovery.probe_high.is_some(), "the original or the probe");
    probe_answer(&mut subflow, 20_002, &advanced);
    assert_eq!(
        (subflow.sending.recovery.probe_high, subflow.sending.cwnd.window().cwnd),
        (None, 10),
        "it repaired a loss"
    );
    assert_eq!(subflow.sending.cwnd.state(), CongestionState::Open);
    for (retransmitted, flags) in [
        (false, advanced),
        (true, AckFlags { probe_duplicated: true, una_advanced: true, ..AckFlags::default() }),
        (true, AckFlags::default()),
    ] {
        let mut subflow = probed(retransmitted);
        probe_answer(&mut subflow, 20_001, &flags);
        assert_eq!(
            (subflow.sending.recovery.probe_high, subflow.sending.cwnd.window().cwnd),
            (None, 20)
        );
    }
    for flags in [
        AckFlags { dsack: true, una_advanced: true, ..AckFlags::default() },
        AckFlags { data_sacked: true, ..AckFlags::default() },
        AckFlags { not_duplicate: true, ..AckFlags::default() },
    ] {
        let mut subflow = probed(true);
        probe_answer(&mut subflow, 20_001, &flags);
        assert!(subflow.sending.recovery.probe_high.is_some());
    }
}

#[test]
fn a_partial_acknowledgement_undoes_nothing_while_a_retransmission_is_out() {
    // tcp_try_undo_partial: `if (tp->retrans_out) return true;` comes before the undo.
    for out in [true, false] {
        let mut subflow = twenty();
        subflow.sending.recovery.high_seq = 20_001;
        subflow.sending.recovery.set_undo(1, 0);
        subflow.sending.recovery.on_retransmit(100);
        if out {
            subflow.sending.flight.retransmit(1, at(100), TxStamp::default());
        }
        subflow.sending.queue.set_una(1001);
        subflow.sending.flight.remove_front();
        let flags = AckFlags { una_advanced: true, ..AckFlags::default() };
        in_recovery(&mut subflow, at(110), &flags, Some(99));
        assert_eq!(subflow.sending.totals().undos > 0, !out);
        assert_eq!(subflow.sending.recovery.retrans_stamp.is_some(), out);
    }
}

#[test]
fn an_outage_lasts_from_the_second_timeout_until_the_loss_is_repaired() {
    // `OutageRule::Timeouts`: two consecutive timeouts begin an outage. Loss is the only state with lost data after
    // a timeout.
    let stack = TcpStack { outage: OutageRule::Timeouts, ..TcpConfig::default().stack };
    let mut recovery = Recovery::new(&stack);
    let mut follows = |change: &dyn Fn(&mut Recovery)| {
        change(&mut recovery);
        recovery.follows_outage(&STILL, true, CongestionState::Loss)
    };
    assert!(!follows(&|recovery| recovery.count_timeout(at(300))));
    assert!(follows(&|recovery| recovery.count_timeout(at(900))));
    assert!(follows(&|recovery| recovery.on_state(CongestionState::Loss)));
    assert!(!follows(&|recovery| recovery.on_state(CongestionState::Open)));
}
