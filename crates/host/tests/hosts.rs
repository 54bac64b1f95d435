//! Tests of two hosts on one wire: the order of their actions, and errors.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use anabranch_host::{
    Application, Bulk, Former, Host, HttpServer, Lanes, Next, Paced, Reader, Serve, Session,
    Stream, WrongBytes,
};
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, Endpoint, Event, FourTuple, Transmit};
use anabranch_units::{Duration, Instant, Rate, Seed};
use bytes::Bytes;

const DELAY: Duration = Duration::from_millis(10);
const SEED: Seed = Seed { seed: 1, run: 0 };

fn ms(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn server_address() -> SocketAddr {
    SocketAddr::from(([10, 1, 0, 1], 80))
}

/// A client, a server, and the packets between them.
struct Pair {
    hosts: [Host; 2],
    wire: VecDeque<(Instant, usize, Transmit)>,
    now: Instant,
    ports: u16,
}

impl Pair {
    fn new(client: Box<dyn Application>, serve: Box<Serve>) -> Self {
        let mut endpoint = Endpoint::new("server", SEED);
        endpoint.listen(server_address(), Config::default()).expect("a free port");
        let hosts =
            [Host::client(Endpoint::new("client", SEED), client), Host::server(endpoint, serve)];
        Self { hosts, wire: VecDeque::new(), now: Instant::ZERO, ports: 40_000 }
    }

    fn connect(&mut self) {
        let local = SocketAddr::from(([10, 1, 1, 1], self.ports));
        self.ports += 1;
        let remote = server_address();
        let first = Candidate { address_id: 1, local, remote, backup: false, rate: None };
        let config = Config { candidates: vec![first], ..Config::default() };
        self.hosts[0].connect(self.now, config).expect("a port of its own");
    }

    fn poll(&mut self, number: usize) {
        loop {
            while let Some(transmit) = self.hosts[number].poll_transmit(self.now) {
                self.wire.push_back((self.now + DELAY, 1 - number, transmit));
            }
            if !self.hosts[number].needs_connection() {
                return;
            }
            self.connect();
        }
    }

    /// Runs until no event before `until` is left.
    fn run(&mut self, until: Instant) {
        for number in 0..2 {
            self.poll(number);
        }
        loop {
            let timeouts = [0, 1].map(|number| self.hosts[number].poll_timeout());
            let arrival = self.wire.front().map(|(at, ..)| *at);
            let next = timeouts.into_iter().flatten().chain(arrival).min();
            let Some(next) = next.filter(|at| *at <= until) else { return };
            self.now = next.max(self.now);
            while self.wire.front().is_some_and(|(at, ..)| *at <= self.now) {
                let Some((_, number, transmit)) = self.wire.pop_front() else { break };
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
}

fn reader() -> Box<dyn Application> {
    Box::new(Reader::new(Session::new(0, Instant::ZERO, None)))
}

/// The time at which an application was called, and the events it received.
type Turn = (Instant, Vec<Event>);

/// An application that records its calls and their events, and reads everything.
struct Watcher {
    turns: Rc<RefCell<Vec<Turn>>>,
    next: Next,
}

impl Application for Watcher {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        let events = std::iter::from_fn(|| connection.poll_event()).collect();
        self.turns.borrow_mut().push((now, events));
        while connection.read(now, usize::MAX).is_some() {}
        Ok(self.next)
    }
}

#[test]
fn a_client_reads_all_data_of_a_server() {
    let mut pair = Pair::new(reader(), Box::new(|_, _| Box::new(Bulk::new(Some(1_000_000)))));
    assert!(pair.hosts[0].needs_connection());
    pair.run(ms(60_000));
    let session = pair.session();
    assert!(session.finished && session.over && session.bytes_read == 1_000_000);
    assert_eq!(session.connected_at, Some(ms(20)), "a round trip");
}

#[test]
fn a_segment_is_answered_before_the_application_is_called() {
    let turns = Rc::default();
    let watcher = Watcher { turns: Rc::clone(&turns), next: Next::AtNews };
    let mut pair = Pair::new(Box::new(watcher), Box::new(|_, _| Box::new(Bulk::new(Some(1)))));
    pair.poll(0);
    let (_, _, syn) = pair.wire.pop_front().expect("a SYN");
    let tuple = FourTuple { local: syn.remote, remote: syn.local };
    pair.hosts[1].handle_segment(ms(10), tuple, &syn.segment);
    let answer = pair.hosts[1].poll_transmit(ms(10)).expect("a SYN/ACK");
    turns.borrow_mut().clear();
    let tuple = FourTuple { local: answer.remote, remote: answer.local };
    pair.hosts[0].handle_segment(ms(20), tuple, &answer.segment);
    assert!(pair.hosts[0].poll_transmit(ms(20)).is_some(), "the third packet");
    assert!(turns.borrow().is_empty(), "the application has not run yet");
    assert!(pair.hosts[0].poll_transmit(ms(20)).is_none());
    let turns = turns.borrow();
    assert!(turns[0].0 == ms(20) && turns[0].1.contains(&Event::Connected), "{turns:?}");
}

#[test]
fn an_application_that_waits_for_events_is_not_called_without_one() {
    let turns = |next: Next| {
        let turns = Rc::default();
        let watcher = Watcher { turns: Rc::clone(&turns), next };
        let serve: Box<Serve> = Box::new(|_, _| Box::new(Bulk::new(Some(300_000))));
        Pair::new(Box::new(watcher), serve).run(ms(5_000));
        let turns = turns.borrow();
        let idle = turns.iter().filter(|(_, events)| events.is_empty()).count();
        (turns.len(), idle)
    };
    let (some, idle) = turns(Next::AtNews);
    // The first call on a connection needs no event.
    assert!(some > 20 && idle <= 1, "{idle} of {some}");
    let (all, idle) = turns(Next::AtAnything);
    assert!(all > some && idle > 1, "{idle} of {all}, not {some}");
}

/// An application that writes two segments of plain TCP twice, and counts the writes.
struct Writer {
    writes: Rc<RefCell<u64>>,
}

impl Application for Writer {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while connection.poll_event().is_some() {}
        let mut writes = self.writes.borrow_mut();
        if connection.connected_at().is_none() || *writes == 2 {
            return Ok(Next::AtNews);
        }
        *writes += 1;
        let taken = connection.write(now, Bytes::from(vec![0; 2 * 1448]));
        assert_eq!(taken.expect("the send buffer has space"), 2 * 1448);
        Ok(Next::BehindOutput)
    }
}

#[test]
fn segments_of_one_write_leave_before_the_next_write() {
    // sendmsg(2) returns after `tcp_push`.
    let writes: Rc<RefCell<u64>> = Rc::default();
    let of_server = Rc::clone(&writes);
    let serve: Box<Serve> = Box::new(move |_, _| Box::new(Writer { writes: of_server.clone() }));
    let mut pair = Pair::new(reader(), serve);
    pair.run(ms(29));
    assert_eq!(*writes.borrow(), 0);
    while let Some((_, _, transmit)) = pair.wire.pop_front() {
        let tuple = FourTuple { local: transmit.remote, remote: transmit.local };
        pair.hosts[1].handle_segment(ms(30), tuple, &transmit.segment);
    }
    let mut left = Vec::new();
    while let Some(transmit) = pair.hosts[1].poll_transmit(ms(30)) {
        left.extend((!transmit.segment.payload.is_empty()).then(|| *writes.borrow()));
    }
    assert_eq!(left.first(), Some(&1), "{left:?}");
    assert!(left.is_sorted() && left.iter().filter(|write| **write == 1).count() >= 2, "{left:?}");
    assert_eq!(left.last(), Some(&2), "{left:?}");
}

#[test]
fn a_paced_sender_wakes_by_its_timer() {
    let rate = Rate::from_bps(800_000);
    let serve: Box<Serve> = Box::new(move |_, _| Box::new(Paced::new(rate, None)));
    let mut pair = Pair::new(reader(), serve);
    pair.run(ms(10_030));
    let read = pair.session().bytes_read;
    assert!((990_000..=1_001_000).contains(&read), "{read} bytes at 100 kB/s");
    assert!(pair.hosts[1].poll_timeout().is_some());
    // A stopped application has no timer.
    pair.hosts[1].abort();
    pair.run(ms(20_000));
    assert!(pair.session().over && !pair.session().finished);
    // Packets in flight still arrive: at most the data of 10 ms.
    assert!((read..read + 3_000).contains(&pair.session().bytes_read));
    assert_eq!(pair.hosts[1].poll_timeout(), None);
}

/// A server that sends bytes different from the pattern.
struct Liar;

impl Application for Liar {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while connection.poll_event().is_some() {}
        if connection.connected_at().is_some() {
            let _ = connection.write(now, Bytes::from_static(b"something else"));
            connection.shutdown(now);
        }
        Ok(Next::AtNews)
    }
}

#[test]
fn wrong_bytes_are_reported() {
    let mut pair = Pair::new(reader(), Box::new(|_, _| Box::new(Liar)));
    assert_eq!(pair.hosts[0].fault(), None);
    pair.run(ms(1_000));
    assert_eq!(pair.hosts[0].fault(), Some(WrongBytes { client: 0, position: 0 }));
    assert_eq!(pair.session().bytes_read, 0);
}

/// A client that replaces its connection a number of times, as soon as it is established. The last field
/// selects when the old connection is closed.
struct Restless(u32, Session, Former);

impl Application for Restless {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while connection.poll_event().is_some() {}
        while let Some(bytes) = connection.read(now, usize::MAX) {
            self.1.bytes_read += bytes.len() as u64;
        }
        if connection.connected_at().is_none() || self.0 == 0 {
            return Ok(Next::AtAnything);
        }
        self.0 -= 1;
        self.1.bytes_read = 0;
        Ok(Next::OnNewConnection { lane: 0, former: self.2 })
    }

    fn is_answered(&self) -> bool {
        self.1.bytes_read > 0
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.1)
    }
}

