//! From a subflow's bytes to the data stream: which mapping says where they belong, whether its
//! checksum is right, and what is held back until that is known (`get_mapping_status`,
//! `validate_data_csum`).

use std::collections::VecDeque;

use anabranch_units::DataSeq;
use anabranch_wire::{Mapping, MappingDsn, Segment, promote, verify_dss_checksum};
use bytes::Bytes;

use super::Subflow;
use super::mapping::{Declared, Mappings, Refusal, Seal, position_of};
use super::receive::Receiver;
use crate::reassembly::{push_joined, share};

/// What is wrong with what a subflow has brought. From then on it holds back all that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Data that no mapping covers.
    Unmapped,
    /// A mapping that does not cover its segment, or contradicts another, or is infinite.
    BadMapping,
    /// A checksum although none was agreed on, or none although they were.
    Unagreed,
    /// A wrong checksum of the mapping that begins at this DSN.
    Checksum(u64),
}

/// What a subflow has to know to understand the peer's mappings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// A DSN near those to come, to complete short ones.
    pub(crate) near: u64,
    /// Checksums were agreed on.
    pub(crate) checksum: bool,
    /// Data goes up when all of its mapping has come.
    pub(crate) whole: bool,
}

/// Bytes in order on their way up.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    mappings: Mappings,
    /// In order and not handed up: a mapping that is not complete, or what follows a failure.
    held: VecDeque<Bytes>,
    held_bytes: u64,
    /// What they are charged.
    held_memory: u32,
    checksums: bool,
    whole: bool,
    failure: Option<Failure>,
    /// Position in the data stream's numbers of a `DATA_FIN` whose mapping was right.
    data_fin: Option<u64>,
}

impl Delivery {
    pub(super) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    pub(super) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// The memory of these.
    pub(super) fn held_memory(&self) -> u64 {
        self.held_memory.into()
    }

    /// Lets go of what waits; what failed stays known, for the reset to tell.
    pub(super) fn discard(&mut self) {
        self.held.clear();
        (self.held_bytes, self.held_memory) = (0, 0);
        self.mappings.clear();
    }

