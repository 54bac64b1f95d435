//! Segments on their way, and what somebody who sees them knows.

use std::collections::VecDeque;

use anabranch_units::{Duration, RandomStream};
use anabranch_wire::{CapableKeys, MptcpOption, Packet};

/// The side of the client in pairs.
pub(crate) const CLIENT: usize = 0;
/// The side of the server in pairs.
pub(crate) const SERVER: usize = 1;

/// A segment on its way, with the side that it goes to.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) to: usize,
    pub(crate) path: usize,
    /// Later than it would be.
    pub(crate) late: Duration,
    pub(crate) packet: Packet,
    /// What becomes of its bytes.
    pub(crate) bytes: Bytewise,
}

/// What becomes of a packet once it is bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytewise {
    AsTheyAre,
    Flipped,
    Scrambled,
}

/// What an attacker who sees the packets knows of the connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// Of the client and of the server.
    pub(crate) keys: [Option<u64>; 2],
    /// The last segments of each connection, newest last.
    pub(crate) seen: VecDeque<Flight>,
}

/// The number of past segments kept for replaying.
const REMEMBERED: usize = 200;

impl Known {
    pub(crate) fn note(&mut self, flight: &Flight) {
        for option in &flight.packet.segment.mptcp {
            if let MptcpOption::Capable(capable) = option {
                match capable.keys {
                    CapableKeys::None => {}
                    CapableKeys::Responder(key) => self.keys[1] = Some(key),
                    CapableKeys::Both { initiator, .. }
                    | CapableKeys::WithData { initiator, .. } => {
                        self.keys[CLIENT] = Some(initiator);
                    }
                }
            }
        }
        if self.seen.len() == REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(flight.clone());
    }

    /// One of the segments seen.
    pub(crate) fn any(&self, random: &mut RandomStream) -> Option<Flight> {
        let count = self.seen.len() as u64;
        (count > 0).then(|| self.seen[random.below(count) as usize].clone())
    }
}
