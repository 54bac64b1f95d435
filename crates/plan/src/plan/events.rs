//! Events during a run: changes of links, and changes of the clients' interfaces.

use anabranch_link::Change;
use anabranch_units::{Duration, Rate};
use serde::Deserialize;

use super::LossPlan;

/// An event: a change of a link, or of the clients' interfaces on a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventPlan {
    /// The time from the start of the run.
    pub at_ns: u64,
    /// The link that changes, together with `change`.
    #[serde(default)]
    pub link: Option<String>,
    /// The change of the link.
    #[serde(default)]
    pub change: Option<ChangePlan>,
    /// The path whose interfaces change, together with `interface`.
    #[serde(default)]
    pub path: Option<String>,
    /// The new state of the clients' interfaces on the path.
    #[serde(default)]
    pub interface: Option<InterfacePlan>,
}

/// The change that an event makes.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// A link changes.
    Link(&'a str, ChangePlan),
    /// The clients' interfaces on a path change.
    Interface(&'a str, InterfacePlan),
}

impl EventPlan {
    /// Returns the change, or `None` if the event does not describe exactly one.
    pub fn happening(&self) -> Option<Happening<'_>> {
        match (self.link.as_deref(), self.change, self.path.as_deref(), self.interface) {
            (Some(link), Some(change), None, None) => Some(Happening::Link(link, change)),
            (None, None, Some(path), Some(what)) => Some(Happening::Interface(path, what)),
            _ => None,
        }
    }
}

/// The new state of the clients' network interfaces on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfacePlan {
    /// The interfaces are down: sending fails at once, and arriving packets are dropped. The subflows remain.
    Down,
    /// The interfaces are down and their MPTCP endpoints are removed. The removal is signalled to the peer.
    Removed,
    /// The interfaces are up again. A removed endpoint is added again.
    Up,
}

impl InterfacePlan {
    /// Returns the name in the table of events, which is also the `state` in a scenario.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "link-down",
            Self::Removed => "removed",
            Self::Up => "up",
        }
    }
}

/// A change of a link.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePlan {
    /// A new rate.
    RateBps(u64),
    /// A new propagation delay.
    DelayNs(u64),
    /// A new loss model; `None` for no loss.
    Loss(Option<LossPlan>),
    /// A new MTU: the largest packet that enters, in bytes.
    Mtu(u64),
    /// The link goes down.
    Down,
    /// The link comes up.
    Up,
}

impl ChangePlan {
    /// Returns the change of a link; `None` for the MTU, which the network checks before the link.
    pub fn change(self) -> Option<Change> {
        Some(match self {
            Self::Mtu(_) => return None,
            Self::RateBps(bps) => Change::Rate(Rate::from_bps(bps)),
            Self::DelayNs(ns) => Change::Delay(Duration::from_nanos(ns)),
            Self::Loss(loss) => Change::Loss(loss.map(LossPlan::model)),
            Self::Down => Change::Down,
            Self::Up => Change::Up,
        })
    }

    /// Returns a description for the table of events.
    pub fn describe(self) -> String {
        match self {
            Self::RateBps(bps) => format!("rate {bps} bit/s"),
            Self::DelayNs(ns) => format!("delay {} ms", ns as f64 / 1e6),
            Self::Loss(_) => "loss".to_owned(),
            Self::Mtu(bytes) => format!("mtu {bytes} bytes"),
            Self::Down => "down".to_owned(),
            Self::Up => "up".to_owned(),
        }
    }
}
