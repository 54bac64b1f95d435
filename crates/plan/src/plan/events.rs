//! What a plan changes on the way: links, and the clients' interfaces.

use anabranch_link::Change;
use anabranch_units::{Duration, Rate};
use serde::Deserialize;

use super::LossPlan;

/// An event: a change of a link, or of the clients' interfaces on a path.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventPlan {
    /// When, from the world's beginning.
    pub at_ns: u64,
    /// Which link, with `change`.
    #[serde(default)]
    pub link: Option<String>,
    /// What changes of it.
    #[serde(default)]
    pub change: Option<ChangePlan>,
    /// Or which path, with `interface`.
    #[serde(default)]
    pub path: Option<String>,
    /// What becomes of the clients' interfaces on it.
    #[serde(default)]
    pub interface: Option<InterfacePlan>,
}

/// What an event does.
#[derive(Clone, Copy, Debug)]
pub enum Happening<'a> {
    /// A link changes.
    Link(&'a str, ChangePlan),
    /// The clients' interfaces on a path change.
    Interface(&'a str, InterfacePlan),
}

impl EventPlan {
    /// What the event does; `None` when it names not exactly one thing.
    pub fn happening(&self) -> Option<Happening<'_>> {
        match (self.link.as_deref(), self.change, self.path.as_deref(), self.interface) {
            (Some(link), Some(change), None, None) => Some(Happening::Link(link, change)),
            (None, None, Some(path), Some(what)) => Some(Happening::Interface(path, what)),
            _ => None,
        }
    }
}

/// What becomes of a network interface of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum InterfacePlan {
    /// It goes down: what is sent fails at once, what arrives is not taken. The subflows stay.
    Down,
    /// It goes down and its MPTCP end point is removed, which the peer is told.
    Removed,
    /// It is back; an end point that was removed is added again.
    Up,
}

impl InterfacePlan {
    /// Its name in the table of events: a scenario's `state`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Down => "link-down",
            Self::Removed => "removed",
            Self::Up => "up",
        }
    }
}

/// What changes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePlan {
    /// The rate.
    RateBps(u64),
    /// The delay.
    DelayNs(u64),
    /// The loss model.
    Loss(Option<LossPlan>),
    /// The largest packet that enters, bytes.
    Mtu(u64),
    /// The link goes down.
    Down,
    /// The link comes up.
    Up,
}

impl ChangePlan {
    /// As a link knows it; none knows packets too large for it.
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

    /// The change in words, as tables have it.
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
