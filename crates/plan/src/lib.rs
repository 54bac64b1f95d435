//! A scenario with every unit resolved, and what it asks for: endpoints, applications, links and addresses,
//! the same for every world that runs it (docs/plan-and-trace.md).

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
