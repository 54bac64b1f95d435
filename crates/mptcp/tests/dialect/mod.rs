//! A scripted peer: one real endpoint, and scripted segments of the other side.
//!
//! A line of a script describes one segment. Flags come first (`S` SYN, `F` FIN, `R` RST, `.` ACK, `E` ECE,
//! `W` CWR), followed by any of these words:
//!
//! | word | meaning |
//! |---|---|
//! | `1:1449` | relative sequence numbers: the SYN is 0 |
//! | `ack=1` `win=500` `sack=9:17,1:5` | header fields; `ack` is relative, `win` not scaled |
//! | `ecr=50` | the echoed timestamp is the time 50 ms |
//! | `ect0` `ect1` `ce` | the ECN field of the IP header; not ECN-capable by default |
//! | `nots` `nosack` | in the SYN: no timestamps, no SACK |
//! | `mpc` `mpc-key` `mpc-keys` `mpc-data=18` | `MP_CAPABLE` of SYN, SYN/ACK, ACK, first data |
//! | `v0` `v2` `B` `noH` `A` `C` | changes version or flags of `MP_CAPABLE` |
//! | `join` `join-hmac` `join-ack` `forged` | `MP_JOIN` of SYN, SYN/ACK, ACK; with a wrong token or HMAC |
//! | `dack4=0` `dack8=0` | `DATA_ACK`, as a position of the data stream from 0 |
//! | `map=0+1000@1` `map4=…` `dfin` | mapping: data position, length, subflow position; `DATA_FIN` |
//! | `rst=1` `rst=2,T` | `MP_TCPRST` with its reason; T: transient |
//! | `fastclose` `forged` | `MP_FASTCLOSE` with the receiver's key; with a wrong key |
//! | `prio=B` `prio=0` | `MP_PRIO`: backup, regular |
//! | `add=5,10.2.0.2` `add=5,10.2.0.2,81` | `ADD_ADDR`: identifier, address, port; `forged`: a wrong HMAC |
//! | `echo=5,10.2.0.2` `remove=1,2` | echo of `ADD_ADDR`; `REMOVE_ADDR` |
//! | `csum` `badsum` `altered` | the mapping has its checksum; a wrong one; the payload is changed |
//! | `checksum` | our segment has a valid checksum |
//! | `fail=100` | `MP_FAIL` with its data position |
//!
//! Fields of the peer's segments that a line does not mention get default values. Our segments are compared
//! only in the words of the line.

#![allow(dead_code, reason = "each file uses its share")]

mod signals;
mod words;

use std::collections::VecDeque;
use std::net::SocketAddr;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{
    Config, Connection, ConnectionHandle, Endpoint, Event, FourTuple, HostModel, SubflowSample,
};
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Instant, Seed, SeqNumber};
use anabranch_wire::crypto::Key;
use anabranch_wire::{CapableKeys, MpJoin, MptcpOption, Segment};
use bytes::Bytes;

/// The peer's key and nonce.
pub(crate) const PEER_KEY: u64 = 0x1234_5678_9abc_def0;
pub(crate) const PEER_NONCE: u32 = 0x5eed;
/// The shift of the peer's window scale. Ours is computed from the configuration.
pub(crate) const PEER_SCALE: u8 = 7;

pub(crate) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Timers without ticks, so that scripts have exact times, and Reno, whose window is easy to compute.
pub(crate) fn config() -> Config {
    Config {
        congestion: PluginChoice::named("reno"),
        host: HostModel { timer_tick: Duration::ZERO, ..HostModel::default() },
        ..Config::default()
    }
}

pub(crate) fn tcp() -> Config {
    Config { multipath: false, ..config() }
}

/// Plain TCP with segments of 1000 bytes and 12 bytes of timestamps.
pub(crate) fn thousands() -> Config {
    Config { mss: 1012, ..tcp() }
}

