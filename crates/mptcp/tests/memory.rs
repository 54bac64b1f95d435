//! The memory that connections use and free. The test runs without the usual harness, whose threads allocate
//! memory at arbitrary times.

use std::alloc::System;
use std::net::SocketAddr;

use anabranch_mptcp::{Config, Endpoint, Event, FourTuple, ListenConfig};
use anabranch_units::{Duration, Instant, Seed, SeqNumber};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment, Timestamps};
use cap::Cap;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// The number of connections.
const MANY: u32 = 4000;
/// The largest memory of an idle connection, including its share of every table, bytes.
const IDLE: usize = 3600;
/// The largest memory of an answered SYN, including its share of every table, bytes: over IPv4, and over
/// IPv6, whose addresses need 12 bytes more.
const HALF_OPEN: f64 = 52.0;
const HALF_OPEN_V6: f64 = 64.0;
/// The default backlog of a listener.
const BACKLOG: u32 = 4096;
/// The largest memory of a subflow in TIME-WAIT, including its share of every table, bytes: an eighth of
/// [`IDLE`].
const TIME_WAIT: usize = 450;

fn tuple(number: u32) -> FourTuple {
    let host =
        SocketAddr::from(([10, 1, (number >> 14) as u8, 2], 1024 + (number & 0x3fff) as u16));
    FourTuple { local: SocketAddr::from(([10, 0, 0, 1], 80)), remote: host }
}

fn segment(number: u32, flags: Flags, seq: u32, ack: u32) -> Segment {
    Segment {
        source_port: tuple(number).remote.port(),
        destination_port: 80,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        window: 60_000,
        timestamps: Some(Timestamps { value: 1, echo: 1 }),
        ..Segment::default()
    }
}

fn capable(keys: CapableKeys) -> MptcpOption {
    MptcpOption::Capable(MpCapable::with_keys(keys))
}

/// Maps a four-tuple to IPv6 with the same host and port.
fn over_v6(tuple: FourTuple) -> FourTuple {
    let map = |address: SocketAddr| match address {
        SocketAddr::V4(v4) => {
            let [a, b, c, d] = v4.ip().octets().map(u16::from);
            SocketAddr::from(([0xfd77, 0, 0, 0, a, b, c, d], v4.port()))
        }
        v6 @ SocketAddr::V6(_) => v6,
    };
    FourTuple { local: map(tuple.local), remote: map(tuple.remote) }
}

/// Sends a SYN with `MP_CAPABLE` for a four-tuple.
fn ask_between(endpoint: &mut Endpoint, now: Instant, number: u32, tuple: FourTuple) {
    let mut syn = segment(number, Flags::SYN, 99, 0);
    (syn.mss, syn.window_scale) = (Some(1460), Some(7));
    syn.mptcp.push(capable(CapableKeys::None));
    endpoint.handle_segment(now, tuple, &syn);
}

fn ask(endpoint: &mut Endpoint, now: Instant, number: u32) {
    ask_between(endpoint, now, number, tuple(number));
}

/// Opens an MPTCP connection. Returns our next sequence number.
fn open(endpoint: &mut Endpoint, now: Instant, number: u32) -> u32 {
    ask(endpoint, now, number);
    let answer = endpoint.poll_transmit(now).expect("a SYN/ACK").segment;
    let [MptcpOption::Capable(MpCapable { keys: CapableKeys::Responder(ours), .. })] =
        answer.mptcp[..]
    else {
        panic!("{answer:?}");
    };
    let next = answer.seq.0.wrapping_add(1);
    let mut third = segment(number, Flags::ACK, 100, next);
    third.mptcp.push(capable(CapableKeys::Both { initiator: 5, responder: ours }));
    endpoint.handle_segment(now, tuple(number), &third);
    while endpoint.poll_transmit(now).is_some() {}
    next
}

/// Opens a TCP connection. Returns our next sequence number.
fn open_plain(endpoint: &mut Endpoint, now: Instant, number: u32) -> u32 {
    endpoint.handle_segment(now, tuple(number), &segment(number, Flags::SYN, 99, 0));
    let answer = endpoint.poll_transmit(now).expect("a SYN/ACK").segment;
    let next = answer.seq.0.wrapping_add(1);
    endpoint.handle_segment(now, tuple(number), &segment(number, Flags::ACK, 100, next));
    while endpoint.poll_transmit(now).is_some() {}
    next
}

