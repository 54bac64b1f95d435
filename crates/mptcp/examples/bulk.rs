//! The workload of the benchmark of bursts: a transfer between two endpoints in one process, with bursts of
//! up to a number of segments.
//!
//! `bulk BYTES MOST` sends BYTES over MPTCP on one path of 10 ms without loss. The window is 1 MiB. Bursts of
//! up to MOST segments arrive merged, as with segmentation and receive offload. With MOST 1, every segment
//! arrives separately. The program prints the number of segments, bursts and acknowledgements.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::process::ExitCode;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, ConnectionHandle, Endpoint, FourTuple, Transmit, earliest};
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Instant, Seed};
use bytes::Bytes;

const ONE_WAY: Duration = Duration::from_millis(5);

/// Two endpoints and the segments in flight. Both directions have the same delay.
struct Pipe {
    now: Instant,
    most: u32,
    client: Endpoint,
    server: Endpoint,
    flying: VecDeque<(Instant, Transmit)>,
    sent: Sent,
}

/// The number of the server's segments and bursts, and of the client's acknowledgements.
#[derive(Default)]
struct Sent {
    segments: usize,
    bursts: usize,
    acknowledgements: usize,
}

impl Pipe {
    fn new(most: u32) -> (Self, ConnectionHandle) {
        let end = |host: u8, port: u16| SocketAddr::from(([10, 0, 0, host], port));
        let (local, remote) = (end(2, 1024), end(1, 80));
        let first = Candidate { address_id: 0, local, remote, backup: false, rate: None };
        let config = Config {
            congestion: PluginChoice::named("reno"),
            receive_buffer_max: 2 << 20,
            ..Config::default()
        };
        let seed = Seed { seed: 1, run: 0 };
        let mut server = Endpoint::new("server", seed);
        server.listen(remote, config.clone()).expect("nobody listens");
        let mut client = Endpoint::new("client", seed);
        let config = Config { candidates: vec![first], ..config };
        let handle = client.connect(Instant::ZERO, config).expect("free addresses");
        let (flying, sent) = (VecDeque::new(), Sent::default());
        (Self { now: Instant::ZERO, most, client, server, flying, sent }, handle)
    }

    /// Sends all segments of both sides that are ready now.
    fn send(&mut self) {
        let (now, arrives) = (self.now, self.now + ONE_WAY);
        while let Some(burst) = self.server.poll_burst(now, self.most) {
            let each = burst.segment_size.map_or(usize::MAX, |size| size.get().into());
            self.sent.segments += burst.segment.payload.len().div_ceil(each);
            self.sent.bursts += 1;
            self.flying.push_back((arrives, burst));
        }
        while let Some(acknowledgement) = self.client.poll_burst(now, self.most) {
            self.sent.acknowledgements += 1;
            self.flying.push_back((arrives, acknowledgement));
        }
    }

    /// Advances to the next arrival or timer and handles it. Returns false if nothing is pending.
    fn turn(&mut self) -> bool {
        let arrival = self.flying.front().map(|(at, _)| *at);
        let timer = earliest(self.client.poll_timeout(), self.server.poll_timeout());
        let Some(next) = earliest(arrival, timer) else { return false };
        self.now = next.max(self.now);
        while self.flying.front().is_some_and(|(at, _)| *at <= self.now)
            && let Some((_, packet)) = self.flying.pop_front()
        {
            let tuple = FourTuple { local: packet.remote, remote: packet.local };
            let host = if tuple.local.port() == 80 { &mut self.server } else { &mut self.client };
            host.handle_merged(self.now, tuple, &packet.segment, packet.segment_size);
            self.send();
        }
        while self.client.handle_timeout(self.now).is_some() {}
        while self.server.handle_timeout(self.now).is_some() {}
        true
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<u64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let [bytes, most] = numbers[..] else {
        eprintln!("usage: bulk BYTES MOST");
        return ExitCode::from(2);
    };
    let (mut pipe, client) = Pipe::new(most.clamp(1, 64) as u32);
    let film = Bytes::from(vec![7; 1 << 20]);
    let (mut written, mut read) = (0, 0);
    while read < bytes {
        let now = pipe.now;
        let server = pipe.server.connections().next().map(|(handle, _)| handle);
        if let Some(server) = server.map(|handle| pipe.server.connection_mut(handle)) {
            while written < bytes {
                let piece = film.slice(..film.len().min((bytes - written) as usize));
                let Ok(taken) = server.write(now, piece) else { break };
                written += taken as u64;
            }
        }
        while let Some(piece) = pipe.client.connection_mut(client).read(now, usize::MAX) {
            read += piece.len() as u64;
        }
        pipe.send();
        if !pipe.turn() {
            eprintln!("error: nothing happens any more after {read} bytes");
            return ExitCode::FAILURE;
        }
    }
    let Sent { segments, bursts, acknowledgements } = pipe.sent;
    println!("segments {segments}\nbursts {bursts}\nacknowledgements {acknowledgements}");
    ExitCode::SUCCESS
}