/// Returns test data whose bytes depend on their position in the data stream.
pub(crate) fn film(from: u64, length: usize) -> Bytes {
    (from..from + length as u64).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

/// The state of one subflow at the scripted peer.
struct Line {
    tuple: FourTuple,
    our_iss: Option<u32>,
    peer_iss: u32,
    /// The position after the last byte that the peer has sent.
    said: u32,
    /// The position after the last byte that the peer has received.
    heard: u32,
    echo: u32,
    /// The offset of our timestamps from the clock.
    offset: u32,
    timestamps: bool,
    our_nonce: u32,
}

/// A script in progress.
pub(crate) struct Script {
    pub(crate) now: Instant,
    pub(crate) endpoint: Endpoint,
    lines: Vec<Line>,
    peer_key: Key,
    our_key: Option<Key>,
    /// Segments that we have sent and that the script has not checked yet.
    said: VecDeque<(Instant, usize, Segment)>,
    /// Segments that we have sent between addresses outside the script's paths, if the script permits them.
    pub(crate) elsewhere: Option<Vec<(Instant, FourTuple, Segment)>>,
    pub(crate) events: Vec<(Instant, Event)>,
    pub(crate) received: Vec<u8>,
    /// The peer's timestamp clock, ms, if it is not the current time.
    pub(crate) stamp: Option<u64>,
    /// Whether the application reads data when it arrives.
    pub(crate) reading: bool,
    pub(crate) written: u64,
}

fn address(host: u8, path: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, path as u8 + 1, 0, host], port))
}

fn address_v6(host: u8, path: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([0xfd00, 0, 0, path as u16 + 1, 0, 0, 0, host.into()], port))
}

impl Script {
    fn new(endpoint: Endpoint) -> Self {
        // The initial sequence numbers are far from zero on one subflow, and wrap on another.
        let lines = (0..4).map(|path| Line {
            tuple: FourTuple { local: address(1, path, 80), remote: address(2, path, 40_000) },
            our_iss: None,
            peer_iss: [1000, u32::MAX - 600, 0, 7][path],
            said: 0,
            heard: 0,
            echo: 0,
            offset: 0,
            timestamps: true,
            our_nonce: 0,
        });
        Self {
            now: Instant::ZERO,
            endpoint,
            lines: lines.collect(),
            peer_key: Key::new(PEER_KEY),
            our_key: None,
            said: VecDeque::new(),
            elsewhere: None,
            stamp: None,
            events: Vec::new(),
            received: Vec::new(),
            reading: true,
            written: 0,
        }
    }

    /// We listen, and the peer connects.
    pub(crate) fn server(config: Config) -> Self {
        Self::seeded_server(config, 7)
    }

    /// Uses IPv6 addresses for a path. Must be called before any segment is sent there.
    pub(crate) fn make_v6(&mut self, path: usize) {
        self.lines[path].tuple =
            FourTuple { local: address_v6(1, path, 80), remote: address_v6(2, path, 40_000) };
    }

    /// Like [`Self::server`], with a seed that determines our keys and sequence numbers.
    pub(crate) fn seeded_server(config: Config, seed: u64) -> Self {
        let mut endpoint = Endpoint::new("server", Seed { seed, run: 0 });
        let v6 = SocketAddr::from(([0_u16; 8], 80));
        endpoint.listen(v6, config.clone()).expect("nobody listens");
        endpoint.listen(SocketAddr::from(([0, 0, 0, 0], 80)), config).expect("nobody listens");
        Self::new(endpoint)
    }

    /// We connect, over `paths` paths.
    pub(crate) fn client(config: Config, paths: usize) -> Self {
        Self::client_over(config, &vec![false; paths])
    }

    /// We connect, over one path per element. An element is true for IPv6 addresses.
    pub(crate) fn client_over(config: Config, v6: &[bool]) -> Self {
        let mut endpoint = Endpoint::new("client", Seed { seed: 7, run: 0 });
        let mut script = Self::new(Endpoint::new("none", Seed { seed: 0, run: 0 }));
        for (path, _) in v6.iter().enumerate().filter(|(_, v6)| **v6) {
            script.make_v6(path);
        }
        let candidates = (0..v6.len())
            .map(|path| Candidate {
                address_id: path as u8,
                local: script.lines[path].tuple.local,
                remote: script.lines[path].tuple.remote,
                backup: false,
                rate: None,
            })
            .collect();
        let config = Config { candidates, ..config };
        endpoint.connect(Instant::ZERO, config).expect("known plug-ins");
        script.endpoint = endpoint;
        script.settle();
        script
    }

