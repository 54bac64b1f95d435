//! Tests that a receiver of segments merged by GRO reaches the same state as a receiver of single segments.
//!
//! After arbitrary losses, repetitions and reordering, they compare the bytes read, `rcv_nxt`, the
//! `DATA_ACK`, the SACK blocks and the echoed timestamp. The window is compared too if its size does not
//! depend on the reader. The window field counts units, and Linux rounds the right edge up to a whole unit at
//! each acknowledgement (`ALIGN` in `tcp_select_window`). While data waits, the windows may therefore differ
//! by one unit per acknowledgement, and by one unit after all data is read.
//!
//! Linux remembers four SACK blocks. If there were more ranges, the reported ones may differ.
//!
//! Linux itself behaves differently for merged segments in three ways, which are not compared: the number and
//! contents of intermediate acknowledgements (including DSACK); the number of remaining quick
//! acknowledgements; and how fast `rcv_ssthresh` opens the window (`tcp_grow_window`: two full segments for
//! each segment, or twice the payload of all merged segments).

use std::net::SocketAddr;
use std::num::NonZeroU16;

use anabranch_mptcp::{Config, Connection, ConnectionHandle, Endpoint, FourTuple};
use anabranch_units::{DataSeq, Duration, Instant, Seed, SeqNumber};
use anabranch_wire::crypto::Key;
use anabranch_wire::{
    CapableKeys, Dss, Flags, Mapping, MappingDsn, MpCapable, MptcpOption, Segment, Timestamps,
    dss_checksum,
};
use bytes::Bytes;
use proptest::prelude::*;

/// The peer's key and the sequence number of its first byte.
const KEY: u64 = 5;
const FIRST: u32 = u32::MAX - 50_000;
/// The number of segments before the compared ones, so that the window is fully open.
const WARM: usize = 300;
const FULL: usize = 1428;
/// The number of SACK blocks that a receiver remembers (`TCP_NUM_SACKS`).
const SACK_BLOCKS: usize = 4;
/// The largest merged segment (`GRO_LEGACY_MAX_SIZE`), bytes.
const MOST: usize = 65_535 - 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Plain,
    Multipath,
    /// With a DSS checksum over the whole mapping, as Linux sends it.
    Checksum,
}

fn tuple() -> FourTuple {
    let end = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
    FourTuple { local: end(1, 80), remote: end(2, 1024) }
}

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn film(length: usize) -> Bytes {
    (0..length).map(|i| (i % 251) as u8 ^ (i / 251) as u8).collect()
}

/// Segments that share a mapping: a range of the stream, split every `size` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Burst {
    from: usize,
    to: usize,
    size: usize,
}

/// One segment of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    burst: Burst,
    from: usize,
    to: usize,
}

impl Burst {
    fn pieces(self) -> impl Iterator<Item = Piece> {
        let Self { from, to, size } = self;
        (from..to).step_by(size).map(move |at| Piece {
            burst: self,
            from: at,
            to: (at + size).min(to),
        })
    }
}

/// The endpoint under test, its peer's segments, and the results.
struct Receiver {
    kind: Kind,
    endpoint: Endpoint,
    handle: Option<ConnectionHandle>,
    film: Bytes,
    now: Instant,
    ours: SeqNumber,
    echo: u32,
    /// Whether the last segment of a burst has PSH.
    pushes: bool,
    read: Vec<u8>,
    acks: usize,
    last: Option<Segment>,
}

impl Receiver {
    fn new(kind: Kind, config: Config, film: Bytes) -> Self {
        let mut endpoint = Endpoint::new("host", Seed { seed: 3, run: 0 });
        let config =
            Config { multipath: kind != Kind::Plain, checksum: kind == Kind::Checksum, ..config };
        endpoint.listen(tuple().local, config).expect("nobody listens");
        let mut receiver = Self {
            kind,
            endpoint,
            handle: None,
            film,
            now: ms(100),
            ours: SeqNumber(0),
            echo: 0,
            pushes: true,
            read: Vec::new(),
            acks: 0,
            last: None,
        };
        receiver.open();
        receiver
    }

