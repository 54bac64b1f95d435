//! A host: an endpoint with its applications, sans-IO. Servers send bulk data or answer HTTP requests.
//! Clients read data or play a film. The simulator and the live runner drive hosts in the same way.
//!
//! # How to drive a host
//!
//! The caller passes received segments ([`Host::handle_segment`]) and the time
//! ([`Host::handle_timeout`]). After one or several of these inputs, it does the following:
//!
//! 1. It calls [`Host::poll_transmit`] until there is no segment left, and sends each one.
//! 2. It calls [`Host::needs_connection`]. If true, it opens a connection ([`Host::connect`])
//!    between addresses of its choice, and returns to step 1.
//! 3. It queries the time of the next timer ([`Host::poll_timeout`]).
//!
//! The host determines the order in which it calls connections and applications. It acknowledges a segment
//! before the application reads the segment's data (`tcp_ack_snd_check`). It sends the data that an
//! acknowledgement permits before the application writes more. A client's [`Session`] contains the
//! measurements of the data that was read, and whether the client is done.
//!
//! # An example
//!
//! A client reads a megabyte from a server, over a wire of 10 ms.
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use anabranch_host::{Bulk, Host, Reader, Session};
//! use anabranch_mptcp::path_manager::Candidate;
//! use anabranch_mptcp::{Config, Endpoint, FourTuple, Transmit};
//! use anabranch_units::{Duration, Instant, Seed};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let seed = Seed { seed: 1, run: 0 };
//! let (local, remote) = ("10.1.1.1:40000".parse()?, "10.1.0.1:80".parse()?);
//! let mut endpoint = Endpoint::new("server", seed);
//! endpoint.listen(remote, Config::default())?;
//! let server = Host::server(endpoint, Box::new(|_, _| Box::new(Bulk::new(Some(1_000_000)))));
//! let reader = Reader::new(Session::new(0, Instant::ZERO, None));
//! let client = Host::client(Endpoint::new("client", seed), Box::new(reader));
//! let first = Candidate { address_id: 1, local, remote, backup: false, rate: None };
//!
//! let mut hosts = [client, server];
//! // What is on its way: when it arrives, and at which host.
//! let mut wire: VecDeque<(Instant, usize, Transmit)> = VecDeque::new();
//! let mut now = Instant::ZERO;
//! while !hosts[0].session().is_some_and(|session| session.over) {
//!     while wire.front().is_some_and(|(at, ..)| *at <= now) {
//!         let Some((_, host, sent)) = wire.pop_front() else { break };
//!         let Transmit { local, remote, segment, .. } = sent;
//!         // The sender's remote end is the receiver's own.
//!         let tuple = FourTuple { local: remote, remote: local };
//!         hosts[host].handle_segment(now, tuple, &segment);
//!     }
//!     for (number, host) in hosts.iter_mut().enumerate() {
//!         while host.handle_timeout(now) {}
//!         loop {
//!             while let Some(transmit) = host.poll_transmit(now) {
//!                 wire.push_back((now + Duration::from_millis(10), 1 - number, transmit));
//!             }
//!             if !host.needs_connection() {
//!                 break;
//!             }
//!             let candidates = vec![first];
//!             host.connect(now, Config { candidates, ..Config::default() })?;
//!         }
//!     }
//!     // A real world sleeps until then, or until a packet comes.
//!     let arrival = wire.front().map(|(at, ..)| *at);
//!     let timeouts = hosts.iter_mut().filter_map(Host::poll_timeout);
//!     now = timeouts.chain(arrival).min().expect("something is to come").max(now);
//! }
//! let session = hosts[0].session().expect("a client has one");
//! assert!(session.finished);
//! assert_eq!(session.bytes_read, 1_000_000);
//! # Ok(())
//! # }
//! ```
//!
//! # Over a TUN device
//!
//! The wire is the device, opened with `IFF_TUN | IFF_NO_PI`.
//!
//! - Parse packets that are read from the device ([`anabranch_wire::parse_packet`]). Pass them to
//!   the host with the addresses of their IP headers
//!   ([`anabranch_mptcp::FourTuple::of_receiver`]). Ignore packets that cannot be parsed.
//! - Encode the host's segments ([`anabranch_wire::emit_packet`]) and write one packet per call.
//! - Poll the device with the host's timeout. Use a monotonic clock.
//! - The kernel needs a route over the device to the host's addresses. None of them may be an
//!   address of the kernel, which would answer with a RST.
//! - Seed the endpoint from the system's randomness ([`anabranch_mptcp::Endpoint::new`]).
//! - Free closed connections in a host that runs for long ([`Host::free_ended`]).
//!
//! `crates/live/examples/tun_driver.rs` does all of this: a server for clients of a kernel.

pub mod application;
mod host;
pub mod pattern;
pub mod rows;
mod session;
mod stream;

pub use application::{
    Application, Bulk, Files, Former, HttpServer, Lanes, Next, Paced, Player, Reader, WrongBytes,
    report_ladder,
};
pub use host::{Host, Serve};
pub use session::{Session, Viewing};
pub use stream::Stream;
