//! The memory that connections use, and its release. Runs without a harness, whose threads allocate
//! memory at times of their own.

use std::alloc::System;
use std::net::SocketAddr;

use anabranch_mptcp::{Config, Endpoint, Event, FourTuple, ListenConfig};
use anabranch_units::{Duration, Instant, Seed, SeqNumber};
use anabranch_wire::{CapableKeys, Flags, MpCapable, MptcpOption, Segment, Timestamps};
use cap::Cap;

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

/// Connections.
const MANY: u32 = 4000;
/// The most that an idle connection may take, with its share of every table, bytes.
const IDLE: usize = 3600;
/// The most bytes that an answered SYN may use, with its share of every table, over IPv4 and over IPv6, whose
/// addresses take 12 bytes more.
const HALF_OPEN: f64 = 52.0;
const HALF_OPEN_V6: f64 = 64.0;
/// The backlog that a listener has of itself.
const BACKLOG: u32 = 4096;
/// The most that a subflow in TIME-WAIT may take, with its share of every table, bytes: an eighth of that.
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

/// The same host and port over IPv6.
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

/// Asks for a connection over MPTCP, between the addresses of a number or the like.
fn ask_between(endpoint: &mut Endpoint, now: Instant, number: u32, tuple: FourTuple) {
    let mut syn = segment(number, Flags::SYN, 99, 0);
    (syn.mss, syn.window_scale) = (Some(1460), Some(7));
    syn.mptcp.push(capable(CapableKeys::None));
    endpoint.handle_segment(now, tuple, &syn);
}

fn ask(endpoint: &mut Endpoint, now: Instant, number: u32) {
    ask_between(endpoint, now, number, tuple(number));
}

/// Opens a connection over MPTCP; our next sequence number.
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

/// Opens a connection over TCP; our next sequence number.
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
    // Once before, so that what is made once is there.
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
    // A reset ends the only subflow of each, and a minute later the connection (`mptcp_close_timeout`).
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

    // Those that close leave their TIME-WAIT behind, and a minute later nothing.
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

/// Bytes that a SYN takes with its share of every table, of so many that were answered, and of others beyond the
/// backlog; the addresses are of IPv4 or IPv6.
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
    // Once before, so that what is made once is there, of cookies too.
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

/// Within the backlog a record is kept of a SYN, beyond it a cookie answers, which is no memory at all. Tables grow in
/// steps, so that there is room in some sizes for more than there are: many sizes are tried, in the quick suite four,
/// two of which leave the most room.
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