    fn open(&mut self) {
        let checksum_required = self.kind == Kind::Checksum;
        let capable = |keys| {
            MptcpOption::Capable(MpCapable { checksum_required, ..MpCapable::with_keys(keys) })
        };
        let offers = self.kind != Kind::Plain;
        let mut syn = self.segment(Flags::SYN, 0);
        syn.seq = SeqNumber(FIRST).sub(1);
        (syn.mss, syn.window_scale, syn.sack_permitted) = (Some(1460), Some(7), true);
        syn.mptcp.extend(offers.then(|| capable(CapableKeys::None)));
        self.endpoint.handle_segment(self.now, tuple(), &syn);
        let answer = self.endpoint.poll_transmit(self.now).expect("a SYN/ACK").segment;
        self.ours = answer.seq.add(1);
        self.echo = answer.timestamps.expect("offered").value;
        self.now = ms(120);
        let mut third = self.segment(Flags::ACK, 0);
        if offers {
            let [MptcpOption::Capable(MpCapable { keys: CapableKeys::Responder(ours), .. })] =
                answer.mptcp[..]
            else {
                panic!("{answer:?}");
            };
            third.mptcp.push(capable(CapableKeys::Both { initiator: KEY, responder: ours }));
        }
        self.handle = self.endpoint.handle_segment(self.now, tuple(), &third);
        assert_eq!(self.connection().is_multipath(), offers);
    }

    fn connection(&mut self) -> &mut Connection {
        self.endpoint.connection_mut(self.handle.expect("a listener"))
    }

    /// Builds a segment without payload at a position of the stream.
    fn segment(&self, flags: Flags, at: usize) -> Segment {
        let value = (self.now.as_nanos() / 1_000_000) as u32;
        Segment {
            source_port: 1024,
            destination_port: 80,
            seq: SeqNumber(FIRST).add(at as u32),
            ack: if flags.contains(Flags::ACK) { self.ours } else { SeqNumber(0) },
            flags,
            window: 1000,
            timestamps: Some(Timestamps { value, echo: self.echo }),
            ..Segment::default()
        }
    }

    fn mapping(&self, burst: Burst) -> Mapping {
        let dsn = DataSeq(Key::new(KEY).idsn.0.wrapping_add(1 + burst.from as u64));
        let (ssn, length) = (1 + burst.from as u32, (burst.to - burst.from) as u16);
        let bytes = &self.film[burst.from..burst.to];
        let checksum =
            (self.kind == Kind::Checksum).then(|| dss_checksum(dsn, ssn, length, [bytes]));
        Mapping { dsn: MappingDsn::Long(dsn), ssn, length, checksum }
    }

    /// Delivers consecutive segments of a burst as one merged segment.
    fn arrive(&mut self, group: &[Piece]) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { return };
        let mut segment = self.segment(Flags::ACK, first.from);
        segment.payload = self.film.slice(first.from..last.to);
        if self.pushes && last.to == last.burst.to {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        if self.kind == Kind::Plain && last.to == self.film.len() {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if self.kind != Kind::Plain {
            let mapping = Some(self.mapping(first.burst));
            segment.dss = Some(Dss { mapping, ..Dss::default() });
        }
        let size = (group.len() > 1).then_some(first.burst.size as u16).and_then(NonZeroU16::new);
        self.endpoint.handle_merged(self.now, tuple(), &segment, size);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(transmit) = self.endpoint.poll_transmit(self.now) {
            assert!(transmit.segment.payload.is_empty());
            self.acks += 1;
            self.last = Some(transmit.segment);
        }
    }

    fn read_all(&mut self) {
        let now = self.now;
        while let Some(piece) = self.connection().read(now, usize::MAX) {
            self.read.extend_from_slice(&piece);
        }
        self.drain();
    }

    /// Advances the time and handles timers.
    fn wait_until(&mut self, end: Instant) {
        while let Some(next) = self.endpoint.poll_timeout().filter(|next| *next <= end) {
            self.now = next.max(self.now);
            while self.endpoint.handle_timeout(self.now).is_some() {}
            self.drain();
        }
        self.now = end;
    }

    /// Repeats an old byte, which demands an acknowledgement, and returns that acknowledgement.
    fn state(&mut self) -> Segment {
        let burst = Burst { from: 0, to: 1, size: 1 };
        self.last = None;
        self.arrive(&[Piece { burst, from: 0, to: 1 }]);
        let state = self.last.clone().expect("an answer");
        self.echo = state.timestamps.expect("agreed on").value;
        state
    }

    /// Opens the window completely. The last two segments arrive in reverse order. An out-of-order segment
    /// opens the window further than one in order, which is charged itself.
    fn warm_up(&mut self) {
        let burst = |n: usize| Burst { from: n * FULL, to: (n + 1) * FULL, size: FULL };
        for n in 0..WARM - 2 {
            self.arrive(&burst(n).pieces().collect::<Vec<_>>());
            self.read_all();
        }
        for n in [WARM - 1, WARM - 2] {
            self.arrive(&burst(n).pieces().collect::<Vec<_>>());
        }
        self.read_all();
        assert!(self.read == self.film[..WARM * FULL]);
    }
}

/// The fate of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    InPlace,
    /// The segment arrives after all others of its flight.
    Late,
    /// The segment is lost, and sent again with the next flight.
    Lost,
    /// The segment arrives on time, and again with the next flight.
    Twice,
}

