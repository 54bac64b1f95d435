//! The workload of the benchmark of the endpoint's table: the cost of a SYN, a stray segment and a timer next
//! to N other connections.
//!
//! `table N [chosen]` opens N connections, each with unacknowledged data. It then handles a thousand stray
//! segments and a thousand SYNs. Each SYN is answered, reset by its peer and removed. Last, it handles the
//! timers of a thousand connections, or of N if N is smaller. With `chosen`, all four-tuples have the same
//! hash modulo 256 under the key 0. In a table without a secret key they would collide. The program prints
//! the number of each. To measure, profile the functions `syn`, `stray` and `timer` (callgrind's
//! `--toggle-collect`).

use std::hash::Hasher;
use std::net::SocketAddr;

use anabranch_mptcp::{Config, Endpoint, FourTuple};
use anabranch_units::{Duration, Instant, Seed, SeqNumber};
use anabranch_wire::{Flags, Segment};
use siphasher::sip::SipHasher13;

/// The number of connections of each kind.
const COUNT: usize = 1000;

/// Consecutive four-tuples to our port 80, or only those with the chosen hash.
struct Tuples {
    next: u32,
    chosen: bool,
}

impl Iterator for Tuples {
    type Item = FourTuple;

    fn next(&mut self) -> Option<FourTuple> {
        loop {
            let number = self.next;
            self.next += 1;
            let [top, high, middle, low] = number.to_be_bytes();
            let remote = SocketAddr::from((
                [10, 1 + high, middle, 2],
                1024 + u16::from_be_bytes([top, low]),
            ));
            let local = SocketAddr::from(([10, 0, 0, 1], 80));
            let tuple = FourTuple { local, remote };
            if !self.chosen || hash(&tuple) & 0xff == 7 {
                return Some(tuple);
            }
        }
    }
}

/// The table's hash of a four-tuple under a key of zeros, which anyone can compute.
fn hash(tuple: &FourTuple) -> u64 {
    let word = |address: SocketAddr| match address {
        SocketAddr::V4(address) => 0xffff << 32 | u64::from(address.ip().to_bits()),
        SocketAddr::V6(_) => unreachable!("every address is IPv4"),
    };
    let ports = u64::from(tuple.local.port()) << 16 | u64::from(tuple.remote.port());
    let mut hasher = SipHasher13::new_with_keys(0, 0);
    for word in [0, word(tuple.local), 0, word(tuple.remote), ports] {
        hasher.write_u64(word);
    }
    hasher.finish()
}

fn segment(tuple: &FourTuple, flags: Flags, seq: u32, ack: u32) -> Segment {
    Segment {
        source_port: tuple.remote.port(),
        destination_port: 80,
        seq: SeqNumber(seq),
        ack: SeqNumber(ack),
        flags,
        window: 60_000,
        ..Segment::default()
    }
}

fn drain(endpoint: &mut Endpoint, now: Instant) -> Option<Segment> {
    let first = endpoint.poll_transmit(now);
    while endpoint.poll_transmit(now).is_some() {}
    first.map(|transmit| transmit.segment)
}

/// Handles a SYN and returns the answer.
#[inline(never)]
fn syn(
    endpoint: &mut Endpoint,
    now: Instant,
    tuple: FourTuple,
    segment: &Segment,
) -> Option<Segment> {
    endpoint.handle_segment(now, tuple, segment);
    drain(endpoint, now)
}

/// Handles a segment of no connection and returns the answer.
#[inline(never)]
fn stray(
    endpoint: &mut Endpoint,
    now: Instant,
    tuple: FourTuple,
    segment: &Segment,
) -> Option<Segment> {
    // The return type differs from that of `syn`; otherwise the compiler would merge the two functions.
    let whose = endpoint.handle_segment(now, tuple, segment);
    drain(endpoint, now).filter(|_| whose.is_none())
}

/// Handles the next timer and returns the segment that it sends.
#[inline(never)]
fn timer(endpoint: &mut Endpoint) -> Option<Segment> {
    let now = endpoint.poll_timeout()?;
    endpoint.handle_timeout(now);
    let sent = drain(endpoint, now);
    endpoint.poll_timeout();
    sent
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let size: usize = arguments.next().and_then(|n| n.parse().ok()).expect("table N [chosen]");
    let mut tuples = Tuples { next: 0, chosen: arguments.next().is_some() };
    let mut endpoint = Endpoint::new("host", Seed { seed: 1, run: 0 });
    let config = Config { multipath: false, ..Config::default() };
    endpoint.listen(SocketAddr::from(([0, 0, 0, 0], 80)), config).expect("the first");
    let mut now = Instant::ZERO;
    for tuple in tuples.by_ref().take(size) {
        now += Duration::from_micros(2);
        endpoint.handle_segment(now, tuple, &segment(&tuple, Flags::SYN, 99, 0));
        let answer = drain(&mut endpoint, now).expect("a SYN/ACK");
        let third = segment(&tuple, Flags::ACK, 100, answer.seq.0.wrapping_add(1));
        let handle = endpoint.handle_segment(now, tuple, &third).expect("its own");
        endpoint.connection_mut(handle).write(now, vec![0; 100].into()).expect("room");
        drain(&mut endpoint, now).expect("data");
        while endpoint.poll_event().is_some() {}
    }
    let mut done = [0; 3];
    for tuple in tuples.by_ref().take(COUNT) {
        let lost = segment(&tuple, Flags::ACK, 5, 9);
        done[0] += usize::from(stray(&mut endpoint, now, tuple, &lost).is_some());
    }
    for tuple in tuples.by_ref().take(COUNT) {
        let opening = segment(&tuple, Flags::SYN, 99, 0);
        done[1] += usize::from(syn(&mut endpoint, now, tuple, &opening).is_some());
        endpoint.handle_segment(now, tuple, &segment(&tuple, Flags::RST, 100, 0));
        drain(&mut endpoint, now);
        while endpoint.poll_event().is_some() {}
    }
    assert_eq!(endpoint.len(), size, "those that were opened are forgotten");
    for _ in 0..size.min(COUNT) {
        done[2] += usize::from(timer(&mut endpoint).is_some());
    }
    println!("connections {size} stray {} syn {} timer {}", done[0], done[1], done[2]);
}
