//! Greedy sticky (GR-STY, HO20): "stay in the new path until it cannot inject new packets". Then the base
//! chooses; in the paper by srtt.
//!
//! The base decides whether the subflow takes more data: it is called with that subflow alone. The scheduler
//! leaves a backup as soon as a regular subflow can be used.

use anabranch_plugin::Parameters;
use anabranch_units::SubflowId;

use super::{
    Ask, Decision, MinRtt, PathScheduler, SendRequest, SubflowView, ask, base, candidates,
};

/// Keeps the present subflow while it takes data. Then the base chooses another one.
#[derive(Debug)]
pub struct Sticky {
    base: Box<dyn PathScheduler>,
    current: Option<SubflowId>,
}

impl Sticky {
    pub(super) fn build(parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self { base: base(parameters, "min-rtt"), current: None })
    }

    pub(super) fn build_greedy(_parameters: &mut Parameters<'_>) -> Box<dyn PathScheduler> {
        Box::new(Self { base: Box::new(MinRtt), current: None })
    }
}

impl PathScheduler for Sticky {
    fn name(&self) -> &'static str {
        "sticky"
    }

    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
        if request.ask != Ask::NewData {
            return ask(self.base.as_mut(), request, subflows);
        }
        let current = candidates(subflows).find(|view| self.current == Some(view.id));
        if let Some(current) = current {
            let stay = self.base.schedule(request, std::slice::from_ref(current));
            if matches!(stay, Decision::Send { .. }) {
                return stay;
            }
        }
        let decision = self.base.schedule(request, subflows);
        if let Decision::Send { on, .. } = decision {
            self.current = on.first();
        }
        decision
    }

    fn base(&self) -> Option<&dyn PathScheduler> {
        Some(self.base.as_ref())
    }

    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        Some(self.base.as_mut())
    }
}