#[test]
fn a_client_may_replace_connections_and_hosts_free_the_old_ones() {
    let restless = Restless(3, Session::new(0, Instant::ZERO, None), Former::Closed);
    let served = Rc::new(RefCell::new(0));
    let count = Rc::clone(&served);
    let serve: Box<Serve> = Box::new(move |_, connection| {
        assert_eq!(connection.view().last_tuple().map(|tuple| tuple.local), Some(server_address()));
        *count.borrow_mut() += 1;
        Box::new(Bulk::new(None))
    });
    let mut pair = Pair::new(Box::new(restless), serve);
    pair.run(ms(300));
    assert_eq!((pair.ports, *served.borrow()), (40_004, 4));
    for host in &mut pair.hosts {
        assert_eq!(host.endpoint().len(), 4);
        host.free_ended();
    }
    pair.run(ms(301));
    for host in &mut pair.hosts {
        host.free_ended();
        assert_eq!(host.endpoint().len(), 1, "the aborted connections are freed");
    }
    // A later connection with the same handle index has its own application.
    pair.connect();
    pair.run(ms(600));
    assert_eq!(*served.borrow(), 5);
    assert!(pair.hosts[1].endpoint().connections().all(|(handle, _)| handle.index() < 4));
}

/// Returns the number of the client's open connections at the end of each of 300 ms.
fn alive(former: Former) -> Vec<usize> {
    let restless = Restless(1, Session::new(0, Instant::ZERO, None), former);
    let mut pair = Pair::new(Box::new(restless), Box::new(|_, _| Box::new(Bulk::new(None))));
    let count = |pair: &Pair| {
        let connections = pair.hosts[0].endpoint().connections();
        connections.filter(|(_, connection)| !connection.is_closed()).count()
    };
    let mut counts = Vec::new();
    for until in 1..=300 {
        pair.run(ms(until));
        counts.push(count(&pair));
    }
    assert_eq!(pair.ports, 40_002);
    counts
}

