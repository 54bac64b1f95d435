//! The network of a plan: its links and routes with packets of any kind in them. It forwards packets, delivers them to
//! hosts, makes the plan's changes, and has the background flows. It is sans-IO: time is an argument, and the same inputs
//! give the same outputs.
//!
//! A world implements [`Packet`] for its packets and has a [`Network`] of them. [`Network::poll_timeout`] returns the next
//! [`Due`] and its time; a world with a schedule queries each one separately ([`Network::due_at`]). The results of
//! forwarding are values ([`Onward`], [`Passage`]), so that a world can act on each packet before the next one moves.
//!
//! The simulator (crate `sim`) and the emulator (crate `live`) differ where they must:
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
//! Everything else is the same. The emulator once had separate code for this, which differed without a reason. It ignored
//! changed payloads. It counted messages of routers as refused packets if an interface was down. It applied a change of an
//! interface to packets that had arrived before the change. It did not record that a background flow ended by a timer.

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
