//! An MPTCP connection: the data stream above its subflows, with one file for each part.
//!
//! Positions count bytes of the data stream from 0. Position 0 has the DSN after the IDSN. A connection
//! without MPTCP has one subflow and no MPTCP options.

mod addresses;
mod close;
mod closing;
mod connect;
mod emit;
mod events;
mod incoming;
mod outgoing;
mod ownership;
mod path_mtu;
mod session;
mod signals;
mod subflow_table;
mod timers;
mod view;

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

use anabranch_plugin::PluginError;
use anabranch_units::{Instant, RandomStream};
use anabranch_wire::crypto::Key;
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use self::closing::{Closing, is_infinite};
use self::incoming::Incoming;
use self::outgoing::Outgoing;
use self::session::Session;
use self::signals::Signals;
use self::subflow_table::Subflows;
use crate::config::Config;
use crate::secrets::Secrets;
use anabranch_scheduler::Hint;
use anabranch_tcp::config::FourTuple;
use anabranch_tcp::{State, Written};

pub(crate) use connect::{Offer, REASON_MPTCP, capable_answer, join, refusal, understood};
pub use events::{Assumed, Counters, Event, SubflowSample, SubflowSummary, WindowInUse};
pub use incoming::ReceiverSample;
pub use outgoing::WriteError;
pub(crate) use ownership::{Moved, Owner};
pub use view::ConnectionView;

/// The number of keys that are tried to find one whose token is unused. If none is found, the connection uses
/// plain TCP.
const KEY_TRIES: u32 = 8;

/// A segment to send between two addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The segment, or a burst of several.
    pub segment: Segment,
    /// The payload of each segment of a burst, in bytes; the last one may be shorter. See
    /// [`crate::Endpoint::poll_burst`].
    pub segment_size: Option<NonZeroU16>,
}

/// The inputs for the creation of a connection.
#[derive(Clone)]
pub struct Origin<'a> {
    /// The current time.
    pub now: Instant,
    /// The connection's random stream, for keys and nonces.
    pub random: RandomStream,
    /// The secrets of the host.
    pub secrets: Arc<Secrets>,
    /// Returns whether another connection of the host has a token.
    pub taken: &'a dyn Fn(u32) -> bool,
}

/// A connection's key, and the number of keys that were drawn until it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDrawn {
    pub(crate) key: Key,
    pub(crate) draws: u32,
}

impl KeyDrawn {
    fn next(random: &mut RandomStream) -> u64 {
        random.next_u64() | 1
    }

    /// Draws keys until the token of one is unused, at most [`KEY_TRIES`] times. Returns the last key drawn.
    pub(crate) fn first(random: &mut RandomStream, taken: &dyn Fn(u32) -> bool) -> Self {
        let mut drawn = Self { key: Key::new(Self::next(random)), draws: 1 };
        while taken(drawn.key.token) && drawn.draws < KEY_TRIES {
            drawn = Self { key: Key::new(Self::next(random)), draws: drawn.draws + 1 };
        }
        drawn
    }

    /// Draws the same key again from the same stream, given the number of draws.
    pub(crate) fn again(random: &mut RandomStream, draws: u32) -> Self {
        for _ in 1..draws {
            Self::next(random);
        }
        Self { key: Key::new(Self::next(random)), draws }
    }
}

/// One side of a connection.
#[derive(Debug)]
pub struct Connection {
    session: Session,
    subflows: Subflows,
    outgoing: Outgoing,
    incoming: Incoming,
    signals: Signals,
    closing: Closing,
}

impl Connection {
    /// Creates a connection with the given key, or with a new one. `config` must be [`Config::settled`].
    /// `local` is the address of the initial subflow.
    fn build(
        mut config: Arc<Config>,
        client: bool,
        origin: Origin<'_>,
        key: Option<Key>,
        local: IpAddr,
    ) -> Result<Self, PluginError> {
        let Origin { mut random, secrets, taken, .. } = origin;
        let key = key.unwrap_or_else(|| KeyDrawn::first(&mut random, taken).key);
        // A join with a shared token would be ambiguous (RFC 8684 section 3.1).
        if config.multipath && taken(key.token) {
            Arc::make_mut(&mut config).multipath = false;
        }
        let mss = config.mss_at(local);
        Ok(Self {
            outgoing: Outgoing::new(&config)?,
            incoming: Incoming::new(&config, mss),
            signals: Signals::new(&config)?,
            closing: Closing::default(),
            subflows: Subflows::default(),
            session: Session::new(config, client, key, random.bookmark(), secrets),
        })
    }

    /// Returns the connection's token. Joins use it to select the connection.
    pub fn token(&self) -> u32 {
        self.session.local_key().token
    }

    /// Returns whether MPTCP is in use. False before it is negotiated, and after a fallback.
    pub fn is_multipath(&self) -> bool {
        self.session.is_multipath()
    }

