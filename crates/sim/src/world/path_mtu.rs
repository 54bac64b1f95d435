//! Packets that are larger than a link's MTU, and the news of it on its way back to their senders (RFC 1191,
//! RFC 8201). The news takes the propagation delay of the whole way back, and is lost where a link of it is
//! down; it is no packet: it waits in no queue.

use std::collections::BTreeMap;

use anabranch_transport::FourTuple;
use anabranch_units::{Instant, SeqNumber};

use super::{RunError, World};
use crate::topology::{Load, Packet};

/// News for the sender of a packet.
struct News {
    route: u16,
    host: u32,
    /// The packet went from server to client.
    down: bool,
    /// Of the packet, as it quotes them.
    source_port: u16,
    destination_port: u16,
    seq: SeqNumber,
    mtu: u32,
}

/// All news under way.
#[derive(Default)]
pub(super) struct TooBig {
    /// The node that it wakes; `None` where no link has an MTU.
    pub(super) node: Option<usize>,
    /// By when it arrives, and how many there were before.
    under_way: BTreeMap<(Instant, u64), News>,
    sent: u64,
}

impl World<'_> {
    /// A packet does not fit on its next link: it is dropped, and its sender told unless that link is silent.
    #[cold]
    pub(super) fn refuse_large(&mut self, link: usize, mut packet: Box<Packet>) {
        /// Told from the reasons for which links drop.
        const TOO_LARGE: u64 = 6;
        self.note((link as u64) << 8 | TOO_LARGE, &packet);
        self.settle(&packet, false);
        self.live(&packet);
        let way = &mut self.topology.ways[link];
        way.dropped += 1;
        let (tells, mtu) = (way.icmp, way.mtu);
        let Load::Segment(segment) = &packet.load else { return self.lose_datagram(&packet) };
        let back = self.topology.way_back(usize::from(packet.route), packet.down);
        if let Some(delay) = back.filter(|_| tells) {
            let news = News {
                route: packet.route,
                host: packet.host,
                down: packet.down,
                source_port: segment.source_port,
                destination_port: segment.destination_port,
                seq: segment.seq,
                mtu: mtu as u32,
            };
            self.too_big.under_way.insert((self.now + delay, self.too_big.sent), news);
            self.too_big.sent += 1;
            self.set_mail_wake();
        }
        packet.followed = None;
        self.spare.push(packet);
    }

    fn set_mail_wake(&mut self) {
        if let Some(node) = self.too_big.node {
            let first = self.too_big.under_way.first_key_value();
            self.schedule.set(node, first.map(|((at, _), _)| *at));
        }
    }

    /// News arrives.
    pub(super) fn wake_too_big(&mut self) -> Result<(), RunError> {
        while let Some(first) =
            self.too_big.under_way.first_entry().filter(|e| e.key().0 <= self.now)
        {
            let news = first.remove();
            self.tell_path_mtu(&news)?;
        }
        self.set_mail_wake();
        Ok(())
    }

    fn tell_path_mtu(&mut self, news: &News) -> Result<(), RunError> {
        let &News { route, host, down, mtu, seq, .. } = news;
        let ports = (news.source_port, news.destination_port);
        let (server, client) = self.ends(host, route, down, ports);
        let tuple = if down {
            FourTuple { local: server, remote: client }
        } else {
            FourTuple { local: client, remote: server }
        };
        let path = usize::from(route);
        let known = path < self.topology.paths.len();
        if !down && known && !self.topology.interfaces.is_up(path) {
            return Ok(());
        }
        let sender = self.station(host, down);
        let told = self.stations[sender].host.handle_path_mtu(self.now, tuple, mtu, seq);
        told.map_or(Ok(()), |_| self.drive(sender))
    }
}
