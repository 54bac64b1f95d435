//! A subflow compared with Linux: loss detection, recovery, timers, acknowledgements, windows.

mod pair;

use anabranch_mptcp::Config;
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};
use pair::{Pair, Way, at, config, film};

fn tcp() -> Config {
    Config { multipath: false, ..config() }
}

/// A pair over plain TCP that has just connected.
fn connected(rtt_ms: u64) -> Pair {
    let mut pair = Pair::new(&[rtt_ms], tcp(), tcp());
    pair.run_until(at(2 * rtt_ms));
    pair
}

fn data(pair: &Pair) -> Vec<(Instant, Segment)> {
    pair.sent(Way::ToClient, 0)
        .filter(|(_, _, _, s)| !s.payload.is_empty())
        .map(|(t, _, _, s)| (*t, s.clone()))
        .collect()
}

/// Returns the send times of all transmissions of the `nth` data segment.
fn transmissions(pair: &Pair, nth: usize) -> Vec<Instant> {
    let all = data(pair);
    let seq = all[nth].1.seq;
    all.iter().filter(|(_, s)| s.seq == seq).map(|(t, _)| *t).collect()
}

/// Drops the first `times` transmissions of the `nth` data segment, counted from 0.
fn lose(pair: &mut Pair, nth: usize, times: u32) {
    let (mut seen, mut target, mut lost) = (0, None, 0);
    pair.filter = Box::new(move |_, way, _, segment| {
        if way != Way::ToClient || segment.payload.is_empty() {
            return true;
        }
        if target.is_none() {
            if seen == nth {
                target = Some(segment.seq);
            }
            seen += 1;
        }
        let hit = target == Some(segment.seq) && lost < times;
        lost += u32::from(hit);
        !hit
    });
}

fn millis(span: Duration) -> u64 {
    span.as_millis()
}

#[test]
fn a_hole_below_three_sacked_segments_is_filled_within_a_round_trip() {
    let mut pair = connected(100);
    lose(&mut pair, 3, 1);
    pair.serve(&film(40_000));
    pair.run_until(at(3000));
    let times = transmissions(&pair, 3);
    assert_eq!(times.len(), 2, "lost once, retransmitted once");
    let wait = millis(times[1].since(times[0]));
    assert!((100..120).contains(&wait), "one RTT, no timeout: {wait} ms");
    assert!(pair.got(&film(40_000)));
    let totals = pair.server().view().summaries().next().expect("a subflow").totals;
    assert_eq!((totals.retransmissions, totals.timeouts), (1, 0));
}

#[test]
fn a_lost_tail_is_probed_before_the_timeout() {
    let mut pair = connected(100);
    lose(&mut pair, 7, 1);
    pair.serve(&film(8 * 1448));
    pair.run_until(at(3000));
    let times = transmissions(&pair, 7);
    let wait = millis(times[1].since(times[0]));
    // One segment is outstanding. The PTO is 2 SRTT + 200 ms, but at most an RTO (SRTT + 200 ms) after the
    // last acknowledgement. That one arrived one RTT after the segment was sent.
    assert!((400..=412).contains(&wait), "{wait} ms");
    let totals = pair.server().view().summaries().next().expect("a subflow").totals;
    assert_eq!(totals.timeouts, 0, "a probe, no timeout");
    assert!(pair.got(&film(8 * 1448)));
}

#[test]
fn timeouts_double_until_something_comes_through() {
    let mut pair = connected(100);
    pair.filter =
        Box::new(|now, way, _, s| way == Way::ToServer || s.payload.is_empty() || now > at(5000));
    pair.serve(&film(1000));
    pair.run_until(at(12_000));
    let times = transmissions(&pair, 0);
    let gaps: Vec<u64> = times.windows(2).map(|w| millis(w[1].since(w[0]))).collect();
    assert!(gaps.len() >= 4, "{gaps:?}");
    // The first one is the loss probe. After that, each timeout is twice the one before.
    for pair in gaps[1..].windows(2) {
        let ratio = pair[1] as f64 / pair[0] as f64;
        assert!((1.9..2.1).contains(&ratio), "{gaps:?}");
    }
    assert!(gaps[1] >= 300, "never below srtt + 200 ms: {gaps:?}");
    assert!(pair.got(&film(1000)));
}

#[test]
fn a_timeout_without_a_loss_is_recognised_and_the_window_restored() {
    let mut pair = connected(100);
    pair.serve(&film(300_000));
    // Acknowledgements are lost for 600 ms. The timer expires although every segment arrived.
    pair.filter =
        Box::new(|now, way, _, _| !(way == Way::ToServer && (at(420)..at(1020)).contains(&now)));
    pair.run_until(at(8000));
    let totals = pair.server().view().summaries().next().expect("a subflow").totals;
    assert!(totals.timeouts >= 1, "the impairment took effect");
    assert!(pair.got(&film(300_000)));
    assert!(totals.undos >= 1, "timestamps or F-RTO show that the timeout was spurious");
}

#[test]
fn a_lone_segment_that_is_pushed_is_acknowledged_when_it_is_read() {
    let mut pair = connected(100);
    // Enough data is sent first to use up the quick acknowledgements and to open the window completely. While
    // the window grows, each segment is acknowledged at once.
    pair.serve(&film(4_000_000));
    while !pair.got(&film(4_000_000)) {
        let next = pair.now + Duration::from_millis(10);
        pair.run_until(next);
    }
    let soon = pair.now + Duration::from_millis(150);
    pair.run_until(soon);
    let before = pair.sent(Way::ToServer, 0).count();
    pair.serve(&film(1448));
    let arrival = pair.now + Duration::from_millis(50);
    pair.run_until(arrival + Duration::from_millis(200));
    let lone: Vec<_> = pair.sent(Way::ToServer, 0).skip(before).collect();
    assert_eq!(lone.len(), 1);
    // tcp_measure_rcv_mss: the segment has PSH and is full. The reader has emptied the buffer
    // (tcp_cleanup_rbuf).
    assert_eq!(millis(lone[0].0.since(arrival)), 0);
}

