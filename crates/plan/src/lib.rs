//! The plan: a scenario with every unit resolved (docs/plan-and-trace.md). The crate also builds
//! the endpoints, applications, links and addresses of a plan, which are the same in simulation and
//! with real packets.

pub mod addresses;
pub mod application;
pub mod endpoints;
mod fault;
mod links;
mod media;
mod plan;
mod plugins;
mod record;

pub use anabranch_link::model::{Form, MODELS, ModelFault, ModelKind, ModelParameter, Usual};
pub use anabranch_link::queue;
pub use anabranch_media::abr_names;
pub use fault::{KeyPath, PlanError, PlanFault, Step};
pub use links::{Links, link_row};
pub use media::Media;
pub use plan::*;
pub use plugins::{KINDS, choice, plugin_faults, plugin_parts};
pub use record::{Recording, record};
