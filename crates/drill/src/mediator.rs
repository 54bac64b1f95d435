//! The mediator between the endpoints: it decides what becomes of each segment.

use std::collections::VecDeque;
use std::net::SocketAddr;

use anabranch_units::{Duration, Instant, RandomStream, Seed};
use anabranch_wire::{CapableKeys, MptcpOption, Packet};

use crate::case::{CLIENT, Case, Twin};
use crate::mark::Mark;
use crate::{forge, mutate, options, raw};

/// What may be done to a segment or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    // The network.
    Drop,
    Duplicate,
    Delay,
    // Somebody who sends but does not see.
    Replay,
    BlindReset,
    BlindSyn,
    BlindData,
    BlindJoin,
    BlindOptions,
    // Somebody who sees and changes.
    Sequence,
    Acknowledgement,
    Flags,
    Window,
    Timestamps,
    Handshake,
    SackInvented,
    SackReneged,
    DssMapping,
    DssLength,
    DssAck,
    DssFin,
    DssDropped,
    OptionDropped,
    OptionDoubled,
    OptionAltered,
    OptionAdded,
    OptionMoved,
    PayloadCut,
    PayloadJoined,
    PayloadChanged,
    RawBits,
    RawOptions,
    ReplayElsewhere,
    InsideReset,
    InsideSyn,
    InsideData,
    KnownJoin,
    KnownAddAddr,
    KnownRemoveAddr,
    KnownFastClose,
    KnownFail,
}

/// Changes that a network makes.
const NETWORK: &[Kind] = &[Kind::Drop, Kind::Duplicate, Kind::Delay];
/// Changes that somebody can make who does not see the packets.
const BLIND: &[Kind] = &[
    Kind::Replay,
    Kind::BlindReset,
    Kind::BlindSyn,
    Kind::BlindData,
    Kind::BlindJoin,
    Kind::BlindOptions,
];
/// Changes that somebody can make who sees the packets.
const HOSTILE: &[Kind] = &[
    Kind::Sequence,
    Kind::Acknowledgement,
    Kind::Flags,
    Kind::Window,
    Kind::Timestamps,
    Kind::Handshake,
    Kind::SackInvented,
    Kind::SackReneged,
    Kind::DssMapping,
    Kind::DssLength,
    Kind::DssAck,
    Kind::DssFin,
    Kind::DssDropped,
    Kind::OptionDropped,
    Kind::OptionDoubled,
    Kind::OptionAltered,
    Kind::OptionAdded,
    Kind::OptionMoved,
    Kind::PayloadCut,
    Kind::PayloadJoined,
    Kind::PayloadChanged,
    Kind::RawBits,
    Kind::RawOptions,
    Kind::ReplayElsewhere,
    Kind::InsideReset,
    Kind::InsideSyn,
    Kind::InsideData,
    Kind::KnownJoin,
    Kind::KnownAddAddr,
    Kind::KnownRemoveAddr,
    Kind::KnownFastClose,
    Kind::KnownFail,
];

/// What an event may do to the bytes that an application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    /// Nothing: the bytes read are a prefix of the bytes sent.
    None,
    /// The bytes may differ where no checksum guards them.
    Payload,
    /// Anything.
    Stream,
}

impl Kind {
    /// The kinds of a case: each that the twin has, or some of them.
    pub(crate) fn draw(random: &mut RandomStream, twin: Twin) -> Vec<Self> {
        let pool: Vec<Self> = match twin {
            Twin::Benign => NETWORK.to_vec(),
            Twin::Blind => [NETWORK, BLIND].concat(),
            Twin::Hostile => [NETWORK, BLIND, HOSTILE].concat(),
        };
        // Few kinds at a time find what many together hide.
        let share = [0.1, 0.3, 1.0][random.below(3) as usize];
        let mut kinds: Vec<Self> = pool.iter().copied().filter(|_| random.chance(share)).collect();
        if kinds.is_empty() {
            kinds.push(pool[random.below(pool.len() as u64) as usize]);
        }
        kinds
    }

