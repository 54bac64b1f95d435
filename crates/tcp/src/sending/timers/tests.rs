//! Tests of the timer's purpose, duration and effect.

use super::super::flight::Delivered;
use super::super::intent::Urgent;
use super::super::rtt::timestamp_clock;
use super::*;
use crate::Tcp;
use crate::config::Moment;
use crate::fixture::{at, exact, send, subflow};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Returns the purpose of the timer, and its remaining time at `now`.
fn armed(subflow: &Tcp, now: u64) -> Option<(Pending, u64)> {
    let pending = subflow.sending.timers.pending()?;
    Some((pending, subflow.sending.timers.at().since(at(now)).as_micros()))
}

#[test]
fn a_probe_comes_after_two_round_trips_and_no_later_than_the_timeout() {
    // tcp_schedule_loss_probe: 2 srtt + 2 ms, and for a single segment 200 ms more. The RTO is 300
    // ms.
    let (mut subflow, _) = subflow();
    assert!(!subflow.sending.schedule_probe(at(0), false), "nothing is outstanding");
    send(&mut subflow, at(0), 1000);
    assert!(subflow.sending.schedule_probe(at(0), false));
    assert_eq!(armed(&subflow, 0), Some((Pending::LossProbe, 300_000)), "less than 400");
    send(&mut subflow, at(0), 1000);
    assert!(subflow.sending.schedule_probe(at(10), false));
    assert_eq!(armed(&subflow, 10), Some((Pending::LossProbe, 202_000)));
    // 200 ms of the head's timeout have passed, unless SND.UNA has just advanced.
    assert!(subflow.sending.schedule_probe(at(200), false));
    assert_eq!(armed(&subflow, 200), Some((Pending::LossProbe, 100_000)));
    assert!(subflow.sending.schedule_probe(at(200), true));
    assert_eq!(armed(&subflow, 200), Some((Pending::LossProbe, 202_000)));
    // The head's timeout has passed already, so the probe timer runs for its full time.
    assert!(subflow.sending.schedule_probe(at(300), false));
    assert_eq!(armed(&subflow, 300), Some((Pending::LossProbe, 202_000)));
    subflow.sending.timers.forget_rtt();
    assert!(subflow.sending.schedule_probe(at(300), false));
    assert_eq!(armed(&subflow, 300), Some((Pending::LossProbe, 700_000)), "1 s from 0");
    for state in [CongestionState::Disorder, CongestionState::Recovery, CongestionState::Loss] {
        subflow.sending.cwnd.force_state(state);
        assert!(!subflow.sending.schedule_probe(at(300), true));
    }
    subflow.sending.cwnd.force_state(CongestionState::Cwr);
    assert!(subflow.sending.schedule_probe(at(300), true));
    subflow.sending.flight.set_selective(false);
    assert!(!subflow.sending.schedule_probe(at(300), true));
}

#[test]
fn the_timeout_counts_from_the_heads_sending_where_another_timer_came_between() {
    // tcp_rearm_rto, tcp_rto_delta_us.
    let (mut subflow, _) = subflow();
    subflow.sending.restart_timeout(Moment { host: &exact(), now: at(0) });
    assert_eq!(armed(&subflow, 0), None);
    send(&mut subflow, at(0), 1000);
    subflow.sending.restart_timeout(Moment { host: &exact(), now: at(50) });
    assert_eq!(armed(&subflow, 50), Some((Pending::Timeout, 300_000)));
    for between in [Pending::LossProbe, Pending::Reordering] {
        subflow.sending.timers.arm(Moment { host: &exact(), now: at(50) }, between, ms(10));
        subflow.sending.restart_timeout(Moment { host: &exact(), now: at(50) });
        assert_eq!(armed(&subflow, 50), Some((Pending::Timeout, 250_000)));
        subflow.sending.timers.arm(Moment { host: &exact(), now: at(50) }, between, ms(10));
        subflow.sending.restart_timeout(Moment { host: &exact(), now: at(900) });
        assert_eq!(armed(&subflow, 900), Some((Pending::Timeout, 1)), "at once");
    }
    // In the Open state, a loss probe replaces it.
    send(&mut subflow, at(0), 1000);
    subflow.sending.set_timer_after_ack(at(100));
    assert_eq!(armed(&subflow, 100), Some((Pending::LossProbe, 202_000)));
    subflow.sending.cwnd.force_state(CongestionState::Loss);
    subflow.sending.timers.clear();
    subflow.sending.set_timer_after_ack(at(100));
    assert_eq!(armed(&subflow, 100), Some((Pending::Timeout, 300_000)));
}

