//! A host: an endpoint, and what runs on its connections.

mod lanes;
mod race;

use std::num::NonZeroU16;

use anabranch_trace::Rows;
use anabranch_transport::{
    Connection, ConnectionHandle, Endpoint, FourTuple, Outgoing, Transmit, earliest,
};
use anabranch_units::{Instant, Schedule, SeqNumber};
use anabranch_wire::Segment;

use crate::application::{Application, Next, WrongBytes};
use crate::session::{Session, Viewing};
use lanes::Connections;
use race::Races;

/// What a server runs on a connection that it has accepted.
pub type Serve = dyn FnMut(ConnectionHandle, &Connection) -> Box<dyn Application>;

/// An application and the connection it has, the one in its first lane.
struct Place {
    application: Box<dyn Application>,
    connection: Option<ConnectionHandle>,
    /// The connection before, which lasts until this one is answered.
    former: Option<ConnectionHandle>,
    next: Next,
    /// It is not driven any more.
    dismissed: bool,
    /// It is in the list of those to be driven.
    touched: bool,
    /// The node of one that wakes by itself.
    node: Option<usize>,
}

/// An endpoint with its applications, sans-IO.
///
/// A client has one application, which may have several connections, and go through them; a server has one for each
/// connection that it accepts. Whatever is handed in, the host is to be polled afterwards: for segments
/// until there are none, for the need of a connection, and for its next timeout. In doing so it goes through
/// what it has to do in one order, always: connections say what they have to say, then the applications
/// that something happened to are driven, then what that gave goes out.
pub struct Host {
    endpoint: Endpoint,
    /// A client's one; a server's, each at the place of its connection's handle.
    places: Vec<Place>,
    /// What makes a server's applications; a client has none.
    serve: Option<Box<Serve>>,
    /// The place to be driven next, and those after it.
    touched: Option<usize>,
    also_touched: Vec<usize>,
    /// When applications wake by themselves.
    wakes: Schedule,
    /// The place of each node of `wakes`.
    sleepers: Vec<usize>,
    /// A client's connections in the lanes behind the first.
    others: Vec<Option<ConnectionHandle>>,
    /// The lanes that a client needs a connection in.
    wanted: Vec<usize>,
    /// A client's races for its connections, if it opens them so.
    races: Option<Box<Races>>,
    fault: Option<WrongBytes>,
}

impl Host {
    /// A client with its application. It needs a connection from the beginning.
    pub fn client(endpoint: Endpoint, application: Box<dyn Application>) -> Self {
        let mut host = Self::new(endpoint, None);
        host.places.push(Place::new(application));
        host.wanted.push(0);
        host
    }

    /// A server, which listens where its endpoint does, and runs on each connection what `serve` makes.
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

    /// Input: a segment between two addresses, this host's and the other's. Returns the connection that it
    /// reached.
    #[inline(always)]
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

    /// As [`Self::handle_segment`], of consecutive segments that were made one on the way; see
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

    /// Input: a router has no room for a packet of this host (ICMP, RFC 1191), as
    /// [`Endpoint::handle_path_mtu`] takes it. Returns the connection that it was about.
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

    /// Time has come: fires what is due of one connection, and wakes the applications that it is time for.
    /// True when a connection's timer fired, and another's may be due: to be called again, either at once or
    /// once the host was polled.
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

