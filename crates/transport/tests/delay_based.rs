//! Compound TCP, CCP, CCPD and the papers' CUBIC against their formulas: closed forms, and a second
//! implementation of each in plain floating point, written from the equations and not from the code.

use anabranch_transport::congestion::{
    self, AckSample, CongestionController, CongestionEvent, CongestionKind, CongestionState,
    RateSample, Window, WindowChange,
};
use anabranch_transport::plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant, Rate, Seed, SubflowId};
use proptest::prelude::*;

const MSS: u64 = 1448;

/// A controller with its window, and the acknowledgements that it gets.
struct Flow {
    controller: Box<dyn CongestionController>,
    window: Window,
    now: Instant,
    una: u64,
    next: u64,
    in_flight: u32,
    min_rtt: Duration,
}

impl Flow {
    /// A flow in congestion avoidance at `cwnd`, or in slow start with `ssthresh` above it.
    fn new(name: &str, cwnd: u32, ssthresh: u32) -> Self {
        let choice = PluginChoice::parse(name).expect(name);
        let random = Seed { seed: 1, run: 0 }.stream("test");
        let controller = congestion::build(&choice, &Registry::TABLES, random).expect(name);
        Self {
            controller,
            window: Window { cwnd, ssthresh },
            now: Instant::ZERO + Duration::from_secs(1),
            una: 0,
            next: 0,
            in_flight: cwnd,
            min_rtt: Duration::from_millis(100),
        }
    }

    /// One acknowledgement of `acked` segments, `gap` after the last.
    fn ack(&mut self, acked: u32, gap: Duration, rtt: Option<Duration>) {
        self.now += gap;
        self.una += u64::from(acked) * MSS;
        let ack = AckSample {
            now: self.now,
            coarse_now: self.now,
            acked,
            acked_bytes: u64::from(acked) * MSS,
            newly_lost: 0,
            delivered: self.una / MSS,
            mss: MSS as u32,
            next_departure: Instant::ZERO,
            prior_in_flight: self.in_flight + acked,
            in_flight: self.in_flight,
            rtt,
            srtt: rtt,
            min_rtt: Some(self.min_rtt),
            rate: RateSample::default(),
            snd_nxt: self.next,
            snd_una: self.una,
            cwnd_limited: true,
            may_grow: true,
            paced: false,
            pacing_rate: Rate::from_bps(10_000_000),
            id: SubflowId(0),
            siblings: &[],
        };
        self.controller.on_ack(&ack, &mut self.window);
    }

    /// A round trip: one acknowledgement a segment. The first ends the round before and has no RTT, so
    /// that it counts for neither.
    fn round(&mut self, rtt: Duration) {
        let segments = self.window.cwnd;
        self.next = self.una + u64::from(segments) * MSS;
        let gap = rtt / u64::from(segments);
        self.ack(1, gap, None);
        for _ in 1..segments {
            self.ack(1, gap, Some(rtt));
        }
    }

    fn event(&self, kind: CongestionKind) -> CongestionEvent {
        CongestionEvent { now: self.now, kind, in_flight: self.in_flight }
    }

    /// A loss and its recovery.
    fn lose(&mut self) {
        let event = self.event(CongestionKind::Loss);
        self.controller.on_congestion(&event, &mut self.window);
        self.controller.on_state(self.now, CongestionState::Recovery, &mut self.window);
        self.window.cwnd = self.window.ssthresh;
        self.controller.on_state(self.now, CongestionState::Open, &mut self.window);
        self.controller.on_window_changed(WindowChange::Reduction, &mut self.window);
    }

    fn time_out(&mut self) {
        let event = self.event(CongestionKind::Timeout);
        self.controller.on_rto(&event, &mut self.window);
        self.window.cwnd = 1;
        self.controller.on_window_changed(WindowChange::Timeout, &mut self.window);
        self.controller.on_state(self.now, CongestionState::Loss, &mut self.window);
        self.controller.on_state(self.now, CongestionState::Open, &mut self.window);
    }
}

fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A fraction of the delay window, and what the loss window's counter holds.
const SHOWN_LATE: f64 = 2.0;

