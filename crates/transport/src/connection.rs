//! An MPTCP connection: the data stream above its subflows, one file a concern.
//!
//! Positions count bytes of the data stream from 0; position 0 has the data sequence number after
//! the IDSN. A connection without MPTCP is the same thing with one subflow and no options.

mod address;
mod announced;
mod carried;
mod close;
mod connect;
mod delegation;
mod emit;
mod events;
mod fallback;
mod half_open;
mod ownership;
mod path_mtu;
mod penalty;
mod pieces;
mod plain;
mod rare;
mod receive;
mod reinject;
mod room;
mod send;
mod slots;
mod timers;
mod views;
mod watch;
mod window;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU16;
use std::sync::Arc;

use anabranch_plugin::PluginError;
use anabranch_units::{Bookmark, Instant, RandomStream};
use anabranch_wire::crypto::Key;
use anabranch_wire::{Flags, Segment};

use self::delegation::Delegation;
use crate::config::{Config, FourTuple};
use crate::path_manager;
use crate::path_manager::PathManager;
use crate::secrets::Secrets;
use crate::subflow::{State, Subflow, Written};
use anabranch_congestion::SiblingView;
use anabranch_scheduler as scheduler;
use anabranch_scheduler::{PathScheduler, SendRequest, SubflowView};

pub(crate) use connect::{Offer, REASON_MPTCP, capable_answer, join, understood};
pub use events::{Assumed, Counters, Event, SubflowSample, SubflowSummary, WindowInUse};
pub(crate) use ownership::{Moved, Owner};
pub use send::WriteError;
pub use window::ReceiverSample;

/// Keys drawn until one has a token that no other connection has; then the connection is plain TCP.
const KEY_TRIES: u32 = 8;

/// A segment to put on the wire between two addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
    /// The segment, or several as one.
    pub segment: Segment,
    /// Of several as one ([`crate::Endpoint::poll_burst`]) the payload of each, of the last one at most.
    pub segment_size: Option<NonZeroU16>,
}

/// What a connection begins with.
#[derive(Clone)]
pub struct Origin<'a> {
    /// The moment.
    pub now: Instant,
    /// Its chance: keys and nonces.
    pub random: RandomStream,
    /// Its host's.
    pub secrets: Arc<Secrets>,
    /// Whether another connection of the host has a token.
    pub taken: &'a dyn Fn(u32) -> bool,
}

/// A connection's key, and how many were drawn until it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyDrawn {
    pub(crate) key: Key,
    pub(crate) draws: u32,
}

impl KeyDrawn {
    fn next(random: &mut RandomStream) -> u64 {
        random.next_u64() | 1
    }

    /// One whose token no other connection has, or the last that was tried.
    pub(crate) fn first(random: &mut RandomStream, taken: &dyn Fn(u32) -> bool) -> Self {
        let mut drawn = Self { key: Key::new(Self::next(random)), draws: 1 };
        while taken(drawn.key.token) && drawn.draws < KEY_TRIES {
            drawn = Self { key: Key::new(Self::next(random)), draws: drawn.draws + 1 };
        }
        drawn
    }

    /// The same from the same stream, once the number of draws is known.
    pub(crate) fn again(random: &mut RandomStream, draws: u32) -> Self {
        for _ in 1..draws {
            Self::next(random);
        }
        Self { key: Key::new(Self::next(random)), draws }
    }
}

/// Which protocol the two sides have settled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// `MP_CAPABLE` was offered or answered; the handshake decides.
    Undecided,
    Multipath,
    Plain,
}

/// One side of a connection.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    client: bool,
    mode: Mode,
    local_key: Key,
    remote_key: Option<Key>,
    /// The peer has shown that it got our keys: joins may begin, and fallback is over.
    confirmed: bool,
    /// The peer's DSNs come in 64 bits, so its acknowledgements do too.
    long_data_ack: bool,
    /// Its stack is of those that [take plain segments the short way](crate::profile::Stack::is_plain).
    plain_stack: bool,
    subflows: Vec<Subflow>,
    slots: slots::Slots,
    half_open: rare::Rare<half_open::HalfOpenJoins>,
    counters: Counters,
    scheduler: Box<dyn PathScheduler>,
    path_manager: Box<dyn PathManager>,
    out: send::SendStream,
    input: receive::ReceiveStream,
    budget: window::ReceiveBudget,
    retransmission: reinject::Retransmission,
    carried: carried::CarriedData,
    fallback: fallback::Fallback,
    /// The scheduler reads who carried what.
    tracks: bool,
    /// The scheduler keeps to its choice while that has room, and several segments may be handed over at once.
    keeps_choice: bool,
    /// What a scheduler that watches subflows was last notified of.
    watch: Option<Box<watch::Watch>>,
    /// The last question to the scheduler.
    request: SendRequest,
    closing: close::Closing,
    addresses: address::Addresses,
    peer_addresses: announced::PeerAddresses,
    random: Bookmark,
    secrets: Arc<Secrets>,
    events: VecDeque<Event>,
    /// Pairs of addresses that a subflow or a half-open join has gained or lost, until the endpoint hears
    /// of it.
    moved: Vec<ownership::Moved>,
    views: Vec<SubflowView>,
    siblings: Vec<SiblingView>,
    scheduler_wake: Instant,
    delegation: Delegation,
    next_transmit: usize,
    connected_at: Option<Instant>,
}