    /// Output: the next segment to put on the wire; `None` when there is none before something else is handed
    /// in. What the applications have to do is done on the way.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        self.poll_burst(now, 1)
    }

    /// As [`Self::poll_transmit`], of up to `most` segments written as one; see [`Endpoint::poll_burst`].
    pub fn poll_burst(&mut self, now: Instant, most: u32) -> Option<Transmit> {
        let mut segment = Segment::default();
        let Outgoing { tuple, segment_size, .. } = self.poll_burst_into(now, most, &mut segment)?;
        Some(Transmit { local: tuple.local, remote: tuple.remote, segment, segment_size })
    }

    /// As [`Self::poll_transmit`], written over a segment that the caller has.
    #[inline(always)]
    pub fn poll_transmit_into(&mut self, now: Instant, segment: &mut Segment) -> Option<Outgoing> {
        self.poll_burst_into(now, 1, segment)
    }

    /// As [`Self::poll_burst`], written over a segment that the caller has.
    #[inline(always)]
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

    /// When [`Self::handle_timeout`] is to be called; to be asked once [`Self::poll_transmit`] has no more
    /// to give.
    #[inline(always)]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let wake = self.endpoint.poll_timeout();
        if self.wakes.is_empty() {
            return wake;
        }
        let (at, _) = self.wakes.first();
        earliest(wake, Some(at).filter(|at| *at != Instant::FAR_FUTURE))
    }

    /// A client's application needs a connection: [`Self::connect`] opens it, with addresses that the world
    /// knows. To be asked once [`Self::poll_transmit`] has no more to give.
    #[inline(always)]
    pub fn needs_connection(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Ends every connection at once; their applications are not driven any more. The host has to be polled
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

    /// Frees the connections that are over, and a server's applications of them. A host that lives long does
    /// so now and then; what it has of a connection is gone with it. One that holds something unread is not over
    /// ([`anabranch_transport::Event::Drained`]): an application of such a host reads to the end, or forgets.
    pub fn free_ended(&mut self) {
        let closed = self.endpoint.connections().filter(|(_, connection)| connection.is_closed());
        let closed: Vec<_> = closed.map(|(handle, _)| handle).collect();
        for handle in closed {
            let at = if self.serve.is_some() { handle.index() } else { 0 };
            if !self.has(at, handle) || self.places[at].dismissed {
                // Nobody asks for its news any more.
                while self.endpoint.connection_mut(handle).poll_event().is_some() {}
            }
        }
        for handle in self.endpoint.free_drained() {
            let at = if self.serve.is_some() { handle.index() } else { 0 };
            self.forget(at, handle);
        }
    }

    /// Input: something outside the host happened that an application waits for, such as a socket of its own: it is
    /// driven when the host is polled, unless it waits for news of its connection alone ([`Next::AtNews`]).
    pub fn wake(&mut self, handle: ConnectionHandle) {
        let at = if self.serve.is_some() { handle.index() } else { 0 };
        if self.has(at, handle) {
            self.touch_place(at);
        }
    }

    /// What a client has measured; `None` for a server.
    #[inline]
    pub fn session(&self) -> Option<&Session> {
        self.places.first()?.application.session()
    }

    /// The same, to close its books.
    pub fn session_mut(&mut self) -> Option<&mut Session> {
        self.places.first_mut()?.application.session_mut()
    }

    /// What a client's viewer has.
    pub fn viewing(&self, now: Instant) -> Option<Viewing> {
        self.places.first()?.application.viewing(now)
    }

    /// What was read that nobody sent; the host's application is not driven any more.
    #[inline(always)]
    pub fn fault(&self) -> Option<WrongBytes> {
        self.fault
    }

    /// Its endpoint.
    #[inline(always)]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Its endpoint, to tell connections of addresses that came or went. The host has to be polled
    /// afterwards; a client's application is driven then.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint {
        self.touch(None);
        &mut self.endpoint
    }

    /// Writes down what happened to its applications since the last time it was asked.
    pub fn tell(&mut self, rows: &mut Rows) {
        for place in &mut self.places {
            place.application.tell(rows);
        }
    }

    /// Writes down how its applications stand.
    pub fn sample(&self, now: Instant, rows: &mut Rows) {
        for place in &self.places {
            place.application.sample(now, rows);
        }
    }

    /// Writes down what there is to say of its applications when all is over.
    pub fn report(&self, rows: &mut Rows) {
        for place in &self.places {
            place.application.report(rows);
        }
    }

    /// Something happened to a connection, or, of a client, to any of those it had.
    #[inline(always)]
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

    #[inline(always)]
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

    /// A connection that was not there before gets an application.
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
            // Of the connection that had the place before.
            self.places[at] = Place { touched, node, ..Place::new(serve(handle, connection)) };
        }
        self.places[at].connection = Some(handle);
    }

    /// Drives one of the applications that something happened to; false when there is none.
    #[inline(always)]
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

    /// Drives an application; false when there is nothing for it to do.
    #[inline(always)]
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