#[test]
fn timeout_marks_the_head_and_segments_older_than_an_rtt_lost() {
    // tcp_timeout_mark_lost, tcp_enter_loss: cwnd = in flight + 1.
    let (mut subflow, _) = subflow();
    for sent in [0, 100, 250, 290] {
        send(&mut subflow, at(sent), 1000);
    }
    subflow.sending.cwnd.window_mut().cwnd = 20;
    let first = subflow.sending.flight.get(0).cloned().expect("outstanding");
    subflow.sending.losses.on_delivered(&Delivered::of(at(100), &first, None));
    subflow.sending.timers.arm(Moment { host: &exact(), now: at(0) }, Pending::Timeout, ms(300));
    assert!(subflow.handle_timeout(Moment { host: &exact(), now: at(299) }));
    assert_eq!(subflow.sending.totals().timeouts, 0, "not yet");
    assert!(subflow.handle_timeout(Moment { host: &exact(), now: at(300) }));
    assert_eq!((subflow.sending.flight.lost_out(), subflow.sending.flight.in_flight()), (2, 2));
    assert_eq!(
        (subflow.sending.cwnd.window().cwnd, subflow.sending.cwnd.window().ssthresh),
        (3, 10)
    );
    assert_eq!(
        (subflow.sending.cwnd.state(), subflow.sending.recovery.high_seq()),
        (CongestionState::Loss, 4001)
    );
    assert!(
        subflow.sending.queue.intent_mut().take(Urgent::Head)
            && subflow.sending.recovery.decides_by_frto()
    );
    assert_eq!(
        (subflow.sending.totals().timeouts, subflow.sending.recovery.consecutive_timeouts()),
        (1, 1)
    );
    assert_eq!(armed(&subflow, 300), Some((Pending::Timeout, 600_000)));
    // A second timeout in the same recovery does not reduce ssthresh again.
    subflow.sending.cwnd.window_mut().cwnd = 9;
    assert!(subflow.handle_timeout(Moment { host: &exact(), now: at(900) }));
    assert_eq!(
        (subflow.sending.cwnd.window().ssthresh, subflow.sending.cwnd.window().cwnd),
        (10, 1)
    );
    assert_eq!((subflow.sending.flight.lost_out(), subflow.sending.totals().timeouts), (4, 2));
    assert_eq!(armed(&subflow, 900), Some((Pending::Timeout, 1_200_000)));
}

#[test]
fn a_timeout_with_nothing_outstanding_is_none() {
    let (mut subflow, _) = subflow();
    subflow.sending.timers.arm(Moment { host: &exact(), now: at(0) }, Pending::Timeout, ms(300));
    assert!(subflow.handle_timeout(Moment { host: &exact(), now: at(300) }));
    assert_eq!(
        (subflow.sending.totals().timeouts, subflow.sending.cwnd.state()),
        (0, CongestionState::Open)
    );
    assert_eq!(subflow.sending.timers.at(), Instant::FAR_FUTURE);
}

