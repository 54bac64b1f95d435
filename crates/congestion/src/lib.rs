//! Congestion control: the trait, the values passed to a controller, and the table of controllers.
//!
//! The division of labour is that of Linux. The subflow detects losses and runs recovery and undo. The
//! controller sets the size of the window. The subflow owns the `Window` and passes it to the callbacks as
//! `&mut Window`.

mod balia;
mod bbr;
mod bbr3;
mod ccp;
mod ccpd;
mod compound;
mod controller;
mod cubic;
mod lia;
mod olia;
mod reno;
mod sample;
mod sibling;
mod wvegas;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};
use anabranch_units::{RandomStream, Seed};

pub use anabranch_units::CongestionState;
pub use balia::Balia;
pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use ccp::Ccp;
pub use compound::Compound;
pub use controller::CongestionController;
pub use cubic::Cubic;
pub use lia::Lia;
pub use olia::Olia;
pub use reno::{Reno, additive_increase, slow_start};
pub use sample::{
    AckSample, CongestionEvent, CongestionKind, LostSegment, Opened, RateSample, TransmitStart,
    Window, WindowChange,
};
pub use sibling::SiblingView;
pub use wvegas::WVegas;

/// The initial window of a connection, segments (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

/// Congestion controllers, as a kind of plug-in.
#[derive(Debug)]
pub struct Controllers;

type Build = fn(&mut Parameters<'_>, RandomStream) -> Box<dyn CongestionController>;

impl Kind for Controllers {
    const KEY: &'static str = "congestion";
    const NOUN: &'static str = "congestion control";
    const TABLE: &'static [(PluginName, Build)] = TABLE;
    type Plugin = Box<dyn CongestionController>;
    type Input = RandomStream;
    type Maker = Build;

    fn make(
        build: Build,
        parameters: &mut Parameters<'_>,
        random: RandomStream,
    ) -> Box<dyn CongestionController> {
        build(parameters, random)
    }

    fn trial() -> RandomStream {
        Seed { seed: 0, run: 0 }.stream("check")
    }
}

/// The table of controllers. A new controller needs one file and one entry here.
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new(
            "reno",
            "NewReno as in Linux: additive increase, halving (RFC 5681, RFC 6582).",
        ),
        Reno::build,
    ),
    (
        PluginName::new(
            "cubic",
            "CUBIC as in Linux with HyStart, its default since 2.6.19 (RFC 9438).",
        ),
        Cubic::build,
    ),
    (
        PluginName::new(
            "bbr",
            "BBR version 1 as in Linux: paced by a model of bandwidth and minimum RTT.",
        ),
        Bbr::build,
    ),
    (
        PluginName::new(
            "bbr3",
            "BBR version 3 (draft-ietf-ccwg-bbr): its model bounded by the losses of its probes.",
        ),
        Bbr3::build,
    ),
    (
        PluginName::new(
            "compound",
            "Compound TCP: a loss window and a delay window (Tan et al. 2006, draft-sridharan-tcpm-ctcp).",
        ),
        Compound::build,
    ),
    (
        PluginName::new(
            "ccp",
            "Capacity and Congestion Probing, a reconstruction: proportional control of the backlog (SD18).",
        )
        .with_note(RECONSTRUCTED),
        Ccp::build,
    ),
    (
        PluginName::new(
            "ccpd",
            "CCP with a derivative term, a reconstruction: proportional plus derivative control.",
        )
        .with_note(
            "Only its name and kind were found: results hang on the parameters declared, kd among them.",
        ),
        ccpd::build,
    ),
    (
        PluginName::new(
            "lia",
            "LIA, coupled: all subflows together grow like one TCP on the best path (RFC 6356).",
        ),
        Lia::build,
    ),
    (
        PluginName::new(
            "olia",
            "OLIA, coupled: LIA's aim, with growth moved to paths that are good and little used.",
        ),
        Olia::build,
    ),
    (
        PluginName::new(
            "balia",
            "BALIA, coupled: between LIA and OLIA, friendly to TCP yet quick to follow changes.",
        ),
        Balia::build,
    ),
    (
        PluginName::new(
            "wvegas",
            "Weighted Vegas, coupled: each subflow queues a share of packets by its share of rate.",
        ),
        WVegas::build,
    ),
];

const RECONSTRUCTED: &str = "Its law is printed, its gains and estimators were not found: results hang on the parameters declared.";

/// Returns the name of every controller with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<Controllers>()
}

/// Builds a controller from its name and its parameters.
///
/// # Errors
/// Unknown names, and parameters that are unknown or out of range.
pub fn build(
    choice: &PluginChoice,
    registry: &Registry,
    random: RandomStream,
) -> Result<Box<dyn CongestionController>, PluginError> {
    anabranch_plugin::build::<Controllers>(choice, registry, random)
}

/// Returns the parameters of the controller `name`.
///
/// # Errors
/// Unknown names.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<Controllers>(name)
}

/// Returns the note to print with results of the controller `choice`: that it is a reconstruction, and its
/// parameters. Returns `None` for controllers that are not reconstructions.
///
/// # Errors
/// Unknown names, and parameters that are unknown or out of range.
pub fn note(choice: &PluginChoice, registry: &Registry) -> Result<Option<String>, PluginError> {
    let Some(known) = names().find(|known| known.name == choice.name) else { return Ok(None) };
    let Some(note) = known.note else { return Ok(None) };
    let (_, parameters) =
        anabranch_plugin::construct::<Controllers>(choice, registry, Controllers::trial())?;
    let declared: Vec<_> = parameters.iter().map(|info| info.declared(choice)).collect();
    let (summary, declared) = (known.summary, declared.join(", "));
    Ok(Some(format!("Congestion control {}: {summary} {note} Here: {declared}.", known.name)))
}