    /// A plain TCP server. The handshake is complete `rtt` ms after the peer's SYN.
    pub(crate) fn plain(rtt: u64) -> Self {
        Self::plain_with(tcp(), rtt)
    }

    pub(crate) fn plain_with(config: Config, rtt: u64) -> Self {
        Self::plain_after(config, rtt, "S")
    }

    /// Like [`Self::plain_with`], with this line as the SYN.
    pub(crate) fn plain_after(config: Config, rtt: u64, syn: &str) -> Self {
        let mut script = Self::server(config);
        script.peer(0, syn);
        script.us(0, "S. 0:0 ack=1");
        script.peer(rtt, ".");
        script
    }

    /// An MPTCP server. The handshake is complete `rtt` ms after the peer's SYN.
    pub(crate) fn multipath(config: Config, rtt: u64) -> Self {
        let mut script = Self::server(config);
        script.open_multipath(rtt);
        script
    }

    /// An MPTCP client that has sent its third packet, 50 ms after its SYN.
    pub(crate) fn multipath_client(config: Config, paths: usize) -> Self {
        let mut script = Self::client(config, paths);
        script.us(0, "S mpc");
        script.peer(50, "S. mpc-key");
        script.us(50, ". mpc-keys");
        script
    }

    pub(crate) fn open_multipath(&mut self, rtt: u64) {
        self.peer(0, "S mpc");
        self.us(0, "S. mpc-key");
        self.peer(rtt, ". mpc-keys");
    }

    /// The peer joins on a path. The third packet arrives at `ms`, and the SYN one RTT earlier.
    pub(crate) fn join(&mut self, path: usize, ms: u64, rtt: u64) {
        self.peer_on(path, ms - rtt, "S join");
        self.us_on(path, ms - rtt, "S. join-hmac");
        self.peer_on(path, ms, ". join-ack");
        self.us_on(path, ms, ". ack=1");
    }

    pub(crate) fn connection(&mut self) -> &mut Connection {
        let handle = self.handle();
        self.endpoint.connection_mut(handle)
    }

    /// Returns the first connection.
    fn handle(&self) -> ConnectionHandle {
        self.endpoint.connections().next().expect("a connection").0
    }

    /// Returns a sample of the subflow on a path.
    pub(crate) fn sample(&self, id: usize) -> SubflowSample {
        let mut all = self.endpoint.connection(self.handle()).view().samples();
        all.find(|sample| sample.id.index() == id).expect("an established subflow")
    }

    pub(crate) fn cwnd(&self) -> u32 {
        self.sample(0).cwnd_segments
    }

    pub(crate) fn has(&self, event: Event) -> bool {
        self.events.iter().any(|(_, e)| *e == event)
    }

    /// Our application writes `length` bytes at `ms`.
    pub(crate) fn write(&mut self, ms: u64, length: usize) {
        self.run_to(at(ms));
        let (now, bytes) = (self.now, film(self.written, length));
        let taken = self.connection().write(now, bytes).expect("room in the send buffer");
        assert_eq!(taken, length, "room for all of it");
        self.written += length as u64;
        self.settle();
    }

    /// Our application reads `length` bytes at `ms`. Automatic reads must be off.
    pub(crate) fn read(&mut self, ms: u64, length: usize) {
        self.run_to(at(ms));
        let now = self.now;
        let end = self.received.len() + length;
        while self.received.len() < end {
            let left = end - self.received.len();
            let bytes = self.connection().read(now, left).expect("that many bytes to read");
            self.received.extend_from_slice(&bytes);
        }
        self.settle();
    }

    /// Our application closes its sending side.
    pub(crate) fn shutdown(&mut self, ms: u64) {
        self.run_to(at(ms));
        let now = self.now;
        self.connection().shutdown(now);
        self.settle();
    }

    /// Our application aborts the connection.
    pub(crate) fn abort(&mut self, ms: u64) {
        self.run_to(at(ms));
        self.connection().abort();
        self.settle();
    }

    /// Returns the remote address of each join that we have started outside the script's paths.
    pub(crate) fn joins_elsewhere(&self) -> Vec<SocketAddr> {
        let mut tuples: Vec<FourTuple> = Vec::new();
        for (_, tuple, segment) in self.elsewhere.iter().flatten() {
            let joins = matches!(segment.mptcp[..], [MptcpOption::Join(MpJoin::Syn { .. })]);
            if joins && !tuples.contains(tuple) {
                tuples.push(*tuple);
            }
        }
        tuples.iter().map(|tuple| tuple.remote).collect()
    }

