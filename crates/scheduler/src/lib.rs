//! Path schedulers: the trait, the values that a scheduler gets and returns, and the table of names.
//!
//! The core calls `schedule` on every write, acknowledgement and released buffer, repeatedly until it returns `Wait`.
//! Two predicates of the view decide about eligibility, not each scheduler: `can_send` (window space now) and
//! `can_queue` (send-buffer space; data waits in the subflow).

mod blest;
mod daps;
mod ecf;
mod event;
mod let_;
mod linux;
mod linux_6_1;
mod lpc;
mod min_rtt;
mod penalising;
mod redundant;
mod request;
mod round_robin;
mod rtx_aware;
mod sticky;
mod sttf;
mod view;
mod wait_or_send;

use std::fmt;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};
use anabranch_units::{Instant, SubflowId};

pub use blest::Blest;
pub use daps::Daps;
pub use ecf::Ecf;
pub use event::SubflowEvent;
pub use let_::LargestThroughput;
pub use linux::LeastLinger;
pub use linux_6_1::KeptBurst;
pub use lpc::LargestCredits;
pub use min_rtt::MinRtt;
pub use penalising::Penalising;
pub use redundant::Redundant;
pub use request::{Ask, Carried, Decision, Hint, SendRequest, SubflowSet};
pub use round_robin::RoundRobin;
pub use rtx_aware::RtxAware;
pub use sticky::Sticky;
pub use sttf::ShortestTransfer;
pub use view::{SubflowView, candidates, nearer};
pub use wait_or_send::WaitOrSend;

/// A path scheduler: one per connection.
///
/// A scheduler that builds on another one returns it from `base` and `base_mut`. The default methods then pass every
/// notification on to it.
pub trait PathScheduler: fmt::Debug + Send {
    /// The name in the table; the first one if there are several.
    fn name(&self) -> &'static str;

    /// Chooses subflows. `subflows` holds every established subflow, in order of creation.
    fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision;

    /// The scheduler that this one builds on.
    fn base(&self) -> Option<&dyn PathScheduler> {
        None
    }

    /// Like [`base`](Self::base), for calls that change it.
    fn base_mut(&mut self) -> Option<&mut dyn PathScheduler> {
        None
    }

    /// `bytes` of the data stream from `from` were handed to a subflow.
    fn on_sent(&mut self, id: SubflowId, from: u64, bytes: u64) {
        if let Some(base) = self.base_mut() {
            base.on_sent(id, from, bytes);
        }
    }

    /// Everything before `data_una` is acknowledged at data level.
    fn on_data_ack(&mut self, now: Instant, data_una: u64) {
        if let Some(base) = self.base_mut() {
            base.on_data_ack(now, data_una);
        }
    }

    /// A subflow was penalised.
    fn on_penalised(&mut self, id: SubflowId) {
        if let Some(base) = self.base_mut() {
            base.on_penalised(id);
        }
    }

    /// The identifier of a closed subflow is given to a new one.
    fn on_replaced(&mut self, id: SubflowId) {
        if let Some(base) = self.base_mut() {
            base.on_replaced(id);
        }
    }

    /// New data is waiting, but the connection-level window is closed, so `schedule` is not called.
    fn on_window_closed(&mut self, subflows: &[SubflowView]) {
        if let Some(base) = self.base_mut() {
            base.on_window_closed(subflows);
        }
    }

    /// Something happened to a subflow. Only a scheduler that [watches](Self::watches) is notified.
    fn on_event(&mut self, now: Instant, id: SubflowId, event: SubflowEvent) {
        if let Some(base) = self.base_mut() {
            base.on_event(now, id, event);
        }
    }

    /// Returns whether the scheduler is notified of events, and whether [`SubflowView::oldest_sent`] and
    /// [`SubflowView::timeout_at`] are filled in. It is called once, when the connection begins.
    fn watches(&self) -> bool {
        self.base().is_some_and(PathScheduler::watches)
    }

