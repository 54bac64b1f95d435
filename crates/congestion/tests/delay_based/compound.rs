//! Compound TCP: Tan et al. (INFOCOM 2006), draft-sridharan-tcpm-ctcp.

use anabranch_congestion::{CongestionState, TransmitStart, WindowChange};
use anabranch_units::Duration;
use proptest::prelude::*;

use super::flow::{Flow, MSS, millis};

/// Allowance for a fraction in the delay window and for the counter of the loss window, segments.
const SHOWN_LATE: f64 = 2.0;

/// Tan et al. and the draft in real numbers: `win = cwnd + dwnd`, in segments and seconds.
struct CompoundByTheBook {
    cwnd: f64,
    dwnd: f64,
    gamma: f64,
    tuned: bool,
    low_window: f64,
    base: f64,
    /// The RTT of a round for which no step was computed yet.
    rtt: Option<f64>,
    diff_reno: Option<f64>,
    /// The largest deviation caused by rounding to whole segments. A fraction in the delay window does not
    /// contribute to growth. A loss rounds down the window, half of the loss window and its counter.
    error: f64,
}

impl CompoundByTheBook {
    fn win(&self) -> f64 {
        self.cwnd + self.dwnd
    }

    /// Returns gamma minus diff. Its sign decides whether the delay window grows or shrinks in this
    /// round.
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

