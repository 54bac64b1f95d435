//! The two hosts, the paths between them, and virtual time.

use std::collections::BTreeMap;

use anabranch_mptcp::Transmit;
use anabranch_units::{Duration, Instant};
use anabranch_wire::{MAX_OPTIONS_LEN, Packet, emit_packet, parse_packet};

use crate::actions::Action;
use crate::application::Application;
use crate::case::{Case, path_of};
use crate::fault::{FIRINGS_AT_ONCE, Fault, Work};
use crate::flight::{Bytewise, CLIENT, Flight, SERVER};
use crate::harm::{Harm, Kind, Twin};
use crate::mark::Mark;
use crate::mediator::{Mediator, ends};
use crate::meter::Meter;
use crate::side::Side;

/// The time that a run has to finish after the last disturbance. Retransmission timers back off to two
/// minutes.
const PATIENCE: Duration = Duration::from_secs(900);
/// The number that the address translator adds to a port.
const TRANSLATION: u16 = 1_000;

/// The state of a path.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    down: bool,
    /// The end of the current transmission in each direction.
    busy: [Instant; 2],
    /// The number of times that the translator has changed its ports.
    rebound: u16,
}

/// The state of a run.
#[derive(Debug)]
pub(crate) struct World<'a> {
    case: &'a Case,
    pub(crate) now: Instant,
    pub(crate) sides: [Side; 2],
    pub(crate) mediator: Mediator,
    pub(crate) work: Work,
    paths: Vec<Path>,
    flying: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    launched: u64,
    next_action: usize,
    pub(crate) acted: Vec<(Mark, Action)>,
    /// The number of timer firings at the current time.
    firings_now: u32,
    /// A hash of everything that was sent, with the times, and of events.
    pub(crate) digest: u64,
}

impl<'a> World<'a> {
    pub(crate) fn new(case: &'a Case, meter: Meter) -> Self {
        let handshakes = case
            .kinds
            .iter()
            .any(|kind| matches!(kind, Kind::Handshake | Kind::RawBits | Kind::RawOptions));
        let least = case.configs.iter().map(|config| u64::from(config.mss) - 60).min();
        Self {
            case,
            now: Instant::ZERO,
            sides: [CLIENT, SERVER].map(|side| Side::new(case, side, meter)),
            mediator: Mediator::new(case),
            work: Work {
                segments: 0,
                firings: 0,
                bytes: case.parts.iter().map(|part| part.total).sum(),
                mss: if handshakes { 8 } else { least.unwrap_or(8) },
            },
            paths: vec![Path::default(); case.pipes.len()],
            flying: BTreeMap::new(),
            launched: 0,
            next_action: 0,
            acted: Vec::new(),
            firings_now: 0,
            digest: 0xcbf2_9ce4_8422_2325,
        }
    }

