//! Races: attempts to open one connection over several paths, each a little later than the one before (RFC 8305
//! section 5). The first attempt that is established becomes the connection, and the others are reset.

use std::net::IpAddr;

use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, ConnectError, Connection, ConnectionHandle};
use anabranch_units::{Duration, Instant};

use super::Host;
use crate::application::Next;

/// The races of a client's connections.
pub(super) struct Races {
    /// The time from one attempt to the next.
    delay: Duration,
    /// Races that are not decided.
    running: Vec<Race>,
    /// The node that wakes the host for the next attempt.
    node: Option<usize>,
}

/// The attempts to open the connection of one lane.
struct Race {
    lane: usize,
    /// A connection for each attempt, oldest first.
    attempts: Vec<ConnectionHandle>,
    /// The client's and the server's address of each attempt.
    tried: Vec<(IpAddr, IpAddr)>,
    next: NextAttempt,
}

/// The next attempt of a race.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NextAttempt {
    /// It is opened at this time, or earlier if all attempts before it have failed.
    At(Instant),
    /// The host needs a connection for it now.
    Needed,
    /// Every path has its attempt.
    Never,
}

impl Races {
    /// Whether a race is not decided yet.
    pub(super) fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    fn of(&mut self, lane: usize) -> Option<&mut Race> {
        self.running.iter_mut().find(|race| race.lane == lane)
    }

    /// Returns which candidate the next attempt of a lane uses, if one is left, and sets when another attempt follows.
    /// Backup paths come last.
    fn choose(&mut self, now: Instant, lane: usize, candidates: &[Candidate]) -> Option<usize> {
        if self.of(lane).is_none() {
            let next = NextAttempt::Never;
            self.running.push(Race { lane, attempts: Vec::new(), tried: Vec::new(), next });
        }
        let later = NextAttempt::At(now + self.delay);
        let race = self.of(lane)?;
        let is_new = |at: &usize| !race.tried.contains(&ends(&candidates[*at]));
        let untried: Vec<_> = (0..candidates.len()).filter(is_new).collect();
        race.next = if untried.len() > 1 { later } else { NextAttempt::Never };
        let chosen = *untried.iter().min_by_key(|at| candidates[**at].backup)?;
        race.tried.push(ends(&candidates[chosen]));
        Some(chosen)
    }

    /// Removes the race of a lane and returns its attempts.
    fn remove(&mut self, lane: usize) -> Vec<ConnectionHandle> {
        let Some(at) = self.running.iter().position(|race| race.lane == lane) else {
            return Vec::new();
        };
        self.running.remove(at).attempts
    }
}

/// A candidate's addresses, without their ports.
fn ends(candidate: &Candidate) -> (IpAddr, IpAddr) {
    (candidate.local.ip(), candidate.remote.ip())
}

impl Host {
    /// Makes a client open each of its connections by a race over `config.candidates` ([`Self::connect`]). An attempt
    /// follows the one before after `delay`, or at once if all before it have failed.
    #[must_use]
    pub fn racing(self, delay: Duration) -> Self {
        let races = Races { delay, running: Vec::new(), node: None };
        Self { races: Some(Box::new(races)), ..self }
    }

    /// Whether a connection of a lane is opened as an attempt of a race.
    pub(super) fn is_raced(&mut self, lane: usize, config: &Config) -> bool {
        let Some(races) = &mut self.races else { return false };
        config.candidates.len() > 1 || races.of(lane).is_some()
    }

    /// Opens the next attempt of a lane's race. Returns the one before if no path is left.
    pub(super) fn attempt(
        &mut self,
        now: Instant,
        lane: usize,
        mut config: Config,
    ) -> Result<ConnectionHandle, ConnectError> {
        let former = self.lane_mut(lane).take();
        self.end(former);
        let Some(races) = &mut self.races else { return self.endpoint.connect(now, config) };
        let Some(chosen) = races.choose(now, lane, &config.candidates) else {
            let last = races.of(lane).and_then(|race| race.attempts.last().copied());
            return last.map_or_else(|| self.endpoint.connect(now, config), Ok);
        };
        // The connection begins over its first candidate and joins the others.
        config.candidates[..=chosen].rotate_right(1);
        let handle = self.endpoint.connect(now, config)?;
        if let Some(race) = races.of(lane) {
            race.attempts.push(handle);
        }
        self.set_race_wake();
        Ok(handle)
    }

    /// Decides the races in which an attempt is established or all have failed, and starts the attempts that are due.
    #[cold]
    pub(super) fn run_races(&mut self, now: Instant) {
        let Some(mut races) = self.races.take() else { return };
        let mut decided = Vec::new();
        for race in &mut races.running {
            let connected_at =
                |it: &&ConnectionHandle| self.endpoint.get(**it).and_then(Connection::connected_at);
            let established = race.attempts.iter().filter(|it| connected_at(it).is_some());
            if let Some(first) = established.min_by_key(|it| connected_at(it)) {
                decided.push((race.lane, *first));
                continue;
            }
            let is_open = |it: &ConnectionHandle| {
                self.endpoint.get(*it).is_some_and(|connection| !connection.is_closed())
            };
            let failed = !race.attempts.iter().any(is_open);
            match race.next {
                NextAttempt::At(at) if failed || at <= now => {
                    race.next = NextAttempt::Needed;
                    self.wanted.push(race.lane);
                }
                NextAttempt::Never if failed => {
                    // The application learns from the last attempt that there is no connection.
                    decided.extend(race.attempts.last().map(|last| (race.lane, *last)));
                }
                _ => {}
            }
        }
        self.races = Some(races);
        for (lane, kept) in decided {
            self.decide(lane, kept);
        }
        self.set_race_wake();
    }

    /// Ends a race: the lane has the attempt that is kept, and the others are reset.
    fn decide(&mut self, lane: usize, kept: ConnectionHandle) {
        self.stop_race(lane, Some(kept));
        *self.lane_mut(lane) = Some(kept);
        self.places[0].next = Next::AtAnything;
        self.touch_place(0);
    }

    /// Ends the race of a lane, if there is one, and resets its attempts except one.
    pub(super) fn stop_race(&mut self, lane: usize, kept: Option<ConnectionHandle>) {
        let Some(races) = &mut self.races else { return };
        let attempts = races.remove(lane);
        if attempts.is_empty() {
            return;
        }
        self.wanted.retain(|wanted| *wanted != lane);
        for attempt in attempts {
            self.end(Some(attempt).filter(|_| Some(attempt) != kept));
        }
        self.set_race_wake();
    }

    /// Ends all races without resetting their attempts.
    pub(super) fn forget_races(&mut self) {
        if let Some(races) = &mut self.races {
            races.running.clear();
        }
        self.set_race_wake();
    }

    /// Sets when the host wakes for the next attempt.
    fn set_race_wake(&mut self) {
        let Some(races) = &mut self.races else { return };
        let times = races.running.iter().filter_map(|race| match race.next {
            NextAttempt::At(at) => Some(at),
            _ => None,
        });
        let wake = times.min();
        if wake.is_none() && races.node.is_none() {
            return;
        }
        let node = *races.node.get_or_insert_with(|| {
            self.sleepers.push(0);
            self.wakes.add()
        });
        self.wakes.set(node, wake);
    }
}
