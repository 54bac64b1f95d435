//! A host: an endpoint with its applications, sans-IO. A server that sends or answers over HTTP, a client that
//! reads or plays a film; whatever world they are in, simulated or real, drives them in the same way.
//!
//! # What a world does
//!
//! It hands in what arrives ([`Host::handle_segment`]) and the time ([`Host::handle_timeout`]). After either, or
//! several of them at the same moment, it asks
//!
//! 1. for segments, until there are none ([`Host::poll_transmit`]), and puts them on the wire;
//! 2. whether a connection is needed ([`Host::needs_connection`]): then it opens one ([`Host::connect`]) between
//!    addresses that only the world knows, and asks for segments again;
//! 3. when the host is to be woken ([`Host::poll_timeout`]).
//!
//! The order in which connections and applications have their turns is the host's: a segment is answered before
//! the application reads what came in it (`tcp_ack_snd_check`), and what an acknowledgement lets out goes out
//! before the application writes more. A client's [`Session`] tells what it has read, and when it is over.
//!
//! # An example
//!
//! A client reads a megabyte from a server, over a wire of 10 ms.
//!
//! ```
//! use std::collections::VecDeque;
//!
//! use anabranch_host::{Bulk, Host, Reader, Session};
//! use anabranch_transport::path_manager::Candidate;
//! use anabranch_transport::{Config, Endpoint, FourTuple, Transmit};
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
//! - What is read from it is parsed ([`anabranch_wire::parse_packet`]) and handed in with the addresses of its IP
//!   header ([`anabranch_transport::FourTuple::of_receiver`]). What cannot be parsed is left out.
//! - What the host has to send is encoded ([`anabranch_wire::emit_packet`]) and written, a packet a call.
//! - The sleep is a poll of the device with the host's timeout, and the time that of a monotonic clock.
//! - The kernel has a route over the device to the host's addresses, and none of them is its own: it would answer
//!   for it, with a RST.
//! - The seed comes from the system's randomness ([`anabranch_transport::Endpoint::new`]).
//! - A host that lives on frees what is over ([`Host::free_ended`]).
//!
//! `crates/live/examples/tun_driver.rs` is all of this: a server for a kernel's clients.

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
