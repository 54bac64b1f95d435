//! The network of a plan: its links and routes with packets of any type in them. It forwards packets,
//! delivers them to hosts, applies the plan's changes, and contains the background flows. It is sans-IO: time
//! is an argument, and equal inputs give equal outputs.
//!
//! A caller implements [`Packet`] for its packets, and has a [`Network`] of them. [`Network::poll_timeout`]
//! returns the next action ([`Due`]) and its time. A caller with its own schedule queries each action
//! separately ([`Network::due_at`]). The results of forwarding are values ([`Onward`], [`Passage`]), so the
//! caller can handle each packet before the next one moves.
//!
//! The two callers, the simulator (crate `sim`) and the emulator (crate `live`), differ only in these points:
//!
//! | | simulator | emulator |
//! |---|---|---|
//! | packet | a boxed segment, or the number of a datagram | bytes with an IP header |
//! | flow of a packet, for queues that distinguish flows | host, route and ports | hash of addresses, protocol and ports |
//! | message about a packet that is too large | a value for the sender's host | an ICMP packet, which a capture shows |
//! | wake-up | one node of the schedule for each [`Due`] | the earliest of all |
//! | time at which a host handles a packet | that of its arrival | later: the emulator may be busy |
//! | time at which a datagram is sent | its due time | later: the emulator may be busy |
//! | interfaces of a client | the plan's | the plan's, or the kernel's: [`Network::with_kernel_clients`] |
//!
//! All other code is shared.

pub mod crossing;
mod interfaces;
mod network;
mod notices;
mod packet;
mod ports;
mod routes;

pub use interfaces::{EndpointNews, Interfaces};
pub use network::{Due, Happened, InterfaceChange, Network, Onward, Passage};
pub use packet::{Journey, Packet, Router};
pub use routes::Route;
