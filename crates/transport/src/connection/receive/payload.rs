//! The payload of a segment on its way into the data stream.

use std::num::NonZeroU16;

use anabranch_units::{DataSeq, Instant};
use anabranch_wire::{Flags, MappingDsn, Segment, promote};
use bytes::Bytes;

use super::{Connection, Mode};
use crate::connection::window::is_news;
use crate::receive_buffer::Load;
use crate::subflow::Space;
use crate::subflow::deliver::Terms;

/// More memory than a segment takes beside four times its payload, bytes.
const BESIDE_PAYLOAD: usize = 4096;

impl Connection {
    /// The payload of a segment: into its subflow, and what that puts in order on to the data stream.
    #[inline(always)]
    pub(in crate::connection) fn take_payload(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        if segment.payload.is_empty() && !segment.flags.contains(Flags::FIN) {
            self.subflows[index].handle_empty(now, segment);
            self.note_payload(index, self.subflows[index].received_mss());
        } else {
            self.take_data::<false>(now, index, segment, segment_size);
        }
        if let Some(failure) = self.subflows[index].receive.failure() {
            self.handle_failure(now, index, failure);
        }
    }

    /// Its mapping begins in the last quarter of the window, and that matters.
    fn fills_window(&self, segment: &Segment) -> bool {
        let mapping = segment.dss.as_ref().and_then(|dss| dss.mapping.as_ref());
        let asks = self.config.stack.shared.acknowledges_by_window;
        let Some(mapping) = mapping.filter(|_| asks) else { return false };
        let expected = self.receive_dsn();
        let dsn = match mapping.dsn {
            MappingDsn::Long(dsn) => dsn,
            MappingDsn::Short(low) => promote(low, DataSeq(expected)),
        };
        let ahead = dsn.0.wrapping_sub(expected) as i64;
        let window = self.budget.promised().saturating_sub(self.input.next);
        ahead > 0 && ahead as u64 > window / 4 * 3
    }

    /// Behind the last byte of data that is kept where it comes out of order. Before the first promise the handshake's
    /// window holds, which is the subflow's.
    #[inline(always)]
    pub(super) fn accepted_edge(&self) -> u64 {
        match (self.mode, self.budget.promised()) {
            (Mode::Multipath, edge) if edge > 0 => edge.min(self.input.end()),
            _ => u64::MAX,
        }
    }

    /// As `take_payload`, of a segment that takes sequence space; `PLAIN` if it [is plain](Self::takes_plainly).
    #[inline(always)]
    pub(in crate::connection) fn take_data<const PLAIN: bool>(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        let memory = 4 * segment.payload.len() + BESIDE_PAYLOAD;
        if let Some(spare) = self.input.spare.checked_sub(memory as u32)
            && segment_size.is_none()
        {
            self.input.spare = spare;
            self.take_data_or_park::<PLAIN, false>(now, index, segment, segment_size);
        } else {
            self.take_data_where_full(now, index, segment, segment_size);
        }
    }

    /// As [`Self::take_data`], where the connection's buffer may be full.
    #[inline(never)]
    fn take_data_where_full(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        self.take_data_or_park::<false, true>(now, index, segment, segment_size);
        self.input.spare = self.spare();
    }

    /// As [`Self::take_data`]; where the buffer may be full, it `PARKS`.
    #[inline(always)]
    fn take_data_or_park<const PLAIN: bool, const PARKS: bool>(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        let load = Load::of(segment, segment_size);
        let near = self.receive_dsn();
        let terms = if PLAIN { Terms { near, ..Terms::default() } } else { self.terms(near) };
        let mut space = Space::default();
        if !PLAIN && !segment.payload.is_empty() {
            // Who acknowledges what was read asks for the space then.
            if self.budget.is_shared() || !self.config.stack.shared.acknowledges_by_read {
                space = self.space();
            }
            let used = space.allowed - space.free;
            space.opens = self.budget.on_payload(load, used) || self.fills_window(segment);
            space.open = self.budget.open();
        }
        let base = match self.mode {
            _ if PLAIN => near.wrapping_sub(self.input.next),
            Mode::Multipath => self.peer_base(),
            _ => 0,
        };
        let edge = self.accepted_edge();
        let limit = if PARKS || cfg!(debug_assertions) { self.room_for(index) } else { u64::MAX };
        let mut readable = PARKS && !self.input.parked.is_empty() && self.take_parked(index, limit);
        let most = self.budget.buffer().memory_max();
        let (subflow, input) = (&mut self.subflows[index], &mut self.input);
        let (mut delivered, mut news) = (readable, false);
        let known_mss = subflow.received_mss();
        if PARKS {
            let up = &mut |dsn, payload: Bytes, memory| {
                news |= is_news(base.wrapping_add(input.next), dsn, payload.len());
                // What waits with the subflow has come first.
                if input.memory() > limit {
                    input.parked.push(index, (dsn, payload, memory), most);
                } else {
                    delivered = true;
                    readable |= input.accept(base, dsn, (payload, memory), edge);
                }
            };
            subflow.handle_payload::<PLAIN>(now, segment, load, terms, space, up);
        } else {
            let up = &mut |dsn, payload: Bytes, memory| {
                debug_assert!(input.memory() <= limit, "there is room");
                news |= is_news(base.wrapping_add(input.next), dsn, payload.len());
                delivered = true;
                readable |= input.accept(base, dsn, (payload, memory), edge);
            };
            subflow.handle_payload::<PLAIN>(now, segment, load, terms, space, up);
        }
        if !PLAIN {
            self.note_payload(index, known_mss);
        }
        self.follow_and_acknowledge(now, index, segment, news);
        if delivered {
            if !PLAIN
                && self.config.checksum
                && let Some(dsn) = self.subflows[index].receive.take_data_fin()
            {
                self.set_peer_end(dsn);
            }
            self.after_delivery(index, readable);
        }
    }
}
