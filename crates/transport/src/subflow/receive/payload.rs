//! What a segment brings: its timestamp, its payload and its FIN, and what is to be acknowledged of it.

use anabranch_units::Instant;
use anabranch_wire::{Dss, Flags, Segment};
use bytes::Bytes;

use super::super::deliver::Terms;
use super::super::{Space, Subflow};
use super::Arrival;
use crate::receive_buffer::Load;

impl Subflow {
    /// Takes an acceptable segment without payload and FIN.
    #[inline(always)]
    pub(crate) fn handle_empty(&mut self, now: Instant, segment: &Segment) {
        if let Some(timestamps) = segment.timestamps {
            self.receive.measure_rtt(now, self.sequence.echoed(timestamps), false);
        }
        if let Some(start) = self.sequence.peer_position(segment.seq, self.receive.next()) {
            self.sequence.note_timestamp(start, self.receive.advertised_at(), segment);
        }
    }

    /// Takes payload and FIN of an acceptable segment that has one; acknowledgement policy included. What it
    /// puts in order goes to `up` with its DSN. `load` says how many segments it was.
    #[inline(always)]
    pub(crate) fn handle_payload(
        &mut self,
        now: Instant,
        segment: &Segment,
        load: Load,
        terms: Terms,
        space: Space,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        let Some(start) = self.sequence.peer_position(segment.seq, self.receive.next()) else {
            return;
        };
        if let Some(Dss { mapping: Some(mapping), data_fin, .. }) = &segment.dss
            && !segment.payload.is_empty()
            && self.multipath
            && !self.receive.note_mapping(mapping, *data_fin, start, segment, terms)
        {
            return;
        }
        self.sequence.note_timestamp(start, self.receive.advertised_at(), segment);
        self.hear_fin(start, segment);
        let payload = self.receive.before_fin(start, &segment.payload);
        if payload.is_empty() && !segment.payload.is_empty() {
            self.ack.demand();
        } else if !payload.is_empty() {
            if let Some(timestamps) = segment.timestamps {
                let full = load.bytes >= self.ack.received_mss();
                self.receive.measure_rtt(now, self.sequence.echoed(timestamps), full);
            }
            let news = start + payload.len() as u64 > self.receive.next();
            let waiting = self.receive.out_of_order_memory();
            let memory = self.receive.buffer.memory_of_part(load, payload.len());
            // A report that has not gone with the last acknowledgement never goes (`tcp_data_queue`).
            self.receive.duplicate = None;
            let arrival = self.receive.accept(start, payload, memory, self.multipath, up);
            if arrival != Arrival::Duplicate && load.segment > self.ack.received_mss() {
                self.receive.buffer.on_segment_size(u64::from(load.segment));
            }
            let in_order = arrival != Arrival::OutOfOrder;
            let received = self.ack.received_mss().max(load.segment);
            let grew = self.receive.open(arrival, load, space.opens, waiting, received);
            let push = segment.flags.contains(Flags::PSH) && self.stack.tcp.pushes_buffers;
            if arrival == Arrival::Duplicate {
                self.ack.quicken_for_duplicate(self.receive.window());
            }
            self.ack.measure(segment, load.segment, arrival, self.agreed.timestamps);
            self.ack.on_data(now, load.segment, push, arrival, grew, self.rtt.rto());
            if grew && (in_order || self.stack.tcp.compresses_sacks) && !space.opens {
                self.ack.on_own_window_grown();
            }
            if news {
                let marked = self.ecn.on_data(segment.ecn, self.receive.next(), &mut self.ack);
                self.totals.ce_received += u64::from(marked);
            }
            if !self.stack.shared.acknowledges_by_read {
                self.check_ack(now, space);
            }
        }
        self.take_fin();
    }

    /// A FIN of the peer's, or none, with a payload that begins at `start`.
    #[inline(always)]
    fn hear_fin(&mut self, start: u64, segment: &Segment) {
        let fin = segment.flags.contains(Flags::FIN);
        if fin && self.peer_closed {
            // Once more: our acknowledgement of it was lost.
            self.ack.demand();
        } else if fin {
            self.receive.note_fin(start + segment.payload.len() as u64);
        }
    }

    /// Takes the peer's FIN in its turn.
    #[inline(always)]
    fn take_fin(&mut self) {
        if self.receive.fin_at == Some(self.receive.next) && !self.peer_closed {
            self.receive.next += 1;
            self.peer_closed = true;
            self.closed_first = self.send.fin_sent();
            self.ack.demand();
        }
    }
}
