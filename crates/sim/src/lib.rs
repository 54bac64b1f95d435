//! The simulated world: hosts, links and players in virtual time. Equal inputs give equal bytes.
//!
//! `run` takes a [`Plan`] (see docs/plan-and-trace.md) and returns a [`Trace`].

mod capture;
mod checks;
mod digest;
mod flight;
mod packet;
mod world;

pub use anabranch_plan::{Plan, PlanError};
pub use anabranch_trace::{Column, Summary, Table, Trace, Words};
pub use capture::{CaptureFile, CapturePoint};
pub use checks::Violation;
pub use world::{Observer, RunError, Silent, run, run_with};
