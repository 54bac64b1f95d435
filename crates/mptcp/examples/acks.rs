//! The workload of `benches/calls.py`: acknowledgements that arrive at a sender of data.
//!
//! `acks SKIP COUNT` sends 4 MB over MPTCP on one path of 10 ms without loss. The peer's window
//! limits it. The program records each input of the
//! sender: segments of the receiver, and times at which timers were due. A second sender then gets the same
//! inputs without a receiver. It handles acknowledgements SKIP to SKIP + COUNT in the function `acknowledge`,
//! which a profiler can measure alone. The program fails if the second sender does not send the same
//! segments.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::ops::Range;
use std::process::ExitCode;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Endpoint, FourTuple, Transmit, earliest};
use anabranch_units::{Duration, Instant, Seed};
use anabranch_wire::Segment;
use bytes::Bytes;

const BYTES: u64 = 4_000_000;
const ONE_WAY: Duration = Duration::from_millis(5);

/// An input of the sender. A segment, or `None` if timers are due.
struct Input {
    now: Instant,
    arrived: Option<(FourTuple, Segment)>,
}

/// The endpoint that sends data.
struct Sender {
    endpoint: Endpoint,
    film: Bytes,
    unwritten: u64,
    /// The number of acknowledgements that were handled.
    handled: usize,
    /// Those that are measured.
    measured: Range<usize>,
    /// The sequence numbers, acknowledgement numbers and payloads of all sent segments.
    sent: Vec<(u32, u32, usize)>,
}

impl Sender {
    fn new(measured: Range<usize>) -> Self {
        let mut endpoint = Endpoint::new("server", Seed { seed: 1, run: 0 });
        endpoint.listen(end(1, 80), Config::default()).expect("a free address");
        let film = Bytes::from(vec![7; 1 << 16]);
        Self { endpoint, film, unwritten: BYTES, handled: 0, measured, sent: Vec::new() }
    }

    /// Handles an input, writes as much data as the send buffer has space for, and returns the segments to
    /// send.
    fn step(&mut self, input: &Input) -> Vec<Transmit> {
        let now = input.now;
        match &input.arrived {
            Some((tuple, segment)) => {
                let opened = !self.endpoint.is_empty();
                if opened && self.measured.contains(&self.handled) {
                    acknowledge(&mut self.endpoint, now, *tuple, segment);
                } else {
                    self.endpoint.handle_segment(now, *tuple, segment);
                }
                self.handled += usize::from(opened);
            }
            None => while self.endpoint.handle_timeout(now).is_some() {},
        }
        let handle = self.endpoint.connections().next().map(|(handle, _)| handle);
        if let Some(handle) = handle {
            let connection = self.endpoint.connection_mut(handle);
            while self.unwritten > 0 {
                let piece = self.film.slice(..self.film.len().min(self.unwritten as usize));
                let Ok(written) = connection.write(now, piece) else { break };
                self.unwritten -= written as u64;
            }
        }
        let ready: Vec<_> = std::iter::from_fn(|| self.endpoint.poll_transmit(now)).collect();
        let numbers =
            |it: &Transmit| (it.segment.seq.0, it.segment.ack.0, it.segment.payload.len());
        self.sent.extend(ready.iter().map(numbers));
        ready
    }
}

/// Handles a segment of the receiver. This is the measured function.
#[inline(never)]
fn acknowledge(endpoint: &mut Endpoint, now: Instant, tuple: FourTuple, segment: &Segment) {
    endpoint.handle_segment(now, tuple, segment);
}

fn end(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

/// Sends [`BYTES`] between two endpoints. Returns the inputs of the sender.
fn record(sender: &mut Sender) -> Vec<Input> {
    let (local, remote) = (end(2, 1024), end(1, 80));
    let first = Candidate { address_id: 0, local, remote, backup: false, rate: None };
    let mut receiver = Endpoint::new("client", Seed { seed: 1, run: 0 });
    let config =
        Config { candidates: vec![first], receive_buffer_max: 1 << 18, ..Config::default() };
    let handle = receiver.connect(Instant::ZERO, config).expect("free addresses");
    let (mut now, mut read) = (Instant::ZERO, 0);
    let mut flying: VecDeque<(Instant, Transmit)> = VecDeque::new();
    let mut inputs = Vec::new();
    while read < BYTES {
        while let Some(piece) = receiver.connection_mut(handle).read(now, usize::MAX) {
            read += piece.len() as u64;
        }
        while let Some(packet) = receiver.poll_transmit(now) {
            flying.push_back((now + ONE_WAY, packet));
        }
        let timer = earliest(receiver.poll_timeout(), sender.endpoint.poll_timeout());
        let arrival = flying.front().map(|(at, _)| *at);
        let Some(next) = earliest(arrival, timer) else { break };
        now = next.max(now);
        let mut input = Input { now, arrived: None };
        if arrival.is_some_and(|at| at <= now)
            && let Some((_, packet)) = flying.pop_front()
        {
            let tuple = FourTuple { local: packet.remote, remote: packet.local };
            if tuple.local == local {
                receiver.handle_segment(now, tuple, &packet.segment);
                continue;
            }
            input.arrived = Some((tuple, packet.segment));
        } else {
            while receiver.handle_timeout(now).is_some() {}
        }
        flying.extend(sender.step(&input).into_iter().map(|it| (now + ONE_WAY, it)));
        inputs.push(input);
    }
    inputs
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [skip, count] = numbers[..] else {
        eprintln!("usage: acks SKIP COUNT");
        return ExitCode::from(2);
    };
    let mut recorded = Sender::new(0..0);
    let inputs = record(&mut recorded);
    let mut replayed = Sender::new(skip..skip + count);
    for input in &inputs {
        replayed.step(input);
    }
    if recorded.sent != replayed.sent || replayed.handled < skip + count {
        eprintln!("error: the second sender does not send the same segments, or handles too few");
        return ExitCode::FAILURE;
    }
    println!("segments {} acknowledgements {}", replayed.sent.len(), replayed.handled);
    ExitCode::SUCCESS
}
