//! What the header of a segment behind the SYNs says of what has come, beside its options.

use anabranch_wire::{Dss, Flags, Segment, Timestamps};
use bytes::Bytes;

use super::{EmitContext, Subflow};

impl Subflow {
    /// Writes a segment with this payload that acknowledges: timestamps, window, `DATA_ACK`.
    #[inline(always)]
    pub(crate) fn acknowledging(
        &mut self,
        context: &EmitContext,
        payload: Bytes,
        segment: &mut Segment,
    ) {
        self.blank(segment, payload);
        segment.flags = Flags::ACK;
        self.echo_mark(segment);
        segment.seq = self.wire_seq(self.send.next());
        segment.ack = self.remote_iss.add(self.receive.next() as u32);
        if self.agreed.timestamps {
            segment.timestamps = Some(Timestamps {
                value: self.timestamp(context.now),
                echo: self.timestamp_recent,
            });
        }
        if self.multipath {
            segment.dss =
                context.data_ack.map(|data_ack| Dss { data_ack: Some(data_ack), ..Dss::default() });
        }
        let mss = u64::from(self.ack.received_mss());
        let promised = context.promised_edge.saturating_sub(context.data_received);
        let promised = self.multipath.then_some(promised);
        let window = self.receive.select_window(context, mss, self.agreed.receive_scale, promised);
        segment.window = (window >> self.agreed.receive_scale).min(65_535) as u16;
        self.ack.on_ack_sent();
        self.receive.reports.on_ack_sent();
    }
}
