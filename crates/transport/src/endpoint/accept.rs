//! Accepting connections: what a listener makes of a SYN, and of a third packet with a cookie.

use std::num::NonZeroU16;
use std::sync::Arc;

use anabranch_units::Instant;
use anabranch_wire::{Flags, Segment};

use super::cookie::{Cookies, Redeemed};
use super::listen::Admission;
use super::table::Entry;
use super::{ConnectionHandle, Endpoint};
use crate::config::FourTuple;
use crate::connection::{Connection, Offer};

impl Endpoint {
    /// What a listener makes of a SYN.
    pub(super) fn admit(
        &mut self,
        now: Instant,
        number: u32,
        offer: &Offer<'_>,
    ) -> Option<ConnectionHandle> {
        let listener = self.listeners.get(number)?;
        match listener.admit(now) {
            Admission::Accept => {
                let handle = self.accept(now, number, offer)?;
                self.after_input(now, handle.slot)
            }
            Admission::Cookie => {
                let config = &listener.listen.config;
                let cookies = Cookies { secrets: &self.secrets, config, tuple: offer.tuple };
                let taken = |token: u32| self.by_token.contains(&token);
                let answer = cookies.answer(now, offer.syn, taken);
                self.reply(offer.tuple, answer);
                None
            }
            Admission::Drop => None,
        }
    }

    fn accept(&mut self, now: Instant, number: u32, offer: &Offer<'_>) -> Option<ConnectionHandle> {
        let config = Arc::clone(&self.listeners.get(number)?.config);
        let connection = {
            let taken = self.is_taken();
            Connection::accept_offer(config, self.origin(now, &taken), offer).ok()?
        };
        let handle = self.adopt(connection, Some(number));
        if let Some(listener) = self.listeners.get(number) {
            listener.half_open += 1;
            listener.connections += 1;
        }
        self.register(now, handle.slot);
        Some(handle)
    }

    /// A segment that belongs to nobody, unless it is a third packet with a cookie.
    pub(super) fn redeem(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) -> Option<ConnectionHandle> {
        if !segment.flags.contains(Flags::ACK) || segment.flags.contains(Flags::RST) {
            return None;
        }
        let number = self.listeners.at(tuple.local)?;
        let listener = self.listeners.get(number)?;
        if !listener.believes_cookies(now) {
            return None;
        }
        let cookies = Cookies { secrets: &self.secrets, config: &listener.listen.config, tuple };
        let Redeemed { syn, iss, key } = cookies.redeem(now, segment)?;
        if key.is_some_and(|key| self.by_token.contains(&key.token)) {
            return None;
        }
        let offer = Offer { tuple, syn: &syn, iss: Some(iss), key, told: true };
        let ConnectionHandle { slot, .. } = self.accept(now, number, &offer)?;
        self.table.slot(slot)?.connection.handle_merged_on(now, 0, segment, segment_size);
        self.after_input(now, slot)
    }

    /// Whether a connection that was accepted has come about, or will never: it leaves the backlog.
    pub(super) fn check_opening(&mut self, slot: u32) {
        let Some(entry) = self.table.slot(slot).filter(|entry| entry.half_open) else { return };
        let stands = entry.connection.connected_at().is_some();
        if stands || entry.connection.is_closed() {
            entry.half_open = false;
            entry.stillborn = !stands;
            let listener = entry.listener.and_then(|number| self.listeners.get(number));
            if let Some(listener) = listener {
                listener.half_open -= 1;
            }
        }
    }

    /// A connection has left the table.
    pub(super) fn leave(&mut self, entry: &Entry) {
        if let Some(listener) = entry.listener.and_then(|number| self.listeners.get(number)) {
            listener.connections -= 1;
            listener.half_open -= u32::from(entry.half_open);
        }
    }
}