    fn fail(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Hands bytes at position `at`, the next ones in order, up with their DSN (all 64 bits; on plain
    /// TCP the stream position) and their share of `memory`, cut where mappings meet.
    #[inline(always)]
    pub(super) fn deliver(
        &mut self,
        mut at: u64,
        mut payload: Bytes,
        mut memory: u64,
        multipath: bool,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        while !payload.is_empty() {
            let (dsn, room) = if !multipath {
                (at - 1, u64::MAX)
            } else if self.checksums || self.whole || self.failure.is_some() {
                return self.hold(at, payload, memory, up);
            } else if let Some(found) = self.mappings.at(at) {
                (found.dsn(at), found.end - at)
            } else {
                self.fail(Failure::Unmapped);
                return self.hold(at, payload, memory, up);
            };
            if room >= payload.len() as u64 {
                return up(dsn, payload, memory);
            }
            at += room;
            let part = share(memory, room, payload.len() as u64);
            memory -= part;
            up(dsn, payload.split_to(room as usize), part);
        }
    }

    #[inline(never)]
    fn hold(&mut self, at: u64, payload: Bytes, memory: u64, up: &mut impl FnMut(u64, Bytes, u64)) {
        let next = at + payload.len() as u64;
        self.held_bytes += payload.len() as u64;
        self.held_memory = self.held_memory.saturating_add(memory as u32);
        push_joined(&mut self.held, payload);
        if self.failure.is_none() {
            self.verify(next, up);
        }
    }

    /// Hands up every mapping that is complete and right; `next` is behind the last byte held.
    fn verify(&mut self, next: u64, up: &mut impl FnMut(u64, Bytes, u64)) {
        while self.failure.is_none() && self.held_bytes > 0 {
            let from = next - self.held_bytes;
            let Some(found) = self.mappings.at(from) else {
                return self.fail(Failure::Unmapped);
            };
            let seal = found.seal.filter(|_| found.position == from);
            if seal.is_none() && (self.checksums || found.seal.is_some()) {
                return self.fail(Failure::BadMapping);
            }
            if next < found.end {
                return;
            }
            let length = found.end - from;
            let pieces = self.cut_held(length as usize);
            let dsn = found.dsn(from);
            let bytes = self.held.range(..pieces).map(|piece| &piece[..]);
            if let Some(seal) = seal {
                let stated = length as u16 + u16::from(seal.data_fin);
                if !verify_dss_checksum(DataSeq(dsn), seal.ssn, stated, bytes, seal.checksum) {
                    return self.fail(Failure::Checksum(dsn));
                }
            }
            let mut at = dsn;
            for _ in 0..pieces {
                at = self.hand_up(at, up);
            }
            if seal.is_some_and(|seal| seal.data_fin) {
                self.data_fin = Some(at);
            }
        }
    }

    /// Hands the first piece up as what lies at `at`; where the next one does.
    fn hand_up(&mut self, at: u64, up: &mut impl FnMut(u64, Bytes, u64)) -> u64 {
        let Some(piece) = self.held.pop_front() else { return at };
        let length = piece.len() as u64;
        let memory = share(self.held_memory.into(), length, self.held_bytes);
        self.held_memory -= memory as u32;
        self.held_bytes -= length;
        up(at, piece, memory);
        at.wrapping_add(length)
    }

    /// The first pieces that make `length` bytes; the last one is cut there.
    fn cut_held(&mut self, length: usize) -> usize {
        let (mut pieces, mut bytes) = (0, 0);
        while bytes < length {
            let left = length - bytes;
            let piece = &mut self.held[pieces];
            if piece.len() > left {
                let rest = piece.split_off(left);
                self.held.insert(pieces + 1, rest);
            }
            bytes += self.held[pieces].len();
            pieces += 1;
        }
        pieces
    }

    /// Hands everything held up as plain TCP has it; `next` is behind the last byte held.
    pub(super) fn release(&mut self, next: u64, up: &mut impl FnMut(u64, Bytes, u64)) {
        let mut at = next - self.held_bytes - 1;
        while !self.held.is_empty() {
            at = self.hand_up(at, up);
        }
        *self = Self::default();
    }

    /// The DSN of a `DATA_FIN` that a verified mapping has brought; once.
    pub(super) fn take_data_fin(&mut self) -> Option<u64> {
        self.data_fin.take()
    }
}

/// All 64 bits of a mapping's DSN.
#[inline(always)]
fn full_dsn(mapping: &Mapping, terms: Terms) -> u64 {
    match mapping.dsn {
        MappingDsn::Long(dsn) => dsn.0,
        MappingDsn::Short(low) => promote(low, DataSeq(terms.near)).0,
    }
}

impl Subflow {
    /// Files the mapping of the first data, which has no DSS.
    pub(crate) fn note_first_mapping(
        &mut self,
        mapping: &Mapping,
        segment: &Segment,
        terms: Terms,
    ) {
        if let Some(start) = self.sequence.peer_position(segment.seq, self.receive.next()) {
            self.receive.note_mapping(mapping, false, start, segment, terms);
        }
    }
}

impl Receiver {
    /// Stores the mapping on a segment with payload at `start`. Returns false if the segment must be dropped because
    /// there is no room for the mapping.
    #[inline(always)]
    pub(crate) fn note_mapping(
        &mut self,
        mapping: &Mapping,
        data_fin: bool,
        start: u64,
        segment: &Segment,
        terms: Terms,
    ) -> bool {
        // Most often it is the only one, and the segment's bytes are all new: the first of it, or further ones.
        let into = u64::from((start as u32).wrapping_sub(mapping.ssn));
        let covers = into < u64::from(mapping.length) && into < start;
        let simple = mapping.checksum.is_none() && !terms.checksum && !data_fin;
        if covers && simple && start >= self.next() {
            let position = start - into;
            let end = position + u64::from(mapping.length);
            let shift = full_dsn(mapping, terms).wrapping_sub(position);
            let done = self.handed();
            let delivery = &mut self.delivery;
            let declared = Declared { position, end, shift, seal: None, whole: terms.whole };
            if delivery.mappings.repeats(&declared)
                || (into == 0 && delivery.mappings.insert_only(declared, done))
            {
                delivery.checksums = false;
                delivery.whole = terms.whole;
                return true;
            }
        }
        self.check_mapping(mapping, data_fin, start, segment, terms)
    }

    #[inline(never)]
    fn check_mapping(
        &mut self,
        mapping: &Mapping,
        data_fin: bool,
        start: u64,
        segment: &Segment,
        terms: Terms,
    ) -> bool {
        let (next, end) = (self.next(), start + segment.payload.len() as u64);
        // What brings the next byte is consumed at once, and there is always room for its mapping: else
        // all that waits behind it would wait for ever.
        let waiting = if start <= next { u64::MAX } else { self.out_of_order_bytes() };
        let delivery = &mut self.delivery;
        if end <= next {
            // What was said of these bytes first counts.
            return true;
        }
        delivery.checksums = terms.checksum;
        delivery.whole = terms.whole;
        let length = u64::from(mapping.length) - u64::from(data_fin && mapping.length > 0);
        if mapping.length > 0 && mapping.checksum.is_some() != terms.checksum {
            delivery.fail(Failure::Unagreed);
            return true;
        }
        if mapping.length > 0 && length == 0 {
            // A `DATA_FIN` that rides data of another mapping.
            return true;
        }
        let position = position_of(mapping.ssn, next)
            .filter(|at| length > 0 && *at < end && start < at + length);
        let Some(position) = position else {
            delivery.fail(Failure::BadMapping);
            return true;
        };
        let declared = Declared {
            position,
            end: position + length,
            shift: full_dsn(mapping, terms).wrapping_sub(position),
            seal: mapping.checksum.map(|checksum| Seal { checksum, ssn: mapping.ssn, data_fin }),
            whole: terms.whole,
        };
        match delivery.mappings.insert(declared, next - delivery.held_bytes, waiting) {
            Ok(()) => true,
            Err(Refusal::Contradiction) => {
                delivery.fail(Failure::BadMapping);
                true
            }
            Err(Refusal::TooMany) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::dss_checksum;

    use super::*;

    /// What was handed up: DSN and bytes.
    type Handed = Vec<(u64, Vec<u8>)>;

    fn plain(position: u64, end: u64, dsn: u64) -> Declared {
        Declared { position, end, shift: dsn.wrapping_sub(position), seal: None, whole: false }
    }

    fn sealed(position: u64, dsn: u64, bytes: &[u8]) -> Declared {
        let (ssn, length) = (position as u32, bytes.len() as u16);
        let checksum = dss_checksum(DataSeq(dsn), ssn, length, [bytes]);
        let seal = Some(Seal { checksum, ssn, data_fin: false });
        Declared { seal, ..plain(position, position + bytes.len() as u64, dsn) }
    }

    fn deliver(delivery: &mut Delivery, at: u64, bytes: &[u8]) -> Handed {
        let mut handed = Vec::new();
        let mut charged = 0;
        let mut up = |dsn, bytes: Bytes, memory: u64| {
            charged += memory;
            handed.push((dsn, bytes.to_vec()));
        };
        let memory = 7 * bytes.len() as u64;
        let before = u64::from(delivery.held_memory) + memory;
        delivery.deliver(at, Bytes::copy_from_slice(bytes), memory, true, &mut up);
        assert_eq!(charged + u64::from(delivery.held_memory), before);
        assert_eq!(u64::from(delivery.held_memory), 7 * delivery.held_bytes);
        handed
    }

    #[test]
    fn bytes_are_cut_where_mappings_meet_also_across_the_wraps() {
        // Of the relative subflow numbers at 2^32, and of the DSNs at 2^64.
        let wrap = 1u64 << 32;
        let mut delivery = Delivery::default();
        for declared in [plain(wrap - 2, wrap, u64::MAX - 1), plain(wrap, wrap + 3, 70)] {
            delivery.mappings.insert(declared, wrap - 2, 0).expect("apart");
        }
        let handed = deliver(&mut delivery, wrap - 2, &[1, 2, 3, 4]);
        assert_eq!(handed, [(u64::MAX - 1, vec![1, 2]), (70, vec![3, 4])]);
        assert_eq!(deliver(&mut delivery, wrap + 2, &[5]), [(72, vec![5])]);
        assert_eq!(delivery.failure(), None);
        // Nothing says where the next one belongs; it is kept, with all that follows.
        assert_eq!(deliver(&mut delivery, wrap + 3, &[6]), []);
        assert_eq!(delivery.failure(), Some(Failure::Unmapped));
        assert_eq!(deliver(&mut delivery, wrap + 4, &[7]), []);
        assert_eq!(delivery.held_bytes(), 2);
        let mut handed = Vec::new();
        delivery.release(wrap + 5, &mut |at, bytes: Bytes, _| handed.push((at, bytes.to_vec())));
        assert_eq!(handed, [(wrap + 2, vec![6, 7])]);
    }

    #[test]
    fn a_sealed_mapping_goes_up_whole_however_it_was_cut() {
        let film: Vec<u8> = (0..=255).cycle().take(5000).collect();
        for size in [1, 7, 999, 1024, 1500, 4000] {
            let mut delivery = Delivery { checksums: true, ..Delivery::default() };
            for from in [0, 2000, 4000] {
                let to = (from + 2000).min(5000);
                let declared = sealed(1 + from as u64, 9 + from as u64, &film[from..to]);
                delivery.mappings.insert(declared, 1, 0).expect("apart");
            }
            let (mut at, mut stream) = (1, Vec::new());
            for piece in film.chunks(size) {
                for (dsn, bytes) in deliver(&mut delivery, at, piece) {
                    assert_eq!(dsn, 9 + stream.len() as u64);
                    stream.extend(bytes);
                }
                at += piece.len() as u64;
                let whole = ((at - 1) / 2000 * 2000) as usize;
                let expected = if at == 5001 { 5000 } else { whole };
                assert_eq!(stream.len(), expected, "pieces of {size}");
                assert!(delivery.held.len() <= 4, "{} pieces", delivery.held.len());
            }
            assert!(stream == film && delivery.held_bytes() == 0);
        }
    }

    #[test]
    fn what_is_not_what_was_summed_is_held_back() {
        let mut delivery = Delivery { checksums: true, ..Delivery::default() };
        for (position, bytes) in [(1, [1, 2, 3]), (4, [4, 5, 6])] {
            delivery
                .mappings
                .insert(sealed(position, 100 + position, &bytes), 1, 0)
                .expect("apart");
        }
        assert_eq!(deliver(&mut delivery, 1, &[1, 2, 3, 4, 5]), [(101, vec![1, 2, 3])]);
        assert_eq!(deliver(&mut delivery, 6, &[7]), []);
        assert_eq!(delivery.failure(), Some(Failure::Checksum(104)));
        assert_eq!(delivery.held_bytes(), 3);
        // A subflow that ends for it takes no more of the window; its RST tells why.
        delivery.discard();
        assert_eq!((delivery.held_bytes(), delivery.held.len()), (0, 0));
        assert!(delivery.mappings.at(4).is_none());
        assert_eq!(delivery.failure(), Some(Failure::Checksum(104)));
    }

    #[test]
    fn older_stacks_hand_a_mapping_up_when_all_of_it_has_come() {
        // mptcp_queue_skb: "Have we not yet received the full mapping?"
        let mut delivery = Delivery { whole: true, ..Delivery::default() };
        for (from, to) in [(1, 5), (5, 9)] {
            let declared = Declared { whole: true, ..plain(from, to, 99 + from) };
            delivery.mappings.insert(declared, 1, 0).expect("apart");
        }
        assert_eq!(deliver(&mut delivery, 1, &[1, 2, 3]), []);
        assert_eq!(delivery.held_bytes(), 3);
        let handed = deliver(&mut delivery, 4, &[4, 5]);
        assert_eq!(handed.concat_bytes(), (100, vec![1, 2, 3, 4]));
        assert_eq!(deliver(&mut delivery, 6, &[6, 7, 8]).concat_bytes(), (104, vec![5, 6, 7, 8]));
        assert_eq!((delivery.held_bytes(), delivery.failure()), (0, None));
    }

    trait ConcatBytes {
        /// Where what was handed up begins, and all of it.
        fn concat_bytes(self) -> (u64, Vec<u8>);
    }

    impl ConcatBytes for Handed {
        fn concat_bytes(self) -> (u64, Vec<u8>) {
            let first = self.first().map_or(0, |(dsn, _)| *dsn);
            (first, self.into_iter().flat_map(|(_, bytes)| bytes).collect())
        }
    }
}
