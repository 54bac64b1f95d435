//! The handling of a segment's payload: its mapping, TCP's reassembly, and the delivery to the data stream.

use anabranch_units::Instant;
use anabranch_wire::{Dss, Segment};
use bytes::Bytes;

use super::Subflow;
use super::deliver::Terms;
use anabranch_tcp::Space;
use anabranch_tcp::receive_buffer::Load;

impl Subflow {
    /// Handles payload and FIN of an acceptable segment. Calls `up` with in-order data and its DSN. `load` is
    /// the number and size of the segments that were merged into this one.
    #[inline]
    pub(crate) fn handle_payload(
        &mut self,
        now: Instant,
        segment: &Segment,
        load: Load,
        terms: Terms,
        space: Space,
        up: &mut impl FnMut(u64, Bytes, u64),
    ) {
        let Some(start) = self.tcp.position_of(segment) else { return };
        let multipath = self.is_multipath();
        let delivery = self.context.delivery_mut();
        if let Some(Dss { mapping: Some(mapping), data_fin, .. }) = &segment.dss
            && !segment.payload.is_empty()
            && multipath
            && !delivery.note_mapping(mapping, *data_fin, start, segment, terms, self.tcp.receive())
        {
            return;
        }
        let deliver = &mut |at, piece, memory| delivery.deliver(at, piece, memory, multipath, up);
        self.tcp.handle_payload(now, (segment, start), load, space, deliver);
    }
}
