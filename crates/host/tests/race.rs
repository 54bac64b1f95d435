//! Tests of connection races over several paths (RFC 8305 section 5). Expected times are computed
//! by hand from the paths' round-trip times and the delay between attempts.

use std::net::SocketAddr;

use anabranch_host::{Application, Former, Host, Lanes, Next, Paced, Reader, Session, WrongBytes};
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Endpoint, FourTuple, Transmit};
use anabranch_units::{Duration, Instant, Rate, Seed};
use anabranch_wire::{Flags, MptcpOption};

const SEED: Seed = Seed { seed: 1, run: 0 };
/// The time between two attempts.
const DELAY: Duration = Duration::from_millis(100);
/// The number of bytes that the server sends, which takes one second.
const BYTES: u64 = 500_000;
const RATE: Rate = Rate::from_bps(4_000_000);
/// The client's port in its first attempt.
const FIRST_PORT: u16 = 40_000;

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A path between the client and the server.
#[derive(Clone, Copy)]
struct Path {
    /// Round-trip time in ms; `None` if all packets are lost.
    rtt_ms: Option<u64>,
    backup: bool,
    /// Whether the server listens at its address on this path.
    serves: bool,
}

const fn path(rtt_ms: u64) -> Path {
    Path { rtt_ms: Some(rtt_ms), backup: false, serves: true }
}

const SILENT: Path = Path { rtt_ms: None, backup: false, serves: true };

fn ends(path: usize, port: u16) -> (SocketAddr, SocketAddr) {
    let network = path as u8 + 1;
    (([10, network, 1, 1], port).into(), ([10, network, 0, 1], 80).into())
}

/// A client that races, a server, and the paths between them.
struct Net {
    hosts: [Host; 2],
    paths: Vec<Path>,
    /// The number of paths that the client may use: the first ones of `paths`.
    known: usize,
    /// Packets with their time of arrival and the index of the receiving host.
    wire: Vec<(Instant, usize, Transmit)>,
    /// The segments that the client sent: time, path, port and flags.
    sent: Vec<(Instant, usize, u16, Flags)>,
    /// The `MP_CAPABLE` SYNs that the client sent: time and path.
    opened: Vec<(Instant, usize)>,
    /// The number of the client's resets that will be lost.
    lost_resets: usize,
    now: Instant,
    ports: u16,
}

impl Net {
    fn new(paths: &[Path], application: Box<dyn Application>) -> Self {
        let mut endpoint = Endpoint::new("server", SEED);
        for (index, _) in paths.iter().enumerate().filter(|(_, path)| path.serves) {
            endpoint.listen(ends(index, 0).1, Config::default()).expect("a free address");
        }
        let server =
            Host::server(endpoint, Box::new(|_, _| Box::new(Paced::new(RATE, Some(BYTES)))));
        let client = Host::client(Endpoint::new("client", SEED), application).racing(DELAY);
        Self {
            hosts: [client, server],
            paths: paths.to_vec(),
            known: paths.len(),
            wire: Vec::new(),
            sent: Vec::new(),
            opened: Vec::new(),
            lost_resets: 0,
            now: Instant::ZERO,
            ports: FIRST_PORT,
        }
    }

    fn reading(paths: &[Path]) -> Self {
        Self::new(paths, Box::new(Reader::new(Session::new(0, Instant::ZERO, None))))
    }

    fn connect(&mut self) {
        let candidate = |(index, path): (usize, &Path)| {
            let (local, remote) = ends(index, self.ports);
            let address_id = index as u8 + 1;
            Candidate { address_id, local, remote, backup: path.backup, rate: None }
        };
        let known = self.paths[..self.known].iter().enumerate();
        let candidates = known.map(candidate).collect();
        self.ports += 1;
        let config = Config { candidates, ..Config::default() };
        self.hosts[0].connect(self.now, config).expect("a port of its own");
    }

    fn poll(&mut self, number: usize) {
        loop {
            while let Some(transmit) = self.hosts[number].poll_transmit(self.now) {
                self.send(number, transmit);
            }
            if !self.hosts[number].needs_connection() {
                return;
            }
            self.connect();
        }
    }

    fn send(&mut self, number: usize, transmit: Transmit) {
        let client = if number == 0 { transmit.local } else { transmit.remote };
        let SocketAddr::V4(address) = client else { unreachable!("all addresses are IPv4") };
        let path = usize::from(address.ip().octets()[1]) - 1;
        let flags = transmit.segment.flags;
        if number == 0 {
            self.sent.push((self.now, path, client.port(), flags));
            let capable = |option: &MptcpOption| matches!(option, MptcpOption::Capable(_));
            if flags.contains(Flags::SYN) && transmit.segment.mptcp.iter().any(capable) {
                self.opened.push((self.now, path));
            }
            if flags.contains(Flags::RST) && self.lost_resets > 0 {
                self.lost_resets -= 1;
                return;
            }
        }
        if let Some(rtt_ms) = self.paths[path].rtt_ms {
            let at = self.now + Duration::from_millis(rtt_ms / 2);
            self.wire.push((at, 1 - number, transmit));
        }
    }

