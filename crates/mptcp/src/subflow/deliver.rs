//! The delivery of a subflow's bytes to the data stream. Finds the mapping of the bytes and verifies its
//! checksum (`get_mapping_status`, `validate_data_csum`). Bytes wait here until both are done.

use std::collections::VecDeque;

use anabranch_units::DataSeq;
use anabranch_wire::{Mapping, MappingDsn, MptcpOption, Segment, promote, verify_dss_checksum};
use bytes::Bytes;

use super::Subflow;
use super::mapping::{Declared, Mappings, Refusal, Seal, position_of};
use anabranch_tcp::Receiver;
use anabranch_tcp::reassembly::{push_joined, share};

/// A fault in the data or the mappings of a subflow. Data after it is not delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// Data that no mapping covers.
    Unmapped,
    /// A mapping that does not cover its segment, contradicts another one, or is infinite.
    BadMapping,
    /// The mapping has a checksum that was not negotiated, or lacks a negotiated one.
    Unagreed,
    /// A mapping with a wrong checksum that begins at this DSN.
    Checksum(u64),
}

/// The connection's parameters for the peer's mappings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Terms {
    /// A DSN near the expected ones, to extend 32-bit DSNs to 64 bits.
    pub(crate) near: u64,
    /// Whether checksums were negotiated.
    pub(crate) checksum: bool,
    /// Whether data is delivered only after its whole mapping has arrived.
    pub(crate) whole: bool,
}

/// The peer's mappings, and in-order bytes that cannot be delivered yet.
#[derive(Debug, Default)]
pub(crate) struct Delivery {
    mappings: Mappings,
    /// In-order bytes whose mapping is incomplete, or that follow a failure.
    held: VecDeque<Bytes>,
    held_bytes: u64,
    /// The memory of the waiting bytes.
    held_memory: u32,
    checksums: bool,
    whole: bool,
    failure: Option<Failure>,
    /// The DSN of a `DATA_FIN` whose mapping was verified.
    data_fin: Option<u64>,
}

impl Delivery {
    /// Returns the fault that was found in the data or a mapping.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Returns the `MP_FAIL` to send if a checksum was wrong.
    pub(crate) fn failure_report(&self) -> Option<MptcpOption> {
        match self.failure {
            Some(Failure::Checksum(dsn)) => Some(MptcpOption::Fail { dsn: DataSeq(dsn) }),
            _ => None,
        }
    }

    /// Returns the number of in-order bytes that wait for the rest of their mapping or for the end of MPTCP.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Returns the position after the last delivered byte. `next` is the next expected position.
    pub(crate) fn handed(&self, next: u64) -> u64 {
        next - self.held_bytes
    }

    /// Returns the memory of the waiting bytes.
    pub(crate) fn held_memory(&self) -> u64 {
        self.held_memory.into()
    }

    /// Drops the waiting bytes. A failure is kept, because the RST reports it.
    pub(super) fn discard(&mut self) {
        self.held.clear();
        (self.held_bytes, self.held_memory) = (0, 0);
        self.mappings.clear();
    }

    fn set_failure(&mut self, failure: Failure) {
        self.failure.get_or_insert(failure);
    }

