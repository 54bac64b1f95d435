//! A plan's routes, what routers know of their links, interfaces and background flows: the same for every world.

pub mod crossing;
mod interfaces;
mod routes;
mod ways;

pub use interfaces::{EndpointNews, Interfaces};
pub use routes::{Route, routes};
pub use ways::{Way, way_back, ways};