#[derive(Clone, Debug)]
struct Plan {
    kind: Kind,
    tunes: bool,
    /// The payload of a full segment, bytes.
    size: usize,
    /// The number of full segments and the bytes of the last one, for each burst.
    bursts: Vec<(usize, usize)>,
    fates: Vec<Fate>,
    /// For each arrival, whether GRO was flushed before it.
    flushes: Vec<bool>,
}

fn plan() -> impl Strategy<Value = Plan> {
    let fate = prop_oneof![
        6 => Just(Fate::InPlace),
        1 => Just(Fate::Late),
        1 => Just(Fate::Lost),
        1 => Just(Fate::Twice),
    ];
    (
        prop_oneof![Just(Kind::Plain), Just(Kind::Multipath), Just(Kind::Checksum)],
        any::<bool>(),
        prop_oneof![Just(FULL), Just(536), Just(1000)],
        prop::collection::vec((1..12usize, 1..=536usize), 3..10),
        prop::collection::vec(fate, 40),
        prop::collection::vec(prop::bool::weighted(0.2), 60),
    )
        .prop_map(|(kind, tunes, size, bursts, fates, flushes)| Plan {
            kind,
            tunes,
            size,
            bursts,
            fates,
            flushes,
        })
}

impl Plan {
    /// Returns the segments of each flight in the order of arrival. Three bursts make one flight.
    fn flights(&self) -> Vec<Vec<Piece>> {
        let (mut at, mut fates) = (WARM * FULL, self.fates.iter().cycle());
        let (mut flights, mut again) = (Vec::new(), Vec::new());
        for bursts in self.bursts.chunks(3) {
            let (mut flight, mut late) = (std::mem::take(&mut again), Vec::new());
            for (whole, last) in bursts {
                let burst = Burst { from: at, to: at + whole * self.size + last, size: self.size };
                at = burst.to;
                for piece in burst.pieces() {
                    match fates.next() {
                        Some(Fate::Late) => late.push(piece),
                        Some(Fate::Lost) => again.push(piece),
                        Some(Fate::Twice) => {
                            flight.push(piece);
                            again.push(piece);
                        }
                        _ => flight.push(piece),
                    }
                }
            }
            flight.extend(late);
            flights.push(flight);
        }
        flights.push(again);
        flights
    }

    fn end(&self) -> usize {
        WARM * FULL
            + self.bursts.iter().map(|(whole, last)| whole * self.size + last).sum::<usize>()
    }

    fn config(&self) -> Config {
        let mut stack = Config::default().stack;
        stack.shared.receive_autotuning = self.tunes;
        Config { receive_buffer_initial: 512 << 10, stack, ..Config::default() }
    }
}

/// Out-of-order data: the end of each range, and the largest number of ranges since there was no gap.
#[derive(Default)]
struct Runs {
    next: usize,
    apart: Vec<(usize, usize)>,
    most: usize,
}

impl Runs {
    fn note(&mut self, piece: Piece) {
        self.apart.push((piece.from, piece.to));
        self.apart.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (from, to) in self.apart.drain(..) {
            if from <= self.next {
                self.next = self.next.max(to);
            } else if let Some(last) = joined.last_mut().filter(|last| from <= last.1) {
                last.1 = last.1.max(to);
            } else {
                joined.push((from, to));
            }
        }
        self.most = if joined.is_empty() { 0 } else { self.most.max(joined.len()) };
        self.apart = joined;
    }
}

