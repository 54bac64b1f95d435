//! The entry points of a coverage-guided fuzzer: the parser, and one endpoint whose peer the input controls.
//!
//! They panic if a rule is broken. The tests replay the stored corpora.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use anabranch_congestion as congestion;
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Endpoint, FourTuple};
use anabranch_plugin::PluginChoice;
use anabranch_scheduler as scheduler;
use anabranch_units::{DataSeq, Duration, Instant, Seed, SeqNumber};
use anabranch_wire::crypto::{self, Key};
use anabranch_wire::{
    AddAddr, CapableKeys, DataAck, Dss, Flags, MAX_OPTIONS_LEN, Mapping, MappingDsn, MpCapable,
    MpJoin, MptcpOption, Packet, RemoveAddr, Segment, Timestamps, emit_packet, parse_packet,
};
use bytes::Bytes;

use crate::raw;

/// Bytes of an IPv4 and a TCP header without options.
const HEADERS: usize = 40;
/// The maximum number of operations per input.
const MOST_OPERATIONS: usize = 200;
/// The maximum number of segments in response to one operation.
const MOST_ANSWERS: usize = 10_000;

/// Checks that any input is parsed or refused, and that a parsed packet is unchanged by encoding and parsing.
///
/// The first byte selects the form of the rest. It is either a whole packet, or options and payload that get
/// valid headers. The second form exists because a fuzzer rarely finds valid checksums.
///
/// # Panics
/// Panics if a segment changes by encoding and parsing.
pub fn wire(data: &[u8]) {
    let Some((&form, rest)) = data.split_first() else { return };
    let packet = if form & 1 == 0 { rest.to_vec() } else { packet_of(form, rest) };
    let Ok(parsed) = parse_packet(&packet.into()) else { return };
    let Packet { source, destination, segment } = &parsed;
    let mut again = Vec::new();
    if emit_packet(*source, *destination, segment, &mut again).is_ok() {
        let read = parse_packet(&again.into());
        assert_eq!(read.as_ref(), Ok(&parsed), "a segment survives its encoding");
    }
}

/// Returns a packet with valid headers. Its options are the first bytes of `rest`, and its payload is what
/// follows.
fn packet_of(form: u8, rest: &[u8]) -> Vec<u8> {
    let words = usize::from(form >> 1) % 11;
    let mut options = [1_u8; MAX_OPTIONS_LEN];
    let length = rest.len().min(words * 4);
    options[..length].copy_from_slice(&rest[..length]);
    let flags = if form & 0x80 == 0 { Flags::ACK } else { Flags::SYN };
    let segment = Segment { flags, payload: Bytes::copy_from_slice(&rest[length..]), ..blank() };
    with_options(&segment, &options[..words * 4]).unwrap_or_default()
}

fn blank() -> Segment {
    Segment { source_port: 80, destination_port: 40_000, window: 1_000, ..Segment::default() }
}

/// Encodes a segment with these bytes as its options. Their number must be a multiple of 4.
fn with_options(segment: &Segment, options: &[u8]) -> Option<Vec<u8>> {
    let bare = Segment { payload: Bytes::new(), ..segment.clone() };
    let [us, peer] = [1, 2].map(|host| IpAddr::V4(Ipv4Addr::new(10, 1, 0, host)));
    let mut packet = Vec::new();
    emit_packet(us, peer, &Segment { mptcp: Vec::new(), dss: None, ..bare }, &mut packet).ok()?;
    packet.truncate(HEADERS);
    packet.extend_from_slice(options);
    packet.extend_from_slice(&segment.payload);
    packet[20 + 12] = (((20 + options.len()) / 4) as u8) << 4;
    let total = u16::try_from(packet.len()).ok()?;
    packet[2..4].copy_from_slice(&total.to_be_bytes());
    raw::seal_ipv4(&mut packet);
    raw::seal(&mut packet);
    Some(packet)
}

