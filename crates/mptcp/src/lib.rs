//! The MPTCP endpoint, sans-IO: it never reads a clock, opens a socket or starts a thread.
//!
//! Method names begin with three verbs: `handle_*` takes input from the network or the clock, `poll_*`
//! returns output, and `on_*` notifies a plug-in.

mod choices;
pub mod config;
pub mod connection;
mod endpoint;
pub mod path_manager;
pub mod profile;
mod secrets;
mod subflow;

pub use anabranch_tcp::config::{EcnMode, FourTuple, HostModel, RTO_MAX_DEFAULT, RTO_MAX_LEAST};
pub use anabranch_tcp::{Totals as SubflowTotals, earliest};
pub use config::{Announcement, Config, SEND_FRAGMENT_DEFAULT};
pub use connection::{
    Assumed, Connection, ConnectionView, Event, Origin, ReceiverSample, SubflowSample,
    SubflowSummary, Transmit, WindowInUse, WriteError,
};
pub use endpoint::{ConnectError, ConnectionHandle, Endpoint, ListenConfig, ListenError, Outgoing};
pub use profile::Stack;
pub use secrets::Secrets;
