//! Races: attempts to open one connection over several paths, each a little later than the previous one (RFC
//! 8305 section 5). The first attempt that is established becomes the connection, and the others are reset.

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
    /// Races in which no attempt is established yet.
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
    /// The time of the attempt. It is made earlier if all previous attempts have failed.
    At(Instant),
    /// The host needs a connection for the attempt now.
    Needed,
    /// All paths have been tried.
    Never,
}

impl Races {
    /// Returns whether a race is still undecided.
    pub(super) fn are_running(&self) -> bool {
        !self.running.is_empty()
    }

    fn of(&mut self, lane: usize) -> Option<&mut Race> {
        self.running.iter_mut().find(|race| race.lane == lane)
    }

    /// Returns the index of the candidate for a lane's next attempt, if any candidate is left. Then
    /// schedules the following attempt. Backup paths come last.
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
    /// Makes a client open each connection by a race over `config.candidates` ([`Self::connect`]). The next
    /// attempt follows after `delay`, or at once if all previous attempts have failed.
    #[must_use]
    pub fn racing(self, delay: Duration) -> Self {
        let races = Races { delay, running: Vec::new(), node: None };
        Self { races: Some(Box::new(races)), ..self }
    }

    /// Returns whether a lane's connection is opened by a race.
    pub(super) fn is_raced(&mut self, lane: usize, config: &Config) -> bool {
        let Some(races) = &mut self.races else { return false };
        config.candidates.len() > 1 || races.of(lane).is_some()
    }

    /// Opens the next attempt of a lane's race. Returns the last attempt if no path is left.
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
        // A connection begins over its first candidate, and joins the other candidates.
        config.candidates[..=chosen].rotate_right(1);
        let handle = self.endpoint.connect(now, config)?;
        if let Some(race) = races.of(lane) {
            race.attempts.push(handle);
        }
        self.set_race_wake();
        Ok(handle)
    }

    /// Decides the races in which an attempt is established or all have failed. Starts the attempts that are
    /// due.
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
                    // The application gets the last attempt, whose events report the failure.
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

    /// Ends a race. The lane gets the attempt `kept`, and the other attempts are reset.
    fn decide(&mut self, lane: usize, kept: ConnectionHandle) {
        self.stop_race(lane, Some(kept));
        *self.lane_mut(lane) = Some(kept);
        self.places[0].next = Next::AtAnything;
        self.touch_place(0);
    }

    /// Ends a lane's race, if there is one, and resets all attempts except `kept`.
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

    /// Sets the host's timer to the next attempt of any race.
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
