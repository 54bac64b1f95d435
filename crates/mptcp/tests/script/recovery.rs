//! Proportional rate reduction (RFC 6937, RFC 9937; Linux's `tcp_cwnd_reduction`), acknowledgement by
//! acknowledgement.
//!
//! While more than ssthresh is in flight an acknowledgement lets
//! `ceil(prr_delivered * ssthresh / RecoverFS) - prr_out` segments go; after that
//! `max(prr_delivered - prr_out, DeliveredData)`, one more where SND.UNA advances and nothing new is
//! lost (slow start), and never beyond ssthresh. Linux takes the window before for `RecoverFS`.

use anabranch_congestion::CongestionState;
use anabranch_mptcp::Config;
use anabranch_plugin::PluginChoice;

use crate::dialect::{Script, thousands};

/// The examples of RFC 6937: twenty segments in flight and a window of twenty. They are called 0 to 19
/// there; here segment n is the thousand bytes from 10,001 + 1000 n. They left at 150 ms, the RTT is
/// 50 ms, and there is more to send.
fn twenty_sent(congestion: &str) -> Script {
    let config = Config { congestion: PluginChoice::named(congestion), ..thousands() };
    let mut s = Script::plain_with(config, 50);
    s.write(100, 60_000);
    s.peer(150, ". ack=10001");
    assert_eq!((s.cwnd(), s.sample(0).in_flight_segments), (20, 20));
    s.rest();
    s.silence(199);
    s
}

/// The bytes of segments `from` to `to - 1`, as in a SACK block.
fn segments(from: u64, to: u64) -> String {
    format!("{}:{}", 10_001 + 1000 * from, 10_001 + 1000 * to)
}

/// The segments sent since the last call: `R` and the number of a retransmission, `N` for new ones.
fn left(s: &mut Script, next: &mut u64) -> String {
    let mut words = Vec::new();
    for (_, _, line) in s.rest() {
        let range = line.split(' ').nth(1).expect("a range");
        let from: u64 = range.split(':').next().expect("a start").parse().expect("a number");
        let number = (from - 10_001) / 1000;
        if number == *next {
            *next += 1;
            words.push("N".to_owned());
        } else {
            words.push(format!("R{number}"));
        }
    }
    words.join(" ")
}

/// Plays acknowledgements, one each millisecond from `ms` on, and compares what each lets go.
#[track_caller]
fn play(s: &mut Script, mut ms: u64, next: &mut u64, rows: &[(&str, &str)]) {
    for (acknowledgement, expected) in rows {
        s.peer(ms, acknowledgement);
        assert_eq!(left(s, next), *expected, "at {ms} ms after `{acknowledgement}`");
        ms += 1;
    }
}

/// A SACK of segments `from` to `to - 1` over `ack=10001`.
fn sack(from: u64, to: u64) -> String {
    format!(". ack=10001 sack={}", segments(from, to))
}

#[test]
fn one_loss_in_twenty_halves_the_rate_evenly() {
    // The first example of RFC 6937: segment 0 is lost.
    //   ack#   X  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19
    //   sent:     N  N  R     N     N     N     N     N     N     N    (N)
    // From the third on prr_delivered = ack# - 2 and half of it, rounded up, may be out: 1 1 2 2 3 ...
    let mut s = twenty_sent("reno");
    let mut next = 20;
    let expected =
        ["N", "N", "R0", "", "N", "", "N", "", "N", "", "N", "", "N", "", "N", "", "N", ""];
    for (index, expected) in expected.iter().enumerate() {
        let number = index as u64 + 1;
        play(&mut s, 200 + number, &mut next, &[(&sack(1, 1 + number), expected)]);
    }
    // At the 19th, 19 + 9 new ones - 18 - 1 = 10 are in flight without it: ssthresh, so that it lets
    // nothing go (the figure's reduction bound takes over here).
    play(&mut s, 219, &mut next, &[(&sack(1, 20), "")]);
    let sample = s.sample(0);
    assert_eq!((sample.in_flight_segments, sample.ssthresh_segments), (10, 10));
    // Then one out for one delivered: the two new ones of 201 and 202.
    play(&mut s, 251, &mut next, &[(&sack(1, 21), "N"), (&sack(1, 22), "N")]);
    // The retransmission of 203: SND.UNA passes all that was sent before recovery. cwnd = ssthresh.
    play(&mut s, 253, &mut next, &[(". ack=32001", "N")]);
    let sample = s.sample(0);
    assert_eq!((sample.state, sample.cwnd_segments), (CongestionState::Open, 10));
    assert_eq!(sample.totals.retransmissions, 1);
}