    /// Handles a segment that arrived on a subflow, or several merged segments of `segment_size` bytes each.
    pub(crate) fn handle_merged_on(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        if segment.flags.contains(Flags::RST) {
            self.handle_reset(now, index, segment);
            return;
        }
        let subflow = &mut self.subflows[index];
        subflow.note_change();
        let joins = index > 0 && subflow.tcp.state() == State::SynReceived;
        match subflow.tcp.state() {
            State::Closed => {
                subflow.answer_late(segment);
                return;
            }
            State::SynSent => {
                self.handle_syn_ack(now, index, segment);
                self.push(now);
                return;
            }
            State::SynReceived => {
                if segment.flags.contains(Flags::SYN) {
                    subflow.tcp.opening_mut().demand_syn();
                    return;
                }
                let accepted = subflow.tcp.accept(now, segment);
                if !accepted || !self.handle_third(now, index, segment) {
                    return;
                }
            }
            State::Established => {
                if !subflow.tcp.accept(now, segment) {
                    return;
                }
            }
        }
        self.handle_established(now, index, segment, segment_size);
        if joins && !self.session.stack().mptcp.joins_push {
            // The application writes first. Data that waits is sent together with that write
            // (`mptcp_finish_join`, `mptcp_sync_sndbuf`).
            self.outgoing.stream_mut().report_writable(&mut self.session, &mut self.subflows);
        } else {
            let id = self.subflows[index].tcp.id();
            self.outgoing.begin_answer(&self.session, id);
            self.push(now);
            self.outgoing.end_answer();
        }
        if self.subflows[index].tcp.supply().grow_buffer_after_ack(now) {
            self.subflows[index].note_change();
            self.outgoing.note_growth(&mut self.session, &mut self.subflows);
        }
        if self.signals.has_work(&self.session) {
            self.update_paths(now);
        }
        let subflow = &mut self.subflows[index];
        let srtt = subflow.tcp.sending().rtt().srtt();
        subflow.tcp.receive_mut().arm_delayed_ack(self.session.host(), now, srtt);
    }

    fn handle_established(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        // Fast path: most segments have no options, and none are expected.
        if self.session.is_multipath()
            && (!segment.mptcp.is_empty() || self.subflows.awaits_options(&self.session, index))
        {
            self.handle_options(now, index, segment);
            if self.subflows[index].tcp.state() == State::Closed {
                return;
            }
        }
        if segment.flags.contains(Flags::ACK) {
            self.subflows.handle_ack(self.session.host(), now, index, segment);
        }
        if self.session.is_multipath() {
            self.handle_dss(now, index, segment);
            let Self { session, subflows, outgoing, incoming, .. } = self;
            if (is_infinite(segment) || !segment.mptcp.is_empty())
                && closing::handle_end_of_signals(
                    session,
                    subflows,
                    outgoing,
                    incoming,
                    (index, segment),
                )
            {
                self.fall_back();
            }
        }
        if self.session.is_plain() {
            if let Some(end) =
                self.closing.handle_repetition(&self.session, &self.incoming, segment)
            {
                self.end_mptcp(now, index, end);
            }
            self.outgoing.acknowledge_by_subflow(&mut self.session, &mut self.subflows);
        }
        if self.subflows[index].tcp.state() == State::Closed {
            return;
        }
        self.incoming.receive(
            now,
            &mut self.session,
            &mut self.subflows,
            index,
            segment,
            segment_size,
        );
        if let Some(failure) = self.subflows[index].context.delivery().failure() {
            self.handle_failure(now, index, failure);
        }
        // A subflow ends after the peer's FIN, or after both directions of the data stream have ended.
        if self.closing.is_acknowledged()
            || self.subflows[index].tcp.receive().assembly().is_closed()
        {
            let Self { session, subflows, outgoing, incoming, .. } = self;
            self.closing.handle_subflow_fin(session, subflows, outgoing, incoming, index);
        }
    }

    /// Stores as much of `bytes` as the send buffer has space for. Returns the number of stored bytes.
    ///
    /// # Errors
    /// `Blocked` if the send buffer is full, `Closed` after a shutdown.
    pub fn write(&mut self, now: Instant, bytes: Bytes) -> Result<usize, WriteError> {
        if self.closing.requested() || self.is_closed() {
            return Err(WriteError::Closed);
        }
        self.outgoing.write(now, &mut self.session, &mut self.subflows, bytes)
    }

    /// Returns the best size of one write, in bytes: whole segments that fill a burst of the initial subflow.
    /// At least one segment's payload, at most 64 KiB.
    pub fn preferred_write(&self) -> usize {
        self.outgoing.preferred_write(&self.subflows)
    }

    /// Returns the number of bytes that can be read now.
    pub fn readable(&self) -> u64 {
        self.incoming.readable()
    }

