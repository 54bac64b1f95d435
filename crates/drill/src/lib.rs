//! Random tests of two endpoints with a faulty network or an attacker between them.
//!
//! One seed is one case. The case is drawn, run in virtual time, checked at every step, and reduced
//! if it fails. The endpoints exchange bytes: every segment is encoded, possibly changed, and
//! parsed again.

mod actions;
mod application;
mod case;
mod fault;
mod flight;
mod forge;
pub mod fuzz;
mod harm;
mod lock;
mod mark;
mod mediator;
mod meter;
mod mutate;
mod options;
mod raw;
mod run;
mod shrink;
mod side;
mod world;

pub use case::{Case, Cut};
pub use fault::Fault;
pub use harm::Twin;
pub use lock::lock_line;
pub use mark::{Mark, parse_marks};
pub use meter::Meter;
pub use run::{Report, run};
pub use shrink::{Shrunk, shrink};
