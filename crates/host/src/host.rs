//! A host: an endpoint and the applications on its connections.

mod lanes;
mod race;

use std::num::NonZeroU16;

use anabranch_mptcp::{
    Connection, ConnectionHandle, Endpoint, FourTuple, Outgoing, Transmit, earliest,
};
use anabranch_trace::Rows;
use anabranch_units::{Instant, Schedule, SeqNumber};
use anabranch_wire::Segment;

use crate::application::{Application, Next, WrongBytes};
use crate::session::{Session, Viewing};
use lanes::Connections;
use race::Races;

/// The factory of a server's applications, called for each accepted connection.
pub type Serve = dyn FnMut(ConnectionHandle, &Connection) -> Box<dyn Application>;

/// An application and its connection. For a client, this is the connection in lane 0.
struct Place {
    application: Box<dyn Application>,
    connection: Option<ConnectionHandle>,
    /// The replaced connection, if it is kept until the response on the new one begins.
    former: Option<ConnectionHandle>,
    next: Next,
    /// Whether the host no longer calls the application.
    dismissed: bool,
    /// Whether the application is in the list of applications to call.
    touched: bool,
    /// The application's node in `wakes`, if it has ever set a timer.
    node: Option<usize>,
}

/// An endpoint with its applications, sans-IO.
///
/// A client has one application, which may have several connections at once or one after the other. A server
/// has one application per accepted connection. After any input the host must be polled: for segments until
/// there are none, for a needed connection, and for its next timer. Polling works in a fixed order:
///
/// 1. The connections send their segments.
/// 2. The applications with an input are called.
/// 3. The segments that result from these calls are sent.
pub struct Host {
    endpoint: Endpoint,
    /// One entry for a client. A server's application is at the index of its connection's handle.
    places: Vec<Place>,
    /// The factory of a server's applications; `None` for a client.
    serve: Option<Box<Serve>>,
    /// The index in `places` of the application to call next, and the indices of those to call after it.
    touched: Option<usize>,
    also_touched: Vec<usize>,
    /// The timers of applications.
    wakes: Schedule,
    /// The index in `places` for each node of `wakes`.
    sleepers: Vec<usize>,
    /// A client's connections in lanes 1 and higher.
    others: Vec<Option<ConnectionHandle>>,
    /// The lanes in which a client needs a connection.
    wanted: Vec<usize>,
    /// The attempts to open each connection over several paths (RFC 8305); `None` if only one path is tried.
    races: Option<Box<Races>>,
    fault: Option<WrongBytes>,
}

impl Host {
    /// Creates a client with its application. The client needs a connection from the start.
    pub fn client(endpoint: Endpoint, application: Box<dyn Application>) -> Self {
        let mut host = Self::new(endpoint, None);
        host.places.push(Place::new(application));
        host.wanted.push(0);
        host
    }

    /// Creates a server on an endpoint that listens. `serve` creates the application of each connection.
    pub fn server(endpoint: Endpoint, serve: Box<Serve>) -> Self {
        Self::new(endpoint, Some(serve))
    }

    fn new(endpoint: Endpoint, serve: Option<Box<Serve>>) -> Self {
        Self {
            endpoint,
            places: Vec::new(),
            serve,
            touched: None,
            also_touched: Vec::new(),
            wakes: Schedule::default(),
            sleepers: Vec::new(),
            others: Vec::new(),
            wanted: Vec::new(),
            races: None,
            fault: None,
        }
    }

    /// Input: a segment with the addresses of this host and of its peer. Returns the connection
    /// that received it.
    #[inline]
    pub fn handle_segment(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
    ) -> Option<ConnectionHandle> {
        let handle = self.endpoint.handle_segment(now, tuple, segment);
        self.touch(handle);
        handle
    }

    /// Handles consecutive segments that were merged on the way, like [`Self::handle_segment`]; see
    /// [`Endpoint::handle_merged`].
    pub fn handle_merged(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) -> Option<ConnectionHandle> {
        let handle = self.endpoint.handle_merged(now, tuple, segment, segment_size);
        self.touch(handle);
        handle
    }

    /// Input: a router refused a packet of this host as too large (ICMP, RFC 1191), as in
    /// [`Endpoint::handle_path_mtu`]. Returns the connection that sent it.
    pub fn handle_path_mtu(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        mtu: u32,
        seq: SeqNumber,
    ) -> Option<ConnectionHandle> {
        let handle = self.endpoint.handle_path_mtu(now, tuple, mtu, seq)?;
        self.touch(Some(handle));
        Some(handle)
    }

    /// Input: time has passed. Fires the due timers of one connection, and wakes applications whose timers
    /// are due.
    ///
    /// Returns true if a connection's timer fired. Timers of other connections may be due, so call this
    /// again, at once or after polling the host.
    pub fn handle_timeout(&mut self, now: Instant) -> bool {
        let fired = self.endpoint.handle_timeout(now);
        self.touch(fired);
        if fired.is_none() && !self.wakes.is_empty() {
            let (at, node) = self.wakes.first();
            if at <= now {
                self.touch_place(self.sleepers[node]);
            }
        }
        fired.is_some()
    }

