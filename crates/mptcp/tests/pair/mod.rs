//! Two endpoints joined by pipes with a fixed delay, in virtual time. A filter can change or drop
//! every packet.

#![allow(dead_code, reason = "each test file uses its share")]

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{
    Config, Connection, ConnectionHandle, Endpoint, Event, FourTuple, Transmit, earliest,
};
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Instant, Seed};
use anabranch_wire::Segment;
use bytes::Bytes;

/// The direction of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToClient,
    ToServer,
}

/// Decides about each packet: returns false to drop it, and may change it.
pub(crate) type Filter = Box<dyn FnMut(Instant, Way, usize, &mut Segment) -> bool>;

/// A client with `paths` addresses and a server.
pub(crate) struct Pair {
    pub(crate) now: Instant,
    pub(crate) client: Endpoint,
    pub(crate) server: Endpoint,
    pub(crate) handle: ConnectionHandle,
    pub(crate) filter: Filter,
    pub(crate) log: Vec<(Instant, Way, usize, Segment)>,
    pub(crate) client_events: Vec<(Instant, Event)>,
    pub(crate) server_events: Vec<(Instant, Event)>,
    pub(crate) received: Vec<u8>,
    /// Whether the client's application reads data when it arrives.
    pub(crate) reading: bool,
    /// The largest number of segments in a burst, for both sides.
    pub(crate) most: u32,
    /// Whether bursts arrive merged. Otherwise they are split before they are sent.
    pub(crate) offloads: bool,
    /// The number of bursts of more than one segment so far.
    pub(crate) bursts: usize,
    to_serve: Bytes,
    ending: bool,
    delays: Vec<Duration>,
    flying: BTreeMap<(Instant, u64), (Way, usize, Transmit)>,
    sent: u64,
}

pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Returns the addresses of a path.
pub(crate) fn candidate(path: usize) -> Candidate {
    Candidate {
        address_id: path as u8,
        local: address(2, path, 40_000),
        remote: address(1, path, 80),
        backup: false,
        rate: None,
    }
}

pub(crate) fn address(host: u8, path: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, path as u8 + 1, 0, host], port))
}

pub(crate) fn config() -> Config {
    Config { congestion: PluginChoice::named("reno"), ..Config::default() }
}

impl Pair {
    /// Creates endpoints with one path per RTT. No connection is established yet.
    pub(crate) fn new(rtts_ms: &[u64], client: Config, server: Config) -> Self {
        let seed = Seed { seed: 7, run: 0 };
        let mut listener = Endpoint::new("server", seed);
        listener.listen(SocketAddr::from(([0, 0, 0, 0], 80)), server).expect("nobody listens");
        let candidates = if client.candidates.is_empty() {
            (0..rtts_ms.len()).map(candidate).collect()
        } else {
            client.candidates.clone()
        };
        let mut opener = Endpoint::new("client", seed);
        let handle =
            opener.connect(Instant::ZERO, Config { candidates, ..client }).expect("known plug-ins");
        Self {
            now: Instant::ZERO,
            client: opener,
            server: listener,
            handle,
            filter: Box::new(|_, _, _, _| true),
            log: Vec::new(),
            client_events: Vec::new(),
            server_events: Vec::new(),
            received: Vec::new(),
            reading: true,
            most: 1,
            offloads: false,
            bursts: 0,
            to_serve: Bytes::new(),
            ending: false,
            delays: rtts_ms.iter().map(|ms| Duration::from_micros(ms * 500)).collect(),
            flying: BTreeMap::new(),
            sent: 0,
        }
    }

    pub(crate) fn client(&mut self) -> &mut Connection {
        self.client.connection_mut(self.handle)
    }

    /// Returns the server's first connection.
    pub(crate) fn server(&mut self) -> &mut Connection {
        let handle = handles(&self.server)[0];
        self.server.connection_mut(handle)
    }

    /// The server's application writes these bytes as fast as the send buffer permits.
    pub(crate) fn serve(&mut self, bytes: &[u8]) {
        self.to_serve = [&self.to_serve, bytes].concat().into();
        self.settle();
    }

