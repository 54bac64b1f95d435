//! Tests of links against arithmetic, theory and a slow model.

mod chain;
mod chance;
mod changes;
mod driver;
mod emulator;
mod lte;
mod model;
mod nr;
mod property;
mod queue;
mod recorded;
mod starlink;
mod statistics;
mod theory;
mod varying;
mod wifi;