    /// The plug-in has failed. Its decisions are ignored, and the caller must close the connection.
    fn failed(&self) -> bool {
        self.base().is_some_and(PathScheduler::failed)
    }

    /// The scheduler handles `Ask::Idle`, `Ask::WindowBlocked` and `Ask::BufferFull`.
    fn wants_idle(&self) -> bool {
        self.base().is_some_and(PathScheduler::wants_idle)
    }

    /// Returns true if the scheduler sends only on subflows that can ([`SubflowView::can_send`]), otherwise waits,
    /// and keeps no state from such a call. It is then not called while every window is full.
    fn waits_for_room(&self) -> bool {
        false
    }

    /// Returns true if, called segment by segment, the scheduler would keep sending new data on the chosen subflow
    /// while that one can ([`SubflowView::can_send`]) and nothing else happens. It may then be called once for all
    /// those segments, followed by one [`PathScheduler::on_sent`]. Near the end of the send buffer, and if the
    /// profile schedules in whole segments or mappings, it is called for each segment.
    fn keeps_choice(&self) -> bool {
        false
    }

    /// The scheduler handles `Ask::Reinject`. Data is then reinjected as in the out-of-tree kernel
    /// (`mptcp_reinject_data`): once, when its subflow's retransmission timer fires or the subflow is closed.
    /// Otherwise all data is reinjected when a subflow becomes stale or is closed, as upstream does.
    fn reinjects(&self) -> bool {
        self.base().is_some_and(PathScheduler::reinjects)
    }
}

/// Calls a base with the requests that it handles: new data always, other requests if it declares them.
pub fn ask(base: &mut dyn PathScheduler, request: &SendRequest, views: &[SubflowView]) -> Decision {
    let reads = match request.ask {
        Ask::NewData => true,
        Ask::Reinject(_) => base.reinjects(),
        Ask::WindowBlocked { .. } | Ask::BufferFull { .. } | Ask::Idle => base.wants_idle(),
    };
    if reads { base.schedule(request, views) } else { Decision::WAIT }
}

/// Path schedulers, as a kind of plug-in.
#[derive(Debug)]
pub struct Schedulers;

