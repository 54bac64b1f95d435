//! The life of a served connection: the client's handshake, the socket to the origin, relaying, and the end.

use anabranch_host::Stream;
use anabranch_mptcp::{Connection, ConnectionHandle, Event};
use anabranch_units::Instant;
use bytes::Bytes;
use rustix::io::Errno;

use crate::relay::Relay;
use crate::socket::{Kind, Socket};

use super::calling::{After, Calling};
use super::phase::Phase;
use super::proxy_protocol;
use super::record::End;
use super::served::Served;
use super::{Gateway, ORIGINS};

/// Resets a connection and discards the data that was not read.
fn break_off(now: Instant, connection: &mut Connection) {
    if !connection.is_closed() {
        connection.abort();
    }
    while connection.read(now, usize::MAX).is_some() {}
}

impl Gateway<'_> {
    /// Returns the number of a served connection.
    pub(super) fn number_of(&self, handle: ConnectionHandle) -> Option<u64> {
        let place = self.places.get(handle.index()).copied().flatten();
        place.filter(|(known, _)| *known == handle).map(|(_, number)| number)
    }

    /// Returns the served connection with a handle.
    pub(super) fn served_by(&mut self, handle: ConnectionHandle) -> Option<&mut Served> {
        let number = self.number_of(handle)?;
        self.served.get_mut(&number)
    }

    /// Handles all events of the endpoint. Returns whether there were any.
    pub(super) fn handle_events(&mut self, now: Instant) -> bool {
        let mut any = false;
        while let Some((handle, event)) = self.endpoint.poll_event() {
            any = true;
            match event {
                Event::Connected => self.handle_connected(now, handle),
                Event::Drained => self.handle_drained(now, handle),
                event => self.note(now, handle, event),
            }
        }
        any
    }

    /// Handles a completed handshake. Gives the connection a slot, or resets it if no slot is free. Connects
    /// to the origin, unless the client must send a byte first.
    fn handle_connected(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(connection) = self.endpoint.get(handle) else { return };
        let multipath = connection.is_multipath();
        let Some(first) = connection.view().tuples().next() else { return };
        let number = ORIGINS + self.made;
        let Ok(gives_way) = self.admission.enter(number, first.remote.ip()) else {
            if let Some(connection) = self.endpoint.get_mut(handle) {
                break_off(now, connection);
            }
            return;
        };
        self.made += 1;
        self.metrics.accepted[usize::from(!multipath)] += 1;
        if let Some(other) = gives_way {
            self.fail(other, End::GaveWay, None);
        }
        let header = if self.settings.proxy_protocol {
            proxy_protocol::header(first.remote, first.local)
        } else {
            Bytes::new()
        };
        let calling = Calling::new(self.settings.connect);
        let served = Served::new(now, handle, first, multipath, Relay::new(header), calling);
        self.served.insert(number, served);
        let place = handle.index();
        if self.places.len() <= place {
            self.places.resize(place + 1, None);
        }
        self.places[place] = Some((handle, number));
        if !self.settings.wait_for_client {
            self.call(now, number);
        }
        self.agenda.touch(number);
    }

    /// Connects to the next address of the origin. If no address is left, the client is reset. If the host
    /// has no socket left, the connection waits.
    fn call(&mut self, now: Instant, number: u64) {
        let Some(served) = self.served.get_mut(&number) else { return };
        served.origin = None;
        while let Some(address) = served.calling.next(now, &self.settings.origin) {
            let socket = Socket::call(&Kind::TO_ORIGIN, address, self.pool.clone());
            let added = socket.and_then(|it| self.poller.add_edges(&it, number).map(|()| it));
            let error = match added {
                Ok(socket) => {
                    served.origin = Some(socket.submitting(self.readers.submitter(number)));
                    return;
                }
                Err(error) => Errno::from_io_error(&error).unwrap_or(Errno::IO),
            };
            self.metrics.note_origin_error(error);
            if let Some(text) = self.shortage.note(now, error) {
                self.watcher.note(&text);
            }
            match served.calling.fail(now, error) {
                After::Next => {}
                After::Later => return,
                After::End(end) => return self.fail(number, end, Some(error)),
            }
        }
        let error = served.calling.error();
        self.fail(number, End::OriginRefused, error);
    }

    /// Handles a failed connection attempt to the origin. Tries the next address, waits for a socket, or ends
    /// the connection.
    fn call_failed(&mut self, now: Instant, number: u64, error: Errno) {
        let Some(served) = self.served.get_mut(&number) else { return };
        self.metrics.note_origin_error(error);
        if let Some(text) = self.shortage.note(now, error) {
            self.watcher.note(&text);
        }
        match served.calling.fail(now, error) {
            After::Next => self.call(now, number),
            // `expire` tries again later.
            After::Later => served.origin = None,
            After::End(end) => self.fail(number, end, Some(error)),
        }
    }

    /// Returns the socket to the origin of a connection, and adds the connection to the list of those to
    /// serve.
    pub(super) fn touch(&mut self, number: u64) -> Option<&mut Socket> {
        let origin = self.served.get_mut(&number)?.origin.as_mut()?;
        self.agenda.touch(number);
        Some(origin)
    }

    /// Handles an event of a client's connection. The client is no longer silent after its first byte. If
    /// [`wait_for_client`](super::Settings::wait_for_client) is set, the first byte or the end of the
    /// client's data starts the connection to the origin.
    fn note(&mut self, now: Instant, handle: ConnectionHandle, event: Event) {
        match event {
            Event::FellBack => self.metrics.fallbacks += 1,
            Event::SubflowEstablished(_) => self.metrics.joined += 1,
            _ => {}
        }
        let Some(number) = self.number_of(handle) else { return };
        let Some(served) = self.served.get_mut(&number) else { return };
        served.relay.note_client(event);
        served.fell_back |= event == Event::FellBack;
        if event == Event::Readable {
            self.admission.note_first_byte(number);
        }
        let heard = matches!(event, Event::Readable | Event::PeerFinished);
        if heard && self.settings.wait_for_client && served.waits_for_client() {
            self.call(now, number);
        } else if event == Event::Closed && served.close() != Phase::Draining {
            self.fail(number, End::Client, None);
        }
        self.agenda.touch(number);
    }

    /// Relays data of one connection in both directions, until nothing more can be relayed.
    pub(super) fn drive(&mut self, now: Instant, number: u64) {
        loop {
            let room = self.readable_now(number);
            let Some(served) = self.served.get_mut(&number) else { return };
            if served.phase().lingers() {
                return self.discard(now, number);
            }
            let Some(origin) = &mut served.origin else { return };
            let mut broken = false;
            while let Some(event) = origin.poll_event() {
                broken |= served.relay.note_origin(event);
            }
            if origin.connected_at().is_some() {
                served.calling.succeed();
            }
            if broken {
                let error = origin.error().unwrap_or(Errno::CONNRESET);
                if origin.connected_at().is_none() {
                    self.call_failed(now, number, error);
                } else {
                    self.lose_origin(now, number);
                }
                continue;
            }
            let Some(handle) = served.handle else { return self.flush(now, number) };
            let Some(client) = self.endpoint.get_mut(handle) else { return };
            origin.set_room(room);
            // If no other connection waits, this thread reads from the origin, which is fastest. Otherwise
            // the reading threads do it.
            origin.set_submits(self.agenda.has_touched());
            let (before, most) = (served.relay.moved()[1], room.max(origin.held()));
            match served.relay.pump(now, client, origin, most) {
                Ok(_) => {}
                // Another event reports that the client's connection has closed.
                Err(_) if client.is_closed() => return,
                Err(_) => return self.lose_origin(now, number),
            }
            let has_news = origin.has_news();
            let read = served.relay.moved()[1] - before;
            if read >= room {
                self.agenda.hold_back(number);
            }
            if self.shares.note_read(read) {
                self.agenda.count_soon(now);
            }
            if !has_news {
                return;
            }
        }
    }

    /// Handles an origin that accepts and sends no more data. If it has sent its whole response, the client
    /// still receives that response.
    fn lose_origin(&mut self, now: Instant, number: u64) {
        let Some(served) = self.served.get_mut(&number) else { return };
        let error = served.origin.as_ref().and_then(Socket::error);
        if let Some(error) = error {
            self.metrics.note_origin_error(error);
        }
        if !served.lose_origin(now, error).lingers() {
            return self.fail(number, End::OriginBroke, error);
        }
        served.origin = None;
        self.discard(now, number);
    }

    /// Discards data from a client whose origin is gone. The connection stays open until the client has
    /// acknowledged the whole response and closes. An earlier reset could discard received data that the
    /// application has not read (RFC 9112, section 9.6).
    fn discard(&mut self, now: Instant, number: u64) {
        let handle = self.served.get(&number).and_then(|served| served.handle);
        let Some(client) = handle.and_then(|handle| self.endpoint.get_mut(handle)) else { return };
        while client.read(now, usize::MAX).is_some() {}
    }

    /// Writes the remaining data of a closed client connection to the origin.
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
                served.fail(End::OriginBroke, None);
                self.finish(now, number);
            }
        }
    }

    /// Ends a connection early and resets both sides. `error` is the error of the socket to the origin, if
    /// that is the reason.
    pub(super) fn fail(&mut self, number: u64, end: End, error: Option<Errno>) {
        let now = self.clock.now();
        let Some(served) = self.served.get_mut(&number) else { return };
        served.fail(end, error);
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

    /// Ends the connections whose plug-in has failed. Returns whether there were any.
    pub(super) fn end_failed(&mut self, now: Instant) -> bool {
        if !self.settings.config.registry.failed() {
            return false;
        }
        let open = self.endpoint.connections();
        let failed = open.filter(|(_, it)| it.view().plugin_failed() && !it.is_closed());
        let failed: Vec<_> = failed.map(|(handle, _)| handle).collect();
        for &handle in &failed {
            match self.number_of(handle) {
                Some(number) => self.fail(number, End::Plugin, None),
                None => {
                    if let Some(connection) = self.endpoint.get_mut(handle) {
                        break_off(now, connection);
                    }
                }
            }
        }
        !failed.is_empty()
    }

    /// Handles the end of a connection of the endpoint, before the endpoint frees it.
    fn handle_drained(&mut self, now: Instant, handle: ConnectionHandle) {
        let Some(number) = self.number_of(handle) else { return };
        self.places[handle.index()] = None;
        let connection = self.endpoint.get(handle);
        let Some(served) = self.served.get_mut(&number) else { return };
        if let Some(connection) = connection {
            served.keep_records(connection);
        }
        self.flush(now, number);
    }

    /// Removes a connection that has ended on both sides, and passes its record to the watcher.
    fn finish(&mut self, now: Instant, number: u64) {
        let Some(served) = self.served.remove(&number) else { return };
        self.admission.leave(number);
        self.agenda.forget(number);
        let record = served.record(now);
        self.metrics.note_end(&record);
        self.watcher.ended(&record);
    }

    /// Ends connections that have exceeded a time limit. Connects to the origin again if an attempt took too
    /// long or the host had no socket left.
    pub(super) fn expire(&mut self, now: Instant) {
        self.call_again(now);
        let lingering = self.served.iter().filter(|(_, served)| served.phase().lingers());
        let lingering: Vec<u64> = lingering.map(|(number, _)| *number).collect();
        for number in lingering {
            self.discard(now, number);
        }
        let due = self.served.iter().filter_map(|(number, served)| {
            if served.lingers_too_long(now) {
                Some((*number, End::OriginBroke))
            } else {
                served.is_idle(now, self.idle).then_some((*number, End::Idle))
            }
        });
        let due: Vec<_> = due.collect();
        for (number, end) in due {
            self.fail(number, end, None);
        }
    }

    fn call_again(&mut self, now: Instant) {
        let due = self.served.iter().filter(|(_, served)| !served.phase().is_over());
        let due = due.filter_map(|(number, served)| {
            let late = served.calling.is_late(now);
            (late || served.calling.waits()).then_some((*number, late))
        });
        let due: Vec<_> = due.collect();
        for (number, late) in due {
            if late {
                self.call_failed(now, number, Errno::TIMEDOUT);
            } else {
                self.call(now, number);
            }
        }
    }
}
