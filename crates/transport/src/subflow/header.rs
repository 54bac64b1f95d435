//! What the header of a segment behind the SYNs says of what has come, beside its options.

use anabranch_wire::{Dss, Flags, MptcpOption, Segment, Timestamps};
use bytes::Bytes;

use super::{EmitContext, Subflow};
use crate::profile::ReceiveSizing;

impl Subflow {
    /// The third packet of a join has no DSS, and the window that all subflows promised goes with a `DATA_ACK` only
    /// (`mptcp_set_rwin` in `mptcp_write_options`): it tells the subflow's own. In older stacks all have one window.
    pub(crate) fn tells_own_window(&self) -> bool {
        let joins = matches!(self.handshake.third, Some(MptcpOption::Join(_)));
        joins && self.stack.shared.receive == ReceiveSizing::Ratio
    }

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
        self.ecn.echo_mark(segment);
        segment.seq = self.sequence.local(self.send.next());
        segment.ack = self.sequence.remote(self.receive.next());
        if self.agreed.timestamps {
            segment.timestamps = Some(Timestamps {
                value: self.sequence.timestamp(context.now),
                echo: self.sequence.recent(),
            });
        }
        if self.multipath {
            segment.dss =
                context.data_ack.map(|data_ack| Dss { data_ack: Some(data_ack), ..Dss::default() });
        }
        self.ack.heed_room(self.receive.is_short(context.space));
        let mss = u64::from(self.ack.received_mss());
        let promised = context.promised_edge.saturating_sub(context.data_received);
        let promised = (self.multipath && !self.tells_own_window()).then_some(promised);
        let window = self.receive.select_window(context, mss, self.agreed.receive_scale, promised);
        segment.window = (window >> self.agreed.receive_scale).min(65_535) as u16;
        self.ack.on_ack_sent();
        self.receive.reports.on_ack_sent();
    }
}
