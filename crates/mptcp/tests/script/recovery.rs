//! Proportional rate reduction, for each acknowledgement (RFC 6937, RFC 9937; Linux's `tcp_cwnd_reduction`).
//!
//! While more than ssthresh is in flight, an acknowledgement permits `ceil(prr_delivered * ssthresh /
//! RecoverFS) - prr_out` segments. After that it permits `max(prr_delivered - prr_out, DeliveredData)`, plus
//! one if SND.UNA advances and no new loss is found (slow start), up to ssthresh. Linux uses the window
//! before the recovery as `RecoverFS`.

use anabranch_congestion::CongestionState;
use anabranch_mptcp::Config;
use anabranch_plugin::PluginChoice;

use crate::dialect::{Script, thousands};

/// The examples of RFC 6937: twenty segments in flight and a window of twenty. The RFC numbers them 0 to 19;
/// here segment n is the 1000 bytes from 10,001 + 1000 n. They were sent at 150 ms, the RTT is 50 ms, and
/// more data is waiting.
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

/// Returns the bytes of segments `from` to `to - 1` in the form of a SACK block.
fn segments(from: u64, to: u64) -> String {
    format!("{}:{}", 10_001 + 1000 * from, 10_001 + 1000 * to)
}

/// Returns the segments sent since the last call: `R` and a number for a retransmission, `N` for a new
/// segment.
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

/// Sends one acknowledgement per millisecond from `ms` on, and compares the segments that each one permits.
#[track_caller]
fn play(s: &mut Script, mut ms: u64, next: &mut u64, rows: &[(&str, &str)]) {
    for (acknowledgement, expected) in rows {
        s.peer(ms, acknowledgement);
        assert_eq!(left(s, next), *expected, "at {ms} ms after `{acknowledgement}`");
        ms += 1;
    }
}

/// Returns an acknowledgement of 10001 with a SACK of segments `from` to `to - 1`.
fn sack(from: u64, to: u64) -> String {
    format!(". ack=10001 sack={}", segments(from, to))
}

#[test]
fn one_loss_in_twenty_halves_the_rate_evenly() {
    // The first example of RFC 6937: segment 0 is lost.
    //   ack#   X  1  2  3  4  5  6  7  8  9 10 11 12 13 14 15 16 17 18 19
    //   sent:     N  N  R     N     N     N     N     N     N     N    (N)
    // From the third on, prr_delivered = ack# - 2, and half of it, rounded up, may have been sent: 1 1 2 2 3
    // ...
    let mut s = twenty_sent("reno");
    let mut next = 20;
    let expected =
        ["N", "N", "R0", "", "N", "", "N", "", "N", "", "N", "", "N", "", "N", "", "N", ""];
    for (index, expected) in expected.iter().enumerate() {
        let number = index as u64 + 1;
        play(&mut s, 200 + number, &mut next, &[(&sack(1, 1 + number), expected)]);
    }
    // After the 19th acknowledgement, 19 + 9 new ones - 18 - 1 = 10 segments are in flight, which is
    // ssthresh. The acknowledgement therefore permits nothing (the reduction bound of the figure applies
    // here).
    play(&mut s, 219, &mut next, &[(&sack(1, 20), "")]);
    let sample = s.sample(0);
    assert_eq!((sample.in_flight_segments, sample.ssthresh_segments), (10, 10));
    // Then each delivered segment permits one: here the two new ones of 201 and 202 ms.
    play(&mut s, 251, &mut next, &[(&sack(1, 21), "N"), (&sack(1, 22), "N")]);
    // The retransmission of 203 ms is acknowledged. SND.UNA passes all data from before recovery, and cwnd =
    // ssthresh.
    play(&mut s, 253, &mut next, &[(". ack=32001", "N")]);
    let sample = s.sample(0);
    assert_eq!((sample.state, sample.cwnd_segments), (CongestionState::Open, 10));
    assert_eq!(sample.totals.retransmissions, 1);
}

