//! Accepting connections: the answer to a SYN, and the final ACK of the handshake. Between them, the SYN is
//! stored in a record or encoded in a SYN cookie.

use std::num::NonZeroU16;
use std::sync::Arc;

use anabranch_units::{Instant, SeqNumber};
use anabranch_wire::{Flags, Segment};

use super::cookie::{Cookies, Redeemed};
use super::listen::Admission;
use super::requests::{Request, RequestId};
use super::table::Entry;
use super::{ConnectionHandle, Endpoint};
use crate::connection::{Connection, KeyDrawn, Offer, Origin, REASON_MPTCP};
use anabranch_tcp::Answered;
use anabranch_tcp::config::FourTuple;

/// The final ACK of a three-way handshake.
struct Third<'a> {
    segment: &'a Segment,
    segment_size: Option<NonZeroU16>,
}

impl Endpoint {
    /// Handles a SYN at a listener. `iss` is our initial sequence number if TIME-WAIT already chose it.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        number: u32,
        tuple: FourTuple,
        syn: &Segment,
        iss: Option<SeqNumber>,
    ) {
        let Some(listener) = self.listeners.get(number) else { return };
        match listener.admit(now) {
            Admission::Accept => self.insert_request(now, number, tuple, syn, iss),
            Admission::Cookie => {
                let config = listener.given_config();
                let cookies = Cookies { secrets: &self.secrets, config, tuple };
                let taken = |token: u32| self.by_token.contains(&token);
                let answer = cookies.answer(now, syn, taken);
                self.push_reply(tuple, answer);
            }
            Admission::Drop => {}
        }
    }

    /// Stores a SYN and sends the SYN/ACK.
    fn insert_request(
        &mut self,
        now: Instant,
        listener: u32,
        tuple: FourTuple,
        syn: &Segment,
        iss: Option<SeqNumber>,
    ) {
        let number = self.table.next_number();
        let drawn = KeyDrawn::first(&mut self.stream(number), &self.is_taken());
        let iss = iss.unwrap_or_else(|| self.secrets.sequence(now, &tuple));
        let Some(known) = self.listeners.get(listener) else { return };
        known.on_request();
        let drawn_as = (number, drawn.draws);
        let config = Arc::clone(known.config());
        let request = Request::new(now, tuple, syn, &config, listener, drawn_as, iss);
        let id = self.requests.insert(now, &request, &self.listeners);
        self.answer(now, id, Some(drawn.key.value));
    }

    /// Sends the SYN/ACK for a stored SYN. If `key` is `None`, the key is drawn again.
    fn answer(&mut self, now: Instant, id: RequestId, key: Option<u64>) {
        let Some(request) = self.requests.get(id) else { return };
        let Some((config, _)) = self.listeners.patience(request.listener()) else { return };
        let key = key.unwrap_or_else(|| {
            request.key(&mut self.stream(request.number(self.table.made()))).value
        });
        let answer = request.answer(now, config, &self.secrets, key);
        self.requests.note_answer(now, id, &self.listeners);
        self.push_reply(request.tuple, answer);
    }

    /// Handles the timer of a half-open connection. Repeats the SYN/ACK, or removes the record.
    pub(super) fn repeat_answer(&mut self, now: Instant, id: RequestId) {
        let goes_on = self.requests.get(id).is_some_and(|request| {
            let patience = self.listeners.patience(request.listener());
            patience.is_some_and(|(_, patience)| !request.is_over(now, patience))
        });
        if goes_on {
            return self.answer(now, id, None);
        }
        self.remove_request(id);
        self.expired += 1;
    }

    fn remove_request(&mut self, id: RequestId) {
        let Some(request) = self.requests.get(id) else { return };
        self.requests.remove(id, &self.listeners);
        if let Some(listener) = self.listeners.get(request.listener()) {
            listener.on_request_removed();
        }
    }

    /// Handles a segment for a half-open connection.
    pub(super) fn handle_requested(
        &mut self,
        now: Instant,
        id: RequestId,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) -> Option<ConnectionHandle> {
        let request = self.requests.get(id)?;
        if segment.flags.contains(Flags::RST) {
            if request.is_reset_by(segment) {
                self.remove_request(id);
            }
            return None;
        }
        if segment.flags.contains(Flags::SYN) {
            self.answer(now, id, None);
            return None;
        }
        if !request.is_answered_by(segment) {
            if segment.flags.contains(Flags::ACK) {
                // RFC 9293 section 3.10.7.4, SYN-RECEIVED: send a reset, and continue the handshake.
                self.refuse(request.tuple, segment, REASON_MPTCP);
            }
            return None;
        }
        let (tuple, listener) = (request.tuple, request.listener());
        let number = request.number(self.table.made());
        let mut random = self.stream(number);
        let key = request.key(&mut random);
        if request.is_multipath() && self.by_token.contains(&key.token) {
            // Another connection has got the same token in the meantime. The peer already has this key, so
            // the connection cannot be accepted.
            self.remove_request(id);
            self.refuse(tuple, segment, REASON_MPTCP);
            return None;
        }
        let (iss, told) = (Some(request.iss()), Some(request.answered(now)));
        let offer = Offer { tuple, syn: &request.syn(), iss, key: Some(key), told };
        let config = Arc::clone(self.listeners.get(listener)?.config());
        let connection = {
            let taken = self.is_taken();
            let secrets = Arc::clone(&self.secrets);
            let origin = Origin { now, random, secrets, taken: &taken };
            Connection::accept_offer(config, origin, &offer).ok()?
        };
        // A segment that does not complete the handshake leaves the request unchanged.
        let connection = Third { segment, segment_size }.completes(now, connection)?;
        self.remove_request(id);
        self.accept(now, number, listener, connection)
    }

    /// Adds an accepted connection to the table.
    fn accept(
        &mut self,
        now: Instant,
        number: u64,
        listener: u32,
        connection: Connection,
    ) -> Option<ConnectionHandle> {
        let handle = self.adopt(number, connection, Some(listener));
        if let Some(listener) = self.listeners.get(listener) {
            listener.on_connection();
        }
        self.on_input(now, handle.slot)
    }

    /// Accepts a connection if the segment is a final ACK with a valid SYN cookie.
    pub(super) fn accept_cookie(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) -> Option<ConnectionHandle> {
        if !segment.flags.contains(Flags::ACK) || segment.flags.contains(Flags::RST) {
            return None;
        }
        let listener = self.listeners.at(tuple.local)?;
        let known = self.listeners.get(listener)?;
        if !known.may_accept_cookie(now) {
            return None;
        }
        let config = Arc::clone(known.config());
        let cookies = Cookies { secrets: &self.secrets, config: known.given_config(), tuple };
        let Redeemed { syn, iss, key } = cookies.redeem(now, segment)?;
        if key.is_some_and(|key| self.by_token.contains(&key.token)) {
            return None;
        }
        let told = Some(Answered::Once);
        let offer = Offer { tuple, syn: &syn, iss: Some(iss), key, told };
        let number = self.table.next_number();
        let connection = {
            let taken = self.is_taken();
            let origin = self.origin(now, number, &taken);
            Connection::accept_offer(config, origin, &offer).ok()?
        };
        let connection = Third { segment, segment_size }.completes(now, connection)?;
        self.accept(now, number, listener, connection)
    }

    /// Updates the listener's count after a connection was removed from the table.
    pub(super) fn on_removed(&mut self, entry: &Entry) {
        if let Some(listener) = entry.listener.and_then(|number| self.listeners.get(number)) {
            listener.on_connection_freed();
        }
    }
}

impl Third<'_> {
    /// Passes the final ACK to the connection. Returns `None` if the handshake did not complete.
    fn completes(self, now: Instant, mut connection: Connection) -> Option<Connection> {
        connection.handle_merged_on(now, 0, self.segment, self.segment_size);
        connection.connected_at().is_some().then_some(connection)
    }
}