    pub(crate) const fn harm(self) -> Harm {
        match self {
            Self::Drop
            | Self::Duplicate
            | Self::Delay
            | Self::Replay
            | Self::BlindReset
            | Self::BlindSyn
            | Self::BlindData
            | Self::BlindJoin
            | Self::BlindOptions
            | Self::Acknowledgement
            | Self::Window
            | Self::Timestamps
            | Self::SackInvented
            | Self::SackReneged
            | Self::DssAck
            | Self::PayloadCut
            | Self::InsideReset
            | Self::InsideSyn
            | Self::KnownJoin
            | Self::KnownAddAddr
            | Self::KnownRemoveAddr
            | Self::KnownFastClose => Harm::None,
            Self::PayloadChanged => Harm::Payload,
            _ => Harm::Stream,
        }
    }
}

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
    fn note(&mut self, flight: &Flight) {
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

/// The mediator of a case.
#[derive(Debug)]
pub(crate) struct Mediator {
    kinds: Vec<Kind>,
    chance: f64,
    peace: Instant,
    seed: u64,
    known: Known,
    /// Segments so far.
    count: u64,
    /// What was done.
    pub(crate) done: Vec<(Mark, Kind)>,
    /// The worst of it.
    pub(crate) harm: Harm,
}

impl Mediator {
    pub(crate) fn new(case: &Case) -> Self {
        Self {
            kinds: case.kinds.clone(),
            chance: case.chance,
            peace: case.peace,
            seed: case.seed,
            known: Known::default(),
            count: 0,
            done: Vec::new(),
            harm: Harm::None,
        }
    }

    /// What becomes of a segment: what leaves in its place.
    pub(crate) fn pass(&mut self, now: Instant, case: &Case, flight: Flight) -> Vec<Flight> {
        let mark = Mark::Segment(self.count);
        self.count += 1;
        self.known.note(&flight);
        if now >= self.peace || !case.keeps(mark) {
            return vec![flight];
        }
        // Its own stream, so that what is done to one does not depend on what was done to others.
        let random = &mut Seed { seed: self.seed, run: self.count }.stream("segment");
        // Drawn in every case: a list of marks changes no other draw.
        let drawn = random.chance(self.chance);
        if case.cut.only.is_none() && !drawn {
            return vec![flight];
        }
        let kind = self.kinds[random.below(self.kinds.len() as u64) as usize];
        let before = flight.packet.clone();
        let out = self.apply(kind, random, flight);
        let same = out.len() == 1
            && out[0].packet == before
            && out[0].bytes == Bytewise::AsTheyAre
            && out[0].late.is_zero();
        if !same {
            self.done.push((mark, kind));
            self.harm = self.harm.max(kind.harm());
        }
        out
    }

    fn apply(&mut self, kind: Kind, random: &mut RandomStream, mut flight: Flight) -> Vec<Flight> {
        match kind {
            Kind::Drop => return Vec::new(),
            Kind::Duplicate => return vec![flight.clone(), flight],
            Kind::Delay => {
                let longest = [5, 50, 400][random.below(3) as usize] * 1_000;
                flight.late = Duration::from_micros(1 + random.below(longest));
                return vec![flight];
            }
            Kind::RawBits => flight.bytes = Bytewise::Flipped,
            Kind::RawOptions => flight.bytes = Bytewise::Scrambled,
            _ => {}
        }
        if let Some(forged) = forge::beside(kind, random, &flight, &self.known) {
            return vec![flight, forged];
        }
        let segment = &mut flight.packet.segment;
        mutate::change(kind, random, segment);
        options::change(kind, random, segment, &self.known);
        vec![flight]
    }

    /// The bytes of a flight; `None` where no packet can hold it.
    pub(crate) fn encode(&self, flight: &Flight) -> Option<Vec<u8>> {
        let Packet { source, destination, segment } = &flight.packet;
        let mut bytes = Vec::new();
        anabranch_wire::emit_packet(*source, *destination, segment, &mut bytes).ok()?;
        let random = &mut Seed { seed: self.seed, run: self.count }.stream("bytes");
        match flight.bytes {
            Bytewise::AsTheyAre => {}
            Bytewise::Flipped => raw::flip(random, &mut bytes),
            Bytewise::Scrambled => raw::scramble_options(random, &mut bytes),
        }
        Some(bytes)
    }
}

/// The addresses of a packet.
pub(crate) fn ends(packet: &Packet) -> (SocketAddr, SocketAddr) {
    let Packet { source, destination, segment } = packet;
    (
        SocketAddr::new(*source, segment.source_port),
        SocketAddr::new(*destination, segment.destination_port),
    )
}
