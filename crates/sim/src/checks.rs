//! The checkers of rules that must hold in every run.

use anabranch_host::WrongBytes;
use thiserror::Error;

/// A rule that a run broke: always a defect of the simulator.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Violation {
    /// The client read bytes that were not sent there.
    #[error("client {client} read wrong bytes at position {position}")]
    Bytes {
        /// The client, or a flow of cross traffic, counted on behind the last client.
        client: u32,
        /// The position in the stream or resource.
        position: u64,
    },
    /// Packets appeared or vanished on a link.
    #[error("link {link}: {enqueued} packets entered, {accounted} are accounted for")]
    Conservation {
        /// The link.
        link: String,
        /// Packets that entered.
        enqueued: u64,
        /// Delivered, dropped or inside.
        accounted: u64,
    },
    /// More is in flight than the window and its slack allow.
    #[error("subflow {subflow}: {in_flight} segments in flight with a window of {cwnd}")]
    InFlight {
        /// The subflow.
        subflow: u8,
        /// Segments in flight.
        in_flight: u32,
        /// The congestion window.
        cwnd: u32,
    },
    /// TCP options need more than 40 bytes.
    #[error("{bytes} bytes of TCP options")]
    OptionSpace {
        /// Bytes needed.
        bytes: usize,
    },
}

impl From<WrongBytes> for Violation {
    fn from(WrongBytes { client, position }: WrongBytes) -> Self {
        Self::Bytes { client, position }
    }
}

/// Segments beyond the congestion window that are allowed: a loss probe, and the head after a timeout.
pub(crate) const WINDOW_SLACK: u32 = 2;