/// Reads numbers from the input. After the end of the input, all numbers are zero.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u32 {
        u32::from_be_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// Reads a shift of a sequence number. Small shifts take one byte, others five.
    fn shift(&mut self) -> u32 {
        match self.byte() {
            255 => self.word(),
            254 => 1 << 31,
            253 => 1 << 30,
            small => i32::from(small as i8) as u32,
        }
    }
}

/// The state of the scripted peer.
#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    /// The endpoint's key and the peer's key.
    keys: (u64, u64),
    /// The peer's next sequence number, and the endpoint's next sequence number.
    seq: SeqNumber,
    ack: SeqNumber,
    /// Bytes of the stream that the peer has sent.
    sent: u64,
    initial: SeqNumber,
    /// The timestamp of the last segment from the endpoint, to be echoed.
    clock: u32,
    /// The number of data bytes that the peer has received.
    data_ack: u64,
}

/// An endpoint and its scripted peer.
struct Stage {
    now: Instant,
    endpoint: Endpoint,
    client: bool,
    peer: Peer,
    tuple: FourTuple,
    /// The nonces of the latest join: the peer's and the endpoint's.
    joined: Option<(u32, u32)>,
}

fn config(script: &mut Script<'_>) -> Config {
    let choices = script.byte();
    let schedulers: Vec<&str> = scheduler::names().map(|name| name.name).collect();
    let controllers: Vec<&str> = congestion::names().map(|name| name.name).collect();
    Config {
        multipath: choices & 7 != 7,
        checksum: choices & 8 != 0,
        nodelay: choices & 16 != 0,
        scheduler: PluginChoice::named(schedulers[usize::from(script.byte()) % schedulers.len()]),
        congestion: PluginChoice::named(
            controllers[usize::from(script.byte()) % controllers.len()],
        ),
        receive_buffer_max: 262_144,
        receive_buffer_initial: 65_536,
        send_buffer_max: 262_144,
        ..Config::default()
    }
}

impl Stage {
    fn new(script: &mut Script<'_>) -> Self {
        let client = script.byte() & 1 == 0;
        let [local, remote]: [SocketAddr; 2] =
            [([10, 1, 0, 2], 40_000).into(), ([10, 1, 0, 1], 80).into()];
        let mut endpoint = Endpoint::new("fuzzed", Seed { seed: 1, run: 0 });
        let mut config = config(script);
        if client {
            let one = |path: u8| Candidate {
                address_id: path,
                local: ([10, 1 + path, 0, 2], 40_000).into(),
                remote,
                backup: false,
                rate: None,
            };
            config.candidates = vec![one(0), one(1)];
            endpoint.connect(Instant::ZERO, config).expect("names of the tables");
        } else {
            endpoint.listen(remote, config).expect("the port is free");
        }
        let tuple = if client {
            FourTuple { local, remote }
        } else {
            FourTuple { local: remote, remote: local }
        };
        let peer = Peer { keys: (0, 77), seq: SeqNumber(5_000), ..Peer::default() };
        Self { now: Instant::ZERO, endpoint, client, peer, tuple, joined: None }
    }

    /// Returns a valid segment from the peer on the first subflow.
    fn segment(&self) -> Segment {
        Segment {
            source_port: self.tuple.remote.port(),
            destination_port: self.tuple.local.port(),
            seq: self.peer.seq,
            ack: self.peer.ack,
            flags: Flags::ACK,
            window: 20_000,
            timestamps: Some(Timestamps {
                value: self.now.as_micros() as u32 / 1_000,
                echo: self.peer.clock,
            }),
            ..Segment::default()
        }
    }

    /// Passes a segment from the peer to the endpoint, and checks the endpoint's output.
    fn give(&mut self, segment: &Segment) {
        self.endpoint.handle_segment(self.now, self.tuple, segment);
        self.collect_output();
    }