impl Connection {
    /// With the key given, or one that is drawn, and a configuration that is [`Config::settled`]; it begins
    /// at the address `local`.
    fn build(
        mut config: Arc<Config>,
        client: bool,
        origin: Origin<'_>,
        key: Option<Key>,
        local: IpAddr,
    ) -> Result<Self, PluginError> {
        let Origin { mut random, secrets, taken, .. } = origin;
        let key = key.unwrap_or_else(|| KeyDrawn::first(&mut random, taken).key);
        // Nobody could tell its joins from the other's (RFC 8684 section 3.1).
        if config.multipath && taken(key.token) {
            Arc::make_mut(&mut config).multipath = false;
        }
        let mss = config.mss_at(local);
        let mode = if config.multipath { Mode::Undecided } else { Mode::Plain };
        let scheduler = scheduler::build(&config.scheduler, &config.registry)?;
        Ok(Self {
            tracks: scheduler.wants_idle() || scheduler.reinjects(),
            keeps_choice: scheduler.keeps_choice()
                && !config.stack.shared.whole_mappings
                && !config.stack.mptcp.whole_segments,
            watch: scheduler.watches().then(Box::default),
            scheduler,
            path_manager: path_manager::build(&config.path_manager)?,
            out: send::SendStream::new(
                config.host.send_fragment,
                config.stack.shared.whole_mappings,
            ),
            input: receive::ReceiveStream::default(),
            budget: window::ReceiveBudget::new(&config, mss),
            retransmission: reinject::Retransmission::default(),
            carried: carried::CarriedData::default(),
            fallback: fallback::Fallback::default(),
            request: SendRequest::blank(config.host.send_fragment),
            closing: close::Closing::default(),
            addresses: address::Addresses::new(&config),
            peer_addresses: announced::PeerAddresses::default(),
            client,
            mode,
            local_key: key,
            remote_key: None,
            confirmed: false,
            long_data_ack: false,
            plain_stack: config.stack.is_plain(),
            subflows: Vec::new(),
            slots: slots::Slots::default(),
            half_open: rare::Rare::default(),
            counters: Counters::default(),
            random: random.bookmark(),
            secrets,
            events: VecDeque::new(),
            moved: Vec::new(),
            views: Vec::new(),
            siblings: Vec::new(),
            scheduler_wake: Instant::FAR_FUTURE,
            delegation: Delegation::default(),
            next_transmit: 0,
            connected_at: None,
            config,
        })
    }

    /// The connection's token, by which joins find it.
    pub fn token(&self) -> u32 {
        self.local_key.token
    }

    /// MPTCP is in use; false after a fallback or without it.
    pub fn is_multipath(&self) -> bool {
        self.mode == Mode::Multipath
    }

    /// The addresses of its live subflows.
    pub fn tuples(&self) -> impl Iterator<Item = FourTuple> {
        self.subflows.iter().filter(|s| s.state != State::Closed).map(|s| s.tuple)
    }

    /// The addresses of its latest subflow, live or not.
    pub fn last_tuple(&self) -> Option<FourTuple> {
        self.subflows.last().map(|s| s.tuple)
    }

    /// Input: a segment that arrived on one of its subflows.
    pub fn handle_segment(&mut self, now: Instant, tuple: FourTuple, segment: &Segment) {
        if self.awaits(tuple) {
            self.handle_half_open(now, tuple, segment, None);
        } else if let Some(index) = self.subflow_of(tuple) {
            self.handle_merged_on(now, index, segment, None);
        }
    }

    /// The subflow between two addresses: the one that lives, if there were more.
    pub(crate) fn subflow_of(&self, tuple: FourTuple) -> Option<usize> {
        let lives = |s: &Subflow| s.tuple == tuple && s.state != State::Closed;
        let last = || self.subflows.iter().position(|s| s.tuple == tuple);
        self.subflows.iter().position(lives).or_else(last)
    }

    /// Input: a segment that arrived on a subflow, or several as one, each of `segment_size` bytes.
    #[inline(always)]
    pub(crate) fn handle_merged_on(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        if self.takes_plainly(index, segment, segment_size) {
            self.handle_plain(now, index, segment);
        } else {
            self.handle_any(now, index, segment, segment_size);
        }
    }