    /// Sends the segments that are ready now.
    fn settle(&mut self) {
        let now = self.now;
        if self.endpoint.is_empty() {
            return self.take_segments();
        }
        let handle = self.handle();
        let connection = self.endpoint.connection_mut(handle);
        while let Some(event) = connection.poll_event() {
            self.events.push((now, event));
        }
        while self.reading {
            let Some(bytes) = connection.read(now, usize::MAX) else { break };
            self.received.extend_from_slice(&bytes);
        }
        self.take_segments();
    }

    fn take_segments(&mut self) {
        while let Some(t) = self.endpoint.poll_transmit(self.now) {
            self.hear(t.local, t.remote, t.segment);
        }
    }

    fn hear(&mut self, local: SocketAddr, remote: SocketAddr, segment: Segment) {
        let tuple = FourTuple { local, remote };
        let line = self.lines.iter().position(|l| l.tuple == tuple);
        if let (None, Some(elsewhere)) = (line, &mut self.elsewhere) {
            return elsewhere.push((self.now, tuple, segment));
        }
        let path = line.expect("a path of the script");
        let ip_header = if local.is_ipv6() { 40 } else { 20 };
        let size = ip_header + segment.header_len() + segment.payload.len();
        assert!(size <= 1500, "{size} bytes on a link of 1500: {segment:?}");
        assert!(segment.options_len() <= 40, "option space: {segment:?}");
        let ports = (segment.source_port, segment.destination_port);
        assert_eq!(ports, (local.port(), remote.port()), "{segment:?}");
        let line = &mut self.lines[path];
        if segment.flags.contains(anabranch_wire::Flags::SYN) {
            line.our_iss = Some(segment.seq.0);
        }
        for option in &segment.mptcp {
            match option {
                MptcpOption::Capable(c) => match c.keys {
                    CapableKeys::Responder(key) | CapableKeys::Both { initiator: key, .. } => {
                        self.our_key = Some(Key::new(key));
                    }
                    _ => {}
                },
                MptcpOption::Join(MpJoin::Syn { nonce, .. } | MpJoin::SynAck { nonce, .. }) => {
                    line.our_nonce = *nonce;
                }
                _ => {}
            }
        }
        if let Some(t) = segment.timestamps {
            line.echo = t.value;
            // Our timestamp clock is 1 at time 0 and counts milliseconds. The difference is the connection's
            // offset.
            let clock = (self.now.as_nanos() / 1_000_000) as u32 + 1;
            line.offset = t.value.wrapping_sub(clock);
        }
        let end = segment.seq.0.wrapping_sub(line.our_iss.unwrap_or(0)) + segment.sequence_len();
        if !segment.flags.contains(anabranch_wire::Flags::RST) {
            line.heard = line.heard.max(end);
        }
        self.said.push_back((self.now, path, segment));
    }

    /// Sets the peer's key. Must be called before the handshake.
    pub(crate) fn peer_key(&mut self, key: u64) {
        self.peer_key = Key::new(key);
    }

    /// Changes the peer's port on a path, as for a new subflow.
    pub(crate) fn speak_from(&mut self, path: usize, port: u16) {
        let line = &mut self.lines[path];
        line.tuple.remote.set_port(port);
        (line.said, line.heard) = (0, 0);
    }

    /// Returns the number of bytes that we have sent on a path, up to the highest sequence number.
    pub(crate) fn sent_on(&self, path: usize) -> u64 {
        u64::from(self.lines[path].heard.max(1)) - 1
    }

    /// Builds the segment of a line without sending it.
    pub(crate) fn composed(&mut self, line: &str) -> Segment {
        let said = self.lines[0].said;
        let segment = self.compose(0, line);
        self.lines[0].said = said;
        segment
    }

