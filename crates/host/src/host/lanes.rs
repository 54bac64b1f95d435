//! The connections of a client, each in a lane of its application.

use anabranch_mptcp::{Config, ConnectError, ConnectionHandle, Endpoint};
use anabranch_units::Instant;

use super::Host;
use crate::application::{Former, Lanes, Next};
use crate::stream::Stream;

/// The application's view of the connections.
pub(super) struct Connections<'a> {
    pub(super) endpoint: &'a mut Endpoint,
    pub(super) first: Option<ConnectionHandle>,
    pub(super) others: &'a [Option<ConnectionHandle>],
}

impl Lanes for Connections<'_> {
    fn get(&mut self, lane: usize) -> Option<&mut dyn Stream> {
        let handle = match lane.checked_sub(1) {
            None => self.first,
            Some(other) => *self.others.get(other)?,
        };
        self.endpoint.get_mut(handle?).map(|connection| connection as &mut dyn Stream)
    }
}

impl Host {
    /// Opens a client's connection over the first of `config.candidates`, in the lane that needs one. The old
    /// connection in that lane is aborted. The host must be polled afterwards.
    ///
    /// If the client races ([`Self::racing`]), this opens an attempt over the first candidate without an
    /// attempt. The lane gets the attempt that is established first, and the host needs connections until
    /// then.
    ///
    /// # Errors
    /// Returns the errors of [`Endpoint::connect`].
    ///
    /// # Panics
    /// Panics if the host is a server.
    pub fn connect(
        &mut self,
        now: Instant,
        config: Config,
    ) -> Result<ConnectionHandle, ConnectError> {
        assert!(self.serve.is_none(), "a server opens no connection");
        let lane = self.wanted.first().copied().unwrap_or(0);
        let handle = if self.is_raced(lane, &config) {
            self.attempt(now, lane, config)?
        } else {
            let old = *self.lane_mut(lane);
            self.end(old);
            let handle = self.endpoint.connect(now, config)?;
            *self.lane_mut(lane) = Some(handle);
            handle
        };
        if !self.wanted.is_empty() {
            self.wanted.remove(0);
        }
        let place = &mut self.places[0];
        place.next = Next::AtAnything;
        place.dismissed = false;
        self.touch_place(0);
        Ok(handle)
    }

    /// Returns the handle of a lane's connection, mutably.
    pub(super) fn lane_mut(&mut self, lane: usize) -> &mut Option<ConnectionHandle> {
        let Some(other) = lane.checked_sub(1) else { return &mut self.places[0].connection };
        if self.others.len() <= other {
            self.others.resize(other + 1, None);
        }
        &mut self.others[other]
    }

    /// Abandons the connection in a lane and requests a new one.
    #[cold]
    pub(super) fn change(&mut self, lane: usize, how: Former) {
        self.stop_race(lane, None);
        self.wanted.push(lane);
        let left = self.lane_mut(lane).take();
        // The lane's connection is replaced again, so the connection before it is no longer needed.
        let in_vain = self.places[0].former.take();
        let kept = how == Former::KeptUntilAnswer;
        self.places[0].former = left.filter(|_| kept);
        self.end(in_vain);
        self.end(left.filter(|_| !kept));
    }

    /// Abandons the connection in a lane without a replacement.
    #[cold]
    pub(super) fn leave(&mut self, lane: usize) {
        self.stop_race(lane, None);
        let left = self.lane_mut(lane).take();
        self.end(left);
        self.touch_place(0);
    }

    /// Aborts a connection, if it still exists.
    #[cold]
    pub(super) fn end(&mut self, handle: Option<ConnectionHandle>) {
        if let Some(connection) = handle.and_then(|handle| self.endpoint.get_mut(handle)) {
            connection.abort();
        }
    }

    /// Returns whether this connection belongs to the application at this index.
    pub(super) fn has(&self, at: usize, handle: ConnectionHandle) -> bool {
        let first = self.places.get(at).is_some_and(|place| place.connection == Some(handle));
        first || self.others.contains(&Some(handle))
    }

    /// Removes a freed connection from its lane. If this was the application's last lane, its methods
    /// are no longer called.
    pub(super) fn forget(&mut self, at: usize, handle: ConnectionHandle) {
        if !self.has(at, handle) {
            return;
        }
        if self.others.is_empty() {
            return self.dismiss(at);
        }
        let first = &mut self.places[0].connection;
        for lane in std::iter::once(first).chain(&mut self.others) {
            *lane = lane.filter(|had| *had != handle);
        }
    }
}