    /// Output: returns the next segment to send; `None` if nothing can be sent before the next input. This
    /// may call applications.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_burst(now, 1)
    }

    /// Like [`Self::poll_transmit`], but one `Transmit` may contain up to `most` segments; see
    /// [`Endpoint::poll_burst`].
    pub fn poll_burst(&mut self, now: Instant, most: u32) -> Option<Transmit> {
        let mut segment = Segment::default();
        let Outgoing { tuple, segment_size, .. } = self.poll_burst_into(now, most, &mut segment)?;
        Some(Transmit { local: tuple.local, remote: tuple.remote, segment, segment_size })
    }

    /// Like [`Self::poll_transmit`], but overwrites the caller's segment.
    #[inline]
    pub fn poll_transmit_into(&mut self, now: Instant, segment: &mut Segment) -> Option<Outgoing> {
        self.poll_burst_into(now, 1, segment)
    }

    /// Like [`Self::poll_burst`], but overwrites the caller's segment.
    #[inline]
    pub fn poll_burst_into(
        &mut self,
        now: Instant,
        most: u32,
        segment: &mut Segment,
    ) -> Option<Outgoing> {
        if self.races.as_ref().is_some_and(|races| races.are_running()) {
            self.run_races(now);
        }
        loop {
            let sent = self.endpoint.poll_burst_into(now, most, segment);
            if sent.is_some() || !self.drive(now) {
                return sent;
            }
        }
    }

    /// Returns the time of the next call of [`Self::handle_timeout`]. Query it after
    /// [`Self::poll_transmit`] has returned `None`.
    #[inline]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let wake = self.endpoint.poll_timeout();
        if self.wakes.is_empty() {
            return wake;
        }
        let (at, _) = self.wakes.first();
        earliest(wake, Some(at).filter(|at| *at != Instant::FAR_FUTURE))
    }

    /// Returns whether a client's application needs a connection. If so, call [`Self::connect`] with
    /// addresses, which the host does not have. Query this after [`Self::poll_transmit`] has returned `None`.
    #[inline]
    pub fn needs_connection(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Aborts every connection and stops calling their applications. The host must be polled
    /// afterwards.
    pub fn abort(&mut self) {
        let handles: Vec<_> = self.endpoint.connections().map(|(handle, _)| handle).collect();
        for handle in handles {
            if !self.endpoint.connection(handle).is_closed() {
                self.endpoint.connection_mut(handle).abort();
            }
        }
        for at in 0..self.places.len() {
            self.dismiss(at);
        }
        self.wanted.clear();
        self.forget_races();
    }

    fn dismiss(&mut self, at: usize) {
        let place = &mut self.places[at];
        place.dismissed = true;
        if let Some(node) = place.node {
            self.wakes.set(node, None);
        }
    }

    /// Frees the closed connections and a server's applications on them. Call this from time to time on a
    /// host that runs for long.
    ///
    /// All data of a freed connection is lost. A connection with unread data is therefore not freed
    /// ([`anabranch_mptcp::Event::Drained`]). The applications of such a host must read to the end.
    pub fn free_ended(&mut self) {
        let closed = self.endpoint.connections().filter(|(_, connection)| connection.is_closed());
        let closed: Vec<_> = closed.map(|(handle, _)| handle).collect();
        for handle in closed {
            let at = if self.serve.is_some() { handle.index() } else { 0 };
            if !self.has(at, handle) || self.places[at].dismissed {
                // No application reads these events, so discard them.
                while self.endpoint.connection_mut(handle).poll_event().is_some() {}
            }
        }
        for handle in self.endpoint.free_drained() {
            let at = if self.serve.is_some() { handle.index() } else { 0 };
            self.forget(at, handle);
        }
    }

    /// Input: something happened outside the host that an application waits for, for example on a socket. The
    /// application is called when the host is polled, unless it waits only for events of its connection
    /// ([`Next::AtNews`]).
    pub fn wake(&mut self, handle: ConnectionHandle) {
        let at = if self.serve.is_some() { handle.index() } else { 0 };
        if self.has(at, handle) {
            self.touch_place(at);
        }
    }

    /// Returns a client's measurements; `None` for a server.
    #[inline]
    pub fn session(&self) -> Option<&Session> {
        self.places.first()?.application.session()
    }

    /// Returns a client's measurements mutably, so that the caller can complete them.
    pub fn session_mut(&mut self) -> Option<&mut Session> {
        self.places.first_mut()?.application.session_mut()
    }

    /// Returns the state of a client's film player.
    pub fn viewing(&self, now: Instant) -> Option<Viewing> {
        self.places.first()?.application.viewing(now)
    }

    /// Returns the read error, if an application has read bytes that differ from those sent. That application
    /// is no longer called.
    #[inline]
    pub fn fault(&self) -> Option<WrongBytes> {
        self.fault
    }

    /// Returns the endpoint.
    #[inline]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the endpoint mutably, to signal address changes to connections. This also schedules a call of
    /// a client's application, so the host must be polled afterwards.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        self.touch(None);
        &mut self.endpoint
    }

    /// Adds rows for the events of the applications since the last call.
    pub fn tell(&mut self, rows: &mut Rows) {
        for place in &mut self.places {
            place.application.tell(rows);
        }
    }

    /// Adds rows for the current state of the applications.
    pub fn sample(&self, now: Instant, rows: &mut Rows) {
        for place in &self.places {
            place.application.sample(now, rows);
        }
    }

    /// Adds rows for the applications over the whole run, at its end.
    pub fn report(&self, rows: &mut Rows) {
        for place in &self.places {
            place.application.report(rows);
        }
    }

    /// Records that a connection had an input, so that its application is called. A client has one
    /// application for all connections.
    #[inline]
    fn touch(&mut self, handle: Option<ConnectionHandle>) {
        if self.serve.is_none() {
            self.touch_place(0);
        } else if let Some(handle) = handle {
            let at = handle.index();
            if self.places.get(at).is_none_or(|place| place.connection != Some(handle)) {
                self.accept(handle);
            }
            self.touch_place(at);
        }
    }

    #[inline]
    fn touch_place(&mut self, at: usize) {
        if std::mem::replace(&mut self.places[at].touched, true) {
            return;
        }
        if self.touched.is_none() {
            self.touched = Some(at);
        } else {
            self.also_touched.push(at);
        }
    }

    /// Gives a new connection an application.
    #[cold]
    fn accept(&mut self, handle: ConnectionHandle) {
        let (Some(serve), Some(connection)) = (&mut self.serve, self.endpoint.get(handle)) else {
            return;
        };
        let at = handle.index();
        while self.places.len() <= at {
            self.places.push(Place::new(serve(handle, connection)));
        }
        let Place { touched, node, connection: had, .. } = self.places[at];
        if had.is_some() {
            // The application at this index belonged to an earlier connection.
            self.places[at] = Place { touched, node, ..Place::new(serve(handle, connection)) };
        }
        self.places[at].connection = Some(handle);
    }

    /// Calls the applications whose connections had an input, until one of them does something. Returns false
    /// if none does.
    #[inline]
    fn drive(&mut self, now: Instant) -> bool {
        while let Some(at) = self.touched {
            self.touched = None;
            if !self.also_touched.is_empty() {
                self.touched = Some(self.next_touched());
            }
            if self.drive_at(now, at) {
                return true;
            }
        }
        false
    }

    #[cold]
    fn next_touched(&mut self) -> usize {
        self.also_touched.remove(0)
    }

    /// Calls an application. Returns false if it has nothing to do.
    #[inline]
    fn drive_at(&mut self, now: Instant, at: usize) -> bool {
        let place = &mut self.places[at];
        place.touched = false;
        let first = place.connection;
        let is_unconnected = first.is_none() && self.others.is_empty() && self.races.is_none();
        if place.dismissed || is_unconnected {
            return false;
        }
        let waits =
            place.next == Next::AtNews && place.node.is_none_or(|node| self.wakes.at(node) > now);
        let has_news =
            |it: &ConnectionHandle| self.endpoint.get(*it).is_some_and(Connection::has_news);
        if waits && !first.iter().any(has_news) && !self.others.iter().flatten().any(has_news) {
            return false;
        }
        let driven = if self.serve.is_none() {
            let Self { endpoint, others, .. } = self;
            place.application.drive_all(now, &mut Connections { endpoint, first, others })
        } else {
            let Some(connection) = first.and_then(|it| self.endpoint.get_mut(it)) else {
                return false;
            };
            place.application.drive(now, connection)
        };
        match driven {
            Ok(Next::OnNewConnection { lane, former }) if self.serve.is_none() => {
                self.change(lane, former);
            }
            Ok(Next::Without(lane)) if self.serve.is_none() => self.leave(lane),
            Ok(next) => place.next = next,
            Err(fault) => {
                self.fault.get_or_insert(fault);
                self.dismiss(at);
                return true;
            }
        }
        let place = &mut self.places[at];
        if place.former.is_some() && place.application.is_answered() {
            let former = place.former.take();
            self.end(former);
        }
        if self.places[at].next == Next::BehindOutput {
            self.touch_place(at);
        }
        let place = &self.places[at];
        let wake = place.application.poll_timeout();
        if wake.is_some() || place.node.is_some() {
            self.set_wake(at, wake);
        }
        true
    }

    fn set_wake(&mut self, at: usize, wake: Option<Instant>) {
        let node = *self.places[at].node.get_or_insert_with(|| {
            self.sleepers.push(at);
            self.wakes.add()
        });
        self.wakes.set(node, wake);
    }
}

impl Place {
    fn new(application: Box<dyn Application>) -> Self {
        Self {
            application,
            connection: None,
            former: None,
            next: Next::AtAnything,
            dismissed: false,
            touched: false,
            node: None,
        }
    }
}
