//! Tests of the state after each acknowledgement.

use crate::config::Moment;
use anabranch_units::SeqNumber;
use anabranch_wire::{SackBlock, Timestamps};

use super::super::flight::TxStamp;
use super::super::rtt::timestamp_clock;
use super::*;
use crate::Tcp;
use crate::fixture::{Heard, Recorder, at, exact, send, subflow};
use anabranch_units::Duration;
use anabranch_wire::Segment;

/// Sends segments of 1000 bytes at these times.
fn sent(moments: &[u64]) -> (Tcp, Recorder) {
    let (mut subflow, told) = subflow();
    for ms in moments {
        send(&mut subflow, at(*ms), 1000);
    }
    (subflow, told)
}

/// Builds an acknowledgement with these SACK blocks.
fn word(ack: u32, blocks: &[(u32, u32)]) -> Segment {
    let mut segment =
        Segment { ack: SeqNumber(ack), flags: Flags::ACK, window: 60_000, ..Segment::default() };
    for (left, right) in blocks {
        segment.sack.push(SackBlock { left: SeqNumber(*left), right: SeqNumber(*right) });
    }
    segment
}

fn hear(subflow: &mut Tcp, ms: u64, segment: &Segment) {
    subflow.handle_ack(&exact(), at(ms), segment, false, &mut []);
}

