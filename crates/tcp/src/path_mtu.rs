//! The path MTU that a router reports after it dropped a packet (RFC 1191, RFC 8201; Linux's
//! `tcp_v4_mtu_reduced`, `tcp_sync_mss`, `tcp_simple_retransmit`). Segments become smaller, and larger ones
//! in flight are split and retransmitted. The window does not change, because this is not congestion.
//!
//! Probing for the MTU without reports (RFC 4821), and the expiry of a reported MTU after ten minutes, are
//! not implemented.

use std::net::SocketAddr;

use anabranch_units::SeqNumber;

use super::{State, Tcp};

/// The smallest accepted MTU (`ip_rt_min_pmtu`; RFC 8200 section 5).
const LEAST_V4: u32 = 552;
const LEAST_V6: u32 = 1280;
/// Bytes of the headers without options.
const HEADERS_V4: u32 = 20 + 20;
const HEADERS_V6: u32 = 40 + 20;

/// Returns the maximum segment size for a path's MTU, including options.
fn segment_size(remote: SocketAddr, mtu: u32) -> u16 {
    let size = match remote {
        SocketAddr::V4(_) => mtu.max(LEAST_V4) - HEADERS_V4,
        SocketAddr::V6(_) => mtu.max(LEAST_V6) - HEADERS_V6,
    };
    size.min(u32::from(u16::MAX)) as u16
}

impl Tcp {
    /// Handles a router's report that our packet was larger than `mtu` bytes. Returns whether segments must
    /// become smaller; the caller then recomputes their size. The quoted sequence number `seq` must be in
    /// flight. An attacker who is not on the path cannot know it (RFC 5927 section 4.1, `tcp_v4_err`).
    pub fn handle_path_mtu(&mut self, mtu: u32, seq: SeqNumber) -> bool {
        let outstanding = self
            .sequence
            .local(self.sending.queue().next())
            .offset(self.sequence.local(self.sending.queue().una()));
        let quoted = seq.offset(self.sequence.local(self.sending.queue().una()));
        let size = segment_size(self.tuple.remote, mtu);
        if self.state != State::Established
            || !(0..=outstanding).contains(&quoted)
            || size >= self.sending.peer_mss()
        {
            return false;
        }
        self.sending.set_peer_mss(size);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_leaves_its_mtu_less_the_headers_and_never_less_than_the_least() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 80));
        let v6 = SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1], 80));
        assert_eq!(
            [1500, 1400, 552, 551, 68, 0].map(|mtu| segment_size(v4, mtu)),
            [1460, 1360, 512, 512, 512, 512]
        );
        assert_eq!(
            [1500, 1280, 1279, 0].map(|mtu| segment_size(v6, mtu)),
            [1440, 1220, 1220, 1220]
        );
        assert_eq!(segment_size(v4, u32::MAX), u16::MAX);
    }
}