/// Tan et al. and the draft in real numbers: `win = cwnd + dwnd`, all in segments and seconds.
struct CompoundByTheBook {
    cwnd: f64,
    dwnd: f64,
    gamma: f64,
    tuned: bool,
    low_window: f64,
    base: f64,
    /// RTT of the round that has not been judged yet.
    rtt: Option<f64>,
    diff_reno: Option<f64>,
    /// How far whole segments may have led apart: what does not show does not help to grow, and at a
    /// loss the window, half of the loss window and its counter are rounded down.
    error: f64,
}

impl CompoundByTheBook {
    fn win(&self) -> f64 {
        self.cwnd + self.dwnd
    }

    /// What decides in a round: gamma less diff.
    fn margin(&self) -> Option<f64> {
        self.rtt.map(|rtt| self.gamma - self.win() * (1.0 - self.base / rtt))
    }

    fn round(&mut self, rtt: f64, acknowledgements: u32) {
        if let Some(rtt) = self.rtt {
            let diff = self.win() * (1.0 - self.base / rtt);
            self.diff_reno = Some(self.cwnd * (1.0 - self.base / rtt));
            if diff >= self.gamma {
                self.dwnd = (self.dwnd - diff).max(0.0);
            } else if self.win() >= self.low_window {
                self.error += (SHOWN_LATE + self.error) * 0.125 * 0.75 * self.win().powf(-0.25);
                self.dwnd += (0.125 * self.win().powf(0.75) - 1.0).max(0.0);
            }
        }
        for _ in 0..acknowledgements {
            self.cwnd += 1.0 / self.win();
        }
        self.rtt = Some(rtt);
        self.base = self.base.min(rtt);
    }