fn idle_connections_are_small_and_closed_ones_give_all_back() {
    let mut endpoint = Endpoint::new("host", Seed { seed: 1, run: 0 });
    endpoint.listen(SocketAddr::from(([0, 0, 0, 0], 80)), Config::default()).expect("the first");
    let mut now = Instant::ZERO;
    // One connection is opened and removed first, so that one-time allocations do not count.
    open(&mut endpoint, now, MANY);
    let only = endpoint.connections().next().expect("one").0;
    endpoint.remove(only);
    let start = MEMORY.allocated();
    let next: Vec<u32> = (0..MANY).map(|number| open(&mut endpoint, now, number)).collect();
    let kept = next.capacity() * 4;
    let handles: Vec<_> = std::iter::from_fn(|| endpoint.poll_event())
        .filter(|(_, event)| *event == Event::Connected)
        .map(|(handle, _)| handle)
        .collect();
    assert_eq!(handles.len(), MANY as usize);
    let kept = kept + handles.capacity() * size_of_val(&handles[0]);
    let each = (MEMORY.allocated() - start - kept) / MANY as usize;
    let idle = each;
    assert!(each <= IDLE, "{each} bytes an idle connection");
    // A RST ends the only subflow of each connection. One minute later, the connection ends
    // (`mptcp_close_timeout`).
    for (number, ack) in (0..MANY).zip(&next) {
        endpoint.handle_segment(now, tuple(number), &segment(number, Flags::RST, 100, *ack));
    }
    drop((next, handles));
    while endpoint.poll_transmit(now).is_some() {}
    // A timer of a minute fires up to 2.048 s later (`calc_wheel_index`).
    now += Duration::from_secs(63);
    while endpoint.handle_timeout(now).is_some() {}
    while endpoint.poll_transmit(now).is_some() {}
    while endpoint.poll_event().is_some() {}
    assert!(endpoint.is_empty());
    let left = MEMORY.allocated() as i64 - start as i64;
    assert!(left <= 0, "{left} bytes are left");

    // Closed connections leave a TIME-WAIT record, and one minute later nothing.
    for number in 0..MANY {
        let ack = open_plain(&mut endpoint, now, number);
        let handle = endpoint.connections().next().expect("it is the only one").0;
        endpoint.connection_mut(handle).shutdown(now);
        assert!(
            endpoint.poll_transmit(now).is_some_and(|fin| fin.segment.flags.contains(Flags::FIN))
        );
        let fin = segment(number, Flags::FIN.with(Flags::ACK), 100, ack.wrapping_add(1));
        endpoint.handle_segment(now, tuple(number), &fin);
        while endpoint.poll_transmit(now).is_some() {}
        while endpoint.poll_event().is_some() {}
        assert!(endpoint.is_empty());
    }
    let each = (MEMORY.allocated() - start) / MANY as usize;
    assert!(each <= TIME_WAIT, "{each} bytes a TIME-WAIT");
    now += Duration::from_secs(60);
    endpoint.handle_timeout(now);
    assert_eq!(endpoint.poll_timeout(), None);
    let left = MEMORY.allocated() as i64 - start as i64;
    assert!(left <= 0, "{left} bytes are left");
    println!("{idle} bytes an idle connection, {each} a TIME-WAIT");
}

/// Returns the memory per answered SYN, with its share of every table, and the memory per SYN beyond the
/// backlog, in bytes.
fn half_open(backlog: u32, v6: bool) -> (f64, f64) {
    let mut endpoint = Endpoint::new("host", Seed { seed: 1, run: 0 });
    let any = if v6 { SocketAddr::from(([0; 8], 80)) } else { SocketAddr::from(([0; 4], 80)) };
    let listen = ListenConfig { backlog, ..Config::default().into() };
    endpoint.listen(any, listen).expect("the first");
    let now = Instant::ZERO;
    let flood = |endpoint: &mut Endpoint, numbers: std::ops::Range<u32>| {
        let start = MEMORY.allocated() as i64;
        let (floods, mut answers) = (numbers.len(), 0);
        for number in numbers {
            let tuple = tuple(number);
            let tuple = if v6 { over_v6(tuple) } else { tuple };
            ask_between(endpoint, now, number, tuple);
            while endpoint.poll_transmit(now).is_some() {
                answers += 1;
            }
        }
        assert_eq!(answers, floods, "an answer to each");
        (MEMORY.allocated() as i64 - start) as f64 / floods as f64
    };
    // One flood before the measurement, including cookies, so that one-time allocations do not count.
    flood(&mut endpoint, 0..backlog + 1);
    endpoint.stop_listening(any);
    let listen = ListenConfig { backlog, ..Config::default().into() };
    endpoint.listen(any, listen).expect("nobody else");
    let start = MEMORY.allocated();
    let each = flood(&mut endpoint, 0..backlog);
    let beyond = flood(&mut endpoint, backlog..backlog + MANY);
    assert_eq!(endpoint.half_open(), backlog as usize);
    endpoint.stop_listening(any);
    let left = MEMORY.allocated() as i64 - start as i64;
    assert!(left <= 0, "{left} bytes are left");
    (each, beyond)
}

/// A SYN within the backlog is stored in a record. Beyond the backlog, the answer is a cookie, which uses no
/// memory. Tables grow in steps, so unused space depends on the size. Many sizes are tested; the quick test
/// has four, two of which leave the most unused space.
fn a_flood_takes_the_backlog_and_no_more(long: bool) {
    let sizes: Vec<u32> = if long {
        (2000..2 * BACKLOG).step_by(41).chain([BACKLOG, 1 << 16]).collect()
    } else {
        vec![2000, 2123, 3271, BACKLOG]
    };
    for (v6, most) in [(false, HALF_OPEN), (true, HALF_OPEN_V6)] {
        let taken: Vec<_> = sizes.iter().map(|&size| (size, half_open(size, v6))).collect();
        for (size, (each, beyond)) in &taken {
            assert!(*each <= most, "{each} bytes a half-open connection of {size}, IPv6: {v6}");
            assert!(*beyond < 1.0, "{beyond} bytes a SYN beyond the backlog");
        }
        let worst = taken.iter().map(|(_, (each, _))| *each).fold(0.0, f64::max);
        let at_the_cap = half_open(BACKLOG, v6).0;
        println!(
            "IPv6: {v6}; {at_the_cap:.1} bytes a half-open connection of {BACKLOG}, {worst:.1} at most of {}",
            taken.len()
        );
    }
}

fn main() {
    // Handles the harness's options for tests that are ignored as long.
    let long = std::env::args().any(|word| word == "--include-ignored" || word == "--ignored");
    a_flood_takes_the_backlog_and_no_more(long);
    idle_connections_are_small_and_closed_ones_give_all_back();
}
