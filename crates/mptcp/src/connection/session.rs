//! The terms of a connection: configuration, role, protocol and keys; and the news for its application.

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

/// The protocol that the two sides have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// `MP_CAPABLE` was offered or answered; the handshake decides.
    Undecided,
    Multipath,
    Plain,
}

/// The terms of a connection, which all its owners read.
#[derive(Debug)]
pub(super) struct Session {
    config: Arc<Config>,
    client: bool,
    mode: Mode,
    local_key: Key,
    remote_key: Option<Key>,
    /// The peer has shown that it has both keys. From then on joins may begin.
    confirmed: bool,
    /// The peer's DSNs have 64 bits, so its acknowledgements have 64 bits too.
    long_data_ack: bool,
    counters: Counters,
    random: Bookmark,
    secrets: Arc<Secrets>,
    events: VecDeque<Event>,
    connected_at: Option<Instant>,
}

impl Session {
    /// The session of a connection before its handshake.
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

    /// This side opened the connection.
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

    /// The peer has both keys.
    pub(super) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// Both sides use MPTCP; the peer has this key.
    pub(super) fn agree(&mut self, remote_key: u64) {
        self.mode = Mode::Multipath;
        self.remote_key = Some(Key::new(remote_key));
    }

    /// The connection is plain TCP from now on. Returns whether MPTCP was in use.
    pub(super) fn end_mptcp(&mut self) -> bool {
        std::mem::replace(&mut self.mode, Mode::Plain) == Mode::Multipath
    }

    /// Uses checksums if the peer requires them.
    pub(super) fn heed_checksum(&mut self, capable: &MpCapable) {
        if capable.checksum_required && !self.config.checksum {
            Arc::make_mut(&mut self.config).checksum = true;
        }
    }

    pub(super) fn local_key(&self) -> Key {
        self.local_key
    }

    /// The key is ours; compared in constant time.
    pub(super) fn is_our_key(&self, key: u64) -> bool {
        crypto::mac_eq(&key.to_be_bytes(), &self.local_key.value.to_be_bytes())
    }

    pub(super) fn remote_key(&self) -> Option<Key> {
        self.remote_key
    }

    /// The DSN of the first byte that this side sends (RFC 8684 section 3.1).
    #[inline]
    pub(super) fn local_base(&self) -> u64 {
        self.local_key.idsn.0.wrapping_add(1)
    }

    /// The DSN of the first byte that the peer sends: one behind its IDSN (RFC 8684 section 3.1).
    #[inline]
    pub(super) fn peer_base(&self) -> u64 {
        self.remote_key.map_or(0, |key| key.idsn.0.wrapping_add(1))
    }

    /// The `DATA_ACK` of `acknowledged` bytes; `None` on plain TCP.
    #[inline]
    pub(super) fn data_ack(&self, acknowledged: u64) -> Option<DataAck> {
        let dsn = self.peer_base().wrapping_add(acknowledged);
        self.is_multipath().then_some(if self.long_data_ack {
            DataAck::Long(DataSeq(dsn))
        } else {
            DataAck::Short(dsn as u32)
        })
    }

    /// Acknowledges with 64 bits from now on. Returns whether that is new.
    #[inline]
    pub(super) fn widen_data_acks(&mut self) -> bool {
        !self.config.stack.mptcp.short_data_numbers
            && !std::mem::replace(&mut self.long_data_ack, true)
    }

    /// Bytes of the DSS that goes with data: 4 bytes, the acknowledgement, an 8-byte DSN, subflow position, length
    /// and perhaps a checksum, in whole words (`mptcp_established_options_dss`).
    pub(super) fn dss_bytes(&self) -> u32 {
        let data_ack = if self.long_data_ack { 8 } else { 4 };
        let dsn = if self.config.stack.mptcp.short_data_numbers { 4 } else { 8 };
        let dss: u32 = 4 + data_ack + dsn + 4 + 2 + if self.config.checksum { 2 } else { 0 };
        dss.next_multiple_of(4)
    }

    /// The terms by which a subflow reads mappings; `near` is a DSN near those to come.
    #[inline]
    pub(super) fn terms(&self, near: u64) -> Terms {
        Terms {
            near,
            checksum: self.config.checksum,
            whole: self.config.stack.shared.tag_per_handover,
        }
    }

    /// Draws from the connection's random stream.
    pub(super) fn draw<T>(&mut self, draws: impl FnOnce(&mut RandomStream) -> T) -> T {
        self.random.draw(draws)
    }

    /// The random stream and the initial sequence number of a new subflow between these addresses.
    pub(super) fn draw_opening(
        &mut self,
        now: Instant,
        tuple: &FourTuple,
    ) -> (RandomStream, SeqNumber) {
        (self.draw(RandomStream::fork), self.initial_sequence(now, tuple))
    }

    /// The initial sequence number of a subflow between these addresses.
    pub(super) fn initial_sequence(&mut self, now: Instant, tuple: &FourTuple) -> SeqNumber {
        // Sequence numbers were once drawn here. The draw stays, so that later draws do not change.
        self.random.draw(RandomStream::next_u64);
        self.secrets.sequence(now, tuple)
    }

    /// The offset of the timestamps of a subflow between these addresses.
    pub(super) fn stamp_offset(&self, tuple: &FourTuple) -> u32 {
        self.secrets.stamp_offset(tuple)
    }

    /// Adds an event for the application.
    #[inline]
    pub(super) fn report(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// The next event for the application.
    pub(super) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    #[inline]
    pub(super) fn has_news(&self) -> bool {
        !self.events.is_empty()
    }

    /// The application will be woken because there is room, and has not run yet.
    pub(super) fn wakes_application(&self) -> bool {
        self.events.contains(&Event::Writable)
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    /// The counters of refused requests, to add to.
    pub(super) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// The connection is established.
    pub(super) fn on_connected(&mut self, now: Instant) {
        self.connected_at = Some(now);
        self.report(Event::Connected);
        self.report(Event::Writable);
    }

    pub(super) fn connected_at(&self) -> Option<Instant> {
        self.connected_at
    }
}