    /// Runs until no event before `until_ms` is left.
    fn run(&mut self, until_ms: u64) -> &mut Self {
        self.poll(0);
        loop {
            let timeouts = [0, 1].map(|number| self.hosts[number].poll_timeout());
            let arrival = self.wire.iter().map(|(at, ..)| *at).min();
            let next = timeouts.into_iter().flatten().chain(arrival).min();
            let Some(next) = next.filter(|at| *at <= ms(until_ms)) else { return self };
            self.now = next.max(self.now);
            while let Some(at) = self.wire.iter().position(|(at, ..)| *at <= self.now) {
                let (_, number, transmit) = self.wire.remove(at);
                let tuple = FourTuple { local: transmit.remote, remote: transmit.local };
                self.hosts[number].handle_segment(self.now, tuple, &transmit.segment);
                self.poll(number);
            }
            for number in 0..2 {
                while self.hosts[number].handle_timeout(self.now) {}
                self.poll(number);
            }
        }
    }

    fn session(&self) -> &Session {
        self.hosts[0].session().expect("a client has one")
    }

    /// Returns the number of the server's connections, and the number of half-open ones.
    fn at_server(&self) -> (usize, usize) {
        let endpoint = self.hosts[1].endpoint();
        (endpoint.len(), endpoint.half_open())
    }

    /// Returns the number of the client's open connections.
    fn open(&self) -> usize {
        let connections = self.hosts[0].endpoint().connections();
        connections.filter(|(_, connection)| !connection.is_closed()).count()
    }

    /// Returns the times and flags of segments from the port of the first attempt.
    fn sent_by_first_attempt(&self) -> Vec<(Instant, Flags)> {
        let of_first = self.sent.iter().filter(|(_, _, port, _)| *port == FIRST_PORT);
        of_first.map(|(at, _, _, flags)| (*at, *flags)).collect()
    }
}

#[test]
fn a_slow_first_path_loses_the_race_and_joins() {
    let mut net = Net::reading(&[path(600), path(20)]);
    net.run(5_000);
    assert_eq!(net.session().connected_at, Some(ms(100 + 20)), "delay and a round trip");
    assert_eq!(net.opened, [(ms(0), 0), (ms(100), 1)]);
    let session = net.session();
    assert!(session.finished && session.bytes_read == BYTES && !session.fell_back);
    assert_eq!(net.at_server(), (1, 0));
    let (_, connection) = net.hosts[1].endpoint().connections().next().expect("one");
    assert_eq!(connection.view().summaries().filter(|subflow| subflow.established).count(), 2);
}

#[test]
fn the_server_frees_the_losing_attempt_at_its_reset() {
    let mut net = Net::reading(&[path(600), path(20)]);
    // The SYN arrives at 300 ms. The reset that leaves at 120 ms arrives at 420 ms.
    assert_eq!(net.run(419).at_server(), (1, 1));
    assert_eq!(net.run(420).at_server(), (1, 0));
    let flags: Vec<_> = net.run(5_000).sent_by_first_attempt();
    assert!(flags[0].1.contains(Flags::SYN), "{flags:?}");
    assert!(flags[1..].iter().all(|(_, flags)| flags.contains(Flags::RST)), "{flags:?}");
}

#[test]
fn a_late_syn_ack_for_the_losing_attempt_is_reset() {
    let mut net = Net::reading(&[path(600), path(20)]);
    net.lost_resets = 1;
    // The SYN/ACK arrives at 600 ms, and the reset that answers it arrives at the server at 900 ms.
    assert_eq!(net.run(899).at_server(), (1, 1));
    assert_eq!(net.run(900).at_server(), (1, 0));
    let at: Vec<_> = net.sent_by_first_attempt().iter().map(|(at, _)| *at).collect();
    assert_eq!(at, [ms(0), ms(120), ms(600)]);
}

#[test]
fn a_silent_first_path_costs_the_delay() {
    let mut net = Net::reading(&[SILENT, path(20)]);
    net.run(20_000);
    assert_eq!(
        net.session().connected_at,
        Some(ms(120)),
        "without a race it would be later than 1 s"
    );
    let syns = net.sent_by_first_attempt().iter().filter(|(_, it)| it.contains(Flags::SYN)).count();
    assert_eq!(syns, 1, "the losing attempt does not retransmit its SYN");
    let mut both = Net::reading(&[SILENT, SILENT, path(20)]);
    both.run(1_000);
    assert_eq!(both.session().connected_at, Some(ms(2 * 100 + 20)));
}

#[test]
fn the_next_attempt_follows_a_refusal_at_once() {
    let mut net = Net::reading(&[Path { serves: false, ..path(60) }, path(20)]);
    net.run(1_000);
    assert_eq!(net.opened, [(ms(0), 0), (ms(60), 1)]);
    assert_eq!(net.session().connected_at, Some(ms(60 + 20)));
}