    /// Collects the endpoint's output and checks every segment.
    fn collect_output(&mut self) {
        let mut outputs = 0;
        while let Some(sent) = self.endpoint.poll_transmit(self.now) {
            self.observe(&sent.segment, FourTuple { local: sent.local, remote: sent.remote });
            outputs += 1;
            assert!(outputs < MOST_ANSWERS, "an endpoint stops sending");
        }
        while self.endpoint.poll_event().is_some() {
            outputs += 1;
            assert!(outputs < 100 * MOST_ANSWERS, "events come to an end");
        }
    }

    fn observe(&mut self, segment: &Segment, tuple: FourTuple) {
        assert!(segment.options_len() <= MAX_OPTIONS_LEN, "{segment:?}");
        let mut packet = Vec::new();
        emit_packet(tuple.local.ip(), tuple.remote.ip(), segment, &mut packet)
            .expect("an endpoint's segments can be encoded");
        let read = parse_packet(&packet.into()).map(|packet| packet.segment);
        assert_eq!(read.as_ref(), Ok(segment));
        for option in &segment.mptcp {
            match *option {
                MptcpOption::Capable(MpCapable { keys, .. }) => match keys {
                    CapableKeys::Responder(key) if !self.client => self.peer.keys.0 = key,
                    CapableKeys::Both { initiator, .. } if self.client => {
                        self.peer.keys.0 = initiator;
                    }
                    _ => {}
                },
                MptcpOption::Join(MpJoin::SynAck { nonce, .. }) => {
                    self.joined = self.joined.map(|(own, _)| (own, nonce));
                }
                _ => {}
            }
        }
        if tuple == self.tuple {
            self.peer.clock = segment.timestamps.map_or(0, |t| t.value);
            let end = segment.seq.add(segment.sequence_len());
            let syn = segment.flags.contains(Flags::SYN);
            self.peer.ack = if syn { end } else { self.peer.ack.later(end) };
            self.peer.data_ack += segment.payload.len() as u64;
        }
    }

    fn dss(&self, length: u16) -> Dss {
        let (us, peer) = (Key::new(self.peer.keys.0), Key::new(self.peer.keys.1));
        let mapping = Mapping {
            dsn: MappingDsn::Long(peer.idsn.add(1 + self.peer.sent)),
            ssn: self.peer.seq.distance(self.peer.initial),
            length,
            checksum: None,
        };
        Dss {
            data_ack: Some(DataAck::Long(us.idsn.add(1 + self.peer.data_ack))),
            mapping: (length > 0).then_some(mapping),
            data_fin: false,
        }
    }

    /// Sends the peer's segment of the handshake.
    fn shake(&mut self, script: &mut Script<'_>) {
        let keys = match script.byte() % 4 {
            0 => None,
            1 if !self.client => Some(CapableKeys::None),
            _ if !self.client && self.peer.initial == self.peer.seq => Some(CapableKeys::None),
            _ if self.client => Some(CapableKeys::Responder(self.peer.keys.1)),
            _ => {
                let (responder, initiator) = self.peer.keys;
                Some(CapableKeys::Both { initiator, responder })
            }
        };
        let opens = self.client || matches!(keys, Some(CapableKeys::None));
        let capable = |keys| MptcpOption::Capable(MpCapable::with_keys(keys));
        let mut segment = self.segment();
        segment.mptcp = keys.map(capable).into_iter().collect();
        if opens {
            let ack = if self.client { Flags::ACK } else { Flags::default() };
            segment.flags = Flags::SYN.with(ack);
            segment.mss = Some(1460);
            segment.window_scale = Some(7);
            segment.sack_permitted = true;
            self.peer.initial = self.peer.seq;
            self.peer.seq = self.peer.seq.add(1);
            if !self.client {
                segment.ack = SeqNumber(0);
            }
        }
        self.give(&segment);
    }