    /// The server's application closes its sending side after the written data.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        self.settle();
    }

    /// Returns whether the client has read exactly these bytes. A boolean keeps thousands of
    /// numbers out of a failure message.
    pub(crate) fn got(&self, bytes: &[u8]) -> bool {
        self.received == bytes
    }

    fn feed(&mut self) {
        let now = self.now;
        if self.server.is_empty() {
            return;
        }
        while !self.to_serve.is_empty() {
            let piece = self.to_serve.clone();
            match self.server().write(now, piece) {
                Ok(taken) => drop(self.to_serve.split_to(taken)),
                Err(_) => return,
            }
        }
        if std::mem::take(&mut self.ending) {
            self.server().shutdown(now);
        }
    }

    fn launch(&mut self, way: Way, transmit: Transmit) {
        self.bursts += usize::from(transmit.segment_size.is_some());
        let Some(size) = transmit.segment_size.filter(|_| !self.offloads) else {
            return self.launch_packet(way, transmit);
        };
        for segment in transmit.segment.split(size) {
            self.launch_packet(way, Transmit { segment, segment_size: None, ..transmit });
        }
    }

    fn launch_packet(&mut self, way: Way, transmit: Transmit) {
        let client_side = match way {
            Way::ToClient => transmit.remote,
            Way::ToServer => transmit.local,
        };
        let SocketAddr::V4(v4) = client_side else { unreachable!("IPv4 only") };
        let path = usize::from(v4.ip().octets()[1]) - 1;
        let mut transmit = transmit;
        assert!(transmit.segment.options_len() <= 40, "option space: {:?}", transmit.segment);
        self.log.push((self.now, way, path, transmit.segment.clone()));
        if (self.filter)(self.now, way, path, &mut transmit.segment) {
            let key = (self.now + self.delays[path], self.sent);
            self.sent += 1;
            self.flying.insert(key, (way, path, transmit));
        }
    }

    /// Sends all segments of both sides that are ready now.
    pub(crate) fn settle(&mut self) {
        self.feed();
        let now = self.now;
        for handle in handles(&self.client) {
            while let Some(event) = self.client.connection_mut(handle).poll_event() {
                self.client_events.push((now, event));
            }
            while self.reading {
                let Some(bytes) = self.client.connection_mut(handle).read(now, usize::MAX) else {
                    break;
                };
                self.received.extend_from_slice(&bytes);
            }
        }
        while let Some(t) = self.client.poll_burst(now, self.most) {
            self.launch(Way::ToServer, t);
        }
        for handle in handles(&self.server) {
            while let Some(event) = self.server.connection_mut(handle).poll_event() {
                self.server_events.push((now, event));
            }
        }
        while let Some(t) = self.server.poll_burst(now, self.most) {
            self.launch(Way::ToClient, t);
        }
    }

    fn next_moment(&mut self) -> Option<Instant> {
        let timer = earliest(self.client.poll_timeout(), self.server.poll_timeout());
        let packet = self.flying.keys().next().map(|(at, _)| *at);
        timer.into_iter().chain(packet).min()
    }

    /// Runs until `end`.
    pub(crate) fn run_until(&mut self, end: Instant) {
        self.settle();
        while let Some(next) = self.next_moment().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
                let (way, _, transmit) = entry.remove();
                let tuple = FourTuple { local: transmit.remote, remote: transmit.local };
                let endpoint = match way {
                    Way::ToClient => &mut self.client,
                    Way::ToServer => &mut self.server,
                };
                let Transmit { segment, segment_size, .. } = transmit;
                endpoint.handle_merged(self.now, tuple, &segment, segment_size);
                self.settle();
            }
            let now = self.now;
            for endpoint in [&mut self.client, &mut self.server] {
                while endpoint.handle_timeout(now).is_some() {}
            }
            self.settle();
        }
        self.now = end;
    }

    /// Returns the segments of one direction on a path, with the time of sending.
    pub(crate) fn sent(
        &self,
        way: Way,
        path: usize,
    ) -> impl Iterator<Item = &(Instant, Way, usize, Segment)> {
        self.log.iter().filter(move |(_, w, p, _)| *w == way && *p == path)
    }
}

/// Returns all connections of an endpoint.
pub(crate) fn handles(endpoint: &Endpoint) -> Vec<ConnectionHandle> {
    endpoint.connections().map(|(handle, _)| handle).collect()
}

/// Returns bytes that depend on their position.
pub(crate) fn film(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}
