//! The mediator between the endpoints, which delivers, drops or changes each segment.

use std::net::SocketAddr;

use anabranch_units::{Duration, Instant, RandomStream, Seed};
use anabranch_wire::Packet;

use crate::case::Case;
use crate::flight::{Bytewise, Flight, Known};
use crate::harm::{Harm, Kind};
use crate::mark::Mark;
use crate::{forge, mutate, options, raw};

/// The mediator of a case.
#[derive(Debug)]
pub(crate) struct Mediator {
    kinds: Vec<Kind>,
    chance: f64,
    peace: Instant,
    seed: u64,
    known: Known,
    /// The number of segments so far.
    count: u64,
    /// The changes so far.
    pub(crate) done: Vec<(Mark, Kind)>,
    /// The largest harm of these changes.
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

    /// Returns the segments that are sent in place of one segment.
    pub(crate) fn pass(&mut self, now: Instant, case: &Case, flight: Flight) -> Vec<Flight> {
        let mark = Mark::Segment(self.count);
        self.count += 1;
        self.known.note(&flight);
        if now >= self.peace || !case.keeps(mark) {
            return vec![flight];
        }
        // Each segment has its own random stream. Its change therefore does not depend on changes of other
        // segments.
        let random = &mut Seed { seed: self.seed, run: self.count }.stream("segment");
        // This is drawn even if its result is not used, so that a list of marks does not change later draws.
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
        if let Some(forged) = forge::forged(kind, random, &flight, &self.known) {
            return vec![flight, forged];
        }
        let segment = &mut flight.packet.segment;
        mutate::change(kind, random, segment);
        options::change(kind, random, segment, &self.known);
        vec![flight]
    }

    /// Returns the encoded bytes of a segment in flight; `None` if it cannot be encoded.
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

/// Returns the source and destination address of a packet.
pub(crate) fn ends(packet: &Packet) -> (SocketAddr, SocketAddr) {
    let Packet { source, destination, segment } = packet;
    (
        SocketAddr::new(*source, segment.source_port),
        SocketAddr::new(*destination, segment.destination_port),
    )
}
