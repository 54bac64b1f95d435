//! Compares the arithmetic with a second, simple implementation. It uses the draft's formulas in bytes and
//! floating point, and the draft's pseudocode unchanged.

use super::*;

/// Draws a number from the range, uniformly in its logarithm.
fn any(random: &mut RandomStream, least: f64, most: f64) -> f64 {
    least * (most / least).powf(random.uniform())
}

#[test]
fn window_and_pacing_match_the_bbr3_formulas() {
    let mut random = Seed { seed: 7, run: 0 }.stream("formulas");
    let mss = f64::from(MSS);
    let states = [State::Drain, State::Down, State::Cruise, State::Refill, State::Up];
    for n in 0..20_000 {
        let state = states[n % states.len()];
        let rate = any(&mut random, 1e3, 1e9); // bytes a second
        let rtt_us = any(&mut random, 100.0, 2e6).floor();
        let extra = any(&mut random, 0.5, 500.0) as u32;
        let long = any(&mut random, 4.0, 1e5) as u32;
        let short = any(&mut random, 1.0, 1e5) as u32;

        let mut cc = Bbr3::new(Seed { seed: 0, run: 0 }.stream("test"), None);
        cc.min_rtt.begin(Instant::ZERO, Some(Duration::from_micros(rtt_us as u64)));
        let segments = (rate / mss * 1000.0) as u32;
        cc.bw = Bandwidth::of(segments, Duration::from_secs(1000));
        cc.state = state;
        cc.pipe.reached = true;
        cc.mss = MSS;
        cc.bounds.long_inflight = long;
        cc.bounds.short_inflight = short;
        cc.extra_acked.update(10, 1, extra);
        cc.set_pacing(Some(RTT));

        let bw = f64::from(segments) / 1000.0 * mss;
        let (pacing_gain, cwnd_gain) = match state {
            State::Drain => (0.5, 2.0),
            State::Down => (0.9, 2.0),
            State::Up => (1.25, 2.25),
            _ => (1.0, 2.0),
        };
        let pacing_rate = pacing_gain * bw * (100.0 - 1.0) / 100.0;
        let paced = cc.pacing_rate().expect("paced").bytes_per_second() as f64;
        // One unit of the bandwidth is 0.06 segments per second.
        assert!((paced - pacing_rate).abs() <= 0.06 * mss * 1.25 + 1.0, "{paced}: {pacing_rate}");

        let quantum = (pacing_rate * 1e-3).min(65_536.0).max(2.0 * mss);
        let budget = |volume: f64| {
            let volume = volume.max(3.0 * quantum).max(4.0 * mss);
            if state == State::Up { volume + 2.0 * mss } else { volume }
        };
        let bdp = bw * rtt_us * 1e-6;
        let max_inflight = budget(cwnd_gain * bdp + f64::from(extra) * mss);
        let headroom = (0.15 * f64::from(long)).max(1.0);
        let room = (f64::from(long) - headroom).max(4.0) * mss;
        let cap = match state {
            State::Drain => f64::INFINITY,
            State::Cruise => room,
            _ => f64::from(long) * mss,
        };
        let cap = cap.min(f64::from(short) * mss).max(4.0 * mss);
        let expected = max_inflight.min(cap) / mss;

        let cwnd = window_of(&cc);
        // The code rounds up to whole segments. One unit of the bandwidth changes the product a little, too.
        let off = f64::from(cwnd) - expected;
        let slack = 0.06 * rtt_us * 1e-6 * cwnd_gain + 3.3 / mss;
        assert!(off > -slack - 1e-9 && off < 1.0 + slack, "{state:?}: {cwnd}, not {expected}");
        let half = (0.5 * bdp / mss).max(4.0);
        let off = f64::from(cc.probe_rtt_cwnd()) - half;
        assert!(off > -slack - 1e-9 && off < 1.0, "{half}");
    }
}

/// Returns the window to which a very large window is limited.
fn window_of(cc: &Bbr3) -> u32 {
    let mut window = Window { cwnd: 1 << 30, ssthresh: 0 };
    let ack = acknowledgement(Instant::ZERO, 1000, 998, &FULL);
    cc.set_cwnd(&ack, &mut window);
    window.cwnd
}

#[test]
fn loss_threshold_and_inflight_prefix_match_the_formulas() {
    for before in 0..2000_u32 {
        for lost in 1..=60_u32.min(before + 1) {
            let (size, f) = (1.0, f64::from);
            let high = f(lost) / f(before + 1) > 0.02 + 1e-12;
            assert_eq!(exceeds_threshold(lost, before + 1), high, "{lost} of {before}");
            let prefix = (0.02 * f(before) - (f(lost) - size)) / (1.0 - 0.02);
            let expected = f(before) + prefix.clamp(0.0, size);
            let found = f(inflight_at_loss(before, lost - 1));
            let off = expected - found;
            assert!((-1e-9..1.0).contains(&off), "{lost} of {before}: {found}, not {expected}");
        }
    }
}

#[test]
fn probe_growth_matches_the_pseudocode() {
    let mut random = Seed { seed: 9, run: 0 }.stream("growth");
    for _ in 0..200 {
        let mut growth = Growth::default();
        let cwnd = any(&mut random, 4.0, 1e5);
        let (smss, mut rounds, mut acked, mut added) = (1448.0, 0, 0.0, 0.0);
        let mut found = 0;
        for _ in 0..12 {
            let bytes = (cwnd.floor() / f64::from(1 << rounds)).max(1.0).floor() * smss;
            rounds += 1;
            growth.steepen(cwnd as u32);
            for _ in 0..50 {
                let newly = any(&mut random, 1.0, 300.0).floor();
                acked += newly * smss;
                let delta = (acked / bytes).floor();
                acked -= delta * bytes;
                added += delta;
                found += growth.grow(newly as u32);
            }
            assert!((f64::from(found) - added).abs() < 0.5, "{found}, not {added}");
        }
    }
}

#[test]
fn the_bandwidth_is_the_best_of_this_cycle_and_the_one_before() {
    let mut random = Seed { seed: 11, run: 0 }.stream("cycles");
    let mut filter = CycleMax::default();
    let mut cycles: Vec<Vec<Bandwidth>> = vec![Vec::new()];
    for cycle in 0..300 {
        for _ in 0..=random.below(20) {
            let value = per_second(1 + random.below(1000) as u32);
            cycles[cycle].push(value);
            filter.take(value);
            let best = cycles[cycle.saturating_sub(1)..].iter().flatten().max();
            assert_eq!(Some(&filter.get()), best, "cycle {cycle}");
        }
        filter.advance();
        filter.advance();
        cycles.push(Vec::new());
    }
}
