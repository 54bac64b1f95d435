//! Packets that exceed the MTU of a link, and the routers' messages about them (RFC 1191, RFC 8201).

use anabranch_mptcp::FourTuple;
use anabranch_network::Due;

use super::{RunError, World};
use crate::packet::{Load, Notice, Packet};

impl World<'_> {
    /// Drops a packet that exceeds the MTU of its next link.
    #[cold]
    pub(super) fn drop_large(&mut self, link: usize, mut packet: Box<Packet>) {
        /// The reason in the digest. It differs from the reasons for which links drop packets.
        const TOO_LARGE: u64 = 6;
        self.note((link as u64) << 8 | TOO_LARGE, &packet);
        self.settle_lost(&packet);
        self.live(&packet);
        let Load::Segment(_) = packet.load else { return self.lose_datagram(&packet) };
        self.schedule_notices();
        packet.followed = None;
        self.spare.push(packet);
    }

    fn schedule_notices(&mut self) {
        if let Some(node) = self.notices {
            self.schedule.set(node, self.network.due_at(Due::Notice));
        }
    }

    /// Delivers the routers' messages that are due.
    pub(super) fn wake_notices(&mut self) -> Result<(), RunError> {
        while let Some(notice) = self.network.poll_notice(self.now) {
            self.handle_notice(&notice)?;
        }
        self.schedule_notices();
        Ok(())
    }

    fn handle_notice(&mut self, notice: &Notice) -> Result<(), RunError> {
        let &Notice { journey, host, source_port, destination_port, mtu, seq } = notice;
        let (server, client) = self.ends(host, journey, (source_port, destination_port));
        let tuple = if journey.is_down() {
            FourTuple { local: server, remote: client }
        } else {
            FourTuple { local: client, remote: server }
        };
        let sender = self.station(host, journey.is_down());
        let handled = self.stations[sender].host.handle_path_mtu(self.now, tuple, mtu, seq);
        handled.map_or(Ok(()), |_| self.drive(sender))
    }
}
