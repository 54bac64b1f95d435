//! Path schedulers: the trait, its input and output, and the table of names.
//!
//! The connection calls `schedule` on every write, every acknowledgement and every release of send memory,
//! until it returns `Wait`. The view of a subflow decides whether it may be used: `can_send` (window space
//! now) or `can_queue` (send-buffer space, so that data waits in the subflow). Schedulers share these two
//! predicates.

mod blest;
mod daps;
mod ecf;
mod event;
mod let_;
mod linux;
mod linux_6_1;
mod lpc;
mod min_rtt;
mod path_scheduler;
mod penalising;
mod redundant;
mod request;
mod round_robin;
mod rtx_aware;
mod sticky;
mod sttf;
mod view;
mod wait_or_send;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};

pub use blest::Blest;
pub use daps::Daps;
pub use ecf::Ecf;
pub use event::SubflowEvent;
pub use let_::LargestThroughput;
pub use linux::LeastLinger;
pub use linux_6_1::KeptBurst;
pub use lpc::LargestCredits;
pub use min_rtt::MinRtt;
pub use path_scheduler::{PathScheduler, ask};
pub use penalising::Penalising;
pub use redundant::Redundant;
pub use request::{Ask, Carried, Decision, Hint, SendRequest, SubflowSet};
pub use round_robin::RoundRobin;
pub use rtx_aware::RtxAware;
pub use sticky::Sticky;
pub use sttf::ShortestTransfer;
pub use view::{SubflowView, candidates, nearer};
pub use wait_or_send::WaitOrSend;

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

/// The table of names. A scheduler is one file and one entry here. Each further name is one more entry.
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

/// Returns every scheduler's name with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<Schedulers>()
}

/// Builds a scheduler from its name and parameters.
///
/// # Errors
/// Returns an error for an unknown name, and for all parameters that are unknown or out of range.
pub fn build(
    choice: &PluginChoice,
    registry: &Registry,
) -> Result<Box<dyn PathScheduler>, PluginError> {
    anabranch_plugin::build::<Schedulers>(choice, registry, ())
}

/// Returns the parameters of the scheduler called `name`.
///
/// # Errors
/// Returns an error if the name is unknown.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<Schedulers>(name)
}

/// Creates the base of a composed scheduler, given by the parameter `base`.
fn base(parameters: &mut Parameters<'_>, default: &str) -> Box<dyn PathScheduler> {
    let choice = parameters.base(default);
    build(&choice, parameters.registry()).unwrap_or_else(|error| {
        parameters.adopt("base", error);
        Box::new(MinRtt)
    })
}
