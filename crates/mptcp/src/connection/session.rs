//! The session of a connection: configuration, role, protocol, keys, and the event queue.

use std::collections::VecDeque;
use std::sync::Arc;

use anabranch_units::{Bookmark, DataSeq, Instant, RandomStream, SeqNumber};
use anabranch_wire::crypto::{self, Key};
use anabranch_wire::{DataAck, MpCapable};

use super::{Counters, Event};
use crate::config::Config;
use crate::profile::Stack;
use crate::secrets::Secrets;
use crate::subflow::deliver::Terms;
use anabranch_tcp::config::{FourTuple, HostModel};

/// The protocol that the two sides have negotiated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// `MP_CAPABLE` was sent, and the handshake is not complete.
    Undecided,
    Multipath,
    Plain,
}

/// The values that all parts of a connection use.
#[derive(Debug)]
pub(super) struct Session {
    config: Arc<Config>,
    client: bool,
    mode: Mode,
    local_key: Key,
    remote_key: Option<Key>,
    /// Whether the peer has proven that it has both keys. Joins may begin then.
    confirmed: bool,
    /// Whether our `DATA_ACK`s have 64 bits, because the peer's DSNs do.
    long_data_ack: bool,
    counters: Counters,
    random: Bookmark,
    secrets: Arc<Secrets>,
    events: VecDeque<Event>,
    connected_at: Option<Instant>,
}

impl Session {
    /// Creates the session of a connection before its handshake.
    pub(super) fn new(
        config: Arc<Config>,
        client: bool,
        local_key: Key,
        random: Bookmark,
        secrets: Arc<Secrets>,
    ) -> Self {
        Self {
            mode: if config.multipath { Mode::Undecided } else { Mode::Plain },
            client,
            local_key,
            remote_key: None,
            confirmed: false,
            long_data_ack: false,
            counters: Counters::default(),
            random,
            secrets,
            events: VecDeque::new(),
            connected_at: None,
            config,
        }
    }

    #[inline]
    pub(super) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    #[inline]
    pub(super) fn stack(&self) -> &Stack {
        &self.config.stack
    }

    #[inline]
    pub(super) fn host(&self) -> &HostModel {
        &self.config.host
    }

    /// Returns whether this side opened the connection.
    #[inline]
    pub(super) fn is_client(&self) -> bool {
        self.client
    }

    #[inline]
    pub(super) fn is_multipath(&self) -> bool {
        self.mode == Mode::Multipath
    }

    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        self.mode == Mode::Plain
    }

    #[inline]
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Records that the peer has both keys.
    pub(super) fn on_confirmed(&mut self) {
        self.confirmed = true;
    }

    /// Records that MPTCP was negotiated, and the peer's key.
    pub(super) fn on_negotiated(&mut self, remote_key: u64) {
        self.mode = Mode::Multipath;
        self.remote_key = Some(Key::new(remote_key));
    }

    /// Switches to plain TCP. Returns whether MPTCP was in use.
    pub(super) fn end_mptcp(&mut self) -> bool {
        std::mem::replace(&mut self.mode, Mode::Plain) == Mode::Multipath
    }

    /// Uses checksums if the peer requires them.
    pub(super) fn set_checksum(&mut self, capable: &MpCapable) {
        if capable.checksum_required && !self.config.checksum {
            Arc::make_mut(&mut self.config).checksum = true;
        }
    }

    pub(super) fn local_key(&self) -> Key {
        self.local_key
    }

    /// Compares a key with ours in constant time.
    pub(super) fn is_our_key(&self, key: u64) -> bool {
        crypto::mac_eq(&key.to_be_bytes(), &self.local_key.value.to_be_bytes())
    }

    pub(super) fn remote_key(&self) -> Option<Key> {
        self.remote_key
    }

    /// Returns the DSN of the first byte that this side sends: its IDSN + 1 (RFC 8684 section 3.1).
    #[inline]
    pub(super) fn local_base(&self) -> u64 {
        self.local_key.idsn.0.wrapping_add(1)
    }

    /// Returns the DSN of the first byte that the peer sends: its IDSN + 1 (RFC 8684 section 3.1).
    #[inline]
    pub(super) fn peer_base(&self) -> u64 {
        self.remote_key.map_or(0, |key| key.idsn.0.wrapping_add(1))
    }

    /// Returns the `DATA_ACK` for `acknowledged` bytes. `None` on plain TCP.
    #[inline]
    pub(super) fn data_ack(&self, acknowledged: u64) -> Option<DataAck> {
        let dsn = self.peer_base().wrapping_add(acknowledged);
        self.is_multipath().then_some(if self.long_data_ack {
            DataAck::Long(DataSeq(dsn))
        } else {
            DataAck::Short(dsn as u32)
        })
    }

    /// Uses `DATA_ACK`s of 64 bits from now on. Returns whether this is a change.
    #[inline]
    pub(super) fn set_wide_data_acks(&mut self) -> bool {
        !self.config.stack.mptcp.short_data_numbers
            && !std::mem::replace(&mut self.long_data_ack, true)
    }

    /// Returns the length of the DSS on a data segment, rounded up to whole words: 4 bytes of header, the
    /// acknowledgement, the DSN, the subflow sequence number, the length, and the checksum if used
    /// (`mptcp_established_options_dss`).
    pub(super) fn dss_bytes(&self) -> u32 {
        let data_ack = if self.long_data_ack { 8 } else { 4 };
        let dsn = if self.config.stack.mptcp.short_data_numbers { 4 } else { 8 };
        let dss: u32 = 4 + data_ack + dsn + 4 + 2 + if self.config.checksum { 2 } else { 0 };
        dss.next_multiple_of(4)
    }

    /// Returns the parameters for the peer's mappings. `near` is a DSN close to the expected ones.
    #[inline]
    pub(super) fn terms(&self, near: u64) -> Terms {
        Terms {
            near,
            checksum: self.config.checksum,
            whole: self.config.stack.shared.tag_per_handover,
        }
    }

    /// Draws random values from the connection's stream.
    pub(super) fn draw<T>(&mut self, draws: impl FnOnce(&mut RandomStream) -> T) -> T {
        self.random.draw(draws)
    }

    /// Draws the random stream and the initial sequence number of a new subflow.
    pub(super) fn draw_opening(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
    ) -> (RandomStream, SeqNumber) {
        (self.draw(RandomStream::fork), self.draw_initial_sequence(now, tuple))
    }

    /// Returns the initial sequence number of a new subflow.
    pub(super) fn draw_initial_sequence(&mut self, now: Instant, tuple: &FourTuple) -> SeqNumber {
        // An earlier version drew sequence numbers here. The draw is kept, so that later values of the stream
        // do not change.
        self.random.draw(RandomStream::next_u64);
        self.secrets.sequence(now, tuple)
    }

    /// Returns the timestamp offset of a subflow.
    pub(super) fn stamp_offset(&self, tuple: &FourTuple) -> u32 {
        self.secrets.stamp_offset(tuple)
    }

    /// Adds an event for the application.
    #[inline]
    pub(super) fn report(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Returns the next event for the application.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// Returns whether the application will be woken because of free send-buffer space, and has not run yet.
    pub(super) fn wakes_application(&self) -> bool {
        self.events.contains(&Event::Writable)
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns a mutable reference to the counters of refused requests.
    pub(super) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Records that the connection is established.
    pub(super) fn on_connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
        self.report(Event::Connected);
        self.report(Event::Writable);
    }

    pub(super) fn connected_at(&self) -> Option<Instant> {
        self.connected_at
    }
}