    /// Rounds and losses in random order: both implementations must have the same windows.
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
            // Near a threshold, the result depends on rounding.
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

/// The growth per round trip beyond Reno's one segment is `0.125 W^0.75 - 1`.
#[test]
fn compound_delay_window_grows_by_the_formula() {
    for (start, step) in [(25_u32, 0.40), (150, 4.36)] {
        assert!((0.125 * f64::from(start).powf(0.75) - 1.0 - step).abs() < 0.005);
        let mut flow = Flow::new("compound(low_window=0)", start, start);
        (0..5).for_each(|_| flow.round(millis(100)));
        let grown = f64::from(flow.window.cwnd - start);
        // The first of the five rounds only measures. The step grows with the window.
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

/// With the formula printed in HO20 and PC16, the delay window stays at 0, because 0 + a 0^k - 1 < 0. What
/// remains is Reno.
#[test]
fn compound_as_printed_is_reno() {
    let run = |name: &str| {
        let mut flow = Flow::new(name, 10, 60);
        let mut curve = Vec::new();
        for round in 0..120_u64 {
            match round {
                40 | 70 => flow.lose(),
                90 => flow.time_out(1),
                _ => {}
            }
            flow.round(millis(100 + round % 7));
            curve.push(flow.window);
        }
        curve
    };
    assert_eq!(run("compound(form=printed)"), run("reno"));
    assert_ne!(run("compound"), run("reno"), "the reference is not Reno");
}

#[test]
fn compound_shrinks_by_its_backlog_and_not_below_its_loss_window() {
    let mut flow = Flow::new("compound", 100, 100);
    (0..20).for_each(|_| flow.round(millis(100)));
    let before = f64::from(flow.window.cwnd);
    assert!(before > 180.0, "{before}");
    // A round measures 130 ms, so diff = win (1 - 100/130) > 30.
    flow.round(millis(130));
    let full = f64::from(flow.window.cwnd);
    flow.round(millis(100));
    let diff = full * (1.0 - 100.0 / 130.0);
    let fallen = full - f64::from(flow.window.cwnd);
    assert!((fallen - diff).abs() < 3.0, "fell by {fallen}, not {diff}");
    // While the queue stays full, the window only keeps Reno's growth of 20 rounds.
    (0..40).for_each(|_| flow.round(millis(200)));
    let least = f64::from(flow.window.cwnd);
    assert!((160.0..166.0).contains(&least), "100 + 62 rounds, not {least}");
}

#[test]
fn timeouts_and_idleness_empty_the_delay_window_and_an_undo_brings_it_back() {
    let grown = || {
        let mut flow = Flow::new("compound", 100, 100);
        (0..20).for_each(|_| flow.round(millis(100)));
        flow
    };
    // The loss window has 120 of these segments.
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
    let start = TransmitStart {
        now: flow.now,
        coarse_now: flow.now,
        last_sent: flow.now,
        app_limited: true,
        min_rtt: Some(millis(100)),
    };
    flow.controller.on_transmit_start(&start, &mut flow.window);
    assert_eq!(flow.window.cwnd, whole);
    assert!(squeeze(&mut flow) > whole + 50, "after idleness all of it is loss window");

    let mut flow = grown();
    flow.lose();
    flow.window.cwnd = whole;
    flow.controller.on_window_changed(WindowChange::Undo, &mut flow.window);
    let (low, high) = (120 + 58, 120 + 63);
    let found = squeeze(&mut flow);
    assert!((low..=high).contains(&found), "the loss window is whole again: {found}");

    let mut flow = grown();
    flow.time_out(whole / 2);
    assert_eq!(flow.window.ssthresh, whole / 2);
    let found = squeeze(&mut flow);
    assert!(found > whole / 2 + 55, "all of it is loss window now: {found}");
}

#[test]
fn the_delay_window_waits_for_congestion_avoidance_and_enough_samples() {
    let after = |name: &str, ssthresh: u32, step: fn(&mut Flow)| {
        let mut flow = Flow::new(name, 50, ssthresh);
        (0..6).for_each(|_| step(&mut flow));
        flow.window.cwnd
    };
    let whole: fn(&mut Flow) = |flow| flow.round(millis(100));
    // One acknowledgement has no RTT, and two have one. With so few samples, all may have been delayed.
    let sparse: fn(&mut Flow) = |flow| {
        flow.next = flow.una + 60 * MSS;
        for rtt in [None, Some(millis(100)), Some(millis(100))] {
            flow.ack(20, millis(33), rtt);
        }
    };
    assert_eq!(after("compound", 10_000, whole), after("reno", 10_000, whole), "slow start");
    assert_eq!(after("compound", 50, sparse), after("reno", 50, sparse), "two samples");
    assert!(after("compound", 50, whole) > after("reno", 50, whole) + 4, "else it grows");
}

/// Gamma is tuned with the backlog of the last round before the loss. Rounds before a period of disorder do
/// not count (`ctcp_enable` in the module).
#[test]
fn gamma_is_tuned_by_the_backlog_before_a_loss() {
    let fallen = |disorder: bool| {
        let mut flow = Flow::new("compound(gamma=auto)", 200, 200);
        flow.round(millis(100));
        // 200 (1 - 100/103) = 6 segments are queued. At a loss, gamma becomes (30 + 0.75 * 6) / 2 = 17.
        (0..3).for_each(|_| flow.round(millis(103)));
        if disorder {
            for state in [CongestionState::Disorder, CongestionState::Open] {
                flow.controller.on_state(flow.now, state, &mut flow.window);
            }
        }
        flow.lose();
        (0..4).for_each(|_| flow.round(millis(100)));
        // About 24 segments are queued, which is between the tuned gamma and the initial one.
        let queued = 100.0 / (1.0 - 24.0 / f64::from(flow.window.cwnd));
        flow.round(Duration::from_secs_f64(queued / 1000.0));
        let before = flow.window.cwnd;
        flow.round(millis(100));
        before > flow.window.cwnd
    };
    assert!(fallen(false));
    assert!(!fallen(true));
}

#[test]
fn compound_grows_only_where_it_may() {
    for (may_grow, cwnd_limited) in [(false, true), (true, false), (false, false)] {
        let mut flow = Flow::new("compound", 50, 50);
        (flow.may_grow, flow.cwnd_limited) = (may_grow, cwnd_limited);
        (0..6).for_each(|_| flow.round(millis(100)));
        assert_eq!(flow.window.cwnd, 50, "{may_grow} {cwnd_limited}");
    }
}
