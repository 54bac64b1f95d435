//! Handles a segment's payload and FIN, and requests the acknowledgement that they need.

use anabranch_units::Instant;
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use super::super::sending::rtt::RttEstimator;
use super::super::{Space, Tcp};
use super::{Arrival, Receiver};
use crate::receive_buffer::Load;

/// An acceptable segment with payload or FIN.
pub(crate) struct Arriving<'a> {
    now: Instant,
    segment: &'a Segment,
    /// The position of the first byte.
    start: u64,
    /// The number and size of the segments that were merged into this one.
    load: Load,
    /// The receive space before this segment.
    space: Space,
    /// Our clock when the echoed timestamp was sent.
    echoed: Option<u32>,
    /// Whether data is sent with tags.
    tagged: bool,
    rtt: &'a RttEstimator,
}

impl Receiver {
    /// Handles an acceptable segment without payload and FIN.
    #[inline]
    fn handle_empty(&mut self, now: Instant, echoed: Option<u32>) {
        if let Some(echoed) = echoed {
            self.sample_rtt(now, echoed, false);
        }
    }

    /// Handles payload and FIN of an acceptable segment. Calls `up` with the position, bytes and memory of
    /// in-order data. Returns whether this completes all data up to the peer's FIN.
    #[inline]
    fn handle_payload(
        &mut self,
        arriving: &Arriving<'_>,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) -> bool {
        let Arriving { segment, start, .. } = *arriving;
        self.note_fin_of(start, segment);
        let payload = self.assembly.before_fin(start, &segment.payload);
        if !payload.is_empty() {
            self.take_data(arriving, payload, up);
        } else if !segment.payload.is_empty() {
            self.ack.demand();
        }
        let closed = self.assembly.take_fin();
        if closed {
            self.ack.demand();
        }
        closed
    }

    /// Handles the payload before a FIN.
    #[inline]
    fn take_data(
        &mut self,
        arriving: &Arriving<'_>,
        payload: Bytes,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        let Arriving { now, segment, start, load, space, echoed, tagged, rtt } = *arriving;
        if let Some(echoed) = echoed {
            self.sample_rtt(now, echoed, load.bytes >= self.ack.received_mss());
        }
        let news = start + payload.len() as u64 > self.assembly.next;
        let waiting = self.assembly.out_of_order_memory();
        let memory = self.buffer.memory_of_part(load, payload.len());
        let arrival = self.assembly.accept(start, payload, memory, up);
        if arrival != Arrival::Duplicate && load.segment > self.ack.received_mss() {
            self.buffer.on_segment_size(u64::from(load.segment));
        }
        let in_order = arrival != Arrival::OutOfOrder;
        let received = self.ack.received_mss().max(load.segment);
        let grew = self.open(arrival, load, space.opens, waiting, received);
        let push = segment.flags.contains(Flags::PSH) && self.rules.pushes;
        if arrival == Arrival::Duplicate {
            self.ack.begin_quick_acks_for_duplicate(self.window);
        }
        self.ack.update_rcv_mss(segment, load.segment, arrival, self.negotiated.timestamps);
        self.ack.on_data(now, load.segment, push, arrival, grew, rtt.rto());
        if grew && (in_order || self.rules.compresses) && !space.opens {
            self.ack.on_own_window_grown();
        }
        if news {
            self.ecn.on_data(segment.ecn, self.assembly.next, &mut self.ack);
        }
        if !self.rules.by_read {
            self.check_ack(now, space, tagged, rtt);
        }
    }

    /// Handles the FIN of a segment whose payload begins at `start`.
    #[inline]
    fn note_fin_of(&mut self, start: u64, segment: &Segment) {
        if !segment.flags.contains(Flags::FIN) {
            return;
        }
        if self.assembly.closed {
            // The peer repeats its FIN because our acknowledgement was lost.
            self.ack.demand();
        } else {
            self.assembly.note_fin(start + segment.payload.len() as u64);
        }
    }
}

impl Tcp {
    /// Handles an acceptable segment without payload and FIN.
    #[inline]
    pub fn handle_empty(&mut self, now: Instant, segment: &Segment) {
        self.receive.handle_empty(now, segment.timestamps.map(|t| self.sequence.echoed(t)));
        if let Some(start) = self.sequence.peer_position(segment.seq, self.receive.next()) {
            self.sequence.note_timestamp(start, self.receive.advertised_at(), segment);
        }
    }

    /// Returns the position of a segment's first byte, or `None` if it is before the SYN.
    #[inline]
    pub fn position_of(&self, segment: &Segment) -> Option<u64> {
        self.sequence.peer_position(segment.seq, self.receive.next())
    }

    /// Handles payload and FIN of an acceptable segment at the position `start`. Calls `up` with the
    /// position, bytes and memory of in-order data. `load` is the number and size of the segments that were
    /// merged into this one.
    #[inline]
    pub fn handle_payload(
        &mut self,
        now: Instant,
        (segment, start): (&Segment, u64),
        load: Load,
        space: Space,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        self.sequence.note_timestamp(start, self.receive.advertised_at(), segment);
        let echoed = segment.timestamps.map(|timestamps| self.sequence.echoed(timestamps));
        let (rtt, tagged) = (self.sending.rtt(), self.is_tagged());
        let arriving = Arriving { now, segment, start, load, space, echoed, tagged, rtt };
        if self.receive.handle_payload(&arriving, up) {
            self.sending.on_peer_closed();
            self.closed_first = self.sending.queue().fin_sent();
        }
    }
}
