//! Errors of the checks that every run must pass.

use anabranch_host::WrongBytes;
use thiserror::Error;

/// A check that a run failed. This always means a bug in the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// The client read bytes that were not sent at this position.
    #[error("client {client} read wrong bytes at position {position}")]
    Bytes {
        /// The number of the client. Background flows have the numbers after the last client.
        client: u32,
        /// The position in the stream or in the resource.
        position: u64,
    },
    /// The packet counts of a link are inconsistent.
    #[error("link {link}: {enqueued} packets entered, {accounted} are accounted for")]
    Conservation {
        /// The name of the link.
        link: String,
        /// The number of packets that entered the link.
        enqueued: u64,
        /// The number of packets that were delivered or dropped, or are still on the link.
        accounted: u64,
    },
    /// More segments are in flight than the window and `WINDOW_SLACK` allow.
    #[error("subflow {subflow}: {in_flight} segments in flight with a window of {cwnd}")]
    InFlight {
        /// The number of the subflow.
        subflow: u8,
        /// Segments in flight.
        in_flight: u32,
        /// The congestion window.
        cwnd: u32,
    },
    /// The TCP options need more than 40 bytes.
    #[error("{bytes} bytes of TCP options")]
    OptionSpace {
        /// The number of bytes needed.
        bytes: usize,
    },
}

impl From<WrongBytes> for Violation {
    fn from(WrongBytes { client, position }: WrongBytes) -> Self {
        Self::Bytes { client, position }
    }
}

/// The number of segments that may be sent beyond the congestion window: a loss probe, and the first segment
/// after a timeout.
pub(crate) const WINDOW_SLACK: u32 = 2;
