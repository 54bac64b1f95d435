//! Segments in flight, and the data that an attacker learns from them.

use std::collections::VecDeque;

use anabranch_units::{Duration, RandomStream};
use anabranch_wire::{CapableKeys, MptcpOption, Packet};

/// The index of the client.
pub(crate) const CLIENT: usize = 0;
/// The index of the server.
pub(crate) const SERVER: usize = 1;

/// A segment in flight, with the index of its receiver and of its path.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) to: usize,
    pub(crate) path: usize,
    /// The additional delay.
    pub(crate) late: Duration,
    pub(crate) packet: Packet,
    /// The change that is made to the encoded bytes.
    pub(crate) bytes: Bytewise,
}

/// A change to an encoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytewise {
    AsTheyAre,
    Flipped,
    Scrambled,
}

/// The data that an attacker has learned from packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The keys of the client and the server.
    pub(crate) keys: [Option<u64>; 2],
    /// The last segments that were sent, newest last.
    pub(crate) seen: VecDeque<Flight>,
}

/// The number of segments that are kept for replays.
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

    /// Returns one of the recorded segments at random.
    pub(crate) fn any(&self, random: &mut RandomStream) -> Option<Flight> {
        let count = self.seen.len() as u64;
        (count > 0).then(|| self.seen[random.below(count) as usize].clone())
    }
}