    /// Advances the time to `end`, handling our timers.
    pub(crate) fn run_to(&mut self, end: Instant) {
        assert!(end >= self.now, "a script does not go back: {end:?} after {:?}", self.now);
        self.settle();
        while let Some(wake) = self.endpoint.poll_timeout().filter(|wake| *wake <= end) {
            self.now = self.now.max(wake);
            self.endpoint.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
    }

    /// The peer sends this segment at `ms`.
    pub(crate) fn peer(&mut self, ms: u64, line: &str) {
        self.peer_on(0, ms, line);
    }

    /// The peer sends this segment on a path at `ms`.
    pub(crate) fn peer_on(&mut self, path: usize, ms: u64, line: &str) {
        self.run_to(at(ms));
        let segment = self.compose(path, line);
        self.take(path, &segment);
    }

    /// The peer sends a segment on the first path that no line can describe.
    pub(crate) fn deliver(&mut self, ms: u64, segment: &Segment) {
        self.run_to(at(ms));
        self.take(0, segment);
    }

    /// A router on a path reports at `ms` that our packet with data at `position` was larger than `mtu`
    /// bytes. Returns whether the report is accepted.
    pub(crate) fn path_mtu(&mut self, path: usize, ms: u64, mtu: u32, position: u32) -> bool {
        self.run_to(at(ms));
        let line = &self.lines[path];
        let seq = SeqNumber(line.our_iss.unwrap_or(0)).add(position);
        let (now, tuple) = (self.now, line.tuple);
        let believed = self.endpoint.handle_path_mtu(now, tuple, mtu, seq).is_some();
        self.settle();
        believed
    }

    fn take(&mut self, path: usize, segment: &Segment) {
        let (now, tuple) = (self.now, self.lines[path].tuple);
        self.endpoint.handle_segment(now, tuple, segment);
        self.settle();
    }

    /// Checks that our next segment is this one and is sent at `ms`, within a millisecond.
    #[track_caller]
    pub(crate) fn us(&mut self, ms: u64, line: &str) -> Segment {
        self.us_on(0, ms, line)
    }

    /// Checks that our next segment, on whatever path, is this one on that path.
    #[track_caller]
    pub(crate) fn us_on(&mut self, path: usize, ms: u64, line: &str) -> Segment {
        self.us_within(path, ms, ms, line)
    }

    /// Checks that our next segment is this one, sent between `from` and `to` ms.
    #[track_caller]
    pub(crate) fn us_within(&mut self, path: usize, from: u64, to: u64, line: &str) -> Segment {
        while self.said.is_empty() && self.now < at(to) + Duration::from_micros(999) {
            let end = at(to) + Duration::from_micros(999);
            let wake = self.endpoint.poll_timeout();
            self.run_to(wake.map_or(end, |wake| wake.clamp(self.now, end)));
        }
        let Some((when, on, segment)) = self.said.pop_front() else {
            panic!("silence until {to} ms instead of `{line}`");
        };
        let said = self.describe(on, &segment);
        let ms = when.as_nanos() / 1_000_000;
        assert!((from..=to).contains(&ms), "at {ms} ms, not {from}..{to}: `{said}` for `{line}`");
        assert_eq!(on, path, "`{said}` for `{line}`");
        for (index, word) in line.split_whitespace().enumerate() {
            let there = if index == 0 {
                said.split(' ').next() == Some(word)
            } else {
                said.split(' ').any(|other| other == word)
            };
            assert!(there, "at {ms} ms: `{said}` for `{line}`");
        }
        segment
    }

    /// Checks that we send nothing until `ms`.
    #[track_caller]
    pub(crate) fn silence(&mut self, ms: u64) {
        self.run_to(at(ms));
        if let Some((when, path, segment)) = self.said.front() {
            let said = self.describe(*path, segment);
            panic!("at {} ms on path {path}: `{said}`", when.as_nanos() / 1_000_000);
        }
    }

    /// Returns our unchecked segments until `ms`, in the format of [`Self::rest`].
    pub(crate) fn rest_until(&mut self, ms: u64) -> Vec<(u64, usize, String)> {
        self.run_to(at(ms));
        self.rest()
    }

    /// Returns the segments that we sent and that no assertion has consumed, as lines, and forgets
    /// them.
    pub(crate) fn rest(&mut self) -> Vec<(u64, usize, String)> {
        let said: Vec<_> = self.said.drain(..).collect();
        said.iter()
            .map(|(when, path, s)| (when.as_nanos() / 1_000_000, *path, self.describe(*path, s)))
            .collect()
    }
}