    /// Sends valid data from the peer.
    fn data(&mut self, script: &mut Script<'_>) {
        let length = u16::from(script.byte()) * 6 + 1;
        let mut segment = self.segment();
        segment.dss = Some(self.dss(length));
        segment.payload = Bytes::from(vec![7; length.into()]);
        self.give(&segment);
        self.peer.seq = self.peer.seq.add(length.into());
        self.peer.sent += u64::from(length);
    }

    /// Sends a segment with arbitrary fields.
    fn anything(&mut self, script: &mut Script<'_>) {
        let mut segment = self.segment();
        segment.seq = segment.seq.add(script.shift());
        segment.ack = segment.ack.add(script.shift());
        segment.flags = Flags(script.byte());
        segment.window = u16::from(script.byte()) << 8;
        let length = usize::from(script.byte()) * 4;
        segment.payload = Bytes::from(vec![9; length]);
        let words = usize::from(script.byte()) % 11;
        let options: Vec<u8> = (0..words * 4).map(|_| script.byte()).collect();
        segment.timestamps = None;
        if !segment.flags.contains(Flags::ACK) {
            segment.ack = SeqNumber(0);
        }
        let Some(packet) = with_options(&segment, &options) else { return };
        if let Ok(Packet { segment, .. }) = parse_packet(&packet.into()) {
            self.give(&segment);
        }
    }

    /// Sends a valid acknowledgement with a random DSS.
    fn mapped(&mut self, script: &mut Script<'_>) {
        let mut segment = self.segment();
        segment.payload = Bytes::from(vec![5; usize::from(script.byte()) * 3]);
        let mut dss = self.dss(1);
        if let Some(mapping) = &mut dss.mapping {
            let MappingDsn::Long(dsn) = mapping.dsn else { return };
            mapping.dsn = MappingDsn::Long(dsn.add(i64::from(script.shift() as i32) as u64));
            mapping.ssn = mapping.ssn.wrapping_add(script.shift());
            mapping.length = script.word() as u16;
        }
        let choices = script.byte();
        dss.data_fin = choices & 1 != 0;
        if choices & 2 != 0 {
            dss.mapping = None;
        }
        if choices & 4 != 0 {
            dss.data_ack = Some(DataAck::Short(script.shift()));
        }
        segment.dss = Some(dss);
        self.give(&segment);
        if choices & 8 != 0 {
            self.peer.seq = self.peer.seq.add(segment.payload.len() as u32);
        }
    }

    /// Sends an MPTCP option that requires the keys.
    fn signal(&mut self, script: &mut Script<'_>) {
        let (own, peer) = self.peer.keys;
        let mut segment = self.segment();
        let id = script.byte();
        let option = match script.byte() % 6 {
            0 => {
                let address = IpAddr::from([10, 9, 0, id]);
                let hmac = crypto::add_addr_hmac(peer, own, id, address, None);
                let hmac = (script.byte() & 3 != 0).then_some(hmac);
                MptcpOption::AddAddr(AddAddr { address_id: id, address, port: None, hmac })
            }
            1 => RemoveAddr::new(&[id % 8, script.byte() % 8])
                .map_or(MptcpOption::Prio { backup: false }, MptcpOption::RemoveAddr),
            2 => MptcpOption::Prio { backup: id & 1 == 1 },
            3 => MptcpOption::FastClose { key: if id < 128 { own } else { peer } },
            4 => MptcpOption::Fail { dsn: DataSeq(Key::new(peer).idsn.0.wrapping_add(id.into())) },
            _ => {
                segment.flags = if id & 1 == 0 { Flags::RST } else { Flags::FIN.with(Flags::ACK) };
                MptcpOption::Prio { backup: true }
            }
        };
        if id & 64 == 0 {
            segment.dss = Some(self.dss(0));
        }
        segment.timestamps = None;
        segment.mptcp.push(option);
        if segment.options_len() <= MAX_OPTIONS_LEN {
            self.give(&segment);
        }
    }