#[test]
fn timeout_in_recovery_cuts_ssthresh_only_if_high_seq_is_acked() {
    // tcp_enter_loss: `icsk_ca_state <= TCP_CA_Disorder || !after(high_seq, snd_una) || ...`.
    for (una, cut) in [(1, false), (1001, true)] {
        let (mut subflow, _) = subflow();
        send(&mut subflow, at(0), 1000);
        send(&mut subflow, at(0), 1000);
        subflow.sending.cwnd.force_state(CongestionState::Recovery);
        *subflow.sending.cwnd.window_mut() =
            anabranch_congestion::Window { cwnd: 16, ssthresh: 16 };
        subflow.sending.recovery.set_high_seq(1001);
        subflow.sending.queue.set_una(una);
        subflow.sending.timers.arm(
            Moment { host: &exact(), now: at(0) },
            Pending::Timeout,
            ms(300),
        );
        subflow.handle_timeout(Moment { host: &exact(), now: at(300) });
        assert_eq!(subflow.sending.cwnd.window().ssthresh, if cut { 8 } else { 16 });
        assert!(
            !subflow.sending.recovery.decides_by_frto(),
            "F-RTO is for the first timeout outside of recovery"
        );
    }
}

#[test]
fn one_probe_at_a_time_is_due() {
    let (mut subflow, _) = subflow();
    subflow.sending.timers.arm(Moment { host: &exact(), now: at(0) }, Pending::LossProbe, ms(100));
    subflow.handle_timeout(Moment { host: &exact(), now: at(100) });
    assert!(
        !subflow.sending.queue.intent().is_urgent()
            && subflow.sending.recovery.probe_high().is_none(),
        "nothing is outstanding"
    );
    send(&mut subflow, at(100), 1000);
    subflow.sending.timers.arm(
        Moment { host: &exact(), now: at(100) },
        Pending::LossProbe,
        ms(100),
    );
    subflow.handle_timeout(Moment { host: &exact(), now: at(200) });
    assert!(
        subflow.sending.queue.intent_mut().take(Urgent::Probe)
            && subflow.sending.recovery.probe_high() == Some(1001)
    );
    assert_eq!(armed(&subflow, 200), Some((Pending::Timeout, 200_000)));
    subflow.sending.timers.arm(
        Moment { host: &exact(), now: at(200) },
        Pending::LossProbe,
        ms(100),
    );
    subflow.handle_timeout(Moment { host: &exact(), now: at(300) });
    assert!(!subflow.sending.queue.intent().is_urgent(), "the last one is not answered yet");
}

#[test]
fn zero_window_probe_interval_backs_off() {
    let (mut subflow, _) = subflow();
    subflow.sending.queue.set_next(1);
    subflow.sending.queue.set_window(0);
    subflow.sending.queue.push(bytes::Bytes::from(vec![0; 2000]), 0);
    subflow.sending.arm_window_probe(at(0));
    assert_eq!(armed(&subflow, 0), Some((Pending::WindowProbe, 300_000)));
    subflow.sending.arm_window_probe(at(100));
    assert_eq!(armed(&subflow, 0), Some((Pending::WindowProbe, 300_000)), "it runs already");
    subflow.handle_timeout(Moment { host: &exact(), now: at(300) });
    assert!(subflow.receive.is_ack_due() && subflow.sending.timers.probes == 1);
    assert_eq!(armed(&subflow, 300), Some((Pending::WindowProbe, 600_000)));
    let shut_out = subflow.sending.queue.shut_out();
    subflow.sending.timers.check_window_probe(Moment { host: &exact(), now: at(400) }, || shut_out);
    assert_eq!(
        (subflow.sending.timers.probes, armed(&subflow, 400)),
        (0, Some((Pending::WindowProbe, 600_000)))
    );
    // Space for less than a segment is used when the timer expires.
    subflow.sending.queue.set_window_end(2);
    subflow.handle_timeout(Moment { host: &exact(), now: at(1000) });
    assert!(
        subflow.sending.queue.intent_mut().take(Urgent::SmallWindow)
            && subflow.sending.timers.pending().is_none()
    );
    subflow.sending.queue.set_window_end(1);
    subflow.sending.arm_window_probe(at(1000));
    subflow.sending.queue.set_window_end(1001);
    let shut_out = subflow.sending.queue.shut_out();
    subflow
        .sending
        .timers
        .check_window_probe(Moment { host: &exact(), now: at(1100) }, || shut_out);
    assert_eq!((armed(&subflow, 1100), subflow.sending.rtt().rto()), (None, ms(300)));
    // If data is outstanding, its own timer is used.
    send(&mut subflow, at(1100), 1000);
    subflow.sending.arm_window_probe(at(1100));
    assert_eq!(armed(&subflow, 1100), None);
}