#[test]
fn fifteen_losses_in_twenty_are_repaired_as_fast_as_segments_leave_and_then_twice_as_fast() {
    // The second example of RFC 6937: segments 0 to 14 are lost; ssthresh 10, and 4 in flight when
    // recovery begins. By the conservative bound, as in RFC 9937 and Linux 6.12, a SACK lets one
    // go; an acknowledgement that advances SND.UNA two.
    //   ack#  15 16 17 18 19
    //   sent:  N  N  R  R  R
    let mut s = twenty_sent("reno");
    let mut next = 20;
    let first = [(15, 16, "N"), (15, 17, "N"), (15, 18, "R0"), (15, 19, "R1"), (15, 20, "R2")];
    for (index, (from, to, expected)) in first.into_iter().enumerate() {
        play(&mut s, 200 + index as u64, &mut next, &[(&sack(from, to), expected)]);
    }
    // The two new ones; then each retransmission's acknowledgement, prr_out following prr_delivered.
    play(&mut s, 250, &mut next, &[(&sack(15, 21), "R3"), (&sack(15, 22), "R4")]);
    let rows = [
        (format!(". ack=11001 sack={}", segments(15, 22)), "R5 R6"),
        (format!(". ack=12001 sack={}", segments(15, 22)), "R7 R8"),
        (format!(". ack=13001 sack={}", segments(15, 22)), "R9 R10"),
    ];
    for (index, (line, expected)) in rows.iter().enumerate() {
        play(&mut s, 252 + index as u64, &mut next, &[(line, expected)]);
    }
    // 5 were in flight at 251; one has come and two gone, three times.
    assert_eq!(s.sample(0).in_flight_segments, 8);
    let rows = [
        (format!(". ack=14001 sack={}", segments(15, 22)), "R11 R12"),
        (format!(". ack=15001 sack={}", segments(15, 22)), "R13 R14"),
        // ssthresh is reached: one for one, and nothing is left to repair.
        (format!(". ack=16001 sack={}", segments(15, 22)), "N"),
        (format!(". ack=17001 sack={}", segments(15, 22)), "N"),
    ];
    for (index, (line, expected)) in rows.iter().enumerate() {
        play(&mut s, 300 + index as u64, &mut next, &[(line, expected)]);
    }
    assert_eq!(s.sample(0).in_flight_segments, 10);
    play(&mut s, 354, &mut next, &[(". ack=32001", "N N N N N N N N")]);
    let sample = s.sample(0);
    assert_eq!((sample.state, sample.cwnd_segments), (CongestionState::Open, 10));
    assert_eq!(sample.totals.retransmissions, 15);
}

#[test]
fn one_acknowledgement_of_many_lets_its_share_go_at_once() {
    // Acknowledgements were lost: seven segments are reported by one, half of them may be out.
    let mut s = twenty_sent("reno");
    let mut next = 20;
    // ceil(7 / 2) = 4: the retransmission and three new ones.
    play(&mut s, 200, &mut next, &[(&sack(1, 8), "R0 N N N")]);
    // ceil(8 / 2) - 4 = 0; ceil(12 / 2) - 4 = 2.
    play(&mut s, 201, &mut next, &[(&sack(1, 9), ""), (&sack(1, 13), "N N")]);
}

#[test]
fn cubic_lets_seven_tenths_go() {
    // beta = 717/1024: ssthresh = 14 of 20. ceil(0.7 d) for d = 1, 2, ...: 1 2 3 3 4 5 5 6 7 7.
    let mut s = twenty_sent("cubic");
    let mut next = 20;
    let expected = ["N", "N", "R0", "N", "N", "", "N", "N", "", "N", "N", ""];
    for (index, expected) in expected.iter().enumerate() {
        let number = index as u64 + 1;
        play(&mut s, 200 + number, &mut next, &[(&sack(1, 1 + number), expected)]);
    }
    assert_eq!(s.sample(0).ssthresh_segments, 14);
}

#[test]
fn a_second_loss_in_the_same_window_does_not_cut_again() {
    // RFC 6582 section 3.2: one reduction until what was out at its beginning is acknowledged.
    let mut s = twenty_sent("reno");
    let mut next = 20;
    play(&mut s, 200, &mut next, &[(&sack(1, 4), "R0 N")]);
    // Segment 4 is missing as well: lost at once, the reordering window is 0 in recovery.
    let line = format!(". ack=10001 sack={},{}", segments(5, 8), segments(1, 4));
    play(&mut s, 201, &mut next, &[(&line, "R4")]);
    assert_eq!(s.sample(0).ssthresh_segments, 10);
    // prr_delivered 6, half of it is out: the next goes after the seventh.
    let line = format!(". ack=10001 sack={},{}", segments(5, 9), segments(1, 4));
    play(&mut s, 202, &mut next, &[(&line, "N")]);
}

#[test]
fn an_application_with_nothing_to_send_keeps_its_share_for_a_timely_retransmission() {
    // RFC 6937: what was not sent while pipe > ssthresh is not lost, prr_out lags behind.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 10_000);
    s.peer(150, ". ack=10001");
    s.write(151, 20_000);
    s.rest();
    let mut next = 20;
    // ceil(5 / 2) = 3 may be out and only the retransmission is there to go.
    play(&mut s, 201, &mut next, &[(&sack(1, 6), "R0")]);
    s.write(202, 10_000);
    assert_eq!(left(&mut s, &mut next), "N N", "the other two of the three");
    // ceil(7 / 2) - 3.
    play(&mut s, 203, &mut next, &[(&sack(1, 7), ""), (&sack(1, 8), "N")]);
}