#[test]
fn a_kept_connection_lasts_until_the_next_one_is_answered() {
    let closed = alive(Former::Closed);
    assert_eq!(closed.iter().max(), Some(&1), "the old one is closed before the next is opened");
    let kept = alive(Former::KeptUntilAnswer);
    let both = kept.iter().filter(|count| **count == 2).count();
    assert!(both > 1, "both are open while the second waits: {kept:?}");
    assert_eq!(kept.last(), Some(&1), "then the first one is closed");
}

/// A client with connections in two lanes that records the times of reads from each. It abandons the first
/// connection at a given time.
struct TwoHanded {
    session: Session,
    reads: Rc<RefCell<[Vec<Instant>; 2]>>,
    leaves_at: Instant,
    had: u32,
}

impl Application for TwoHanded {
    fn drive_all(&mut self, now: Instant, lanes: &mut dyn Lanes) -> Result<Next, WrongBytes> {
        for lane in 0..2 {
            let Some(connection) = lanes.get(lane) else { continue };
            while connection.poll_event().is_some() {}
            while connection.read(now, usize::MAX).is_some() {
                self.reads.borrow_mut()[lane].push(now);
            }
        }
        self.had += 1;
        if self.had == 1 {
            return Ok(Next::OnNewConnection { lane: 1, former: Former::Closed });
        }
        if now >= self.leaves_at && lanes.get(0).is_some() {
            return Ok(Next::Without(0));
        }
        Ok(Next::AtNews)
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }
}

