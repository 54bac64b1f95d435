//! A served connection: the client's connection, and the socket to the origin.

use std::net::SocketAddr;

use anabranch_mptcp::{Connection, ConnectionHandle, FourTuple};
use anabranch_units::{Duration, Instant};
use rustix::io::Errno;

use crate::relay::Relay;
use crate::socket::Socket;

use super::calling::Calling;
use super::candidates::Standing;
use super::phase::Phase;
use super::progress::Progress;
use super::record::{End, PathRecord, Record};
use super::shares::Holding;

/// The largest number of address pairs whose bytes are counted separately. Bytes of further pairs are added
/// to the last one.
const MOST_PATHS: usize = 32;

/// A served connection.
pub(super) struct Served {
    /// The connection of the client. `None` after the endpoint has freed it.
    pub(super) handle: Option<ConnectionHandle>,
    /// The socket to the origin.
    pub(super) origin: Option<Socket>,
    /// The attempts to connect to the origin.
    pub(super) calling: Calling,
    pub(super) relay: Relay,
    /// The addresses of the first subflow.
    pub(super) first: FourTuple,
    pub(super) multipath: bool,
    pub(super) fell_back: bool,
    progress: Progress,
    phase: Phase,
    /// Payload bytes from the client, by pair of addresses.
    pub(super) received: Vec<(FourTuple, u64)>,
    /// The records of all subflows. They are stored when the endpoint frees the connection.
    paths: Vec<PathRecord>,
}

impl Served {
    /// Creates the state of a connection that was established now.
    pub(super) fn new(
        now: Instant,
        handle: ConnectionHandle,
        first: FourTuple,
        multipath: bool,
        relay: Relay,
        calling: Calling,
    ) -> Self {
        Self {
            handle: Some(handle),
            origin: None,
            calling,
            relay,
            first,
            multipath,
            fell_back: false,
            progress: Progress::new(now),
            phase: Phase::Relaying,
            received: Vec::new(),
            paths: Vec::new(),
        }
    }

    /// Returns the bytes held in the gateway: from the client, and from the origin. The argument contains the
    /// bytes in the endpoint's buffers.
    pub(super) fn held(&self, [of_client, of_origin]: [u64; 2]) -> [u64; 2] {
        let [up, down] = self.relay.held();
        let read = self.origin.as_ref().map_or(0, Socket::held);
        [of_client + up, of_origin + down + read]
    }

    /// Measures the progress. Returns the memory held for the connection, and how it uses its slot.
    /// `of_connection` contains the bytes in the endpoint's buffers, from the client and from the origin.
    pub(super) fn measure(
        &mut self,
        now: Instant,
        number: u64,
        of_connection: [u64; 2],
    ) -> (Holding, Standing) {
        let [up, down] = self.relay.moved();
        self.progress.note(now, [up, down.saturating_sub(of_connection[1])]);
        let held = self.held(of_connection);
        let bytes = held[0] + held[1];
        let holding = Holding {
            number,
            from: self.client().ip(),
            bytes,
            drain_time: self.progress.drain_time(held),
            moved_at: self.progress.moved_at(),
        };
        let standing = Standing {
            number,
            since: self.progress.since(),
            moved_at: self.progress.moved_at(),
            waits: bytes > 0,
            answered: self.progress.is_answered(),
            rate: self.progress.rate(),
        };
        (holding, standing)
    }

    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns whether the connection is open and no connection attempt to the origin was made.
    pub(super) fn waits_for_client(&self) -> bool {
        self.phase == Phase::Relaying && !self.calling.has_begun()
    }

    /// Returns whether no byte has left for the time `idle`.
    pub(super) fn is_idle(&self, now: Instant, idle: Duration) -> bool {
        now.since(self.progress.moved_at()) >= idle
    }

    /// Returns whether the origin is gone and the client takes too long to receive the rest of the response.
    pub(super) fn lingers_too_long(&self, now: Instant) -> bool {
        self.phase.lingers_too_long(now, &self.progress)
    }

    /// Records that the client's connection has closed. Returns the new phase.
    pub(super) fn close(&mut self) -> Phase {
        self.phase = self.phase.close(self.relay.is_complete());
        self.phase
    }

    /// Records that the origin is gone, with its error if there was one. Returns the new phase.
    pub(super) fn lose_origin(&mut self, now: Instant, error: Option<Errno>) -> Phase {
        let (answered, left) = (self.relay.has_answered(), self.progress.left());
        self.phase = self.phase.lose_origin(now, answered, left, error);
        self.phase
    }

    /// Records a failure. The first failure is kept.
    pub(super) fn fail(&mut self, end: End, error: Option<Errno>) {
        self.phase = self.phase.fail(end, error);
    }

    /// Returns the client's address on the first subflow.
    pub(super) fn client(&self) -> SocketAddr {
        self.first.remote
    }

    /// Counts payload bytes that arrived from the client.
    pub(super) fn note_received(&mut self, tuple: FourTuple, bytes: u64) {
        let full = self.received.len() >= MOST_PATHS;
        let known = self.received.iter().position(|(known, _)| *known == tuple);
        match known.or_else(|| full.then_some(MOST_PATHS - 1)) {
            Some(place) => self.received[place].1 += bytes,
            None => self.received.push((tuple, bytes)),
        }
    }

    /// Stores the records of all subflows before the endpoint frees the connection.
    pub(super) fn keep_records(&mut self, connection: &Connection) {
        let known = connection.view().summaries();
        self.paths = known.map(|it| PathRecord::new(&it, &self.received)).collect();
        self.handle = None;
    }

    /// Returns the record of the ended connection.
    pub(super) fn record(&self, now: Instant) -> Record {
        let [up, down] = self.relay.moved();
        let (end, error) = self.phase.outcome();
        Record {
            client: self.first.remote,
            local: self.first.local,
            multipath: self.multipath,
            fell_back: self.fell_back,
            lasted: now.since(self.progress.since()),
            up,
            down,
            end,
            error: error.map(Errno::raw_os_error),
            paths: self.paths.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
