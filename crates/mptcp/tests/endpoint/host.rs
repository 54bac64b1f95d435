//! A host whose peers are scripted, segment by segment.

use std::net::SocketAddr;

use anabranch_mptcp::{
    Config, Connection, ConnectionHandle, Endpoint, Event, FourTuple, HostModel, ListenConfig,
};
use anabranch_units::{Duration, Instant, Seed, SeqNumber};
use anabranch_wire::{Flags, Segment, Timestamps};
use bytes::Bytes;

pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

pub(crate) fn anywhere(port: u16) -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], port))
}

/// Returns the four-tuple of our port 80 and a port of the peer.
pub(crate) fn tuple(port: u16) -> FourTuple {
    FourTuple {
        local: SocketAddr::from(([10, 0, 0, 1], 80)),
        remote: SocketAddr::from(([10, 0, 0, 2], port)),
    }
}

/// Plain TCP with timers that are exact to the nanosecond.
pub(crate) fn plain() -> Config {
    let host = HostModel { timer_tick: Duration::ZERO, ..HostModel::default() };
    Config { multipath: false, host, ..Config::default() }
}

/// Builds a segment of the peer from a port.
pub(crate) fn segment(port: u16, flags: Flags, seq: u32, ack: u32) -> Segment {
    Segment {
        source_port: port,
        destination_port: 80,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        window: 60_000,
        ..Segment::default()
    }
}

pub(crate) fn syn(port: u16, seq: u32) -> Segment {
    Segment { mss: Some(1460), ..segment(port, Flags::SYN, seq, 0) }
}

pub(crate) fn stamped(segment: Segment, value: u32, echo: u32) -> Segment {
    Segment { timestamps: Some(Timestamps { value, echo }), ..segment }
}

pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    pub(crate) now: Instant,
}

/// A connection as the peer knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) port: u16,
    pub(crate) handle: ConnectionHandle,
    /// The peer's next sequence number, and ours.
    pub(crate) seq: u32,
    pub(crate) ack: u32,
}

impl Host {
    pub(crate) fn new(listen: impl Into<ListenConfig>) -> Self {
        Self::seeded(listen, 3)
    }

    pub(crate) fn seeded(listen: impl Into<ListenConfig>, seed: u64) -> Self {
        let mut endpoint = Endpoint::new("host", Seed { seed, run: 0 });
        endpoint.listen(anywhere(80), listen).expect("nobody listens");
        Self { endpoint, now: Instant::ZERO }
    }

    /// Returns all segments that are ready to be sent.
    pub(crate) fn said(&mut self) -> Vec<Segment> {
        std::iter::from_fn(|| self.endpoint.poll_transmit(self.now)).map(|t| t.segment).collect()
    }

    /// Passes in a segment and returns the answers.
    pub(crate) fn hear(&mut self, segment: &Segment) -> Vec<Segment> {
        self.endpoint.handle_segment(self.now, tuple(segment.source_port), segment);
        self.said()
    }

    /// Passes in a segment and returns the only answer.
    #[track_caller]
    pub(crate) fn answer(&mut self, segment: &Segment) -> Segment {
        let mut said = self.hear(segment);
        assert_eq!(said.len(), 1, "{said:?}");
        said.remove(0)
    }

    /// Advances the time and handles timers.
    pub(crate) fn run_to(&mut self, end: Instant) -> Vec<Segment> {
        let mut said = self.said();
        while let Some(wake) = self.endpoint.poll_timeout().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.endpoint.handle_timeout(self.now);
            said.extend(self.said());
        }
        self.now = end;
        said
    }

    pub(crate) fn connection(&mut self, handle: ConnectionHandle) -> &mut Connection {
        self.endpoint.connection_mut(handle)
    }

    /// Returns all events.
    pub(crate) fn news(&mut self) -> Vec<(ConnectionHandle, Event)> {
        std::iter::from_fn(|| self.endpoint.poll_event()).collect()
    }

    /// The peer opens a connection. Its timestamps start at `stamp`, if it uses them.
    pub(crate) fn open(&mut self, port: u16, seq: u32, stamp: Option<u32>) -> Peer {
        let with = |segment: Segment, echo: u32| match stamp {
            Some(value) => stamped(segment, value, echo),
            None => segment,
        };
        let answer = self.answer(&with(syn(port, seq), 0));
        assert_eq!(answer.flags, Flags::SYN.with(Flags::ACK));
        let (seq, ack) = (seq.wrapping_add(1), answer.seq.0.wrapping_add(1));
        let echo = answer.timestamps.map_or(0, |t| t.value);
        let third = with(segment(port, Flags::ACK, seq, ack), echo);
        let handle = self.endpoint.handle_segment(self.now, tuple(port), &third);
        self.said();
        Peer { port, handle: handle.expect("it belongs to the connection"), seq, ack }
    }

    /// We close first, and the peer closes with this timestamp. Our side ends in TIME-WAIT.
    pub(crate) fn close(&mut self, peer: &mut Peer, stamp: Option<u32>) {
        let now = self.now;
        self.connection(peer.handle).shutdown(now);
        let fin = self.said();
        assert!(matches!(&fin[..], [fin] if fin.flags.contains(Flags::FIN)), "{fin:?}");
        peer.ack = peer.ack.wrapping_add(1);
        let echo = fin[0].timestamps.map_or(0, |t| t.value);
        let mut answer = segment(peer.port, Flags::FIN.with(Flags::ACK), peer.seq, peer.ack);
        if let Some(value) = stamp {
            answer = stamped(answer, value, echo);
        }
        peer.seq = peer.seq.wrapping_add(1);
        let last = self.answer(&answer);
        assert_eq!((last.flags, last.ack), (Flags::ACK, SeqNumber(peer.seq)));
    }

    /// The peer sends `length` bytes.
    pub(crate) fn data(&mut self, peer: &mut Peer, length: usize) -> Vec<Segment> {
        let mut data = segment(peer.port, Flags::ACK, peer.seq, peer.ack);
        data.payload = Bytes::from(vec![7; length]);
        peer.seq = peer.seq.wrapping_add(length as u32);
        self.hear(&data)
    }
}
