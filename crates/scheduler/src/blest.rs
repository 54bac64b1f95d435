//! BLEST (Ferlin et al., IFIP Networking 2016) as in the out-of-tree kernel (`mptcp_blest.c`). If only a
//! slower subflow has room, BLEST estimates whether its data would fill the connection's window and block the
//! fast subflow. If so, the slow subflow is skipped.
//!
//! The kernel's own BLEST is `blest(min-rtt-0.9x)`. The kernel compares with the fastest subflow of all.
//! Here, a backup is compared only if backups may be used.

use anabranch_plugin::Parameters;
use anabranch_units::{Duration, Instant, SubflowId};

use super::{Ask, Decision, PathScheduler, SendRequest, SubflowView, ask, base, nearer};

/// The most rounds of slow start in an estimate.
const MOST_ROUNDS: u64 = 16;
const THOUSAND: f64 = 1000.0;

/// Skips subflows whose data would block the window.
#[derive(Debug)]
pub struct Blest {
    base: Box<dyn PathScheduler>,
    /// The correction factor for the data that the fast subflow will send, in thousandths.
    lambda: u64,
    /// The steps by which lambda rises and falls, in thousandths.
    steps: (u64, u64),
    adapted_at: Option<Instant>,
    /// Whether the window or the send buffer was full since lambda was last adapted.
    blocked: bool,
    /// The smallest and the largest srtt of each subflow so far.
    srtt_range: Vec<(Duration, Duration)>,
}

impl Blest {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        let thousandths = |number: f64| (number * THOUSAND).round() as u64;
        let lambda = thousandths(parameters.number("lambda", 1.2, 1.0..=1.3));
        let rise = thousandths(parameters.number("lambda_rise", 0.04, 0.0..=0.3));
        let fall = thousandths(parameters.number("lambda_fall", 0.01, 0.0..=0.3));
        let base = base(parameters, "min-rtt");
        let steps = (rise, fall);
        Box::new(Self {
            base,
            lambda,
            steps,
            adapted_at: None,
            blocked: false,
            srtt_range: Vec::new(),
        })
    }

    fn note_srtts(&mut self, subflows: &[SubflowView]) {
        let count = subflows.last().map_or(0, |view| view.id.index() + 1);
        if self.srtt_range.len() < count {
            self.srtt_range.resize(count, (Duration::from_nanos(u64::MAX), Duration::ZERO));
        }
        for view in subflows {
            let (least, most) = &mut self.srtt_range[view.id.index()];
            *least = view.srtt.min(*least);
            *most = view.srtt.max(*most);
        }
    }

    /// Adapts lambda, once per round trip of the slow subflow. Lambda rises if the connection was blocked,
    /// and falls otherwise.
    fn adapt(&mut self, now: Instant, slow: &SubflowView) {
        let last = *self.adapted_at.get_or_insert(now);
        if now.since(last) < self.srtt_range[slow.id.index()].0 {
            return;
        }
        let (rise, fall) = self.steps;
        let moved = if self.blocked { self.lambda + rise } else { self.lambda - fall };
        self.lambda = moved.clamp(1000, 1300);
        self.blocked = false;
        self.adapted_at = Some(now);
    }

    /// Returns the round trip of a further segment on `slow`, nanoseconds. It grows from the smallest srtt to
    /// the largest as the window fills.
    fn linger(&self, slow: &SubflowView) -> u64 {
        let (least, most) = self.srtt_range[slow.id.index()];
        let (least, most) = (least.as_nanos(), most.as_nanos());
        let in_flight = u64::from(slow.in_flight) + 1;
        let cwnd = u64::from(slow.cwnd);
        let part = |spread: u64| match spread.checked_mul(in_flight) {
            Some(product) => product / cwnd,
            None => (u128::from(spread) * u128::from(in_flight) / u128::from(cwnd)) as u64,
        };
        let within = if in_flight >= cwnd { most } else { least + part(most - least) };
        within.max(slow.srtt.as_nanos())
    }

    /// Returns the bytes that `fast` will send in this time, with the window growing as in Reno. The result
    /// is limited to 2^54, more than any window.
    fn fast_bytes(&self, fast: &SubflowView, nanos: u64) -> u64 {
        let (least, most) = self.srtt_range[fast.id.index()];
        let average = u64::midpoint(least.as_nanos(), most.as_nanos());
        let rounds = nanos.checked_div(average).map_or(1, |whole| whole + 1);
        let cwnd = u64::from(fast.cwnd);
        let segments = if fast.ssthresh == u32::MAX {
            cwnd * ((1 << rounds.min(MOST_ROUNDS)) - 1)
        } else {
            (cwnd.max(u64::from(fast.ssthresh) + 1) + (rounds - 1) / 2).saturating_mul(rounds)
        };
        segments.saturating_mul(u64::from(fast.mss)).saturating_mul(self.lambda) / 1000
    }
}

impl PathScheduler for Blest {
    fn name(&self) -> &'static str {
        "blest"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        if request.ask != Ask::NewData {
            let blocked = matches!(request.ask, Ask::WindowBlocked { .. })
                || matches!(request.ask, Ask::BufferFull { left: 0, .. });
            self.blocked |= blocked && subflows.iter().any(SubflowView::can_send);
            return ask(self.base.as_mut(), request, subflows);
        }
        self.note_srtts(subflows);
        let decision = self.base.schedule(request, subflows);
        let Decision::Send { on, from: None, .. } = decision else { return decision };
        let Some((fast, slow)) = nearer(subflows, on) else { return decision };
        self.adapt(request.now, slow);
        let fast_bytes = self.fast_bytes(fast, self.linger(slow));
        let slow_bytes = u64::from(slow.mss).min(request.unscheduled()) + slow.held_bytes();
        let window = request.window_end.saturating_sub(request.data_una);
        if fast_bytes > window.saturating_sub(slow_bytes) { Decision::WAIT } else { decision }
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        Some(self.base.as_ref())
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.base.as_mut())
    }

    fn on_replaced(&mut self, id: SubflowId) {
        if let Some(range) = self.srtt_range.get_mut(id.index()) {
            *range = (Duration::from_nanos(u64::MAX), Duration::ZERO);
        }
        self.base.on_replaced(id);
    }

    fn wants_idle(&self) -> bool {
        true
    }
}