#[test]
fn a_fast_first_path_wins_without_another_attempt() {
    let mut net = Net::reading(&[path(80), path(20)]);
    net.run(5_000);
    assert_eq!(net.session().connected_at, Some(ms(80)));
    assert_eq!(net.opened, [(ms(0), 0)]);
    assert_eq!(net.hosts[0].endpoint().len(), 1);
}

#[test]
fn the_first_attempt_may_still_win_after_the_second_began() {
    let mut net = Net::reading(&[path(140), path(60)]);
    net.run(5_000);
    assert_eq!(net.session().connected_at, Some(ms(140)), "the second would be at 160 ms");
    assert_eq!(net.opened.len(), 2);
    assert_eq!((net.at_server(), net.hosts[0].needs_connection()), ((1, 0), false));
}

#[test]
fn simultaneous_syn_acks_give_one_connection() {
    // Both SYN/ACKs arrive at 120 ms, before the client is polled.
    let mut net = Net::reading(&[path(120), path(20)]);
    net.run(119);
    net.now = ms(120);
    for (_, number, transmit) in std::mem::take(&mut net.wire) {
        let tuple = FourTuple { local: transmit.remote, remote: transmit.local };
        net.hosts[number].handle_segment(ms(120), tuple, &transmit.segment);
    }
    net.run(5_000);
    assert_eq!(net.session().connected_at, Some(ms(120)));
    assert_eq!((net.at_server(), net.session().bytes_read), ((1, 0), BYTES));
}

#[test]
fn the_session_ends_when_all_attempts_have_failed() {
    let refusing = |rtt| Path { serves: false, ..path(rtt) };
    let mut net = Net::reading(&[refusing(60), refusing(20)]);
    net.run(5_000);
    let session = net.session();
    assert!(session.over && !session.finished);
    assert_eq!((session.finished_at, net.opened.len()), (Some(ms(60 + 20)), 2));
}

#[test]
fn a_backup_path_is_tried_last() {
    let mut net = Net::reading(&[Path { backup: true, ..path(20) }, SILENT]);
    net.run(1_000);
    assert_eq!(net.opened, [(ms(0), 1), (ms(100), 0)]);
    assert_eq!(net.session().connected_at, Some(ms(120)));
}

#[test]
fn a_removed_path_has_no_attempt() {
    let mut net = Net::reading(&[path(600), path(20)]);
    net.run(50);
    net.known = 1;
    net.run(5_000);
    assert_eq!(net.session().connected_at, Some(ms(600)));
    assert_eq!(net.opened, [(ms(0), 0)]);
}

#[test]
fn an_aborted_client_opens_no_further_attempt() {
    let mut net = Net::reading(&[SILENT, path(20)]);
    net.run(50);
    net.hosts[0].abort();
    net.run(5_000);
    assert_eq!((net.opened.len(), net.open(), net.at_server()), (1, 0, (0, 0)));
}

/// A client that opens a second connection or replaces its first one at 50 ms.
struct Restless {
    session: Session,
    /// The lane that needs a new connection at 50 ms.
    lane: usize,
    asked: bool,
    connected: Vec<(usize, Instant)>,
}

impl Application for Restless {
    fn drive_all(&mut self, now: Instant, lanes: &mut dyn Lanes) -> Result<Next, WrongBytes> {
        for lane in 0..2 {
            while let Some(stream) = lanes.get(lane) {
                let Some(event) = stream.poll_event() else { break };
                if event == anabranch_mptcp::Event::Connected {
                    self.connected.push((lane, now));
                    self.session.bytes_read += 1;
                }
            }
        }
        if now >= ms(50) && !std::mem::replace(&mut self.asked, true) {
            return Ok(Next::OnNewConnection { lane: self.lane, former: Former::Closed });
        }
        Ok(Next::AtAnything)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        (!self.asked).then_some(ms(50))
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }
}

#[test]
fn a_race_ends_when_its_application_replaces_the_connection() {
    for (lane, opened, connections) in [
        // The race of the lane starts again: both attempts are 50 ms later.
        (0, vec![(ms(0), 0), (ms(50), 0), (ms(150), 1)], 1),
        // The second lane has its own race.
        (1, vec![(ms(0), 0), (ms(50), 0), (ms(100), 1), (ms(150), 1)], 2),
    ] {
        let session = Session::new(0, Instant::ZERO, None);
        let application = Restless { session, lane, asked: false, connected: Vec::new() };
        let mut net = Net::new(&[SILENT, path(20)], Box::new(application));
        net.run(1_000);
        assert_eq!(net.opened, opened);
        let count = connections as u64;
        assert_eq!((net.open(), net.session().bytes_read), (connections, count));
        assert_eq!(net.at_server(), (connections, 0));
    }
}