#[test]
fn patience_ends_after_fifteen_probes_or_924_seconds() {
    let (mut subflow, _) = subflow();
    subflow.sending.timers.arm(
        Moment { host: &exact(), now: at(0) },
        Pending::WindowProbe,
        ms(300),
    );
    subflow.sending.timers.probes = 15;
    assert!(!subflow.handle_timeout(Moment { host: &exact(), now: at(300) }));
    subflow.sending.timers.probes = 14;
    assert!(subflow.handle_timeout(Moment { host: &exact(), now: at(300) }));
    for (elapsed, goes_on) in [(924_599, true), (924_600, false)] {
        let (mut subflow, _) = crate::fixture::subflow();
        send(&mut subflow, at(0), 1000);
        subflow.sending.recovery.set_consecutive_timeouts(5);
        subflow.sending.recovery.set_first_retransmission(timestamp_clock(at(1000)));
        subflow.sending.timers.arm(
            Moment { host: &exact(), now: at(0) },
            Pending::Timeout,
            ms(300),
        );
        assert_eq!(
            subflow.handle_timeout(Moment { host: &exact(), now: at(1000 + elapsed) }),
            goes_on
        );
        subflow.sending.recovery.set_consecutive_timeouts(0);
        subflow.sending.timers.arm(
            Moment { host: &exact(), now: at(0) },
            Pending::Timeout,
            ms(300),
        );
        assert!(
            subflow.handle_timeout(Moment { host: &exact(), now: at(2_000_000) }),
            "the first of a row"
        );
    }
}

#[test]
fn timeouts_in_a_row_are_one_loss() {
    let (mut subflow, _) = subflow();
    let between = |subflow: &Tcp| subflow.sending.cwnd.bytes_since_losses(u64::MAX).1;
    subflow.sending.acknowledge_bytes(5000);
    subflow.sending.enter(CongestionState::Disorder);
    assert_eq!(between(&subflow), 0);
    subflow.sending.enter(CongestionState::Cwr);
    assert_eq!(between(&subflow), 5000);
    subflow.sending.acknowledge_bytes(2000);
    subflow.sending.recovery.set_consecutive_timeouts(1);
    subflow.sending.enter(CongestionState::Loss);
    assert_eq!(between(&subflow), 5000);
}

#[test]
fn same_instant_sends_keep_the_probe_timer_until_an_ack_arrives() {
    let (mut subflow, _) = subflow();
    let behind = |subflow: &mut Tcp, together, probe| {
        send(subflow, at(0), 1000);
        subflow.sending.set_timer_behind_data(at(0), together, probe);
        armed(subflow, 0)
    };
    assert_eq!(behind(&mut subflow, false, false), Some((Pending::LossProbe, 300_000)), "alone");
    assert_eq!(behind(&mut subflow, true, false), Some((Pending::LossProbe, 202_000)));
    // The sample changes srtt to 112.5 ms without an acknowledgement.
    subflow.sending.timers.rtt.sample(&exact(), ms(200), 1, 2);
    assert_eq!(behind(&mut subflow, true, false), Some((Pending::LossProbe, 202_000)));
    subflow.sending.timers.reset_probe();
    assert_eq!(behind(&mut subflow, true, false), Some((Pending::LossProbe, 227_000)));
    subflow.sending.timers.rtt.sample(&exact(), ms(200), 1, 2);
    assert_ne!(behind(&mut subflow, false, false), Some((Pending::LossProbe, 227_000)), "later");
    // After a probe, the retransmission timeout runs, again from the head.
    let rto = subflow.sending.rtt().rto().as_micros();
    assert_eq!(behind(&mut subflow, true, true), Some((Pending::Timeout, rto)));
}