    /// Delivers in-order bytes at position `at` to `up`, with their DSN and their share of `memory`. The
    /// bytes are cut at the ends of mappings. On plain TCP, `up` gets stream positions instead of DSNs.
    #[inline]
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
                return self.push_waiting(at, payload, memory, up);
            } else if let Some(found) = self.mappings.find(at) {
                (found.dsn(at), found.end - at)
            } else {
                self.set_failure(Failure::Unmapped);
                return self.push_waiting(at, payload, memory, up);
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
    fn push_waiting(
        &mut self,
        at: u64,
        payload: Bytes,
        memory: u64,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        let next = at + payload.len() as u64;
        self.held_bytes += payload.len() as u64;
        self.held_memory = self.held_memory.saturating_add(memory as u32);
        push_joined(&mut self.held, payload);
        if self.failure.is_none() {
            self.deliver_verified(next, up);
        }
    }

    /// Delivers every mapping that is complete and verified. `next` is the position after the last waiting
    /// byte.
    fn deliver_verified(&mut self, next: u64, up: &mut impl FnMut(u64, Bytes, u64)) {
        while self.failure.is_none() && self.held_bytes > 0 {
            let from = next - self.held_bytes;
            let Some(found) = self.mappings.find(from) else {
                return self.set_failure(Failure::Unmapped);
            };
            let seal = found.seal.filter(|_| found.position == from);
            if seal.is_none() && (self.checksums || found.seal.is_some()) {
                return self.set_failure(Failure::BadMapping);
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
                    return self.set_failure(Failure::Checksum(dsn));
                }
            }
            let mut at = dsn;
            for _ in 0..pieces {
                at = self.deliver_first(at, up);
            }
            if seal.is_some_and(|seal| seal.data_fin) {
                self.data_fin = Some(at);
            }
        }
    }

    /// Delivers the first waiting piece with the DSN `at`. Returns the DSN after it.
    fn deliver_first(&mut self, at: u64, up: &mut impl FnMut(u64, Bytes, u64)) -> u64 {
        let Some(piece) = self.held.pop_front() else { return at };
        let length = piece.len() as u64;
        let memory = share(self.held_memory.into(), length, self.held_bytes);
        self.held_memory -= memory as u32;
        self.held_bytes -= length;
        up(at, piece, memory);
        at.wrapping_add(length)
    }

    /// Cuts the waiting pieces at `length` bytes. Returns the number of pieces before the cut.
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

    /// Delivers all waiting bytes with stream positions, because MPTCP has ended. `next` is the position
    /// after the last waiting byte.
    pub(crate) fn deliver_all(&mut self, next: u64, up: &mut impl FnMut(u64, Bytes, u64)) {
        let mut at = next - self.held_bytes - 1;
        while !self.held.is_empty() {
            at = self.deliver_first(at, up);
        }
        *self = Self::default();
    }

    /// Returns the DSN of a verified `DATA_FIN` and clears it.
    pub(crate) fn take_data_fin(&mut self) -> Option<u64> {
        self.data_fin.take()
    }
}

/// Extends the DSN of a mapping to 64 bits.
#[inline]
fn full_dsn(mapping: &Mapping, terms: Terms) -> u64 {
    match mapping.dsn {
        MappingDsn::Long(dsn) => dsn.0,
        MappingDsn::Short(low) => promote(low, DataSeq(terms.near)).0,
    }
}

impl Subflow {
    /// Stores the mapping of the first data, which comes without a DSS.
    pub(crate) fn note_first_mapping(
        &mut self,
        mapping: &Mapping,
        segment: &Segment,
        terms: Terms,
    ) {
        if let Some(start) = self.tcp.position_of(segment) {
            self.context.delivery_mut().note_mapping(
                mapping,
                false,
                start,
                segment,
                terms,
                self.tcp.receive(),
            );
        }
    }
}

impl Delivery {
    /// Stores the mapping of a segment whose payload begins at `start`. Returns false if the segment must be
    /// dropped because too many mappings are stored.
    // A run of 20 MB calls it 14,364 times.
    #[inline(always)]
    pub(super) fn note_mapping(
        &mut self,
        mapping: &Mapping,
        data_fin: bool,
        start: u64,
        segment: &Segment,
        terms: Terms,
        receiver: &Receiver,
    ) -> bool {
        // Fast path: the mapping is the only one, and all bytes of the segment are new.
        let into = u64::from((start as u32).wrapping_sub(mapping.ssn));
        let covers = into < u64::from(mapping.length) && into < start;
        let simple = mapping.checksum.is_none() && !terms.checksum && !data_fin;
        if covers && simple && start >= receiver.next() {
            let position = start - into;
            let end = position + u64::from(mapping.length);
            let shift = full_dsn(mapping, terms).wrapping_sub(position);
            let done = self.handed(receiver.next());
            let declared = Declared { position, end, shift, seal: None, whole: terms.whole };
            if self.mappings.repeats(&declared)
                || (into == 0 && self.mappings.insert_only(declared, done))
            {
                self.checksums = false;
                self.whole = terms.whole;
                return true;
            }
        }
        self.check_mapping(mapping, data_fin, start, segment, terms, receiver)
    }