    /// Sends the peer's segment of a join: the SYN, or the third packet with a correct or wrong HMAC.
    fn join(&mut self, script: &mut Script<'_>) {
        let (own, peer) = self.peer.keys;
        let choices = script.byte();
        let mut tuple = self.tuple;
        tuple.remote.set_port(50_000 + u16::from(choices >> 4));
        let mut segment = self.segment();
        segment.source_port = tuple.remote.port();
        segment.seq = SeqNumber(100);
        if choices & 1 == 0 {
            let nonce = script.word();
            self.joined = Some((nonce, 0));
            segment.flags = Flags::SYN;
            segment.ack = SeqNumber(0);
            let token = Key::new(own).token;
            let (backup, address_id) = (choices & 2 != 0, choices >> 2);
            segment.mptcp =
                vec![MptcpOption::Join(MpJoin::Syn { backup, address_id, token, nonce })];
        } else {
            let (nonce, ours) = self.joined.unwrap_or_default();
            let mac = crypto::join_hmac(peer, own, nonce, ours);
            let mut hmac = crypto::leftmost_160(&mac);
            hmac[0] ^= u8::from(choices & 2 != 0);
            segment.seq = SeqNumber(101);
            segment.timestamps = None;
            segment.mptcp = vec![MptcpOption::Join(MpJoin::Ack { hmac })];
        }
        self.endpoint.handle_segment(self.now, tuple, &segment);
        self.collect_output();
    }

    /// Advances time to the next timer or by some milliseconds.
    fn wait(&mut self, script: &mut Script<'_>) {
        let span = Duration::from_millis(u64::from(script.byte()));
        let next = self.endpoint.poll_timeout();
        self.now = match next {
            Some(next) if span.is_zero() => next.max(self.now),
            _ => self.now + span,
        };
        while self.endpoint.handle_timeout(self.now).is_some() {}
        self.collect_output();
    }

    /// Performs an operation of the application.
    fn application(&mut self, script: &mut Script<'_>) {
        let (what, now) = (script.byte(), self.now);
        let all: Vec<_> = self.endpoint.connections().map(|(handle, _)| handle).collect();
        let Some(last) = all.len().checked_sub(1) else { return };
        let connection = self.endpoint.connection_mut(all[last.min(usize::from(what >> 6))]);
        match what % 8 {
            0..=2 => {
                let bytes = Bytes::from_static(&[3; 9_000]);
                let length = 1 + usize::from(script.byte()) * 35;
                let _ = connection.write(now, bytes.slice(..length));
            }
            3 | 4 => while connection.read(now, 4_000).is_some() {},
            5 => connection.shutdown(now),
            6 => connection.set_backup(now, self.tuple.local.ip(), what & 8 != 0),
            _ if what & 8 == 0 => connection.handle_address_removed(now, self.tuple.local.ip()),
            _ => connection.abort(),
        }
        self.collect_output();
    }
}

/// Runs a script of segments, timers and calls against one endpoint, which is a client or a server.
///
/// # Panics
/// Panics if the endpoint panics, emits an invalid segment or more than 40 bytes of options, or
/// does not stop sending.
pub fn endpoint(data: &[u8]) {
    let mut script = Script(data);
    let mut stage = Stage::new(&mut script);
    stage.collect_output();
    for _ in 0..MOST_OPERATIONS {
        if script.0.is_empty() {
            return;
        }
        match script.byte() % 10 {
            0 => stage.shake(&mut script),
            1 => stage.data(&mut script),
            2 => stage.anything(&mut script),
            3 => stage.mapped(&mut script),
            4 => stage.signal(&mut script),
            5 => stage.join(&mut script),
            6 => stage.wait(&mut script),
            7 => {
                let mut segment = stage.segment();
                segment.dss = Some(stage.dss(0));
                stage.give(&segment);
            }
            _ => stage.application(&mut script),
        }
    }
}
