//! The scoreboard: all segments that were sent and are not cumulatively acknowledged, their SACK state, and
//! the counts from which the segments in flight are computed (RFC 6675 pipe; `tcp_packets_in_flight`).

use std::collections::VecDeque;
use std::ops::Range;

use anabranch_units::Instant;
use bytes::Bytes;

pub(super) use acknowledge::{Acknowledged, Delivered};

/// The tag of a segment. All segments of a burst have the same tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The position of the first byte in the data stream of the layer above.
    pub data: u64,
    /// The position of that byte on this connection.
    pub position: u64,
    /// The number of bytes.
    pub length: u16,
}

/// The tag of a sent segment in a compact form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SentTag {
    data: u64,
    /// The lower half of the position. The position is less than the tag's length before the segment.
    position: u32,
    /// The number of bytes; 0 means no tag.
    length: u16,
}

impl From<Option<Tag>> for SentTag {
    #[inline]
    fn from(tag: Option<Tag>) -> Self {
        tag.map_or_else(Self::default, |Tag { data, position, length }| Self {
            data,
            position: position as u32,
            length,
        })
    }
}

/// The state for delivery-rate estimation when a segment was sent (`tcp_skb_cb.tx`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxStamp {
    pub(crate) first_sent: Instant,
    pub(crate) delivered_at: Instant,
    pub(crate) delivered: u64,
    pub(crate) delivered_ce: u32,
    /// This counter wraps; only differences are used.
    pub(crate) lost: u32,
    pub(crate) in_flight: u32,
    pub(crate) app_limited: bool,
}

/// One segment on the scoreboard.
#[derive(Clone, Debug)]
#[expect(clippy::struct_field_names, reason = "`sent_at` is when, not what")]
pub(crate) struct Sent {
    pub(crate) start: u64,
    pub(crate) payload: Bytes,
    pub(crate) tag: SentTag,
    pub(crate) sent_at: Instant,
    pub(crate) stamp: TxStamp,
    /// The segment's index in the order of transmission. The index increases with each transmission, even at
    /// the same time.
    pub(crate) serial: u64,
    /// The number of transmissions. An element of the transmission order with another number is
    /// outdated.
    pub(crate) transmission: u32,
    pub(crate) fin: bool,
    /// Whether this is the first segment of its socket buffer. The buffer's memory is charged with it.
    pub(crate) opens_buffer: bool,
    pub(crate) sacked: bool,
    /// If the entry is SACKed and begins a range of SACKed entries: the length of that range.
    pub(crate) leap: u32,
    pub(crate) lost: bool,
    /// Whether the segment was retransmitted and the retransmission is neither acknowledged nor lost
    /// (`SACKED_RETRANS`).
    pub(crate) retransmitted: bool,
}

impl Sent {
    /// Returns the position after the segment, including its FIN.
    pub(crate) fn end(&self) -> u64 {
        self.start + self.payload.len() as u64 + u64::from(self.fin)
    }

    /// Returns the tag that the segment was sent with.
    pub(crate) fn tag(&self) -> Option<Tag> {
        let SentTag { data, position, length } = self.tag;
        let behind = (self.start as u32).wrapping_sub(position);
        let position = self.start.wrapping_sub(behind.into());
        (length > 0).then_some(Tag { data, position, length })
    }

    /// Returns whether the segment was sent more than once.
    pub(crate) fn ever_retransmitted(&self) -> bool {
        self.transmission > 1
    }
}

