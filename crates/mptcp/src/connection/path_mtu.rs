//! Reports about a path's MTU (RFC 1191, RFC 8201).

use anabranch_units::{Instant, SeqNumber};

use super::Connection;
use anabranch_tcp::config::FourTuple;

impl Connection {
    /// Handles an `ICMP` "fragmentation needed" or `ICMPv6` "packet too big": a packet with this four-tuple
    /// exceeded `mtu` bytes. `seq` is the sequence number quoted in the report. Returns false if the report
    /// is ignored: `seq` is not in flight, or the MTU does not reduce the segment size. An MTU below 552
    /// bytes (IPv6: 1280 bytes) is treated as that minimum.
    pub fn handle_path_mtu(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        mtu: u32,
        seq: SeqNumber,
    ) -> bool {
        let Some(index) = self.subflows.position_of(tuple) else { return false };
        if !self.subflows[index].tcp.handle_path_mtu(mtu, seq) {
            return false;
        }
        self.subflows.update_segment_size(&self.session, index);
        let subflow = &mut self.subflows[index];
        subflow.note_change();
        let carrier = subflow.context.final_carrier();
        let reserved = carrier.map(|start| (start, self.session.dss_bytes()));
        subflow.tcp.supply().retransmit_larger(now, reserved);
        self.push(now);
        true
    }
}