type Build = fn(&mut Parameters<'_>) -> Box<dyn PathScheduler>;

impl Kind for Schedulers {
    const KEY: &'static str = "scheduler";
    const NOUN: &'static str = "scheduler";
    const TABLE: &'static [(PluginName, Build)] = TABLE;
    type Plugin = Box<dyn PathScheduler>;
    type Input = ();
    type Maker = Build;

    fn make(build: Build, parameters: &mut Parameters<'_>, (): ()) -> Self::Plugin {
        build(parameters)
    }

    fn trial() {}
}

/// The table of names: a scheduler is one file and one line here (and one for each other name).
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new(
            "min-rtt",
            "Smallest srtt among the subflows with window space (SD18 section V, as printed).",
        ),
        MinRtt::build,
    ),
    (PluginName::new("spd", "The papers' name for min-rtt: shortest packet delay."), MinRtt::build),
    (
        PluginName::new(
            "min-rtt-0.9x",
            "The out-of-tree kernel's default: min-rtt, opportunistic retransmission, penalisation.",
        ),
        Penalising::build_default,
    ),
    (
        PluginName::new("dft", "HO20's name for min-rtt-0.9x: the default scheduler."),
        Penalising::build_default,
    ),
    (
        PluginName::new(
            "penalising",
            "The out-of-tree kernel's retransmission and penalisation around the choice of its base.",
        ),
        Penalising::build,
    ),
    (
        PluginName::new(
            "linux",
            "Upstream Linux since 6.6: least linger time, re-decided at every push.",
        ),
        LeastLinger::build,
    ),
    (
        PluginName::new(
            "linux-6.1",
            "Linux 6.1: least linger time, each choice kept for a burst of 64 KiB.",
        ),
        KeptBurst::build,
    ),
    (
        PluginName::new("round-robin", "Subflows in turn, skipping those without window space."),
        RoundRobin::build,
    ),
    (
        PluginName::new("redundant", "Every subflow carries all data, each from its own position."),
        Redundant::build,
    ),
    (
        PluginName::new(
            "rtx-aware",
            "Leaves out subflows that retransmit, then its base decides (SD18 section V).",
        ),
        RtxAware::build,
    ),
    (PluginName::new("spdx", "SD18's name for rtx-aware(spd)."), RtxAware::build_spd),
    (PluginName::new("lpcx", "SD18's name for rtx-aware(lpc)."), RtxAware::build_lpc),
    (PluginName::new("letx", "SD18's name for rtx-aware(let)."), RtxAware::build_let),
    (
        PluginName::new("lpc", "Largest packet credits: most window space left (SD18 section V)."),
        LargestCredits::build,
    ),
    (
        PluginName::new(
            "let",
            "Largest estimated throughput: most window per srtt (SD18 section V).",
        ),
        LargestThroughput::build,
    ),
    (
        PluginName::new(
            "sticky",
            "Stays on a subflow until it takes no more, then its base decides (HO20).",
        ),
        Sticky::build,
    ),
    (
        PluginName::new("gr-sty", "HO20's name for sticky(min-rtt): greedy sticky."),
        Sticky::build_greedy,
    ),
    (
        PluginName::new(
            "blest",
            "Leaves a slow subflow out when its data would block the window for the fast one.",
        ),
        Blest::build,
    ),
    (
        PluginName::new(
            "ecf",
            "Earliest completion first: waits for the fast subflow if that ends the transfer sooner.",
        ),
        Ecf::build,
    ),
    (
        PluginName::new(
            "sttf",
            "Shortest transfer time first: queueing and delay decide, also for a full subflow.",
        ),
        ShortestTransfer::build,
    ),
    (
        PluginName::new(
            "daps",
            "Delay-aware: plans ahead, so that what slow subflows carry arrives in its turn.",
        ),
        Daps::build,
    ),
    (
        PluginName::new(
            "wait-or-send",
            "Throughput and RTT decide whether to wait for a faster subflow (UQ18's proposal).",
        ),
        WaitOrSend::build,
    ),
];

/// Every scheduler's name with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<Schedulers>()
}

/// Builds a scheduler from its name and its own parameters.
///
/// # Errors
/// Unknown names, and every parameter that is unknown or out of range.
pub fn build(
    choice: &PluginChoice,
    registry: &Registry,
) -> Result<Box<dyn PathScheduler>, PluginError> {
    anabranch_plugin::build::<Schedulers>(choice, registry, ())
}

/// The parameters of the scheduler called `name`.
///
/// # Errors
/// Unknown names.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<Schedulers>(name)
}

/// The scheduler that another one builds on: its parameter `base`.
fn base(parameters: &mut Parameters<'_>, default: &str) -> Box<dyn PathScheduler> {
    let choice = parameters.base(default);
    build(&choice, parameters.registry()).unwrap_or_else(|error| {
        parameters.adopt("base", error);
        Box::new(MinRtt)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Broken;

    impl PathScheduler for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn schedule(&mut self, _request: &SendRequest, _subflows: &[SubflowView]) -> Decision {
            Decision::WAIT
        }

        fn failed(&self) -> bool {
            true
        }
    }

    #[derive(Debug)]
    struct Over<B>(B);

    impl<B: PathScheduler> PathScheduler for Over<B> {
        fn name(&self) -> &'static str {
            "over"
        }

        fn schedule(&mut self, request: &SendRequest, subflows: &[SubflowView]) -> Decision {
            self.0.schedule(request, subflows)
        }

        fn base(&self) -> Option<&dyn PathScheduler> {
            Some(&self.0)
        }
    }

    #[test]
    fn who_builds_on_one_that_failed_has_failed() {
        assert!(Over(Over(Broken)).failed());
        assert!(!Over(MinRtt).failed());
    }
}