/// The sent segments in sequence order, and in order of transmission.
#[derive(Debug, Default)]
pub struct Flight {
    /// Whether the peer sends SACK blocks.
    selective: bool,
    rate: delivery_rate::Sampler,
    /// Payload bytes cumulatively acknowledged.
    bytes_acked: u64,
    /// The number of the front entry. Numbers are never reused.
    base: u64,
    entries: VecDeque<Sent>,
    /// Entry numbers and transmission counts in order of transmission (`tsorted_sent_queue`). Elements of
    /// removed entries are dropped, so the length is limited by the number of entries.
    order: VecDeque<(u64, u32)>,
    /// The number of entries at the end that are not in `order` yet; they follow it in sequence order. If it
    /// exceeds the number of entries, none is in `order`. Most entries are acknowledged before `order` is
    /// needed.
    unplaced: u32,
    sacked_out: u32,
    lost_out: u32,
    retrans_out: u32,
    /// The start of the highest SACKed segment (`tcp_highest_sack_seq`).
    highest_sacked_start: u64,
    /// No entry before this number is both lost and not retransmitted.
    retransmit_hint: u64,
    /// The ranges of the last SACK option, so that only new parts are examined (`recv_sack_cache`).
    sack_cache: [(u64, u64); 4],
    /// The number of transmissions so far.
    transmissions: u64,
    /// The first transmissions of retransmitted segments, if they are recorded.
    firsts: Option<Box<firsts::Firsts>>,
}

impl Flight {
    /// Creates an empty flight. The segment of the handshake counts as delivered.
    pub(crate) fn new(selective: bool) -> Self {
        Self { selective, rate: delivery_rate::Sampler::opened(), ..Self::default() }
    }

    /// Sets whether the peer sends SACK blocks.
    pub(crate) fn set_selective(&mut self, selective: bool) {
        self.selective = selective;
    }

    /// Returns whether the peer sends SACK blocks.
    pub(crate) fn is_selective(&self) -> bool {
        self.selective
    }

    /// Removes all segments, because the connection has ended.
    pub(crate) fn discard_all(&mut self) {
        let (selective, bytes_acked) = (self.selective, self.bytes_acked);
        let rate = std::mem::take(&mut self.rate);
        *self = Self { selective, rate, bytes_acked, ..Self::default() };
    }

    /// Returns the delivery-rate sampler, with the counts of delivered and lost segments.
    #[inline]
    pub fn rate(&self) -> &delivery_rate::Sampler {
        &self.rate
    }

    /// Returns a mutable reference to the delivery-rate sampler.
    #[inline]
    pub(super) fn rate_mut(&mut self) -> &mut delivery_rate::Sampler {
        &mut self.rate
    }

    /// Returns the payload bytes cumulatively acknowledged.
    #[inline]
    pub(super) fn bytes_acked(&self) -> u64 {
        self.bytes_acked
    }

    /// Returns the number of segments that are marked lost.
    #[inline]
    pub(super) fn lost_out(&self) -> u32 {
        self.lost_out
    }

    /// Returns the number of retransmissions that are in the network.
    #[inline]
    pub(super) fn retrans_out(&self) -> u32 {
        self.retrans_out
    }

    /// Returns the number of SACKed segments, or of duplicate acknowledgements without SACK.
    #[inline]
    pub(super) fn sacked_out(&self) -> u32 {
        self.sacked_out
    }

    /// Returns whether a lost segment was not retransmitted yet.
    #[inline]
    pub(super) fn needs_repair(&self) -> bool {
        self.lost_out > self.retrans_out
    }

    /// Returns whether no outstanding segment is SACKed, lost or retransmitted.
    #[inline]
    pub(super) fn is_in_order(&self) -> bool {
        (self.sacked_out | self.lost_out | self.retrans_out) == 0
    }

