//! The sending side: what the application wrote, and the loop that asks the scheduler
//! (`__mptcp_push_pending`).

use std::collections::VecDeque;

use anabranch_units::{Duration, Instant, SubflowId};
use anabranch_wire::Segment;
use bytes::Bytes;

use super::carried::SentAhead;
use super::pieces::Pieces;
use super::{Connection, Mode};
use anabranch_scheduler::{Ask, Decision, Hint, SubflowSet};

/// The least time after which a scheduler that waits is asked again: nearer wake-ups would move time by
/// nanoseconds a question, and the run would never end. As much as the kernel lets a timer of
/// an ordinary thread slip (`PR_SET_TIMERSLACK`).
const SHORTEST_WAIT: Duration = Duration::from_micros(50);

/// Bytes written and not yet acknowledged at data level.
#[derive(Debug)]
pub(super) struct SendStream {
    chunks: VecDeque<(u64, Bytes)>,
    /// The pieces that MPTCP keeps it in.
    pub(super) pieces: Pieces,
    /// Where the last piece was cut: the next one most often follows.
    last: u32,
    /// First position not acknowledged (`snd_una`).
    pub(super) una: u64,
    /// Behind the highest position ever scheduled (`snd_nxt`).
    pub(super) next: u64,
    /// Next position to schedule; before `next` while everything is sent once more, or after data was
    /// sent ahead.
    pub(super) cursor: u64,
    /// Behind what is sent once more.
    pub(super) again_end: u64,
    /// What lies behind the cursor and was sent.
    pub(super) ahead: SentAhead,
    /// Behind the last byte written (`write_seq`).
    pub(super) end: u64,
    /// Behind the last position the peer's window admits (`wnd_end`).
    pub(super) window_end: u64,
    /// The application was told to wait.
    pub(super) blocked: bool,
    /// It was told that there is room, and the acknowledged subflow does not know yet.
    pub(super) releases: bool,
    /// Bytes of the burst that was written last that lie behind the piece that was cut last.
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
    /// Nothing written yet; pieces of `fragment` bytes at most, in pages or each in a buffer of its own.
    pub(super) fn new(fragment: u64, buffers: bool) -> Self {
        Self {
            chunks: VecDeque::new(),
            pieces: if buffers { Pieces::buffers(fragment) } else { Pieces::new(fragment) },
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

    /// What begins at a position is kept until it is acknowledged.
    pub(super) fn keeps(&self, position: u64) -> bool {
        (self.una..self.end).contains(&position)
    }

    /// Lengthens the payload of a burst's first segment, which begins at a position, by what lies in the same memory
    /// of the `more` bytes behind it.
    pub(super) fn gather(&mut self, position: u64, more: u16, segment: &mut Segment) {
        let length = segment.payload.len() + usize::from(more);
        let payload = self.slice(position, length as u64).expect("what is to be sent is kept");
        debug_assert!(payload.iter().zip(&segment.payload).all(|(a, b)| a == b), "it begins so");
        self.apart = (length - payload.len()) as u16;
        segment.payload = payload;
    }

    /// The payload of the burst that was written last, as far as it lies apart from its segment's.
    pub(super) fn rest_of_burst(&self) -> impl Iterator<Item = Bytes> {
        let mut left = usize::from(self.apart);
        self.chunks.range(self.last as usize + 1..).map_while(move |(_, bytes)| {
            let piece = bytes.slice(..bytes.len().min(left));
            left -= piece.len();
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Files the pieces of up to `bytes` more; no other is begun once what was written takes `room`.
    /// Returns how many bytes they take.
    fn carve(&mut self, bytes: u64, room: u64) -> u64 {
        let (mut taken, before) = (0, self.pieces.memory());
        while taken < bytes && taken + self.pieces.memory() - before < room {
            let waits = self.cursor < self.end || taken > 0;
            let needed = self.una < self.end || taken > 0;
            taken += self.pieces.take(self.end + taken, bytes - taken, waits, needed);
        }
        taken
    }

    /// Up to `limit` bytes from `position`, as far as they lie in one piece.
    #[inline(always)]
    fn slice(&mut self, position: u64, limit: u64) -> Option<Bytes> {
        let (bytes, offset) = match self.chunks.get(self.last as usize) {
            Some((start, bytes)) if (*start..*start + bytes.len() as u64).contains(&position) => {
                (bytes, (position - start) as usize)
            }
            _ => self.find(position)?,
        };
        let stop = bytes.len().min(offset.saturating_add(limit as usize));
        (offset < stop).then(|| bytes.slice(offset..stop))
    }

    /// The chunk with `position` in it, or the last one before it, and how far behind its start that is.
    #[inline(never)]
    fn find(&mut self, position: u64) -> Option<(&Bytes, usize)> {
        let behind = self.chunks.partition_point(|(start, _)| *start <= position);
        let index = behind.checked_sub(1)?;
        self.last = index as u32;
        let (start, bytes) = &self.chunks[index];
        Some((bytes, (position - start) as usize))
    }

    /// Frees what is acknowledged; true when something was.
    #[inline(always)]
    pub(super) fn acknowledge(&mut self, una: u64) -> bool {
        if una <= self.una {
            return false;
        }
        self.una = una;
        if una > self.cursor {
            self.cursor = self.ahead.skip(una);
        }
        self.pieces.acknowledge(una);
        while self.chunks.front().is_some_and(|(start, b)| start + b.len() as u64 <= una) {
            self.chunks.pop_front();
            self.last = self.last.saturating_sub(1);
        }
        true
    }
}

impl Connection {
    /// Takes as much of `bytes` as the send buffer holds; returns how much.
    ///
    /// # Errors
    /// `Blocked` when nothing fits, `Closed` after a shutdown.
    pub fn write(&mut self, now: Instant, mut bytes: Bytes) -> Result<usize, WriteError> {
        if self.closing.requested() || self.is_closed() {
            return Err(WriteError::Closed);
        }
        let room = self.writable();
        if room == 0 || bytes.is_empty() {
            self.set_blocked(true);
            return Err(WriteError::Blocked);
        }
        let whole = bytes.len();
        // A piece that was begun is filled: memory is looked at between pieces.
        let most = if self.mode == Mode::Plain {
            let end = (self.out.end + room).next_multiple_of(self.config.host.send_fragment);
            end - self.out.end
        } else {
            self.out.carve(bytes.len() as u64, room)
        };
        bytes.truncate(most.min(usize::MAX as u64) as usize);
        let taken = bytes.len();
        if taken < whole {
            // The rest waits, which the subflows know before they are given what was taken (`mptcp_sendmsg`).
            self.set_blocked(true);
        }
        // MPTCP never says so of its subflows: only a write to plain TCP looks.
        if let (Mode::Plain, Some(only)) = (self.mode, self.subflows.first_mut()) {
            only.check_app_limited();
        }
        self.out.chunks.push_back((self.out.end, bytes));
        self.out.end += taken as u64;
        self.push(now);
        if self.config.stack.mptcp.timer_after_push {
            self.push_what_waits();
        }
        self.tell_buffers();
        Ok(taken)
    }

    /// How many bytes a writer had best write at once, so that they leave as whole segments and a whole burst of the
    /// subflow that was opened first: pieces of this length are sent as they lie, without a copy. At least one
    /// segment's, at most 64 KiB.
    pub fn preferred_write(&self) -> usize {
        let Some(subflow) = self.subflows.first() else { return 1 << 16 };
        let waits = subflow.send.queued_bytes() + (self.out.end - self.out.next);
        subflow.send.whole_burst(waits)
    }

    /// Hands data to subflows as long as the scheduler wants it.
    #[inline(always)]
    pub(super) fn push(&mut self, now: Instant) {
        self.scheduler_wake = Instant::FAR_FUTURE;
        if self.out.una < self.out.end || self.closing.requested() {
            self.push_data(now);
        } else {
            // A side that has written nothing, or whose all is acknowledged.
            self.retransmission.rest();
        }
    }

    #[inline(never)]
    fn push_data(&mut self, now: Instant) {
        match self.mode {
            Mode::Plain => self.push_plain(),
            Mode::Multipath => self.push_scheduled(now),
            Mode::Undecided => return,
        }
        self.push_fin(now);
        self.arm_retransmission(now);
    }

    fn push_plain(&mut self) {
        let Some(only) = self.subflows.first_mut().filter(|s| s.usable()) else {
            return;
        };
        while let Some(piece) = self.out.slice(self.out.cursor, self.out.end - self.out.cursor) {
            let length = piece.len() as u64;
            only.send.enqueue(piece, self.out.cursor);
            self.out.cursor += length;
        }
        self.out.next = self.out.cursor;
    }

    /// What the scheduler may know of the application from now on.
    pub fn set_hint(&mut self, hint: Hint) {
        self.request.hint = hint;
    }

    /// Puts the next question: what is to be reinjected, then new data, then what else a scheduler that
    /// `reads` it may do; false when there is none.
    #[inline(always)]
    pub(super) fn put_question(&mut self, reads: bool) -> bool {
        let out = &self.out;
        let reach = out.end.min(out.window_end);
        let admits = out.cursor < reach && (reach == out.end || self.fits_window());
        if admits && !self.carried.has_queued() {
            self.request.ask = Ask::NewData;
        } else if self.carried.has_queued() || (reads && out.una < out.end) {
            self.request.ask = self.other_question();
        } else {
            return false;
        }
        self.request.data_una = self.out.una;
        self.request.data_next = self.out.cursor;
        self.request.data_end = self.out.end;
        self.request.piece_end = self.out.pieces.end(self.out.cursor).min(self.out.end);
        self.request.window_end = self.out.window_end;
        true
    }

    /// The peer's window has room for what this stack sends at least: a byte, or a whole segment.
    fn fits_window(&self) -> bool {
        let segment = u64::from(self.subflows.first().map_or(1, |first| first.send.mss()));
        let least = if self.config.stack.mptcp.whole_segments { segment } else { 1 };
        self.out.cursor + least <= self.out.window_end
    }

    #[cold]
    fn other_question(&self) -> Ask {
        if let Some(piece) = self.carried.to_reinject() {
            return Ask::Reinject(piece);
        }
        let head = self.carried.at(self.out.una);
        if self.out.cursor < self.out.end {
            Ask::WindowBlocked { head }
        } else if self.out.blocked && !self.is_writable() {
            Ask::BufferFull { head, left: self.writable() }
        } else {
            Ask::Idle
        }
    }

    fn push_scheduled(&mut self, now: Instant) {
        self.report_events(now);
        let reads = self.scheduler.wants_idle() && self.out.una < self.out.end;
        let new = self.out.cursor < self.out.end;
        if !new && !reads && !self.carried.has_queued() {
            return;
        }
        self.refresh_views();
        if self.views.is_empty() {
            return;
        }
        // What is acknowledged asks for data only where the window has room (`ack_update_msk`).
        if !self.delegation.answers() || self.out.next < self.out.window_end {
            self.set_retransmission_interval(now);
        }
        let (mut penalised, mut last) = (false, None);
        self.request.now = now;
        if self.delegation.is_due() && !self.carry_out_delegated() {
            return;
        }
        if new && !self.delegation.answers() && self.out.window_end <= self.out.cursor {
            self.scheduler.on_window_closed(&self.views);
        }
        while self.put_question(reads) {
            match self.scheduler.schedule(&self.request, &self.views) {
                Decision::Wait { until } => {
                    if let Some(at) = until.filter(|at| *at > now) {
                        self.scheduler_wake = at.max(now + SHORTEST_WAIT);
                    }
                    return;
                }
                Decision::Penalise(subflows) => {
                    if std::mem::replace(&mut penalised, true) {
                        return;
                    }
                    self.penalise(subflows);
                }
                Decision::Send { on, from, burst } => {
                    let first = on.first();
                    if self.answers_elsewhere(first, on) {
                        self.push_answered(now);
                        if from.is_none() && self.delegates(on, burst) {
                            return;
                        }
                    }
                    self.push_before(now, std::mem::replace(&mut last, first), on);
                    let repeats = self.keeps_choice && from.is_none();
                    let burst = if repeats { self.whole_turn(first, burst) } else { burst };
                    if !self.send_on(on, from, burst) || self.lacks_room() {
                        return;
                    }
                }
            }
        }
    }

    /// Data goes `on` after it went to `last`: that one is pushed first (`__mptcp_push_pending`).
    #[inline(always)]
    fn push_before(&mut self, now: Instant, last: Option<SubflowId>, on: SubflowSet) {
        if let Some(id) = last
            && !on.contains(id)
            && !self.config.stack.shared.whole_mappings
        {
            self.push_last(now, id);
        }
    }

    #[inline(never)]
    fn push_last(&mut self, now: Instant, id: SubflowId) {
        if let Some(subflow) = self.subflows.get_mut(id.index()).filter(|s| s.usable()) {
            subflow.push_handed_over(&self.config.host, now);
            if let Some(view) = self.views.iter_mut().find(|view| view.id == id) {
                view.queued_memory = subflow.send.memory();
            }
        }
    }

    /// What a scheduler that keeps to its choice would send `on` that in answers of `segment` bytes, one by one; a
    /// `segment` where the send buffer may end that sooner.
    #[inline(always)]
    fn whole_turn(&self, on: Option<SubflowId>, segment: u64) -> u64 {
        let Some(id) = on.filter(|_| self.request.ask == Ask::NewData) else { return segment };
        let Some(view) = self.views.iter().find(|view| view.id == id) else { return segment };
        let segments = u64::from(view.window_space());
        let turn = segments * segment;
        let whole = segments > 1 && self.subflows[id.index()].send.has_room(segments, turn);
        if whole { turn } else { segment }
    }

    /// Carries a decision out; false when nothing could be handed over.
    #[inline(always)]
    pub(super) fn send_on(&mut self, on: SubflowSet, from: Option<u64>, mut burst: u64) -> bool {
        let mut asked = self.out.cursor;
        if let Ask::Reinject(piece) = self.request.ask {
            asked = piece.from;
            burst = burst.min(piece.to - piece.from);
        }
        let from = from.unwrap_or(asked);
        if !self.out.ahead.is_empty() && from >= self.out.cursor {
            burst = burst.min(self.out.ahead.room(from));
        }
        let (reach, handed) = match on.only() {
            Some(id) => {
                let sent = self.hand_over(id, from, burst);
                (sent, sent)
            }
            None => self.hand_over_to_all(on, from, burst),
        };
        if reach > 0 {
            self.advance(from, reach, handed);
        }
        reach > 0
    }

    /// As [`Self::hand_over`], to each of several; returns the most that one took, and what all did.
    #[inline(never)]
    fn hand_over_to_all(&mut self, on: SubflowSet, from: u64, burst: u64) -> (u64, u64) {
        on.iter()
            .map(|id| self.hand_over(id, from, burst))
            .fold((0, 0), |(most, all), sent| (sent.max(most), all + sent))
    }

    /// `[from, from + sent)` was scheduled: it moves the cursor, was sent ahead, or was a repetition.
    /// `handed` counts the bytes of all subflows that took it; those beyond the new ones are repeated.
    #[inline(always)]
    fn advance(&mut self, from: u64, sent: u64, handed: u64) {
        let out = &mut self.out;
        let to = from + sent;
        let unsent = out.again_end.max(out.cursor).max(from);
        let mut new = to.saturating_sub(unsent);
        if !out.ahead.is_empty() {
            new -= out.ahead.overlap(unsent, to);
        }
        self.retransmission.bytes += handed - new;
        if from <= out.cursor {
            out.cursor = out.cursor.max(to);
            if !out.ahead.is_empty() {
                out.cursor = out.ahead.skip(out.cursor);
            }
        } else {
            out.ahead.insert(from, to);
        }
        out.next = out.next.max(to);
        if self.carried.has_queued() {
            self.carried.drop_queued(from, to);
        }
    }

    /// Queues up to `burst` bytes from `from` on a subflow; returns how many.
    #[inline(always)]
    pub(super) fn hand_over(&mut self, id: SubflowId, from: u64, burst: u64) -> u64 {
        let end = self.out.end.min(self.out.window_end);
        let Some(subflow) = self.subflows.get_mut(id.index()).filter(|s| s.usable()) else {
            return 0;
        };
        // A mapping of its own lies in one piece.
        let whole = self.config.stack.shared.whole_mappings;
        let end = if whole { end.min(self.out.pieces.end(from)) } else { end };
        subflow.send.begin_handover();
        let (mut sent, mut piece_end) = (0, from);
        while sent < burst && from + sent < end {
            let at = from + sent;
            if at >= piece_end {
                // A full send buffer ends the burst, looked at between pieces.
                if subflow.send.memory() >= subflow.send.buffer_limit() {
                    break;
                }
                piece_end = self.out.pieces.end(at);
            }
            let most = (burst - sent).min(end.min(piece_end) - at);
            let Some(piece) = self.out.slice(at, most) else {
                break;
            };
            sent += piece.len() as u64;
            subflow.send.share_window(self.out.window_end.saturating_sub(at));
            self.fallback.on_queued(at, subflow.send.write_end());
            subflow.send.enqueue(piece, at);
        }
        if let Some(view) = self.views.iter_mut().find(|view| view.id == id) {
            view.queued_bytes = subflow.send.queued_bytes();
            view.queued_memory = subflow.send.memory();
        }
        if sent > 0 {
            self.scheduler.on_sent(id, from, sent);
            if self.tracks {
                self.carried.note(id, from, from + sent);
            }
        }
        sent
    }
}