#[test]
fn a_client_may_have_two_connections_and_abandon_one() {
    let reads: Rc<RefCell<[Vec<Instant>; 2]>> = Rc::default();
    let application = TwoHanded {
        session: Session::new(0, Instant::ZERO, None),
        reads: Rc::clone(&reads),
        leaves_at: ms(200),
        had: 0,
    };
    let rate = Rate::from_bps(8_000_000);
    let serve: Box<Serve> = Box::new(move |_, _| Box::new(Paced::new(rate, None)));
    let mut pair = Pair::new(Box::new(application), serve);
    pair.run(ms(400));
    assert_eq!(pair.ports, 40_002, "exactly two were opened");
    let [first, second] = reads.borrow().clone();
    assert!(first.iter().any(|at| *at < ms(100)) && second.iter().any(|at| *at < ms(100)));
    assert!(first.last() <= Some(&ms(210)), "an abandoned connection is not read: {first:?}");
    assert!(second.last() > Some(&ms(390)), "the other connection continues");
    let closed = |host: &Host| {
        host.endpoint().connections().filter(|(_, connection)| connection.is_closed()).count()
    };
    assert_eq!(pair.hosts.each_ref().map(closed), [1, 1], "the server's connection is closed too");
    // The abandoned connection is freed, and the other one continues.
    pair.hosts[0].free_ended();
    let before = second.len();
    pair.run(ms(800));
    assert!(reads.borrow()[1].len() > before);
}

#[test]
fn files_and_ranges_are_served() {
    let files = Arc::new(BTreeMap::from([("film.ts".to_owned(), 5_000)]));
    let serve: Box<Serve> = Box::new(move |_, _| Box::new(HttpServer::new(Arc::clone(&files))));
    let mut pair = Pair::new(Box::new(Asker::default()), serve);
    pair.run(ms(2_000));
    let session = pair.hosts[0].session().map(|session| session.bytes_read);
    // Two response heads of 100 to 200 bytes each, and bodies of 5,000 and 100 bytes.
    assert!(session.is_some_and(|bytes| (5_200..5_700).contains(&bytes)), "{session:?}");
}

/// A client that requests a file and a range of it. Its session counts the received bytes.
struct Asker(Session, bool);

impl Default for Asker {
    fn default() -> Self {
        Self(Session::new(0, Instant::ZERO, None), false)
    }
}

impl Application for Asker {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while connection.poll_event().is_some() {}
        if connection.connected_at().is_some() && !std::mem::replace(&mut self.1, true) {
            let get = "GET /film.ts HTTP/1.1\r\nHost: server\r\n";
            let text = format!("{get}\r\n{get}Range: bytes=100-199\r\n\r\n");
            connection.write(now, Bytes::from(text)).expect("the send buffer has space");
        }
        while let Some(bytes) = connection.read(now, usize::MAX) {
            self.0.bytes_read += bytes.len() as u64;
        }
        Ok(Next::AtNews)
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.0)
    }
}
