//! The real world: real packets in real time. It connects the simulator's endpoint with an unmodified kernel,
//! through TUN devices and the links of a plan.
//!
//! Only this crate reads a clock, waits, opens devices and sockets, and obtains random numbers from the
//! system.

mod clock;
mod entrance;
mod errno;
pub mod gateway;
mod header;
mod icmp;
mod kernel;
mod lateness;
pub mod namespace;
mod network;
mod offload;
mod origin;
mod poller;
mod pool;
mod readers;
mod relay;
mod secret;
mod side;
mod socket;
mod threads;
mod tun;
mod world;

pub use anabranch_network::InterfaceChange;
pub use clock::Clock;
pub use kernel::KernelEnd;
pub use lateness::Lateness;
pub use network::{Crossed, Datagram, Delivery, Network};
pub use origin::Origin;
pub use poller::{Poller, Ready};
pub use tun::{Arrived, Tun};
pub use world::{Ends, LiveError, Moment, Observer, Outcome, PathMoment, SubflowMoment, run};