    /// Returns the number of segments sent and not cumulatively acknowledged (`packets_out`).
    pub fn packets_out(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Returns the number of segments estimated to be in the network (`tcp_packets_in_flight`).
    pub fn in_flight(&self) -> u32 {
        self.packets_out() + self.retrans_out - self.sacked_out - self.lost_out
    }

    /// Returns whether nothing is outstanding.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a segment that was just sent for the first time.
    #[inline]
    pub(crate) fn push(&mut self, mut sent: Sent) {
        debug_assert_eq!(sent.transmission, 1, "a new segment was sent once");
        self.transmissions += 1;
        sent.serial = self.transmissions;
        self.unplaced = self.unplaced.saturating_add(1);
        self.entries.push_back(sent);
    }

    /// Returns the oldest outstanding segment.
    pub(crate) fn front(&self) -> Option<&Sent> {
        self.entries.front()
    }

    /// Removes the oldest segment and updates the counts.
    #[inline]
    pub(crate) fn remove_front(&mut self) {
        let Some(sent) = self.entries.pop_front() else {
            return;
        };
        self.base += 1;
        self.sacked_out -= u32::from(sent.sacked);
        self.lost_out -= u32::from(sent.lost);
        self.retrans_out -= u32::from(sent.retransmitted);
        while self.order.front().is_some_and(|place| place.0 < self.base) {
            self.order.pop_front();
        }
    }

    /// Trims the front segment to begin at `una` after a partial acknowledgement.
    pub(crate) fn cut_front(&mut self, una: u64) {
        if let Some(front) = self.entries.front_mut().filter(|front| front.start < una) {
            let cut = (una - front.start) as usize;
            front.payload = front.payload.slice(cut..);
            front.start = una;
        }
    }

    /// Returns the number of the newest segment.
    pub(crate) fn last(&self) -> Option<u64> {
        (!self.entries.is_empty()).then(|| self.base + self.entries.len() as u64 - 1)
    }

    /// Returns the entry with this number, if it is still outstanding.
    pub(crate) fn get(&self, number: u64) -> Option<&Sent> {
        self.entries.get(number.checked_sub(self.base)? as usize)
    }

    /// Returns the number of the first entry at or after `left` that the last SACK option did not cover.
    /// Entries are found by position.
    pub(crate) fn first_reported(&self, left: u64) -> u64 {
        let mut from = left;
        for &(seen_left, seen_right) in &self.sack_cache {
            if seen_left <= from && from < seen_right {
                from = seen_right;
            }
        }
        self.base + self.entries.partition_point(|sent| sent.start < from) as u64
    }

    /// Returns the next entry from `number` on that ends at or before `right` and is not SACKed. The caller
    /// marks it. Ranges of SACKed entries are skipped in one step, so that repeated SACK blocks cost little.
    pub(crate) fn next_reported(&mut self, number: u64, right: u64) -> Option<u64> {
        let mut index = number.checked_sub(self.base)? as usize;
        while let Some(sent) = self.entries.get(index).filter(|sent| sent.end() <= right) {
            if !sent.sacked {
                return Some(self.base + index as u64);
            }
            let leap = sent.leap as usize;
            let onward = self.entries.get(index + leap).filter(|sent| sent.sacked);
            let longer = leap + onward.map_or(0, |sent| sent.leap as usize);
            self.entries[index].leap = longer as u32;
            index += longer;
        }
        None
    }

    /// Stores the SACK blocks of the latest acknowledgement.
    pub(crate) fn note_report(&mut self, blocks: &[(u64, u64)]) {
        self.sack_cache = [(0, 0); 4];
        self.sack_cache[..blocks.len().min(4)].copy_from_slice(&blocks[..blocks.len().min(4)]);
    }

    /// Marks an entry as SACKed (`tcp_sacktag_one`). Returns its previous state, or `None` if it was SACKed
    /// before.
    pub(crate) fn mark_sacked(&mut self, number: u64) -> Option<Sent> {
        let index = number.checked_sub(self.base)? as usize;
        let sent = self.entries.get_mut(index)?;
        if sent.sacked {
            return None;
        }
        let before = sent.clone();
        self.lost_out -= u32::from(sent.lost);
        self.retrans_out -= u32::from(sent.retransmitted);
        sent.lost = false;
        sent.retransmitted = false;
        sent.sacked = true;
        sent.leap = 1;
        self.sacked_out += 1;
        self.highest_sacked_start = self.highest_sacked_start.max(sent.start);
        Some(before)
    }

    /// Marks an entry as lost (`tcp_mark_skb_lost`). Returns whether the mark is new.
    pub(crate) fn mark_lost(&mut self, number: u64) -> bool {
        let Some(sent) =
            number.checked_sub(self.base).and_then(|i| self.entries.get_mut(i as usize))
        else {
            return false;
        };
        if sent.sacked {
            return false;
        }
        let newly = !sent.lost || sent.retransmitted;
        if !sent.lost {
            self.lost_out += 1;
        }
        self.retrans_out -= u32::from(sent.retransmitted);
        sent.lost = true;
        sent.retransmitted = false;
        self.retransmit_hint = self.retransmit_hint.min(number);
        newly
    }

    /// Splits each entry with more payload than `most` returns for its position, and marks the parts as lost.
    /// SACKed entries are left whole (`tcp_simple_retransmit`, `tcp_fragment`). Returns whether an entry was
    /// split. All entries then have new numbers.
    pub(crate) fn cut_larger(&mut self, most: impl Fn(u64) -> usize) -> bool {
        let larger = |sent: &Sent| sent.payload.len() > most(sent.start) && !sent.sacked;
        if !self.entries.iter().any(larger) {
            return false;
        }
        self.insert_new();
        let old = std::mem::take(&mut self.entries);
        let (old_base, base) = (self.base, self.base + old.len() as u64);
        // The number of the first part of each old entry, and the number after the last part.
        let mut firsts = Vec::with_capacity(old.len() + 1);
        for mut sent in old {
            firsts.push(base + self.entries.len() as u64);
            if larger(&sent) {
                (sent.lost, sent.retransmitted) = (true, false);
                while sent.payload.len() > most(sent.start) {
                    let payload = sent.payload.split_to(most(sent.start));
                    let piece = Sent { payload, fin: false, ..sent.clone() };
                    sent.start = piece.end();
                    sent.opens_buffer = false;
                    self.entries.push_back(piece);
                }
            }
            self.entries.push_back(sent);
        }
        firsts.push(base + self.entries.len() as u64);
        for (number, transmission) in std::mem::take(&mut self.order) {
            let place = number.checked_sub(old_base).map(|index| index as usize);
            if let Some(&[first, end]) = place.and_then(|index| firsts.get(index..index + 2)) {
                self.order.extend((first..end).map(|number| (number, transmission)));
            }
        }
        self.base = base;
        self.retransmit_hint = base;
        let count =
            |is: fn(&Sent) -> bool| self.entries.iter().filter(|sent| is(sent)).count() as u32;
        self.lost_out = count(|sent| sent.lost);
        self.retrans_out = count(|sent| sent.retransmitted);
        true
    }

    /// Returns the number of outstanding segments within `[left, right)` that were retransmitted.
    pub(super) fn retransmitted_within(&self, left: u64, right: u64) -> u32 {
        let within = self.entries.iter();
        let within = within.filter(|sent| left <= sent.start && sent.end() <= right);
        within.filter(|sent| sent.ever_retransmitted()).count() as u32
    }

    /// Counts the entries that are lost and not retransmitted. The function examines each entry.
    pub fn lost_waiting(&self) -> u32 {
        self.entries.iter().filter(|sent| sent.lost && !sent.retransmitted).count() as u32
    }

    /// Returns the next entry to retransmit: lost, and not retransmitted yet.
    pub(crate) fn next_lost(&mut self) -> Option<u64> {
        if self.lost_out == 0 {
            return None;
        }
        let mut number = self.retransmit_hint.max(self.base);
        while let Some(sent) = self.get(number) {
            if sent.lost && !sent.retransmitted {
                self.retransmit_hint = number;
                return Some(number);
            }
            number += 1;
        }
        self.retransmit_hint = number;
        None
    }

    /// Removes all SACK marks, because the peer has discarded SACKed data (`tcp_timeout_mark_lost`).
    pub(crate) fn clear_sacked(&mut self) {
        for sent in &mut self.entries {
            sent.sacked = false;
        }
        self.sacked_out = 0;
        self.highest_sacked_start = 0;
        self.sack_cache = [(0, 0); 4];
    }

    /// Returns the range of entry numbers.
    pub(crate) fn numbers(&self) -> Range<u64> {
        self.base..self.base + self.entries.len() as u64
    }
}

mod acknowledge;
mod buffers;
pub(super) mod delivery_rate;
mod duplicates;
mod firsts;
#[cfg(test)]
mod fixture;
mod loss;
mod order;
#[cfg(test)]
mod tests;
