//! Connections: from the client's handshake over the origin's socket to the end.

use anabranch_host::Stream;
use anabranch_transport::{Connection, ConnectionHandle, Event};
use anabranch_units::{Duration, Instant};
use bytes::Bytes;

use crate::relay::Relay;
use crate::socket::{Kind, Socket};

use super::proxy_protocol;
use super::record::End;
use super::served::Served;
use super::{Gateway, ORIGINS};

/// The time that a client has to take the last bytes of an origin that reads no more.
const LINGER: Duration = Duration::from_secs(5);

/// Ends a connection with a reset, and frees what it had for us.
fn break_off(now: Instant, connection: &mut Connection) {
    if !connection.is_closed() {
        connection.abort();
    }
    while connection.read(now, usize::MAX).is_some() {}
}

impl Gateway<'_> {
    /// The number of a connection that is served.
    pub(super) fn number_of(&self, handle: ConnectionHandle) -> Option<u64> {
        let place = self.places.get(handle.index()).copied().flatten();
        place.filter(|(known, _)| *known == handle).map(|(_, number)| number)
    }

    /// A connection that is served.
    pub(super) fn served_by(&mut self, handle: ConnectionHandle) -> Option<&mut Served> {
        let number = self.number_of(handle)?;
        self.served.get_mut(&number)
    }

    /// Takes the news of all connections; true when there was any.
    pub(super) fn hear(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((handle, event)) = self.endpoint.poll_event() {
            any = true;
            match event {
                Event::Connected => self.welcome(now, handle),
                Event::Drained => self.part(now, handle),
                event => self.note(handle, event),
            }
        }
        any
    }

    /// A handshake is complete: the origin is called, if there is room for one more.
    fn welcome(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(connection) = self.endpoint.get(handle) else { return };
        let multipath = connection.is_multipath();
        let Some(first) = connection.tuples().next() else { return };
        if !self.admission.admits(first.remote.ip()) {
            if let Some(connection) = self.endpoint.get_mut(handle) {
                break_off(now, connection);
            }
            return;
        }
        self.admission.enter(first.remote.ip());
        self.metrics.accepted[usize::from(!multipath)] += 1;
        let number = ORIGINS + self.made;
        self.made += 1;
        let header = if self.settings.proxy_protocol {
            proxy_protocol::header(first.remote, first.local)
        } else {
            Bytes::new()
        };
        let served = Served::new(now, handle, first, multipath, Relay::new(header));
        self.served.insert(number, served);
        let place = handle.index();
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        self.places[place] = Some((handle, number));
        self.call(number);
        self.touched.insert(number);
    }

    /// Calls the origin at the next of its addresses; without any the client is told that there is none.
    fn call(&mut self, number: u64) {
        let Some(served) = self.served.get_mut(&number) else { return };
        served.origin = None;
        while let Some(address) = self.settings.origin.get(served.tried) {
            served.tried += 1;
            if let Ok(socket) = Socket::call(&Kind::TO_ORIGIN, *address, self.pool.clone())
                && self.poller.add_edges(&socket, number).is_ok()
            {
                served.origin = Some(socket.submitting(self.readers.submitter(number)));
                return;
            }
        }
        self.fail(number, End::OriginRefused);
    }

    /// The socket to the origin of a connection, for which there may be something to do now.
    pub(super) fn touch(&mut self, number: u64) -> Option<&mut Socket> {
        let origin = self.served.get_mut(&number)?.origin.as_mut()?;
        self.touched.insert(number);
        Some(origin)
    }

    /// A client's connection has news.
    fn note(&mut self, handle: ConnectionHandle, event: Event) {
        match event {
            Event::FellBack => self.metrics.fallbacks += 1,
            Event::SubflowEstablished(_) => self.metrics.joined += 1,
            _ => {}
        }
        let Some(number) = self.number_of(handle) else { return };
        let Some(served) = self.served.get_mut(&number) else { return };
        served.relay.note_client(event);
        served.fell_back |= event == Event::FellBack;
        if event == Event::Closed && served.end.is_none() {
            if served.relay.is_complete() {
                served.end = Some(End::Finished);
            } else {
                self.fail(number, End::Client);
            }
        }
        self.touched.insert(number);
    }

    /// Moves what there is to be moved of one connection.
    pub(super) fn drive(&mut self, now: Instant, number: u64) {
        loop {
            let full = self.admission.is_full();
            let Some(served) = self.served.get_mut(&number) else { return };
            if served.linger.is_some() {
                return self.discard(now, number);
            }
            let Some(origin) = &mut served.origin else { return };
            let mut broken = false;
            while let Some(event) = origin.poll_event() {
                broken |= served.relay.note_origin(event);
            }
            if broken {
                if origin.connected_at().is_none() {
                    self.call(number);
                } else {
                    self.lose_origin(now, number);
                }
                continue;
            }
            let Some(handle) = served.handle else { return self.flush(now, number) };
            let Some(client) = self.endpoint.get_mut(handle) else { return };
            origin.rest(full);
            // A connection that is alone is read soonest by this thread. Where others wait for it, readers help.
            origin.set_submits(!self.touched.is_empty());
            let more = !full || origin.held() > 0;
            match served.relay.pump(now, client, origin, more) {
                Ok(true) => served.active = now,
                Ok(false) => {}
                // The end of the client's side is news of its own.
                Err(_) if client.is_closed() => return,
                Err(_) => return self.lose_origin(now, number),
            }
            if !origin.has_news() {
                return;
            }
        }
    }

    /// The origin reads and writes no more. What it had said to the end the client still gets.
    fn lose_origin(&mut self, now: Instant, number: u64) {
        let Some(served) = self.served.get_mut(&number) else { return };
        if !served.relay.has_answered() {
            return self.fail(number, End::OriginBroke);
        }
        served.linger.get_or_insert(now + LINGER);
        served.origin = None;
        self.discard(now, number);
    }

    /// Reads what nobody wants any more.
    fn discard(&mut self, now: Instant, number: u64) {
        let handle = self.served.get(&number).and_then(|served| served.handle);
        if let Some(client) = handle.and_then(|handle| self.endpoint.get_mut(handle)) {
            while client.read(now, usize::MAX).is_some() {}
        }
    }

    /// Writes to the origin what is left of a client that is gone.
    fn flush(&mut self, now: Instant, number: u64) {
        let Some(served) = self.served.get_mut(&number) else { return };
        let done = match &mut served.origin {
            Some(origin) => served.relay.flush(now, origin),
            None => Ok(true),
        };
        match done {
            Ok(false) => {}
            Ok(true) => self.finish(now, number),
            Err(_) => {
                served.end = Some(End::OriginBroke);
                self.finish(now, number);
            }
        }
    }

    /// Ends a connection before its time: both sides are told by a reset.
    pub(super) fn fail(&mut self, number: u64, end: End) {
        let now = self.clock.now();
        let Some(served) = self.served.get_mut(&number) else { return };
        served.end.get_or_insert(end);
        if let Some(origin) = served.origin.take() {
            origin.reset();
        }
        match served.handle {
            Some(handle) => {
                if let Some(connection) = self.endpoint.get_mut(handle) {
                    break_off(now, connection);
                }
            }
            None => self.finish(now, number),
        }
    }

    /// Ends the connections whose plug-in has failed, and no others; true when there are any.
    pub(super) fn end_failed(&mut self, now: Instant) -> bool {
        if !self.settings.config.registry.failed() {
            return false;
        }
        let open = self.endpoint.connections();
        let failed = open.filter(|(_, it)| it.plugin_failed() && !it.is_closed());
        let failed: Vec<_> = failed.map(|(handle, _)| handle).collect();
        for &handle in &failed {
            match self.number_of(handle) {
                Some(number) => self.fail(number, End::Plugin),
                None => {
                    if let Some(connection) = self.endpoint.get_mut(handle) {
                        break_off(now, connection);
                    }
                }
            }
        }
        !failed.is_empty()
    }

    /// The endpoint frees a connection.
    fn part(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(number) = self.number_of(handle) else { return };
        self.places[handle.index()] = None;
        let connection = self.endpoint.get(handle);
        let Some(served) = self.served.get_mut(&number) else { return };
        if let Some(connection) = connection {
            served.part(connection);
        }
        self.flush(now, number);
    }

    /// Nothing of a connection is left: it is told of.
    fn finish(&mut self, now: Instant, number: u64) {
        let Some(served) = self.served.remove(&number) else { return };
        self.admission.leave(served.client().ip());
        let record = served.record(now, served.end.unwrap_or(End::Client));
        self.metrics.note_end(&record);
        self.watcher.ended(&record);
    }

    /// Ends those that have waited too long.
    pub(super) fn expire(&mut self, now: Instant) {
        let idle = self.settings.idle;
        let due = self.served.iter().filter_map(|(number, served)| {
            if served.linger.is_some_and(|until| until <= now) {
                Some((*number, End::OriginBroke))
            } else {
                (now.since(served.active) >= idle).then_some((*number, End::Idle))
            }
        });
        let due: Vec<_> = due.collect();
        for (number, end) in due {
            self.fail(number, end);
        }
    }
}
