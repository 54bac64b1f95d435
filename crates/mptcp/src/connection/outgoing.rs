//! The sending side of a connection: the data stream, its scheduling, and its retransmission.

mod delegation;
mod fragments;
mod penalty;
mod reinjection;
mod retransmission;
mod scheduling;
mod send_memory;
mod views;
mod watch;

use std::collections::VecDeque;

use anabranch_plugin::PluginError;
use anabranch_units::{DataSeq, Instant, SubflowId};
use anabranch_wire::{DataAck, Segment, promote};
use bytes::Bytes;

use super::session::Session;
use super::subflow_table::Subflows;
use crate::config::Config;
use crate::subflow::Subflow;
use anabranch_scheduler::{self as scheduler, Hint, PathScheduler, SendRequest, SubflowView};
use delegation::Delegation;
use fragments::Fragments;
use reinjection::{CarriedData, SentAhead};
use retransmission::Retransmission;

/// The scheduler, and its views of the subflows.
#[derive(Debug)]
pub(super) struct Scheduling {
    scheduler: Box<dyn PathScheduler>,
    /// The state of each subflow when the scheduler was last notified.
    watch: Option<Box<watch::Watch>>,
    views: Vec<SubflowView>,
}

/// The sending side: written data, and the record of which subflow carries which part of it.
#[derive(Debug)]
pub(super) struct Outgoing {
    stream: SendStream,
    scheduling: Scheduling,
    /// Whether [`CarriedData`] is recorded, because the scheduler needs it.
    tracks: bool,
    /// Whether the scheduler chooses the same subflow again while that subflow can send. One call then covers
    /// several segments.
    keeps_choice: bool,
    /// The last request to the scheduler.
    request: SendRequest,
    /// The time at which the scheduler wants to be called again.
    wake: Instant,
    carried: CarriedData,
    retransmission: Retransmission,
    delegation: Delegation,
    /// Whether the first subflow was given data out of order or more than once. Its sequence numbers then no
    /// longer follow the data positions.
    crooked: bool,
}

/// The data that was written and is not yet acknowledged at data level.
#[derive(Debug)]
pub(super) struct SendStream {
    chunks: VecDeque<(u64, Bytes)>,
    /// The fragments that hold the data.
    fragments: Fragments,
    /// The index of the chunk that [`Self::read`] used last. The next slice is usually in the same chunk.
    last: u32,
    /// The first unacknowledged position (`snd_una`).
    una: u64,
    /// The end of the data that was scheduled at least once (`snd_nxt`).
    next: u64,
    /// The next position to schedule. The cursor is before `next` while all data is sent again, or after data
    /// was sent ahead of the cursor.
    cursor: u64,
    /// The end of the data that is being sent again.
    again_end: u64,
    /// The ranges after the cursor that were sent already.
    ahead: SentAhead,
    /// The end of the written data (`write_seq`).
    end: u64,
    /// The end of the peer's window (`wnd_end`).
    window_end: u64,
    /// Whether the application waits for free space in the send buffer (`SOCK_NOSPACE`).
    blocked: bool,
    /// Whether one subflow still has its `SOCK_NOSPACE` flag set although the application was notified of
    /// free space. This is the subflow that received the acknowledgement.
    releases: bool,
    /// The number of bytes of the last burst's payload that are not in its segment.
    apart: u16,
}

/// Why a write was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The send buffer is full; `Event::Writable` follows.
    #[error("the send buffer is full")]
    Blocked,
    /// The sending side was shut down or the connection is gone.
    #[error("the connection is closed for writing")]
    Closed,
}

impl SendStream {
    /// Creates an empty stream with fragments of at most `fragment` bytes. If `buffers` is set, fragments are
    /// socket buffers, otherwise parts of pages.
    pub(super) fn new(fragment: u64, buffers: bool) -> Self {
        Self {
            chunks: VecDeque::new(),
            fragments: if buffers {
                Fragments::buffers(fragment)
            } else {
                Fragments::new(fragment)
            },
            last: 0,
            una: 0,
            next: 0,
            cursor: 0,
            again_end: 0,
            ahead: SentAhead::default(),
            end: 0,
            window_end: 0,
            blocked: false,
            releases: false,
            apart: 0,
        }
    }

    /// Returns the first unacknowledged position.
    pub(super) fn una(&self) -> u64 {
        self.una
    }

