//! The delivery of a segment's payload to the data stream.

use std::num::NonZeroU16;

use anabranch_units::{DataSeq, Instant};
use anabranch_wire::{Flags, MappingDsn, Segment, promote};
use bytes::Bytes;

use super::window::is_news;
use super::{Incoming, Session, Subflows};
use anabranch_tcp::Space;
use anabranch_tcp::receive_buffer::Load;

impl Incoming {
    /// Passes the payload of a segment to its subflow. In-order bytes are delivered to the data stream.
    #[inline]
    pub(in crate::connection) fn receive(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        if segment.payload.is_empty() && !segment.flags.contains(Flags::FIN) {
            subflows[index].tcp.handle_empty(now, segment);
            if !session.is_multipath() {
                let known_mss = subflows[index].tcp.receive().received_mss();
                self.note_plain_payload(&subflows[index], known_mss);
            }
        } else {
            self.take_data(now, session, subflows, index, segment, segment_size);
        }
    }

    /// Returns whether the mapping of a segment begins in the last quarter of the window, if the stack then
    /// acknowledges at once.
    fn fills_window(&self, session: &Session, segment: &Segment) -> bool {
        let mapping = segment.dss.as_ref().and_then(|dss| dss.mapping.as_ref());
        let asks = session.stack().shared.acknowledges_by_window;
        let Some(mapping) = mapping.filter(|_| asks) else { return false };
        let expected = self.receive_dsn(session);
        let dsn = match mapping.dsn {
            MappingDsn::Long(dsn) => dsn,
            MappingDsn::Short(low) => promote(low, DataSeq(expected)),
        };
        let ahead = dsn.0.wrapping_sub(expected) as i64;
        let window = self.budget.promised().saturating_sub(self.stream.next);
        ahead > 0 && ahead as u64 > window / 4 * 3
    }

    /// Returns the edge beyond which out-of-order data is dropped. Before a window was promised, there is no
    /// limit here, because the subflow's handshake window applies.
    #[inline]
    pub(super) fn accepted_edge(&self, session: &Session) -> u64 {
        let edge = self.budget.promised();
        if session.is_multipath() && edge > 0 { edge.min(self.stream.end()) } else { u64::MAX }
    }

    /// Handles a segment with payload or FIN. If the connection's buffer is full, the data stays with its
    /// subflow.
    fn take_data(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        let load = Load::of(segment, segment_size);
        let terms = session.terms(self.receive_dsn(session));
        let mut space = Space::default();
        if !segment.payload.is_empty() {
            // Some stacks acknowledge after delivery. They compute the free space then.
            if self.budget.is_shared() || !session.stack().shared.acknowledges_by_read {
                space = self.space(session, subflows);
            }
            let used = space.allowed - space.free;
            space.opens = self.budget.on_payload(load, used) || self.fills_window(session, segment);
            space.open = self.budget.open();
        }
        let base = if session.is_multipath() { session.peer_base() } else { 0 };
        let edge = self.accepted_edge(session);
        let limit = self.room_for(session, subflows, index);
        let mut readable =
            !self.parked.is_empty() && self.take_parked(session, subflows, index, limit);
        let most = self.budget.buffer().memory_max();
        let subflow = &mut subflows[index];
        let (input, parked) = (&mut self.stream, &mut self.parked);
        let (mut delivered, mut news) = (readable, false);
        let known_mss = subflow.tcp.receive().received_mss();
        subflow.handle_payload(
            now,
            segment,
            load,
            terms,
            space,
            &mut |dsn, payload: Bytes, memory| {
                news |= is_news(base.wrapping_add(input.next), dsn, payload.len());
                // Earlier data of the subflow that is still parked is delivered first.
                if input.memory() > limit {
                    parked.push(index, (dsn, payload, memory), most);
                } else {
                    delivered = true;
                    readable |= input.accept(base, dsn, (payload, memory), edge);
                }
            },
        );
        if !session.is_multipath() {
            self.note_plain_payload(&subflows[index], known_mss);
        }
        self.grow_and_acknowledge(now, session, subflows, index, segment, news);
        if delivered {
            if session.config().checksum
                && let Some(dsn) = subflows[index].context.delivery_mut().take_data_fin()
            {
                self.set_peer_end(session, subflows, dsn);
            }
            self.on_delivery(session, subflows, index, readable);
        }
    }
}