    fn fold(&mut self, value: u64) {
        self.digest = (self.digest ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }

    /// Runs to the end and checks the result.
    pub(crate) fn run(&mut self) -> Result<(), Fault> {
        let end = self.case.peace + PATIENCE;
        self.settle(CLIENT)?;
        while let Some(next) = self.next_moment().filter(|next| *next <= end) {
            if next > self.now {
                self.now = next;
                self.firings_now = 0;
            }
            self.act()?;
            self.deliver()?;
            self.fire()?;
            self.judge_step()?;
            if self.is_over() {
                return Ok(());
            }
        }
        self.judge_end()
    }

    fn next_moment(&mut self) -> Option<Instant> {
        let packet = self.flying.keys().next().map(|(at, _)| *at);
        let action = self.case.actions.get(self.next_action).map(|planned| planned.at);
        let wakes = self.sides.iter_mut().filter_map(Side::wake);
        wakes.chain(packet).chain(action).min().map(|at| at.max(self.now))
    }

    fn deliver(&mut self) -> Result<(), Fault> {
        while let Some(entry) = self.flying.first_entry().filter(|e| e.key().0 <= self.now) {
            let (to, bytes) = entry.remove();
            self.sides[to].take(self.now, self.case, &bytes);
            self.settle(to)?;
        }
        Ok(())
    }

    fn fire(&mut self) -> Result<(), Fault> {
        for side in [CLIENT, SERVER] {
            while self.sides[side].wake().is_some_and(|at| at <= self.now) {
                self.sides[side].fire(self.now);
                self.work.firings += 1;
                self.firings_now += 1;
                self.settle(side)?;
                let connections = self.sides[side].endpoint.len() as u32;
                if self.firings_now > FIRINGS_AT_ONCE * (connections + 2) {
                    let detail = format!("timers fire {} times without end", self.firings_now);
                    return Err(self.fault("spin", detail));
                }
            }
        }
        Ok(())
    }

    /// Runs a side until it has nothing to send, and puts its segments on the paths.
    fn settle(&mut self, side: usize) -> Result<(), Fault> {
        let mut out = Vec::new();
        let now = self.now;
        self.sides[side].settle(now, &mut out, |transmit| check(now, transmit))?;
        for transmit in out {
            self.work.segments += 1;
            self.launch(side, transmit);
        }
        Ok(())
    }

    fn launch(&mut self, from: usize, transmit: Transmit) {
        let Transmit { local, remote, segment, .. } = transmit;
        let silenced = &self.sides[from];
        if silenced.silent || (silenced.acks_only && !segment.payload.is_empty()) {
            return;
        }
        let path = path_of(if from == CLIENT { local.ip() } else { remote.ip() });
        if path >= self.paths.len() {
            return;
        }
        if self.case.traced {
            println!("{} {}", self.now, line(from, path, &segment));
        }
        self.fold(self.now.as_nanos());
        self.fold(u64::from(segment.seq.0) << 32 | u64::from(segment.ack.0));
        self.fold(u64::from(segment.flags.0) << 32 | u64::from(segment.window));
        self.fold(segment.payload.len() as u64 | (path as u64) << 32 | (from as u64) << 40);
        let packet = Packet { source: local.ip(), destination: remote.ip(), segment };
        let flight =
            Flight { to: 1 - from, path, late: Duration::ZERO, packet, bytes: Bytewise::AsTheyAre };
        for flight in self.mediator.pass(self.now, self.case, flight) {
            self.enter(flight);
        }
    }

    /// Puts a packet on a path: it is queued, transmitted and delivered. It is dropped if the path
    /// is down or its queue is full.
    fn enter(&mut self, mut flight: Flight) {
        let Some(path) = self.paths.get_mut(flight.path).filter(|path| !path.down) else { return };
        if path.rebound > 0 && !translate(&mut flight, path.rebound * TRANSLATION) {
            return;
        }
        let pipe = self.case.pipes[flight.path];
        let busy = path.busy[flight.to].max(self.now);
        if busy.since(self.now) > pipe.queue {
            return;
        }
        let Some(bytes) = self.mediator.encode(&flight) else { return };
        let bits = bytes.len() as u64 * 8;
        let takes = Duration::from_nanos(
            (u128::from(bits) * 1_000_000_000 / u128::from(pipe.rate.bps())) as u64,
        );
        path.busy[flight.to] = busy + takes;
        let at = path.busy[flight.to] + pipe.delay + flight.late;
        // The digest covers the encoded packet with its options and the mediator's changes.
        for word in bytes.chunks(8) {
            let word = word.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.fold(word);
        }
        self.launched += 1;
        self.flying.insert((at, self.launched), (flight.to, bytes));
    }

    fn act(&mut self) -> Result<(), Fault> {
        let case = self.case;
        while let Some(planned) = case.actions.get(self.next_action).filter(|p| p.at <= self.now) {
            let mark = Mark::Action(self.next_action as u64);
            self.next_action += 1;
            if case.keeps(mark) {
                self.acted.push((mark, planned.action));
                self.take_action(planned.action);
                self.settle(CLIENT)?;
                self.settle(SERVER)?;
            }
        }
        Ok(())
    }

    fn take_action(&mut self, action: Action) {
        let now = self.now;
        let candidate = |path: usize| self.case.configs[CLIENT].candidates[path];
        match action {
            Action::Cut { path } => self.paths[path].down = true,
            Action::Heal { path } => self.paths[path].down = false,
            // If this were the only subflow, a closing connection would abort and lose bytes.
            Action::Remove { path } if self.has_another(path) => {
                self.paths[path].down = true;
                let address = candidate(path).local.ip();
                self.sides[CLIENT].drive(0, |c| c.handle_address_removed(now, address));
            }
            Action::Forget { path } => {
                let address = candidate(path).local.ip();
                self.sides[CLIENT].drive(0, |c| c.handle_address_removed(now, address));
                let address = candidate(path).remote.ip();
                self.sides[SERVER].drive(0, |c| c.handle_address_removed(now, address));
            }
            Action::Return { path } if self.paths[path].down => {
                self.paths[path].down = false;
                let back = candidate(path);
                self.sides[CLIENT].drive(0, |c| c.handle_address_added(now, back));
            }
            Action::Backup { path, backup } => {
                let address = candidate(path).local.ip();
                self.sides[CLIENT].drive(0, |c| c.set_backup(now, address, backup));
            }
            Action::StopReading { side } => self.stop_reading(side, true),
            Action::ReadOn { side } => self.stop_reading(side, false),
            Action::Rebind { path } => self.paths[path].rebound += 1,
            Action::Silence { side } => self.sides[side].silent = true,
            Action::AcksOnly { side } => self.sides[side].acks_only = true,
            Action::Remove { .. } | Action::Return { .. } => {}
            Action::Abort { side } => {
                self.sides[side].drive(0, anabranch_mptcp::Connection::abort);
            }
        }
    }

    /// Returns whether the client has an established subflow on another path.
    fn has_another(&self, path: usize) -> bool {
        let Some((connection, _)) = self.sides[CLIENT].first() else { return false };
        let elsewhere =
            connection.view().summaries().filter(|s| path_of(s.tuple.local.ip()) != path);
        let live = |tuple| connection.view().tuples().any(|live| live == tuple);
        connection.is_multipath() && elsewhere.into_iter().any(|s| s.established && live(s.tuple))
    }

    fn stop_reading(&mut self, side: usize, stopped: bool) {
        for application in &mut self.sides[side].applications {
            application.stopped = stopped;
        }
    }

    fn fault(&self, rule: &'static str, detail: String) -> Fault {
        Fault { rule, detail, at: self.now }
    }

    fn judge_step(&mut self) -> Result<(), Fault> {
        for side in &mut self.sides {
            side.judge_memory(self.now, self.case)?;
        }
        if let Some(fault) = self.work.fault(self.now) {
            return Err(fault);
        }
        for (index, side) in self.sides.iter().enumerate() {
            let Some((connection, application)) = side.first() else { continue };
            let Some(at) = application.wrong_at else { continue };
            // A checksum protects the payload unless the connection has fallen back.
            let guarded = self.case.configs.iter().any(|config| config.checksum)
                && connection.is_multipath()
                && self.sides.iter().all(|s| s.first().is_some_and(|(_, a)| !a.fell_back));
            let excused = match self.mediator.harm {
                Harm::None => false,
                Harm::Payload => !guarded,
                Harm::Stream => true,
            };
            if !excused {
                let who = ["client", "server"][index];
                return Err(self.fault("stream", format!("the {who} read other bytes at {at}")));
            }
        }
        Ok(())
    }

    fn both(&self, what: impl Fn(&Application) -> bool) -> bool {
        self.sides.iter().all(|side| side.first().is_some_and(|(_, application)| what(application)))
    }

    fn is_over(&self) -> bool {
        let closed = self.both(|application| application.closed);
        closed && self.flying.is_empty()
    }

    /// Checks the result at the time limit, or when no event is left.
    fn judge_end(&self) -> Result<(), Fault> {
        let settled = match self.case.twin {
            Twin::Benign | Twin::Blind => self.both(Application::complete),
            Twin::Hostile => true,
        };
        if settled {
            return Ok(());
        }
        let states: Vec<String> = self
            .sides
            .iter()
            .map(|side| {
                side.first().map_or("no connection".to_owned(), |(_, a)| {
                    format!(
                        "wrote {} read {}{}{}{}",
                        a.written,
                        a.read,
                        if a.shut { " shut" } else { "" },
                        if a.peer_finished { " peer-finished" } else { "" },
                        if a.closed { " closed" } else { "" }
                    )
                })
            })
            .collect();
        let whole = self.both(Application::has_all);
        let rule = if whole { "not closed" } else { "bytes missing" };
        Err(self.fault(rule, format!("client {}, server {}", states[0], states[1])))
    }
}

/// Formats a segment as one line of text.
fn line(from: usize, path: usize, segment: &anabranch_wire::Segment) -> String {
    let who = ["client", "server"][from];
    let number = segment.mptcp.len();
    format!(
        "{who} path {path}: {:02x} seq {} ack {} win {} len {} sack {:?} {:?} {number} {:?}",
        segment.flags.0,
        segment.seq.0,
        segment.ack.0,
        segment.window,
        segment.payload.len(),
        segment.sack.as_slice(),
        segment.dss,
        segment.mptcp
    )
}

/// Translates ports between a path and the server. Returns false if the packet is for a port of an older
/// translation.
fn translate(flight: &mut Flight, by: u16) -> bool {
    let segment = &mut flight.packet.segment;
    if flight.to == SERVER {
        segment.source_port = segment.source_port.wrapping_add(by);
    } else {
        // Each generation of the translator uses other ports.
        if segment.destination_port < 40_000 + by {
            return false;
        }
        segment.destination_port -= by;
    }
    true
}

/// Checks the rules that every segment of an endpoint must follow.
fn check(now: Instant, transmit: &Transmit) -> Result<(), Fault> {
    let Transmit { local, remote, segment, .. } = transmit;
    let fault = |rule, detail| Err(Fault { rule, detail, at: now });
    if segment.options_len() > MAX_OPTIONS_LEN {
        return fault("options", format!("{} bytes: {segment:?}", segment.options_len()));
    }
    let mut bytes = Vec::new();
    if let Err(error) = emit_packet(local.ip(), remote.ip(), segment, &mut bytes) {
        return fault("encoding", format!("{error}: {segment:?}"));
    }
    match parse_packet(&bytes.into()) {
        Ok(packet) if packet.segment == *segment && ends(&packet) == (*local, *remote) => Ok(()),
        other => fault("round trip", format!("sent {segment:?}, read {other:?}")),
    }
}