    /// As [`Self::handle_merged_on`], of a segment that may bring anything.
    // Apart: most segments are plain.
    #[inline(never)]
    fn handle_any(
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
        subflow.touched = true;
        let joins = index > 0 && subflow.state == State::SynReceived;
        match subflow.state {
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
                    subflow.handshake.due = true;
                    return;
                }
                let accepted = subflow.accepts(now, segment);
                if !accepted || !self.handle_third(now, index, segment) {
                    return;
                }
            }
            State::Established => {
                if !subflow.accepts(now, segment) {
                    return;
                }
            }
        }
        self.handle_established(now, index, segment, segment_size);
        if joins && !self.config.stack.mptcp.joins_push {
            // The application is asked first, and what waits goes out with what it writes
            // (`mptcp_finish_join`, `mptcp_sync_sndbuf`).
            self.notify_writable();
        } else {
            self.push_behind_ack(now, index);
        }
        self.end_input(now, index);
    }

    /// A segment was taken in, and what it let out was handed over.
    #[inline(always)]
    fn end_input(&mut self, now: Instant, index: usize) {
        if self.subflows[index].expand_buffer_after_ack(now) {
            self.subflows[index].touched = true;
            self.note_growth();
        }
        self.manage_paths(now);
        self.subflows[index].schedule_delayed_ack(&self.config.host, now);
    }

    fn handle_established(
        &mut self,
        now: Instant,
        index: usize,
        segment: &Segment,
        segment_size: Option<NonZeroU16>,
    ) {
        self.handle_options(now, index, segment);
        if self.subflows[index].state == State::Closed {
            return;
        }
        if segment.flags.contains(Flags::ACK) {
            self.hear_ack(now, index, segment);
        }
        self.handle_signal(now, index, segment);
        if self.subflows[index].state == State::Closed {
            return;
        }
        self.take_payload(now, index, segment, segment_size);
        self.follow_subflow_close(index);
    }

    /// What a segment acknowledges on its subflow.
    #[inline(always)]
    fn hear_ack(&mut self, now: Instant, index: usize, segment: &Segment) {
        let subflow = &mut self.subflows[index];
        subflow.send.deferred = false;
        self.siblings.clear();
        // Only what acknowledges something is told to a controller.
        if !subflow.board.is_empty() && subflow.controller.wants_siblings() {
            self.siblings.extend(self.subflows.iter().map(Subflow::sibling_view));
        }
        let (host, siblings) = (&self.config.host, self.siblings.as_mut_slice());
        self.subflows[index].handle_ack(host, now, segment, siblings);
        self.revive(index);
    }

    /// Output: the next segment to put on the wire.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Transmit> {
        let mut segment = Segment::default();
        let tuple = self.poll_transmit_into(now, &mut segment)?;
        Some(Transmit { local: tuple.local, remote: tuple.remote, segment, segment_size: None })
    }

    /// As [`Self::poll_transmit`], written over a segment the caller has; returns the addresses to
    /// put it between.
    pub fn poll_transmit_into(&mut self, now: Instant, segment: &mut Segment) -> Option<FourTuple> {
        self.next_segment(now, 1, segment).map(|(tuple, _)| *tuple)
    }

    /// The payload of the burst that was written last, as far as it lies apart from its segment's.
    pub(crate) fn rest_of_burst(&self) -> impl Iterator<Item = bytes::Bytes> {
        self.out.rest_of_burst()
    }

    /// As [`Self::poll_transmit_into`], of up to `most` segments as one, whose payload may go on in
    /// [`Self::rest_of_burst`].
    // Joined to its caller: every turn ends with a look that finds nothing.
    #[inline(always)]
    pub(crate) fn next_segment(
        &mut self,
        now: Instant,
        most: u32,
        segment: &mut Segment,
    ) -> Option<(&FourTuple, Written)> {
        if self.input.was_read() {
            self.after_reads(now);
        }
        self.report_events(now);
        self.push_delegated(now);
        let count = self.subflows.len();
        let mut index = self.next_transmit;
        for _ in 0..count {
            if self.subflows[index].may_transmit()
                && let Some(written) = self.poll_subflow(now, index, most, segment)
            {
                self.next_transmit = index;
                return Some((&self.subflows[index].tuple, written));
            }
            index = if index + 1 == count { 0 } else { index + 1 };
        }
        self.next_transmit = 0;
        self.release_subflows();
        if std::mem::take(&mut self.retransmission.schedules_behind) {
            self.set_retransmission_interval(now);
        }
        if self.half_open.rests() {
            return None;
        }
        self.next_half_open(segment)
    }
}