fn heard(told: &Recorder) -> Vec<Heard> {
    told.0.lock().expect("one thread").heard.clone()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn controller_receives_acked_bytes_and_remaining_flight() {
    let (mut subflow, told) = sent(&[0, 0, 0, 0]);
    hear(&mut subflow, 100, &word(2001, &[]));
    let first = Heard {
        acked: 2,
        bytes: 2000,
        may_grow: true,
        lost: 0,
        prior: 4,
        left: 2,
        rtt: Some(ms(100)),
    };
    assert_eq!(heard(&told), [first]);
    assert_eq!((subflow.sending.totals().bytes_acked, subflow.sending.queue.una()), (2000, 2001));
    // Half a segment: its bytes are acknowledged, but no segment yet (`tcp_tso_acked`). The window does not
    // grow.
    hear(&mut subflow, 110, &word(2501, &[]));
    let half =
        Heard { acked: 0, bytes: 500, may_grow: false, lost: 0, prior: 2, left: 2, rtt: None };
    assert_eq!(heard(&told)[1..], [half]);
    assert_eq!(
        subflow.sending.flight.front().map(|head| (head.start, head.payload.len())),
        Some((2501, 500))
    );
    hear(&mut subflow, 120, &word(4001, &[]));
    let rest = Heard {
        acked: 2,
        bytes: 1500,
        may_grow: true,
        lost: 0,
        prior: 2,
        left: 0,
        rtt: Some(ms(120)),
    };
    assert_eq!(heard(&told)[2..], [rest]);
    assert_eq!(subflow.sending.totals().bytes_acked, 4000);
    assert_eq!(subflow.sending.timers.at(), Instant::FAR_FUTURE, "nothing is outstanding");
}

#[test]
fn the_estimator_takes_the_first_and_the_minimum_the_last_segment_acknowledged() {
    // tcp_ack_update_rtt: seq_rtt is the sample of the first segment, ca_rtt that of the last.
    let (mut subflow, told) = sent(&[0, 40]);
    hear(&mut subflow, 100, &word(2001, &[]));
    assert_eq!(subflow.sending.rtt().srtt(), Some(ms(100)));
    assert_eq!(subflow.sending.rtt().min_rtt(), Some(ms(60)));
    assert_eq!(heard(&told)[0].rtt, Some(ms(60)));
    // SACKed segments give a sample when they are SACKed: 50 ms; srtt = 100 - 50/8.
    let (mut subflow, told) = sent(&[0, 40, 50]);
    hear(&mut subflow, 100, &word(1, &[(1001, 3001)]));
    assert_eq!(subflow.sending.rtt().srtt(), Some(Duration::from_micros(100_000 - 5_000)));
    assert_eq!(
        (subflow.sending.rtt().min_rtt(), heard(&told)[0].rtt),
        (Some(ms(50)), Some(ms(50)))
    );
    assert!(!heard(&told)[0].may_grow && heard(&told)[0].acked == 2);
    // SACKed segments give no second sample when they are acknowledged. The hole is the first segment, and
    // there is no sample of the last.
    hear(&mut subflow, 180, &word(3001, &[]));
    assert_eq!(subflow.sending.rtt().srtt(), Some(Duration::from_micros(95_000 + 85_000 / 8)));
    assert_eq!(subflow.sending.rtt().min_rtt(), Some(ms(50)));
}

/// One segment sent at 0 and again at 300 ms. It is acknowledged at 400 ms with this echo.
fn ambiguous(echo: Option<u32>) -> Tcp {
    let (mut subflow, _) = sent(&[0]);
    subflow.sending.flight.retransmit(0, at(300), super::super::flight::TxStamp::default());
    let mut segment = word(1001, &[]);
    segment.timestamps = echo.map(|echo| Timestamps { value: 1, echo });
    hear(&mut subflow, 400, &segment);
    subflow
}

#[test]
fn retransmitted_data_is_rtt_sampled_only_by_timestamp_echo() {
    let micros = |subflow: Tcp| subflow.sending.rtt().srtt().expect("the first").as_micros();
    assert_eq!(micros(ambiguous(None)), 100_000);
    assert_eq!(micros(ambiguous(Some(0))), 100_000, "no echo");
    assert_eq!(micros(ambiguous(Some(timestamp_clock(at(240))))), 100_000 + 60_000 / 8);
    assert_eq!(
        micros(ambiguous(Some(timestamp_clock(at(400))))),
        100_000 - 99_000 / 8,
        "1 ms at least"
    );
    assert_eq!(micros(ambiguous(Some(timestamp_clock(at(500))))), 100_000, "of the future");
}

#[test]
fn reports_that_cannot_be_are_passed_over() {
    let marked = |blocks: &[(u32, u32)]| {
        let (mut subflow, _) = sent(&[0, 0, 0, 0]);
        hear(&mut subflow, 100, &word(1001, blocks));
        (subflow.sending.flight.sacked_out(), subflow.sending.recovery.probe_high())
    };
    assert_eq!(marked(&[(2001, 3001)]).0, 1);
    assert_eq!(marked(&[(2001, 4001)]).0, 2);
    assert_eq!(marked(&[(2001, 4002)]).0, 0, "never sent");
    assert_eq!(marked(&[(3001, 2001)]).0, 0);
    assert_eq!(marked(&[(2001, 2001)]).0, 0);
    assert_eq!(marked(&[(2501, 3001)]).0, 0, "a part of one");
    assert_eq!(marked(&[(2001, 2999)]).0, 0);
    assert_eq!(marked(&[(2501, 4001)]).0, 1);
    assert_eq!(marked(&[(3001, 4001), (2001, 3001)]).0, 2);
}

#[test]
fn a_first_block_that_is_known_reports_a_duplicate() {
    // RFC 2883 section 4: the block lies below the acknowledgement, or inside the second block.
    let duplicates = |ack: u32, blocks: &[(u32, u32)]| {
        let (mut subflow, _) = sent(&[0, 0, 0, 0]);
        subflow.sending.recovery.begin_undo(1);
        for number in 1..=2 {
            subflow.sending.recovery.on_retransmit(1);
            subflow.sending.flight.retransmit(number, at(50), TxStamp::default());
        }
        subflow.sending.sent.retransmissions = 2;
        hear(&mut subflow, 100, &word(ack, blocks));
        (subflow.sending.recovery.undo_retrans(), subflow.sending.flight.sacked_out())
    };
    // The first segment was sent once, the next two were retransmitted. tcp_sacktag_one counts by
    // TCPCB_RETRANS.
    assert_eq!(duplicates(1001, &[(1, 1001)]), (2, 0));
    assert_eq!(duplicates(2001, &[(1001, 2001)]), (1, 0));
    assert_eq!(duplicates(2001, &[(1001, 2001), (2001, 3001)]), (1, 1));
    assert_eq!(duplicates(1, &[(2001, 3001), (1001, 3001)]), (1, 2));
    assert_eq!(duplicates(1, &[(1001, 3001), (1001, 3001)]), (0, 2), "both were sent again");
    assert_eq!(duplicates(1, &[(1, 1001), (1, 3001)]).0, 2, "that one was not");
    assert_eq!(duplicates(1, &[(2001, 3001), (2001, 2999)]), (2, 1), "not inside");
    assert_eq!(duplicates(1, &[(2001, 3001), (2002, 4001)]).0, 2);
    assert_eq!(duplicates(1001, &[(2001, 3001), (1, 1001)]).0, 2, "only the first block tells");
}

#[test]
fn a_duplicate_was_delivered_unless_more_are_reported_than_were_sent_again() {
    // tcp_dsack_seen: a range of several segments counts as several. The report is not trusted if `dsack_dups
    // > total_retrans`, or if the range exceeds the peer's largest window.
    let counts = |again: u64, left: u32| {
        let (mut subflow, told) = sent(&[0, 0, 0, 0]);
        subflow.sending.recovery.begin_undo(1);
        for number in (1..=2).rev().take(again as usize) {
            subflow.sending.recovery.on_retransmit(1);
            subflow.sending.flight.retransmit(number, at(50), TxStamp::default());
        }
        subflow.sending.sent.retransmissions = again;
        hear(&mut subflow, 100, &word(3001, &[(left, 3001)]));
        let heard = told.0.lock().expect("one thread").heard.last().expect("heard").acked;
        (heard, subflow.sending.recovery.undo_retrans())
    };
    // Three segments are acknowledged, and the duplicates count as delivered too.
    assert_eq!(counts(2, 2001).0, 3 + 1);
    assert_eq!(counts(2, 1001), (3 + 2, 0));
    assert_eq!(counts(2, 2001).1, 1);
    assert_eq!(counts(1, 1001), (3, 1), "one was sent again, and two are reported");
    // Duplicates of data that was acknowledged before are counted by their length (`tcp_check_dsack`).
    let (mut subflow, _) = sent(&[0, 0, 0, 0]);
    subflow.sending.recovery.begin_undo(1);
    (0..2).for_each(|_| subflow.sending.recovery.on_retransmit(1));
    subflow.sending.sent.retransmissions = 2;
    hear(&mut subflow, 100, &word(3001, &[]));
    hear(&mut subflow, 110, &word(3001, &[(1001, 3001)]));
    assert_eq!(
        (subflow.sending.recovery.undo_retrans(), subflow.sending.recovery.duplicates()),
        (0, 2)
    );
}

#[test]
fn late_original_below_a_sacked_segment_is_reordering() {
    let seen = |blocks: [(u32, u32); 2], again: bool, then: (u32, &[(u32, u32)])| {
        let (mut subflow, _) = sent(&[0, 0, 0, 0, 0, 0]);
        if again {
            for number in 0..3 {
                subflow.sending.flight.retransmit(
                    number,
                    at(10),
                    super::super::flight::TxStamp::default(),
                );
            }
        }
        hear(&mut subflow, 150, &word(1, &blocks));
        hear(&mut subflow, 151, &word(then.0, then.1));
        subflow.sending.losses.saw_reordering()
    };
    let far = [(4001, 5001), (3001, 4001)];
    assert!(seen([(4001, 5001), (4001, 5001)], false, (1001, &[])), "the hole is filled");
    assert!(!seen([(4001, 5001), (4001, 5001)], true, (1001, &[])), "by a retransmission");
    assert!(seen(far, false, (1, &[])), "reported behind the highest");
    assert!(!seen([(1001, 2001), (2001, 3001)], false, (1, &[])), "in order");
}

#[test]
fn ack_of_old_or_unsent_data_has_no_effect() {
    let (mut subflow, told) = sent(&[0, 0]);
    hear(&mut subflow, 100, &word(1001, &[]));
    hear(&mut subflow, 110, &word(2002, &[]));
    assert_eq!(subflow.sending.last_ack_at, at(100), "never sent");
    let wide = Segment { window: 65_535, ..word(1, &[(1001, 2001)]) };
    hear(&mut subflow, 120, &wide);
    assert_eq!((subflow.sending.last_ack_at, subflow.sending.flight.sacked_out()), (at(120), 0));
    assert_eq!((subflow.sending.queue.una(), subflow.sending.queue.window_end()), (1001, 61_001));
    assert_eq!(heard(&told).len(), 1);
}

#[test]
fn advancing_ack_resets_consecutive_timeouts() {
    let (mut subflow, _) = sent(&[0, 0]);
    subflow.sending.recovery.set_consecutive_timeouts(3);
    hear(&mut subflow, 100, &word(1, &[]));
    assert_eq!(subflow.sending.recovery.consecutive_timeouts(), 3);
    hear(&mut subflow, 100, &word(1001, &[]));
    assert_eq!(subflow.sending.recovery.consecutive_timeouts(), 0);
}

#[test]
fn a_duplicate_brings_nothing_at_all() {
    // RFC 5681 section 2: a duplicate acknowledgement has no data, no FIN, the same window, and data is
    // outstanding (`FLAG_NOT_DUP`).
    let counted = |change: &dyn Fn(&mut Segment)| {
        let (mut subflow, _) = sent(&[0, 0, 0]);
        subflow.sending.flight.set_selective(false);
        subflow.sending.queue.set_window(60_000);
        let mut segment = word(1, &[]);
        change(&mut segment);
        hear(&mut subflow, 100, &segment);
        subflow.sending.flight.sacked_out()
    };
    assert_eq!(counted(&|_| {}), 1);
    assert_eq!(counted(&|s| s.payload = bytes::Bytes::from_static(b"x")), 0);
    assert_eq!(counted(&|s| s.flags = s.flags.with(Flags::FIN)), 0);
    assert_eq!(counted(&|s| s.window = 60_001), 0);
    assert_eq!(counted(&|s| s.ack = SeqNumber(1001)), 0);
    let (mut rested, told) = sent(&[]);
    hear(&mut rested, 100, &word(1, &[]));
    assert!(
        heard(&told).is_empty() && rested.sending.last_ack_at == at(100),
        "nothing is outstanding"
    );
}

#[test]
fn only_an_advancing_ack_or_reordering_rearms_the_timer() {
    use super::super::timers::Pending;
    let timer = |subflow: &Tcp| {
        let pending = subflow.sending.timers.pending();
        let left = pending.map(|_| subflow.sending.timers.at().since(at(100)).as_micros());
        (pending, left)
    };
    // 2 srtt + 2 ms. For a single segment, 200 ms more, but at most the timeout of 300 ms.
    let (mut subflow, _) = sent(&[0, 0, 0]);
    hear(&mut subflow, 100, &word(1001, &[]));
    assert_eq!(timer(&subflow), (Some(Pending::LossProbe), Some(202_000)));
    hear(&mut subflow, 100, &word(2001, &[]));
    assert_eq!(timer(&subflow), (Some(Pending::LossProbe), Some(300_000)));
    // A SACK alone does not change the timer, unless the reordering timer is needed.
    let (mut subflow, _) = sent(&[0, 0, 0]);
    subflow.sending.timers.arm(Moment { host: &exact(), now: at(0) }, Pending::Timeout, ms(300));
    hear(&mut subflow, 100, &word(1, &[(1001, 2001)]));
    // RACK waits for a quarter of the minimum RTT and 2 ms, because both segments were sent at the same time.
    assert_eq!(timer(&subflow), (Some(Pending::Reordering), Some(27_000)));
    hear(&mut subflow, 110, &word(2001, &[]));
    assert_eq!(subflow.sending.timers.pending(), Some(Pending::LossProbe));
    hear(&mut subflow, 120, &word(3001, &[]));
    assert_eq!(subflow.sending.timers.pending(), None);
}

#[test]
fn an_acknowledgement_that_lands_on_a_report_shortens_the_timer_and_judges_nothing() {
    use super::super::timers::Pending;
    let (mut subflow, _) = sent(&[0, 0, 0, 0]);
    hear(&mut subflow, 100, &word(1, &[(1001, 2001)]));
    hear(&mut subflow, 100, &word(1001, &[]));
    assert_eq!(subflow.sending.timers.pending(), Some(Pending::Timeout));
    assert_eq!(subflow.sending.timers.at(), at(150), "half an srtt of 100 ms");
    assert!(subflow.handle_timeout(Moment { host: &exact(), now: at(150) }));
    assert_eq!((subflow.sending.flight.sacked_out(), subflow.sending.flight.lost_out()), (0, 3));
    assert!(subflow.sending.recovery.repairs_reneging());
    // Samples are ignored until the reneged data is repaired.
    for number in subflow.sending.flight.numbers() {
        subflow.sending.flight.retransmit(
            number,
            at(150),
            super::super::flight::TxStamp::default(),
        );
        subflow.sending.recovery.on_retransmit(timestamp_clock(at(150)));
    }
    let rate = subflow.sending.flight.rate().delivery_rate();
    hear(&mut subflow, 250, &word(2001, &[]));
    assert_eq!(subflow.sending.flight.rate().delivery_rate(), rate);
    hear(&mut subflow, 260, &word(4001, &[]));
    assert!(!subflow.sending.recovery.repairs_reneging() && subflow.sending.flight.is_empty());
}

#[test]
fn ack_of_an_earlier_transmission_does_not_advance_rack() {
    // tcp_clean_rtx_queue: tcp_rack_advance is not called if tcp_skb_spurious_retrans. The echo is older than
    // the last transmission (at 300 ms).
    let advanced = |echo: Option<u32>| ambiguous(echo).sending.losses.has_advanced();
    assert!(!advanced(Some(timestamp_clock(at(299)))));
    assert!(advanced(Some(timestamp_clock(at(300)))));
    assert!(advanced(None) && advanced(Some(0)), "no echo tells nothing");
}

#[test]
fn sack_of_data_older_than_the_head_retransmit_restarts_timeout() {
    // tcp_clean_rtx_queue: `sack_rtt_us > tcp_stamp_us_delta(tcp_mstamp, tcp_skb_timestamp_us(skb))`.
    let mut moments = vec![0; 8];
    moments.push(150);
    let (mut subflow, _) = sent(&moments);
    hear(&mut subflow, 100, &word(1, &[(1001, 4001)]));
    assert!(subflow.sending.flight.front().is_some_and(|head| head.lost));
    let stamp = subflow.sending.stamp(at(110));
    subflow.sending.flight.retransmit(0, at(110), stamp);
    subflow.sending.restart_timeout(Moment { host: &exact(), now: at(110) });
    let before = subflow.sending.timers.at();
    hear(&mut subflow, 200, &word(1, &[(1001, 5001)]));
    let after = subflow.sending.timers.at();
    assert!(after >= before + ms(90), "{after:?} is from 200 ms on, not from 110");
    // Segments sent after the head's retransmission do not restart its timeout.
    hear(&mut subflow, 250, &word(1, &[(8001, 9001), (1001, 5001)]));
    assert_eq!(subflow.sending.timers.at(), after);
}
