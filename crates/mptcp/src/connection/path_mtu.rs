//! News of a path's MTU (RFC 1191, RFC 8201).

use anabranch_units::{Instant, SeqNumber};

use super::Connection;
use anabranch_tcp::config::FourTuple;

impl Connection {
    /// Input: a router told the host (`ICMP` "fragmentation needed", `ICMPv6` "packet too big") that a packet
    /// between these addresses was larger than `mtu` bytes; `seq` is the sequence number that it quotes of
    /// it. False when it is not believed, or changes nothing: the number has to be in flight, and the MTU to
    /// leave less than segments take. Less than 552 bytes, over IPv6 1280, counts as these.
    pub fn handle_path_mtu(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        mtu: u32,
        seq: SeqNumber,
    ) -> bool {
        let Some(index) = self.subflows.position_of(tuple) else { return false };
        if !self.subflows[index].tcp.accepts_path_mtu(mtu, seq) {
            return false;
        }
        self.subflows.fit_segments(&self.session, index);
        let subflow = &mut self.subflows[index];
        subflow.touched = true;
        let carrier = subflow.context.final_carrier();
        let reserved = carrier.map(|start| (start, self.session.dss_bytes()));
        subflow.tcp.sending_mut().resend_larger(now, reserved);
        self.push(now);
        true
    }
}
