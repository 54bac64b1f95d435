//! The simulated world: virtual time, hosts, links and players, deterministic to the byte.
//!
//! `run` takes a [`Plan`] (see docs/plan-and-trace.md) and returns a [`Trace`].

mod application;
mod capture;
mod checks;
mod digest;
mod fault;
mod flight;
mod links;
mod media;
mod plan;
mod plugins;
mod record;
mod topology;
mod world;

pub use anabranch_link::model::{Form, MODELS, ModelFault, ModelKind, ModelParameter, Usual};
pub use anabranch_link::queue;
pub use anabranch_media::abr_names;
pub use anabranch_trace::{Column, Summary, Table, Trace, Words};
pub use checks::Violation;
pub use fault::{KeyPath, PlanError, PlanFault, Step};
pub use plan::*;
pub use plugins::{KINDS, plugin_faults, plugin_parts};
pub use record::{Recording, record};
pub use world::{Observer, RunError, Silent, run, run_with};