    #[inline(never)]
    fn check_mapping(
        &mut self,
        mapping: &Mapping,
        data_fin: bool,
        start: u64,
        segment: &Segment,
        terms: Terms,
        receiver: &Receiver,
    ) -> bool {
        let (next, end) = (receiver.next(), start + segment.payload.len() as u64);
        // A segment with the next expected byte is consumed at once, so its mapping is always stored.
        // Otherwise the data after it could never be delivered.
        let waiting =
            if start <= next { u64::MAX } else { receiver.assembly().out_of_order_bytes() };
        if end <= next {
            // These bytes were received before, so their earlier mapping is valid.
            return true;
        }
        self.checksums = terms.checksum;
        self.whole = terms.whole;
        let length = u64::from(mapping.length) - u64::from(data_fin && mapping.length > 0);
        if mapping.length > 0 && mapping.checksum.is_some() != terms.checksum {
            self.set_failure(Failure::Unagreed);
            return true;
        }
        if mapping.length > 0 && length == 0 {
            // A `DATA_FIN` on a segment whose data belongs to another mapping.
            return true;
        }
        let position = position_of(mapping.ssn, next)
            .filter(|at| length > 0 && *at < end && start < at + length);
        let Some(position) = position else {
            self.set_failure(Failure::BadMapping);
            return true;
        };
        let declared = Declared {
            position,
            end: position + length,
            shift: full_dsn(mapping, terms).wrapping_sub(position),
            seal: mapping.checksum.map(|checksum| Seal { checksum, ssn: mapping.ssn, data_fin }),
            whole: terms.whole,
        };
        match self.mappings.insert(declared, self.handed(next), waiting) {
            Ok(()) => true,
            Err(Refusal::Contradiction) => {
                self.set_failure(Failure::BadMapping);
                true
            }
            Err(Refusal::TooMany) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::dss_checksum;

    use super::super::fixture::subflow;
    use super::*;

    /// Delivered bytes with their DSNs.
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
        // The relative subflow numbers wrap at 2^32, the DSNs at 2^64.
        let wrap = 1u64 << 32;
        let mut delivery = Delivery::default();
        for declared in [plain(wrap - 2, wrap, u64::MAX - 1), plain(wrap, wrap + 3, 70)] {
            delivery.mappings.insert(declared, wrap - 2, 0).expect("apart");
        }
        let handed = deliver(&mut delivery, wrap - 2, &[1, 2, 3, 4]);
        assert_eq!(handed, [(u64::MAX - 1, vec![1, 2]), (70, vec![3, 4])]);
        assert_eq!(deliver(&mut delivery, wrap + 2, &[5]), [(72, vec![5])]);
        assert_eq!(delivery.failure(), None);
        // The next byte has no mapping. It waits, with all bytes after it.
        assert_eq!(deliver(&mut delivery, wrap + 3, &[6]), []);
        assert_eq!(delivery.failure(), Some(Failure::Unmapped));
        assert_eq!(deliver(&mut delivery, wrap + 4, &[7]), []);
        assert_eq!(delivery.held_bytes(), 2);
        let mut handed = Vec::new();
        delivery
            .deliver_all(wrap + 5, &mut |at, bytes: Bytes, _| handed.push((at, bytes.to_vec())));
        assert_eq!(handed, [(wrap + 2, vec![6, 7])]);
    }

    #[test]
    fn a_mapping_that_ends_before_its_segment_is_a_failure() {
        // get_mapping_status: "Bad mapping: ssn=... map_seq=... map_data_len=...".
        let subflow = subflow();
        let mut delivery = Delivery::default();
        delivery.mappings.insert(plain(1, 201, 1000), 1, 0).expect("the only one");
        let dsn = MappingDsn::Long(DataSeq(1000));
        let mapping = Mapping { dsn, ssn: 1, length: 50, checksum: None };
        let segment = Segment { payload: Bytes::from_static(&[0; 50]), ..Segment::default() };
        let terms = Terms { near: 1000, ..Terms::default() };
        delivery.note_mapping(&mapping, false, 101, &segment, terms, subflow.tcp.receive());
        assert_eq!(delivery.failure(), Some(Failure::BadMapping));
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
    fn data_with_a_failed_checksum_is_held_back() {
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
        // A subflow that ends because of this frees its part of the window. Its RST reports the reason.
        delivery.discard();
        assert_eq!((delivery.held_bytes(), delivery.held.len()), (0, 0));
        assert!(delivery.mappings.find(4).is_none());
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
        /// Returns the first DSN and the concatenated bytes.
        fn concat_bytes(self) -> (u64, Vec<u8>);
    }

    impl ConcatBytes for Handed {
        fn concat_bytes(self) -> (u64, Vec<u8>) {
            let first = self.first().map_or(0, |(dsn, _)| *dsn);
            (first, self.into_iter().flat_map(|(_, bytes)| bytes).collect())
        }
    }
}
