//! RTX-aware scheduling (SD18 section V): excludes subflows that retransmit, then calls the base.
//!
//! "If all sub-flows are in retransmission state, no path is selected." Here, a subflow retransmits in the
//! congestion states Recovery and Loss. In Disorder and CWR nothing is retransmitted. The paper has no backup
//! subflows. Here, the scheduler waits for a regular subflow that retransmits, and does not use a backup
//! instead.
//!
//! The paper defines neither the "retransmission state" nor its end. Parameters select other definitions:
//! `states` is the first state in which a subflow is excluded, and `hold` is the time of exclusion
//! afterwards.
//!
//! Without SACK, TCP stays in Recovery or Loss after all losses are repaired, until newer data is
//! acknowledged. A [repaired](SubflowView::repaired) subflow is therefore used again. Otherwise it could
//! never send newer data.

use anabranch_plugin::Parameters;
use anabranch_units::{CongestionState, Duration, Instant, SubflowId};

use super::{Decision, LargestCredits, LargestThroughput, MinRtt};
use super::{PathScheduler, SendRequest, SubflowView, ask, base, candidates};

/// The first state in which a subflow is excluded, in Linux's order of severity. The first word is the
/// default.
const STATES: &[&str] = &["recovery", "loss", "cwr", "disorder"];

/// Calls the base with the subflows that do not retransmit.
#[derive(Debug)]
pub struct RtxAware {
    base: Box<dyn PathScheduler>,
    /// The first state in which a subflow is excluded.
    least: CongestionState,
    /// The time for which a subflow is excluded afterwards, in units of its srtt.
    hold: f64,
    /// The time at which each subflow was last in such a state; empty without a hold.
    seen: Vec<Option<Instant>>,
    /// The subflows that are passed to the base scheduler. The vector is kept to reuse its memory.
    calm: Vec<SubflowView>,
}

impl RtxAware {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        let base = base(parameters, "min-rtt");
        Self::over(base, parameters)
    }

    pub(super) fn build_spd(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(Box::new(MinRtt), parameters)
    }

    pub(super) fn build_lpc(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(Box::new(LargestCredits), parameters)
    }

    pub(super) fn build_let(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Self::over(Box::new(LargestThroughput), parameters)
    }

    fn over(
        base: Box<dyn PathScheduler>,
        parameters: &mut Parameters<'_>,
    ) -> Box<dyn PathScheduler> {
        let least = match parameters.word("states", STATES) {
            "loss" => CongestionState::Loss,
            "cwr" => CongestionState::Cwr,
            "disorder" => CongestionState::Disorder,
            _ => CongestionState::Recovery,
        };
        let hold = parameters.number("hold", 0.0, 0.0..=100.0);
        Box::new(Self { base, least, hold, seen: Vec::new(), calm: Vec::new() })
    }

    /// Records the time for subflows that retransmit now.
    fn note(&mut self, now: Instant, subflows: &[SubflowView]) {
        for view in subflows.iter().filter(|view| view.repairs_in(self.least)) {
            let place = view.id.index();
            if self.seen.len() <= place {
                self.seen.resize(place + 1, None);
            }
            self.seen[place] = Some(now);
        }
    }

    /// Returns the end of a subflow's hold, if it lies after `now`.
    fn held(&self, now: Instant, view: &SubflowView) -> Option<Instant> {
        let seen = (*self.seen.get(view.id.index())?)?;
        let span = Duration::from_secs_f64(self.hold * view.srtt.as_secs_f64());
        Some(seen + span).filter(|until| *until > now)
    }

    /// Implements `schedule` for a scheduler with a hold.
    fn schedule_held(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        let now = request.now;
        self.note(now, subflows);
        let mut calm = std::mem::take(&mut self.calm);
        calm.clear();
        let mut until: Option<Instant> = None;
        for view in candidates(subflows).filter(|view| !view.repairs_in(self.least)) {
            match self.held(now, view) {
                None => calm.push(*view),
                Some(at) => until = Some(until.map_or(at, |known| known.min(at))),
            }
        }
        self.calm = calm;
        let decision = if self.calm.is_empty() {
            Decision::WAIT
        } else {
            ask(self.base.as_mut(), request, &self.calm)
        };
        match decision {
            // No event marks the end of a hold, so the scheduler must be called again at that time.
            Decision::Wait { until: own } => {
                let ends = [own, until].into_iter().flatten().min();
                Decision::Wait { until: ends }
            }
            decision => decision,
        }
    }
}

impl PathScheduler for RtxAware {
    fn name(&self) -> &'static str {
        "rtx-aware"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        if self.hold > 0.0 {
            return self.schedule_held(request, subflows);
        }
        let least = self.least;
        let calm = |view: &SubflowView| !view.repairs_in(least);
        if subflows.iter().all(calm) {
            return ask(self.base.as_mut(), request, subflows);
        }
        self.calm.clear();
        self.calm.extend(candidates(subflows).filter(|view| calm(view)));
        if self.calm.is_empty() {
            return Decision::WAIT;
        }
        ask(self.base.as_mut(), request, &self.calm)
    }

    fn on_replaced(&mut self, id: SubflowId) {
        if let Some(seen) = self.seen.get_mut(id.index()) {
            *seen = None;
        }
        self.base.on_replaced(id);
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        Some(self.base.as_ref())
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.base.as_mut())
    }
}