#[test]
fn fifteen_losses_in_twenty_are_repaired_as_fast_as_segments_leave_and_then_twice_as_fast() {
    // The second example of RFC 6937: segments 0 to 14 are lost. ssthresh is 10, and 4 segments are in flight
    // when recovery begins. With the conservative bound (RFC 9937, Linux 6.12), a SACK permits one segment,
    // and an acknowledgement that advances SND.UNA permits two.
    //   ack#  15 16 17 18 19
    //   sent:  N  N  R  R  R
    let mut s = twenty_sent("reno");
    let mut next = 20;
    let first = [(15, 16, "N"), (15, 17, "N"), (15, 18, "R0"), (15, 19, "R1"), (15, 20, "R2")];
    for (index, (from, to, expected)) in first.into_iter().enumerate() {
        play(&mut s, 200 + index as u64, &mut next, &[(&sack(from, to), expected)]);
    }
    // The two new segments are acknowledged first, then each retransmission. prr_out follows prr_delivered.
    play(&mut s, 250, &mut next, &[(&sack(15, 21), "R3"), (&sack(15, 22), "R4")]);
    let rows = [
        (format!(". ack=11001 sack={}", segments(15, 22)), "R5 R6"),
        (format!(". ack=12001 sack={}", segments(15, 22)), "R7 R8"),
        (format!(". ack=13001 sack={}", segments(15, 22)), "R9 R10"),
    ];
    for (index, (line, expected)) in rows.iter().enumerate() {
        play(&mut s, 252 + index as u64, &mut next, &[(line, expected)]);
    }
    // 5 segments were in flight at 251 ms. Three times, one was delivered and two were sent.
    assert_eq!(s.sample(0).in_flight_segments, 8);
    let rows = [
        (format!(". ack=14001 sack={}", segments(15, 22)), "R11 R12"),
        (format!(". ack=15001 sack={}", segments(15, 22)), "R13 R14"),
        // ssthresh is reached. Each delivered segment permits one new segment. All lost segments
        // have been retransmitted.
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
fn ack_of_many_segments_permits_half_as_many_at_once() {
    // Acknowledgements were lost. One acknowledgement reports seven segments, and half of them may be sent.
    let mut s = twenty_sent("reno");
    let mut next = 20;
    // ceil(7 / 2) = 4: the retransmission and three new segments.
    play(&mut s, 200, &mut next, &[(&sack(1, 8), "R0 N N N")]);
    // ceil(8 / 2) - 4 = 0; ceil(12 / 2) - 4 = 2.
    play(&mut s, 201, &mut next, &[(&sack(1, 9), ""), (&sack(1, 13), "N N")]);
}

#[test]
fn cubic_recovery_sends_seven_tenths_of_delivered_segments() {
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
    // RFC 6582 section 3.2: only one reduction until all data from before it is acknowledged.
    let mut s = twenty_sent("reno");
    let mut next = 20;
    play(&mut s, 200, &mut next, &[(&sack(1, 4), "R0 N")]);
    // Segment 4 is missing too. It is lost at once, because the reordering window is 0 in recovery.
    let line = format!(". ack=10001 sack={},{}", segments(5, 8), segments(1, 4));
    play(&mut s, 201, &mut next, &[(&line, "R4")]);
    assert_eq!(s.sample(0).ssthresh_segments, 10);
    // prr_delivered is 6, and half of it has been sent. The next segment is permitted after the seventh.
    let line = format!(". ack=10001 sack={},{}", segments(5, 9), segments(1, 4));
    play(&mut s, 202, &mut next, &[(&line, "N")]);
}

#[test]
fn an_application_with_nothing_to_send_keeps_its_share_for_a_timely_retransmission() {
    // RFC 6937: segments that were not sent while pipe > ssthresh may be sent later, because prr_out is
    // lower.
    let mut s = Script::plain_with(thousands(), 50);
    s.write(100, 10_000);
    s.peer(150, ". ack=10001");
    s.write(151, 20_000);
    s.rest();
    let mut next = 20;
    // ceil(5 / 2) = 3 segments are permitted, but only the retransmission can be sent.
    play(&mut s, 201, &mut next, &[(&sack(1, 6), "R0")]);
    s.write(202, 10_000);
    assert_eq!(left(&mut s, &mut next), "N N", "the other two of the three");
    // ceil(7 / 2) - 3.
    play(&mut s, 203, &mut next, &[(&sack(1, 7), ""), (&sack(1, 8), "N")]);
}