    fn lose(&mut self) {
        if let (true, Some(diff)) = (self.tuned, self.diff_reno) {
            self.gamma = (0.5 * self.gamma + 0.5 * 0.75 * diff).clamp(5.0, 30.0);
        }
        let win = self.win();
        self.dwnd = (win * 0.5 - self.cwnd / 2.0).max(0.0);
        self.cwnd /= 2.0;
        self.error = self.error / 2.0 + 1.5;
        (self.rtt, self.diff_reno) = (None, None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Rounds and losses in any order: the windows stay together.
    #[test]
    fn compound_follows_its_equations(
        start in 20_u32..200,
        tuned: bool,
        gated: bool,
        rounds in prop::collection::vec((100_u64..140, 0_u8..8), 1..40),
    ) {
        let (gamma, gate) = (if tuned { "auto" } else { "30" }, if gated { 41 } else { 0 });
        let name = format!("compound(gamma={gamma}, low_window={gate})");
        let mut flow = Flow::new(&name, start, start);
        let mut book = CompoundByTheBook {
            cwnd: f64::from(start), dwnd: 0.0, gamma: 30.0, tuned, low_window: f64::from(gate),
            base: f64::INFINITY, rtt: None, diff_reno: None, error: 0.0,
        };
        for (rtt, chance) in rounds {
            if chance == 0 {
                flow.lose();
                book.lose();
            }
            // Where a threshold is met by a hair, rounding decides.
            let gate_is_near = gated && (book.win() - 41.0).abs() < 5.0;
            if gate_is_near || book.margin().is_some_and(|margin| margin.abs() < 2.0) {
                break;
            }
            book.round(rtt as f64 / 1000.0, flow.window.cwnd);
            flow.round(millis(rtt));
            let found = f64::from(flow.window.cwnd);
            let off = (found - book.win()).abs();
            prop_assert!(off < SHOWN_LATE + book.error, "{found}, not {} +- {}", book.win(), book.error);
        }
    }
}

/// What the window grows by in a round trip beyond Reno's one segment: `0.125 W^0.75 - 1`.
#[test]
fn the_delay_window_steps_by_what_the_formula_gives() {
    for (start, step) in [(25_u32, 0.40), (150, 4.36)] {
        assert!((0.125 * f64::from(start).powf(0.75) - 1.0 - step).abs() < 0.005);
        let mut flow = Flow::new("compound(low_window=0)", start, start);
        (0..5).for_each(|_| flow.round(millis(100)));
        let grown = f64::from(flow.window.cwnd - start);
        // The first of the five rounds only measures, and the step grows with the window.
        let (least, most) = (5.0 + 4.0 * step - 1.0, 5.0 + 4.0 * step * 1.25 + 1.0);
        assert!((least..most).contains(&grown), "from {start}: {grown}, not {least} to {most}");
    }
}

#[test]
fn the_gate_holds_the_delay_window_back_below_41_segments() {
    let grown = |name: &str, start: u32| {
        let mut flow = Flow::new(name, start, start);
        (0..6).for_each(|_| flow.round(millis(100)));
        flow.window.cwnd - start
    };
    assert_eq!(grown("compound", 30), grown("reno", 30));
    assert!(grown("compound(low_window=0)", 30) > grown("reno", 30) + 1);
    assert!(grown("compound", 41) > grown("reno", 41) + 3);
}

/// As HO20 and PC16 print it, the delay window never leaves 0: 0 + a 0^k - 1 < 0. What remains is Reno.
#[test]
fn compound_as_printed_is_reno() {
    let run = |name: &str| {
        let mut flow = Flow::new(name, 10, 60);
        let mut curve = Vec::new();
        for round in 0..120_u64 {
            match round {
                40 | 70 => flow.lose(),
                90 => flow.time_out(),
                _ => {}
            }
            flow.round(millis(100 + round % 7));
            curve.push(flow.window);
        }
        curve
    };
    assert_eq!(run("compound(form=printed)"), run("reno"));
    assert_ne!(run("compound"), run("reno"), "the reference is none");
}

#[test]
fn compound_shrinks_by_its_backlog_and_not_below_its_loss_window() {
    let mut flow = Flow::new("compound", 100, 100);
    (0..20).for_each(|_| flow.round(millis(100)));
    let before = f64::from(flow.window.cwnd);
    assert!(before > 180.0, "{before}");
    // A round measures 130 ms: diff = win (1 - 100/130) > 30.
    flow.round(millis(130));
    let full = f64::from(flow.window.cwnd);
    flow.round(millis(100));
    let diff = full * (1.0 - 100.0 / 130.0);
    let fallen = full - f64::from(flow.window.cwnd);
    assert!((fallen - diff).abs() < 3.0, "fell by {fallen}, not {diff}");
    // Reno's 20 rounds are what remains however long the queue stands.
    (0..40).for_each(|_| flow.round(millis(200)));
    let least = f64::from(flow.window.cwnd);
    assert!((160.0..166.0).contains(&least), "100 + 62 rounds, not {least}");
}

#[test]
fn a_timeout_empties_the_delay_window_and_an_undo_brings_it_back() {
    let grown = || {
        let mut flow = Flow::new("compound", 100, 100);
        (0..20).for_each(|_| flow.round(millis(100)));
        flow
    };
    // The loss window is 120 of these.
    let mut flow = grown();
    let whole = flow.window.cwnd;
    let squeeze = |flow: &mut Flow| {
        (0..60).for_each(|_| flow.round(millis(200)));
        flow.window.cwnd
    };
    flow.lose();
    assert_eq!(flow.window.cwnd, whole / 2);
    assert!(squeeze(&mut flow) <= 60 + 62, "half of the loss window and Reno's growth");

    let mut flow = grown();
    flow.lose();
    flow.window.cwnd = whole;
    flow.controller.on_window_changed(WindowChange::Undo, &mut flow.window);
    let (low, high) = (120 + 58, 120 + 63);
    let found = squeeze(&mut flow);
    assert!((low..=high).contains(&found), "the loss window is whole again: {found}");

    let mut flow = grown();
    flow.time_out();
    assert_eq!(flow.window.ssthresh, whole / 2);
    (0..12).for_each(|_| flow.round(millis(100)));
    let found = squeeze(&mut flow);
    assert!(found > whole / 2 + 50, "all of it is loss window now: {found}");
}

/// HO20 equation 1 in seconds and segments.
fn printed_curve(plateau: f64, beta: f64, t: f64) -> f64 {
    0.4 * (t - (plateau * beta / 0.4).cbrt()).powi(3) + plateau
}

#[test]
fn cubic_as_printed_falls_twice_and_follows_the_printed_curve() {
    for (beta, first) in [(0.7_f64, 70), (0.5, 50), (0.2, 20)] {
        let mut flow = Flow::new(&format!("cubic(form=printed, beta={beta})"), 100, 100);
        let lost_at = flow.now;
        flow.lose();
        assert_eq!(flow.window.cwnd, first, "cwnd = beta cwnd");
        flow.ack(1, millis(1), Some(millis(100)));
        let start = (100.0 * (1.0 - beta)).round() as u32;
        assert!(flow.window.cwnd.abs_diff(start) <= 1, "the curve starts at {start}");
        let mut compared = 0;
        while flow.now.since(lost_at) < Duration::from_secs(9) {
            flow.round(millis(100));
            let t = flow.now.since(lost_at).as_secs_f64();
            let law = printed_curve(100.0, beta, t);
            assert!((f64::from(flow.window.cwnd) - law).abs() <= 1.0, "{t}: not {law}");
            compared += 1;
        }
        assert!(compared > 80);
    }
    // The reference keeps to one beta: 0.7 stays 0.7.
    let mut flow = Flow::new("cubic", 100, 100);
    flow.lose();
    flow.ack(1, millis(1), Some(millis(100)));
    assert_eq!(flow.window.cwnd, 70);
}

/// Feeds a flow what a link of 500 segments a second shows: two acknowledgements 2 ms apart of segments
/// sent together, the shortest RTT and then the longest one.
fn probe(flow: &mut Flow, longest: Duration) {
    flow.ack(1, millis(500), Some(millis(100)));
    flow.ack(1, millis(2), Some(millis(102)));
    flow.ack(1, millis(500), Some(longest));
}

const CAPACITY: f64 = 500.0;

/// x = (Kp B - 3 C m) / (Kp + 3) is where the law stands still, and that is a queue within the buffer
/// for 3 m / M < Kp < 3 M / m.
#[test]
fn ccp_stands_still_at_its_closed_form() {
    let (least, longest) = (0.1, 0.2);
    for kp in [2.0, 3.0, 4.0, 5.0] {
        let (storage, pipe) = (CAPACITY * longest, CAPACITY * least);
        let backlog = (kp * storage - 3.0 * pipe) / (kp + 3.0);
        assert!((0.0..=storage - pipe).contains(&backlog));
        let mut flow = Flow::new(&format!("ccp(kp={kp})"), 60, 60);
        probe(&mut flow, Duration::from_secs_f64(longest));
        flow.in_flight = (pipe + backlog).round() as u32;
        let rtt = Duration::from_secs_f64(least + backlog / CAPACITY);
        flow.ack(1, millis(500), Some(rtt));
        let stays = pipe + backlog;
        assert!(
            (f64::from(flow.window.cwnd) - stays).abs() <= 1.0,
            "Kp {kp}: {} instead of {stays}",
            flow.window.cwnd
        );
    }
}

/// With the backlog held, each application of the law halves the distance and changes its sign.
#[test]
fn the_inner_loop_of_ccp_has_the_eigenvalue_minus_a_half() {
    let mut flow = Flow::new("ccp", 60, 60);
    probe(&mut flow, millis(200));
    // B = 100, x = 20: W = Kp (B - x) / 3 = 80.
    flow.in_flight = 16;
    let mut expected = 64.0;
    for _ in 0..6 {
        flow.ack(1, millis(500), Some(millis(140)));
        let off = f64::from(flow.window.cwnd) - 80.0;
        expected /= -2.0;
        assert!((off + -expected).abs() <= 1.0 || (off - -expected).abs() <= 1.0, "{off}");
        assert!(expected.abs() < 2.0 || off.signum() == -expected.signum(), "{off} {expected}");
        flow.in_flight = flow.window.cwnd;
    }
    assert!(flow.window.cwnd.abs_diff(80) <= 2);
}

/// The law from the whole history: capacity of the pair with the least delays, longest RTT, least RTT.
#[derive(Default)]
struct CcpByTheBook {
    history: Vec<(f64, f64, u32)>,
}

impl CcpByTheBook {
    /// (B, x) after an acknowledgement at `now` seconds.
    fn see(&mut self, now: f64, rtt: f64, acked: u32) -> Option<(f64, f64)> {
        self.history.push((now, rtt, acked));
        let pairs = self.history.windows(2).filter_map(|pair| {
            let ((t0, r0, _), (t1, r1, n)) = (pair[0], pair[1]);
            let sent_apart = (t1 - r1) - (t0 - r0);
            let pair = (r0 + r1, f64::from(n) / (t1 - t0));
            (sent_apart > -1e-9 && sent_apart < 0.001 + 1e-9).then_some(pair)
        });
        // The newest of equals.
        let best = pairs.reduce(|best, next| if next.0 <= best.0 + 1e-12 { next } else { best })?;
        let longest = self.history.iter().map(|seen| seen.1).fold(0.0, f64::max);
        Some(((best.1 * longest - 1e-9).ceil(), best.1 * (rtt - 0.1).max(0.0)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    /// Bursts over a link, within half of CCP's memory: window by window what the whole history gives.
    #[test]
    fn ccp_follows_its_equation(
        kp in 1_u32..5,
        bursts in prop::collection::vec((0_u64..80, 1_u64..4, 0_u32..120, 1_u32..6), 2..12),
    ) {
        let mut flow = Flow::new(&format!("ccp(kp={kp}, ceiling=1.5)"), 60, 60);
        let mut book = CcpByTheBook::default();
        for (queued, service, in_flight, length) in bursts {
            flow.in_flight = in_flight;
            for n in 0..u64::from(length) {
                let rtt = millis(100 + queued + n * service);
                flow.ack(1, if n == 0 { millis(1000) } else { millis(service) }, Some(rtt));
                let seen = book.see(flow.now.as_secs_f64(), rtt.as_secs_f64(), 1);
                let Some((storage, backlog)) = seen else { continue };
                let law = (f64::from(kp) * (storage - backlog) - f64::from(in_flight)) / 2.0;
                let law = law.clamp(2.0, (1.5 * storage).max(2.0));
                let found = f64::from(flow.window.cwnd);
                prop_assert!((found - law).abs() <= 0.51, "{found}, not {law}");
            }
        }
    }
}

#[test]
fn ccpd_takes_off_what_the_backlog_grew_by_in_a_round() {
    let window = |name: &str| {
        let mut flow = Flow::new(name, 60, 60);
        probe(&mut flow, millis(200));
        flow.in_flight = 50;
        let mut windows = Vec::new();
        // Each acknowledgement is a round; x = 10, 30, 30 segments.
        for rtt in [120, 160, 160] {
            flow.ack(1, millis(500), Some(millis(rtt)));
            flow.next = flow.una;
            windows.push(flow.window.cwnd);
        }
        windows
    };
    let (plain, half, whole) = (window("ccp"), window("ccpd"), window("ccpd(kd=1)"));
    // (Kp (B - x) - in_flight) / 2 with B = 100: 110, 80, 80.
    assert_eq!(plain, [110, 80, 80]);
    assert_eq!((plain[1] - half[1], plain[1] - whole[1]), (5, 10), "Kd 20 / 2");
    assert_eq!((half[2], whole[2]), (80, 80), "no change, no term");
}

#[test]
fn ccp_starts_like_reno_and_is_cut_by_nothing() {
    // Slow start to half of B = 100, then the law.
    let mut flow = Flow::new("ccp", 10, u32::MAX);
    probe(&mut flow, millis(200));
    let mut last = flow.window.cwnd;
    while flow.window.in_slow_start() {
        last = flow.window.cwnd;
        flow.ack(1, millis(500), Some(millis(100)));
        assert!(flow.window.cwnd <= last + 1 || !flow.window.in_slow_start());
    }
    assert_eq!(last, 50);
    // To the first loss alone, when it is said.
    let mut flow = Flow::new("ccp(start=loss)", 10, u32::MAX);
    probe(&mut flow, millis(200));
    (0..90).for_each(|_| flow.ack(1, millis(100), Some(millis(100))));
    assert_eq!(flow.window.cwnd, 103);
    flow.lose();
    assert_eq!(flow.window.cwnd, 103, "no cut");
    flow.in_flight = 60;
    flow.ack(1, millis(500), Some(millis(100)));
    assert_eq!(flow.window.cwnd, (3 * 100 - 60) / 2);
    // A timeout is TCP's: from one segment by slow start to where the law may speak again.
    flow.time_out();
    assert_eq!(flow.window, Window { cwnd: 1, ssthresh: 120 });
    flow.ack(1, millis(500), Some(millis(100)));
    assert_eq!(flow.window.cwnd, 2);
}