    /// Returns the position after the last written byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Returns whether all data has been given to subflows.
    pub(super) fn is_scheduled(&self) -> bool {
        self.cursor >= self.end
    }

    /// Returns whether the peer has acknowledged all data.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.una == self.end
    }

    /// Moves the end of the peer's window forward to `window_end`, never back.
    pub(super) fn admit(&mut self, window_end: u64) {
        self.window_end = self.window_end.max(window_end);
    }

    /// Returns whether the data at a position is still stored.
    pub(super) fn keeps(&self, position: u64) -> bool {
        (self.una..self.end).contains(&position)
    }

    /// Extends the payload of a burst's first segment, which begins at `position`, by up to `more` bytes.
    /// Only bytes of the same chunk are added; the number of missing bytes is stored.
    pub(super) fn add_payload(&mut self, position: u64, more: u16, segment: &mut Segment) {
        let length = segment.payload.len() + usize::from(more);
        let payload = self.read(position, length as u64).expect("what is to be sent is kept");
        debug_assert!(payload.iter().zip(&segment.payload).all(|(a, b)| a == b), "it begins so");
        self.apart = (length - payload.len()) as u16;
        segment.payload = payload;
    }

    /// Returns the parts of the last burst's payload that are not in its segment.
    pub(super) fn rest_of_burst(&self) -> impl Iterator<Item = Bytes> {
        let mut left = usize::from(self.apart);
        self.chunks.range(self.last as usize + 1..).map_while(move |(_, bytes)| {
            let piece = bytes.slice(..bytes.len().min(left));
            left -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Reserves fragments for up to `bytes` more bytes. No new fragment begins once `room` bytes of memory
    /// are used. Returns the number of bytes that the fragments hold.
    fn add_fragments(&mut self, bytes: u64, room: u64) -> u64 {
        let (mut taken, before) = (0, self.fragments.memory());
        // Only the first part can join an earlier fragment: it fills the page, or it is the last part.
        let waits = self.cursor < self.end;
        while taken < bytes && taken + self.fragments.memory() - before < room {
            let needed = self.una < self.end || taken > 0;
            taken += self.fragments.take(self.end + taken, bytes - taken, waits, needed);
        }
        taken
    }

    /// Returns up to `limit` bytes from `position` on, all from one chunk.
    #[inline]
    fn read(&mut self, position: u64, limit: u64) -> Option<Bytes> {
        let (bytes, offset) = match self.chunks.get(self.last as usize) {
            Some((start, bytes)) if (*start..*start + bytes.len() as u64).contains(&position) => {
                (bytes, (position - start) as usize)
            }
            _ => self.find(position)?,
        };
        let stop = bytes.len().min(offset.saturating_add(limit as usize));
        (offset < stop).then(|| bytes.slice(offset..stop))
    }

    /// Returns the last chunk that begins at or before `position`, and the offset of `position` in it.
    #[inline(never)]
    fn find(&mut self, position: u64) -> Option<(&Bytes, usize)> {
        let behind = self.chunks.partition_point(|(start, _)| *start <= position);
        let index = behind.checked_sub(1)?;
        self.last = index as u32;
        let (start, bytes) = &self.chunks[index];
        Some((bytes, (position - start) as usize))
    }

    /// Frees data before `una`. Returns whether `una` acknowledges anything new.
    // A run of 20 MB calls it 28,210 times.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, una: u64) -> bool {
        if una <= self.una {
            return false;
        }
        self.una = una;
        if una > self.cursor {
            self.cursor = self.ahead.advance(una);
        }
        self.fragments.acknowledge(una);
        while self.chunks.front().is_some_and(|(start, b)| start + b.len() as u64 <= una) {
            self.chunks.pop_front();
            self.last = self.last.saturating_sub(1);
        }
        true
    }
}

impl Outgoing {
    /// Creates the sending side of a connection.
    ///
    /// # Errors
    /// The name or parameters of the scheduler are unknown.
    pub(super) fn new(config: &Config) -> Result<Self, PluginError> {
        let scheduler = scheduler::build(&config.scheduler, &config.registry)?;
        Ok(Self {
            stream: SendStream::new(config.send_fragment, config.stack.shared.tag_per_handover),
            tracks: scheduler.wants_idle() || scheduler.reinjects(),
            keeps_choice: scheduler.keeps_choice()
                && !config.stack.shared.tag_per_handover
                && !config.stack.mptcp.whole_segments,
            scheduling: Scheduling {
                watch: scheduler.watches().then(Box::default),
                scheduler,
                views: Vec::new(),
            },
            request: SendRequest::blank(config.send_fragment),
            wake: Instant::FAR_FUTURE,
            carried: CarriedData::default(),
            retransmission: Retransmission::default(),
            delegation: Delegation::default(),
            crooked: false,
        })
    }

    /// Stores as much of `bytes` as the send buffer has space for. Returns the number of stored bytes.
    ///
    /// # Errors
    /// `Blocked` if the send buffer is full.
    pub(super) fn write(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        mut bytes: Bytes,
    ) -> Result<usize, WriteError> {
        let room = self.stream.writable(session, subflows);
        if room == 0 || bytes.is_empty() {
            self.stream.set_blocked(subflows, true);
            return Err(WriteError::Blocked);
        }
        let whole = bytes.len();
        // A fragment that was begun is filled completely. Linux checks memory only before a new fragment.
        let most = if session.is_plain() {
            let end = (self.stream.end + room).next_multiple_of(session.config().send_fragment);
            end - self.stream.end
        } else {
            self.stream.add_fragments(bytes.len() as u64, room)
        };
        bytes.truncate(most.min(usize::MAX as u64) as usize);
        let taken = bytes.len();
        if taken < whole {
            // The application waits to write the rest. The subflows are marked before they get the data
            // (`mptcp_sendmsg`).
            self.stream.set_blocked(subflows, true);
        }
        // Only a write to plain TCP marks the subflow as application-limited. MPTCP does not.
        if session.is_plain()
            && let Some(only) = subflows.get_first_mut()
        {
            only.tcp.supply().check_app_limited();
        }
        self.stream.chunks.push_back((self.stream.end, bytes));
        self.stream.end += taken as u64;
        self.push(now, session, subflows, false);
        if session.stack().mptcp.timer_after_push {
            self.push_what_waits(session, subflows);
        }
        self.update_send_buffers(session, subflows);
        Ok(taken)
    }

    /// Returns the best size of one write, in bytes: whole segments that fill a burst of the initial subflow
    /// without a copy. At least one segment's payload, at most 64 KiB.
    pub(super) fn preferred_write(&self, subflows: &Subflows) -> usize {
        let Some(subflow) = subflows.first() else { return 1 << 16 };
        let waits =
            subflow.tcp.sending().queue().queued_bytes() + (self.stream.end - self.stream.next);
        subflow.tcp.sending().queue().whole_burst(waits)
    }

    /// Sets the application's hint for the scheduler.
    pub(super) fn set_hint(&mut self, hint: Hint) {
        self.request.hint = hint;
    }

    pub(super) fn stream(&self) -> &SendStream {
        &self.stream
    }

    pub(super) fn stream_mut(&mut self) -> &mut SendStream {
        &mut self.stream
    }

    pub(super) fn scheduling(&self) -> &Scheduling {
        &self.scheduling
    }

    pub(super) fn scheduling_mut(&mut self) -> &mut Scheduling {
        &mut self.scheduling
    }

    /// Returns the unacknowledged bytes: counted at data level only, and the larger of that and the count
    /// that includes data queued on subflows.
    pub(super) fn held(&self, subflows: &Subflows) -> [u64; 2] {
        let SendStream { una, next, end, .. } = self.stream;
        let on_subflows =
            subflows.iter().map(|it| it.tcp.sending().queue().held_bytes()).sum::<u64>();
        [end - una, (end - una).max(end.saturating_sub(next) + on_subflows)]
    }

    /// Prepares a new subflow for sending. If it `replaces` a closed subflow, all records of the closed one
    /// are removed.
    pub(super) fn add_subflow(&mut self, subflow: &mut Subflow, replaces: bool) {
        subflow.tcp.supply().set_blocked(self.stream.blocked);
        if self.scheduling.watch.is_some() {
            subflow.tcp.supply().note_first_transmissions();
        }
        if replaces {
            self.clear_decided(Some(subflow.tcp.id()));
            self.carried.remove_subflow(subflow.tcp.id());
            self.scheduling.scheduler.on_replaced(subflow.tcp.id());
            self.scheduling.clear_views();
        }
    }

    /// Records that data at stream position `at` is queued on the first subflow at its own position
    /// `position`.
    #[inline]
    fn note_queued(&mut self, at: u64, position: u64) {
        self.crooked |= at.wrapping_add(1) != position;
    }

    /// Returns whether the first subflow carries the stream byte by byte up to its position `write_end`.
    pub(super) fn is_straight(&self, write_end: u64) -> bool {
        !self.crooked && self.stream.cursor + 1 == write_end
    }

    /// Returns whether the first subflow has acknowledged data up to its position `una` that no `DATA_ACK`
    /// covers.
    pub(super) fn lags_behind(&self, una: u64) -> bool {
        !self.crooked && una > self.stream.una + 1
    }

    /// Returns whether a DSN is in the range from the first unacknowledged byte to the next byte to send,
    /// both included.
    pub(super) fn is_in_flight(&self, session: &Session, dsn: u64) -> bool {
        let una = session.local_base().wrapping_add(self.stream.una);
        dsn.wrapping_sub(una) <= self.stream.next - self.stream.una
    }

    /// Handles the `DATA_ACK` of a segment. `ends` means that it may acknowledge a `DATA_FIN`. Returns the
    /// acknowledged position, or `None` if the `DATA_ACK` is invalid.
    #[inline]
    pub(super) fn handle_data_ack(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        (index, segment): (usize, &Segment),
        data_ack: DataAck,
        ends: bool,
    ) -> Option<u64> {
        let reference = session.local_base().wrapping_add(self.stream.una);
        let dsn = match data_ack {
            DataAck::Long(dsn) => dsn.0,
            DataAck::Short(low) => promote(low, DataSeq(reference)).0,
        };
        let offset = dsn.wrapping_sub(reference) as i64;
        let position = self.stream.una.checked_add_signed(offset)?;
        // Only sent data can be acknowledged. The `DATA_FIN` follows all data.
        let all_sent = self.stream.next == self.stream.end;
        if position > self.stream.next + u64::from(all_sent && ends) {
            session.counters_mut().refused_data_acks += 1;
            return None;
        }
        let subflow = &mut subflows[index];
        // A reordered old segment only shows that options passed at an earlier time.
        if subflow.tcp.is_latest(segment) {
            subflow.context.on_data_ack();
        }
        // The window stored by the subflow may be larger than the one in this segment (`ack_update_msk`).
        let held = session.stack().mptcp.counts_from_subflow_window;
        let window = if held {
            subflow.tcp.sending().queue().window().size()
        } else {
            subflow.tcp.peer_window(segment)
        };
        self.stream.window_end = self.stream.window_end.max(position + window);
        subflow.tcp.supply().admit(window);
        if self.stream.acknowledge(position.min(self.stream.end)) {
            self.scheduling.scheduler.on_data_ack(now, self.stream.una);
            if self.tracks {
                self.carried.acknowledge(self.stream.una);
            }
            self.on_data_progress(now, session, subflows);
        }
        self.stream.report_behind_ack(session, subflows, index);
        Some(position)
    }

    /// On plain TCP, the acknowledgements of the only subflow free data of the stream.
    pub(super) fn acknowledge_by_subflow(
        &mut self,
        session: &mut Session,
        subflows: &mut Subflows,
    ) {
        if session.is_plain()
            && let Some(only) = subflows.first()
        {
            let una = only.tcp.sending().queue().una().saturating_sub(1).min(self.stream.next);
            self.stream.acknowledge(una);
            self.stream.report_writable(session, subflows);
        }
    }

    /// Handles a retransmission timeout of a subflow. Returns whether its data must be reinjected.
    pub(super) fn on_subflow_timeout(&mut self, id: SubflowId) -> bool {
        let reinjects = self.tracks && self.scheduling.scheduler.reinjects();
        if reinjects {
            self.carried.reinject(id);
        }
        reinjects
    }

    /// Returns the next time at which the scheduler or the retransmission timer must run. `FAR_FUTURE` if
    /// there is none.
    #[inline]
    pub(super) fn wake(&self) -> Instant {
        self.wake.min(self.retransmission.deadline().unwrap_or(Instant::FAR_FUTURE))
    }

    /// Returns whether the time at which the scheduler wants to be called has passed.
    pub(super) fn is_scheduling_due(&self, now: Instant) -> bool {
        now >= self.wake
    }

    /// Returns the expiry time of the connection-level retransmission timer.
    pub(super) fn retransmission_deadline(&self) -> Option<Instant> {
        self.retransmission.deadline()
    }

    /// Returns the number of bytes sent again on another subflow, including connection-level retransmissions.
    pub(super) fn reinjected_bytes(&self) -> u64 {
        self.retransmission.bytes()
    }
}