/// Merges segments as GRO does: consecutive segments of one burst, all full except the last, unless GRO was
/// flushed.
fn merge(flight: &[Piece], flushes: &mut impl Iterator<Item = bool>) -> Vec<Vec<Piece>> {
    let mut groups: Vec<Vec<Piece>> = Vec::new();
    for piece in flight {
        let flush = flushes.next().unwrap_or(false);
        if let Some(group) = groups.last_mut()
            && let (Some(first), Some(last)) = (group.first(), group.last())
            && !flush
            && last.burst == piece.burst
            && last.to == piece.from
            && piece.to - first.from <= MOST
        {
            group.push(*piece);
        } else {
            groups.push(vec![*piece]);
        }
    }
    groups
}

proptest! {
    #[test]
    fn merged_segments_end_in_the_same_state_as_single_ones(plan in plan()) {
        let film = film(plan.end());
        let mut alone = Receiver::new(plan.kind, plan.config(), film.clone());
        let mut merged = Receiver::new(plan.kind, plan.config(), film.clone());
        alone.warm_up();
        merged.warm_up();
        let (mut flushes, mut joined) = (plan.flushes.iter().copied().cycle(), 0);
        let mut runs = Runs { next: WARM * FULL, ..Runs::default() };
        // The whole window is compared here. Otherwise the first acknowledgement of a flight would include
        // earlier differences.
        prop_assert_eq!(alone.state(), merged.state());
        // The numbers of acknowledgements when no data was waiting.
        let mut since = (alone.acks, merged.acks);
        for (number, flight) in plan.flights().iter().enumerate() {
            let at = ms(1000 + 200 * number as u64);
            alone.wait_until(at);
            merged.wait_until(at);
            for piece in flight {
                alone.arrive(&[*piece]);
                runs.note(*piece);
            }
            let groups = merge(flight, &mut flushes);
            joined += flight.len() - groups.len();
            for group in &groups {
                merged.arrive(group);
            }
            // Compares before and after the application reads.
            for reads in [false, true] {
                if reads {
                    alone.read_all();
                    merged.read_all();
                    prop_assert!(alone.read == merged.read, "{} {}", alone.read.len(), merged.read.len());
                }
                let (mut one, mut other) = (alone.state(), merged.state());
                let windows = (std::mem::take(&mut one.window), std::mem::take(&mut other.window));
                let clean = reads && one.sack.is_empty();
                if runs.most > SACK_BLOCKS {
                    (one.sack, other.sack) = Default::default();
                }
                prop_assert_eq!(one, other);
                let acks = (alone.acks - since.0).max(merged.acks - since.1) as u16;
                let most = if clean { 1 } else { acks };
                prop_assert!(plan.tunes || windows.0.abs_diff(windows.1) <= most, "{:?}", windows);
                if clean {
                    since = (alone.acks, merged.acks);
                }
            }
        }
        prop_assume!(joined > 0);
        prop_assert!(alone.read == film[..], "{} of {}", alone.read.len(), film.len());
    }
}

#[test]
fn every_arrival_of_several_segments_is_acknowledged() {
    // __tcp_ack_snd_check: `tp->rcv_nxt - tp->rcv_wup > inet_csk(sk)->icsk_ack.rcv_mss`, of which GRO's
    // `gso_size` is the measure (tcp_measure_rcv_mss).
    let acks = |each: usize| {
        let count = 400;
        let film = film((WARM + count * each) * FULL);
        let mut stack = Config::default().stack;
        stack.shared.receive_autotuning = false;
        let config = Config { receive_buffer_initial: 512 << 10, stack, ..Config::default() };
        let mut receiver = Receiver::new(Kind::Multipath, config, film);
        receiver.warm_up();
        (receiver.acks, receiver.pushes) = (0, false);
        for n in 0..count {
            let from = (WARM + n * each) * FULL;
            let burst = Burst { from, to: from + each * FULL, size: FULL };
            receiver.arrive(&burst.pieces().collect::<Vec<_>>());
            receiver.read_all();
        }
        receiver.acks
    };
    assert_eq!((acks(2), acks(4), acks(40)), (400, 400, 400));
    assert_eq!(acks(1), 200, "alone every second one");
}