#[test]
fn a_reader_that_stops_closes_the_window_and_one_that_goes_on_opens_it() {
    for server in [tcp(), config()] {
        let multipath = server.multipath;
        let client = Config { multipath, receive_buffer_max: 131_072, ..config() };
        let mut pair = Pair::new(&[50], client, server);
        pair.run_until(at(100));
        pair.reading = false;
        pair.serve(&film(600_000));
        pair.run_until(at(10_000));
        let scale = pair.log[0].3.window_scale.expect("a SYN");
        let left = pair.sent(Way::ToServer, 0).last().expect("acknowledgements").3.window;
        assert!(u64::from(left) << scale < 1448, "no segment fits (MPTCP: {multipath})");
        let held = pair.client().readable();
        // A segment of 1448 bytes uses 2304 bytes of memory.
        assert!((60_000..=82_400).contains(&held), "what 128 KiB hold and no more: {held}");
        pair.reading = true;
        pair.run_until(at(40_000));
        assert!(pair.got(&film(600_000)), "MPTCP: {multipath}, {}", pair.received.len());
    }
}

#[test]
fn the_right_edge_of_the_window_never_moves_back() {
    let mut pair = connected(50);
    pair.serve(&film(500_000));
    let mut reads = 0;
    pair.filter = Box::new(move |_, _, _, _| {
        reads += 1;
        reads % 53 != 0
    });
    pair.run_until(at(4000));
    let scale = pair.log[0].3.window_scale.expect("a SYN");
    let edges: Vec<u64> = pair
        .sent(Way::ToServer, 0)
        .filter(|(_, _, _, s)| !s.flags.contains(Flags::SYN))
        .map(|(_, _, _, s)| u64::from(s.ack.0) + (u64::from(s.window) << scale))
        .collect();
    let unit = 1u64 << scale;
    assert!(edges.windows(2).all(|w| w[1] + unit > w[0]), "but for the rounding of the scale");
}

#[test]
fn idleness_halves_the_window_each_timeout_down_to_ten() {
    let mut pair = connected(50);
    pair.serve(&film(400_000));
    pair.run_until(at(2000));
    let grown = pair.server().view().samples().next().expect("a subflow").cwnd_segments;
    assert!(grown > 60, "{grown}");
    pair.run_until(at(12_000));
    pair.serve(&film(1448));
    let restarted = pair.server().view().samples().next().expect("a subflow").cwnd_segments;
    assert_eq!(restarted, 10, "ten seconds are many timeouts");
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut pair = connected(50);
    for step in 0..100 {
        pair.serve(&film(2 * 1448));
        pair.run_until(at(100 + 60 * (step + 1)));
    }
    let cwnd = pair.server().view().samples().next().expect("a subflow").cwnd_segments;
    assert_eq!(cwnd, 10, "two segments a round trip never fill ten");
}

#[test]
fn sack_blocks_fill_the_remaining_option_space() {
    for (config, most) in [(tcp(), 3), (config(), 1)] {
        let mut pair = Pair::new(&[50], config.clone(), config);
        pair.run_until(at(100));
        let mut seen = 0;
        pair.filter = Box::new(move |_, way, _, s| {
            seen += u32::from(way == Way::ToClient && !s.payload.is_empty());
            !(way == Way::ToClient && seen % 3 == 0 && seen < 40 && !s.payload.is_empty())
        });
        pair.serve(&film(300_000));
        pair.run_until(at(20_000));
        let blocks = pair.sent(Way::ToServer, 0).map(|(_, _, _, s)| s.sack.as_slice().len()).max();
        assert_eq!(blocks, Some(most), "multipath leaves less");
        assert!(pair.got(&film(300_000)));
    }
}

#[test]
fn a_recovery_ends_at_the_controllers_threshold() {
    for (name, fraction) in [("reno", 0.5), ("cubic", 0.7)] {
        let server = Config { congestion: PluginChoice::named(name), ..tcp() };
        let mut pair = Pair::new(&[50], tcp(), server);
        pair.run_until(at(100));
        lose(&mut pair, 150, 1);
        pair.serve(&film(600_000));
        let mut before = 0;
        let mut now = 100;
        while pair.server().view().summaries().next().expect("one").totals.retransmissions == 0 {
            before = pair.server().view().samples().next().expect("one").cwnd_segments;
            now += 1;
            pair.run_until(at(now));
            assert!(now < 5000, "the loss takes effect");
        }
        pair.run_until(at(now + 70));
        let sample = pair.server().view().samples().next().expect("one");
        let expected = f64::from(before) * fraction;
        let got = f64::from(sample.ssthresh_segments);
        assert!((got - expected).abs() <= 2.0, "{name}: {before} to {got}");
        assert!(pair.server().view().summaries().next().expect("one").totals.timeouts == 0);
    }
}

#[test]
fn pacing_spaces_segments_at_its_rate() {
    let server = Config { pacing: true, ..tcp() };
    let mut pair = Pair::new(&[100], tcp(), server);
    pair.run_until(at(200));
    pair.serve(&film(200_000));
    pair.run_until(at(600));
    let times: Vec<Instant> = data(&pair).iter().map(|(t, _)| *t).collect();
    let moments = times.windows(2).filter(|w| w[1] > w[0]).count();
    assert!(moments > 20, "unpaced, a window leaves in a handful of moments: {moments}");
    pair.run_until(at(5000));
    assert!(pair.got(&film(200_000)), "a wake-up that finds nothing to send is not repeated");
}
