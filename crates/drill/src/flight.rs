//! Segments in flight, and the knowledge of an observer.

use std::collections::VecDeque;

use anabranch_units::{Duration, RandomStream};
use anabranch_wire::{CapableKeys, MptcpOption, Packet};

/// The index of the client.
pub(crate) const CLIENT: usize = 0;
/// The index of the server.
pub(crate) const SERVER: usize = 1;

/// A segment in flight, and the index of its receiver.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    pub(crate) to: usize,
    pub(crate) path: usize,
    /// The additional delay.
    pub(crate) late: Duration,
    pub(crate) packet: Packet,
    /// The change of its encoded bytes.
    pub(crate) bytes: Bytewise,
}

/// The change of an encoded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bytewise {
    AsTheyAre,
    Flipped,
    Scrambled,
}

/// The knowledge of an attacker who sees the packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// The keys of the client and the server.
    pub(crate) keys: [Option<u64>; 2],
    /// The latest segments, newest last.
    pub(crate) seen: VecDeque<Flight>,
}

/// The number of past segments that are kept for replays.
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

    /// Returns a random segment of those seen.
    pub(crate) fn any(&self, random: &mut RandomStream) -> Option<Flight> {
        let count = self.seen.len() as u64;
        (count > 0).then(|| self.seen[random.below(count) as usize].clone())
    }
}