    /// Reads up to `limit` contiguous bytes. Returns `None` if nothing is readable.
    #[inline]
    pub fn read(&mut self, now: Instant, limit: usize) -> Option<Bytes> {
        self.incoming.read(now, &mut self.session, &mut self.subflows, limit)
    }

    /// Returns the number of stored bytes: written and not acknowledged, and received and not read, including
    /// out-of-order data.
    pub fn held(&self) -> u64 {
        self.outgoing.held(&self.subflows)[0] + self.incoming.held(&self.subflows)[0]
    }

    /// Sets the application's hint for the scheduler.
    pub fn set_hint(&mut self, hint: Hint) {
        self.outgoing.set_hint(hint);
    }

    /// Returns the free space in the send buffer, in bytes.
    pub fn writable(&self) -> u64 {
        self.outgoing.stream().writable(&self.session, &self.subflows)
    }

    /// Returns whether a third of the send buffer is free. If not, `Event::Writable` follows when it is.
    pub fn poll_writable(&mut self) -> bool {
        self.outgoing.stream_mut().poll_writable(&mut self.session, &mut self.subflows)
    }

    /// Schedules data, and then the `DATA_FIN`, on subflows.
    #[inline]
    fn push(&mut self, now: Instant) {
        let ends = self.closing.requested();
        if self.outgoing.push(now, &mut self.session, &mut self.subflows, ends) && ends {
            let Self { session, subflows, outgoing, incoming, .. } = self;
            self.closing.push_fin(now, session, subflows, outgoing, incoming);
        }
    }

    /// Handles the data-level acknowledgement, window and `DATA_FIN` of a segment.
    fn handle_dss(&mut self, now: Instant, index: usize, segment: &Segment) {
        let Some(dss) = &segment.dss else {
            let Self { session, subflows, outgoing, incoming, .. } = self;
            let bare = (index, segment);
            if let Some(end) = closing::judge_bare(session, subflows, outgoing, incoming, bare) {
                self.end_mptcp(now, index, end);
            }
            return;
        };
        let (carries, ends) = (!segment.payload.is_empty(), self.closing.signals());
        let failure = self.incoming.handle_mapping(
            &mut self.session,
            &mut self.subflows,
            index,
            dss,
            carries,
            ends,
        );
        if let Some(failure) = failure {
            self.handle_failure(now, index, failure);
        }
        let Some(data_ack) = dss.data_ack else { return };
        let ends = self.closing.requested();
        let acknowledged = self.outgoing.handle_data_ack(
            now,
            &mut self.session,
            &mut self.subflows,
            (index, segment),
            data_ack,
            ends,
        );
        if let Some(position) = acknowledged.filter(|_| self.closing.signals()) {
            self.closing.on_data_ack(position, self.outgoing.stream().end());
        }
    }

    /// Returns the next segment to send.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let mut segment = Segment::default();
        let (tuple, _) = self.next_segment(now, 1, &mut segment)?;
        let (local, remote) = (tuple.local, tuple.remote);
        Some(Transmit { local, remote, segment, segment_size: None })
    }

    /// Returns the parts of the last burst's payload that are not in its segment.
    pub(crate) fn rest_of_burst(&self) -> impl Iterator<Item = Bytes> {
        self.outgoing.stream().rest_of_burst()
    }

    /// Like [`Self::poll_transmit`], but returns up to `most` segments as one burst, written into `segment`.
    /// Further parts of the payload may be in [`Self::rest_of_burst`].
    // Inlined, because the last call of every series finds no segment.
    #[inline]
    pub(crate) fn next_segment(
        &mut self,
        now: Instant,
        most: u32,
        segment: &mut Segment,
    ) -> Option<(&FourTuple, Written)> {
        self.incoming.end_reads(now, &self.session, &mut self.subflows);
        self.outgoing.scheduling_mut().report_events(now, &self.session, &self.subflows);
        if self.outgoing.has_delegated(&self.session) {
            self.push(now);
        }
        self.outgoing.update_grown_buffers(&mut self.session, &mut self.subflows);
        let (count, turn) = (self.subflows.len(), self.subflows.turn());
        for slots in [turn..count, 0..turn] {
            let mut from = slots.start;
            while let Some(index) = self.subflows.next_ready(from..slots.end) {
                if let Some(written) = self.poll_subflow(now, index, most, segment) {
                    self.subflows.set_turn(index);
                    return Some((self.subflows[index].tcp.addresses(), written));
                }
                from = index + 1;
            }
        }
        self.subflows.set_turn(0);
        self.outgoing.stream_mut().clear_subflows(&mut self.subflows);
        self.outgoing.end_turn(now, &self.subflows);
        if self.subflows.rests_half_open() {
            return None;
        }
        self.subflows.poll_answer(segment).map(|tuple| (tuple, Written::default()))
    }
}
