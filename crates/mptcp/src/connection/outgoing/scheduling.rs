//! Scheduling: the calls of the scheduler, and the data that its decisions give to subflows (`__mptcp_push_pending`).

use anabranch_tcp::config::Moment;
use anabranch_units::{Duration, Instant, SubflowId};

use super::{Outgoing, Session, Subflows};
use anabranch_scheduler::{Ask, Decision, SubflowSet};

/// The least time after which a scheduler that waits is called again. Without it a scheduler could advance time by
/// nanoseconds, and the run would never end. It is the slack of a timer of an ordinary thread (`PR_SET_TIMERSLACK`).
const SHORTEST_WAIT: Duration = Duration::from_micros(50);

impl Outgoing {
    /// Hands data to subflows as long as the scheduler wants it; `ends` if the application writes no more. Returns
    /// whether there was data, or an end, to hand over.
    #[inline]
    pub(in crate::connection) fn push(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        ends: bool,
    ) -> bool {
        self.wake = Instant::FAR_FUTURE;
        if self.stream.una < self.stream.end || ends {
            return self.push_data(now, session, subflows);
        }
        self.retransmission.rest();
        false
    }

    #[inline(never)]
    fn push_data(&mut self, now: Instant, session: &mut Session, subflows: &mut Subflows) -> bool {
        if session.is_plain() {
            self.push_plain(subflows);
        } else if session.is_multipath() {
            self.push_scheduled(now, session, subflows);
        } else {
            return false;
        }
        self.arm_retransmission(now, session, subflows);
        true
    }

    fn push_plain(&mut self, subflows: &mut Subflows) {
        let Some(only) = subflows.first_mut().filter(|s| s.usable()) else {
            return;
        };
        while let Some(piece) =
            self.stream.slice(self.stream.cursor, self.stream.end - self.stream.cursor)
        {
            let length = piece.len() as u64;
            only.tcp.sending_mut().queue_mut().enqueue(piece, self.stream.cursor);
            self.stream.cursor += length;
        }
        self.stream.next = self.stream.cursor;
    }

    /// Prepares the next request: data to reinject, then new data, then other data if the scheduler `reads` it.
    /// Returns false if there is no such data.
    #[inline]
    pub(super) fn put_question(
        &mut self,
        session: &Session,
        subflows: &Subflows,
        reads: bool,
    ) -> bool {
        let out = &self.stream;
        let reach = out.end.min(out.window_end);
        let admits =
            out.cursor < reach && (reach == out.end || self.fits_window(session, subflows));
        if admits && !self.carried.has_queued() {
            self.request.ask = Ask::NewData;
        } else if self.carried.has_queued() || (reads && out.una < out.end) {
            self.request.ask = self.other_question(session, subflows);
        } else {
            return false;
        }
        self.request.data_una = self.stream.una;
        self.request.data_next = self.stream.cursor;
        self.request.data_end = self.stream.end;
        self.request.piece_end = self.stream.fragments.end(self.stream.cursor).min(self.stream.end);
        self.request.window_end = self.stream.window_end;
        true
    }

    /// The peer's window has room for the least that this stack sends: a byte, or a whole segment.
    fn fits_window(&self, session: &Session, subflows: &Subflows) -> bool {
        let segment =
            u64::from(subflows.first().map_or(1, |first| first.tcp.sending().queue().mss()));
        let least = if session.stack().mptcp.whole_segments { segment } else { 1 };
        self.stream.cursor + least <= self.stream.window_end
    }

    #[cold]
    fn other_question(&self, session: &Session, subflows: &Subflows) -> Ask {
        if let Some(piece) = self.carried.to_reinject() {
            return Ask::Reinject(piece);
        }
        let head = self.carried.at(self.stream.una);
        if self.stream.cursor < self.stream.end {
            Ask::WindowBlocked { head }
        } else if self.stream.blocked && !self.stream.is_writable(session, subflows) {
            Ask::BufferFull { head, left: self.stream.writable(session, subflows) }
        } else {
            Ask::Idle
        }
    }

    fn push_scheduled(&mut self, now: Instant, session: &mut Session, subflows: &mut Subflows) {
        self.scheduling.report_events(now, session, subflows);
        let reads = self.scheduling.scheduler.wants_idle() && self.stream.una < self.stream.end;
        let new = self.stream.cursor < self.stream.end;
        if !new && !reads && !self.carried.has_queued() {
            return;
        }
        self.scheduling.refresh_views(subflows);
        if self.scheduling.views.is_empty() {
            return;
        }
        // An acknowledgement requests data only if the window has room (`ack_update_msk`).
        if !self.delegation.answers() || self.stream.next < self.stream.window_end {
            self.retransmission.set_interval(now, subflows);
        }
        let (mut penalised, mut last) = (false, None);
        self.request.now = now;
        if self.delegation.is_due() && !self.carry_out_delegated(session, subflows) {
            return;
        }
        if new && !self.delegation.answers() && self.stream.window_end <= self.stream.cursor {
            self.scheduling.scheduler.on_window_closed(&self.scheduling.views);
        }
        while self.put_question(session, subflows, reads) {
            match self.scheduling.scheduler.schedule(&self.request, &self.scheduling.views) {
                Decision::Wait { until } => {
                    if let Some(at) = until.filter(|at| *at > now) {
                        self.wake = at.max(now + SHORTEST_WAIT);
                    }
                    return;
                }
                Decision::Penalise(set) => {
                    if std::mem::replace(&mut penalised, true) {
                        return;
                    }
                    self.scheduling.penalise(subflows, set);
                }
                Decision::Send { on, from, burst } => {
                    let first = on.first();
                    if self.answers_elsewhere(first, on) {
                        self.push_answered(now, session, subflows);
                        if from.is_none() && self.delegates(session, on, burst) {
                            return;
                        }
                    }
                    self.push_before(
                        now,
                        session,
                        subflows,
                        std::mem::replace(&mut last, first),
                        on,
                    );
                    let repeats = self.keeps_choice && from.is_none();
                    let burst =
                        if repeats { self.whole_turn(subflows, first, burst) } else { burst };
                    if !self.send_on(session, subflows, on, from, burst)
                        || self.scheduling.lacks_room()
                    {
                        return;
                    }
                }
            }
        }
    }

    /// Pushes `last`, if the scheduler now chose other subflows (`__mptcp_push_pending`).
    #[inline]
    fn push_before(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        last: Option<SubflowId>,
        on: SubflowSet,
    ) {
        if let Some(id) = last
            && !on.contains(id)
            && !session.stack().shared.tag_per_handover
        {
            self.push_last(now, session, subflows, id);
        }
    }

    #[inline(never)]
    fn push_last(
        &mut self,
        now: Instant,
        session: &mut Session,
        subflows: &mut Subflows,
        id: SubflowId,
    ) {
        if let Some(subflow) = subflows.get_mut(id.index()).filter(|s| s.usable()) {
            subflow.tcp.sending_mut().push_handed_over(Moment { host: session.host(), now });
            if let Some(view) = self.scheduling.views.iter_mut().find(|view| view.id == id) {
                view.queued_memory = subflow.tcp.sending().queue().memory();
            }
        }
    }

    /// The bytes that a scheduler that keeps its choice would send `on` that subflow in decisions of `segment` bytes.
    /// A single `segment` if the send buffer may end that earlier.
    #[inline]
    fn whole_turn(&self, subflows: &Subflows, on: Option<SubflowId>, segment: u64) -> u64 {
        let Some(id) = on.filter(|_| self.request.ask == Ask::NewData) else { return segment };
        let Some(view) = self.scheduling.views.iter().find(|view| view.id == id) else {
            return segment;
        };
        let segments = u64::from(view.window_space());
        let turn = segments * segment;
        let whole = segments > 1 && subflows[id.index()].tcp.sending().has_room(segments, turn);
        if whole { turn } else { segment }
    }

    /// Carries out a decision. Returns false if no data could be handed over.
    // A run of 20 MB calls it 13,347 times.
    #[inline(always)]
    pub(super) fn send_on(
        &mut self,
        session: &Session,
        subflows: &mut Subflows,
        on: SubflowSet,
        from: Option<u64>,
        mut burst: u64,
    ) -> bool {
        let mut asked = self.stream.cursor;
        if let Ask::Reinject(piece) = self.request.ask {
            asked = piece.from;
            burst = burst.min(piece.to - piece.from);
        }
        let from = from.unwrap_or(asked);
        if !self.stream.ahead.is_empty() && from >= self.stream.cursor {
            burst = burst.min(self.stream.ahead.room(from));
        }
        let (reach, handed) = match on.only() {
            Some(id) => {
                let sent = self.hand_over(session, subflows, id, from, burst);
                (sent, sent)
            }
            None => self.hand_over_to_all(session, subflows, on, from, burst),
        };
        if reach > 0 {
            self.advance(from, reach, handed);
        }
        reach > 0
    }

    /// Like [`Self::hand_over`], to several subflows. Returns the most that one took, and the sum.
    #[inline(never)]
    fn hand_over_to_all(
        &mut self,
        session: &Session,
        subflows: &mut Subflows,
        on: SubflowSet,
        from: u64,
        burst: u64,
    ) -> (u64, u64) {
        on.iter()
            .map(|id| self.hand_over(session, subflows, id, from, burst))
            .fold((0, 0), |(most, all), sent| (sent.max(most), all + sent))
    }

    /// `[from, from + sent)` was scheduled: new data, data sent ahead, or a repetition. `handed` counts the bytes of
    /// all subflows that took it. Bytes beyond the new ones are repeated.
    #[inline]
    fn advance(&mut self, from: u64, sent: u64, handed: u64) {
        let out = &mut self.stream;
        let to = from + sent;
        let unsent = out.again_end.max(out.cursor).max(from);
        let mut new = to.saturating_sub(unsent);
        if !out.ahead.is_empty() {
            new -= out.ahead.overlap(unsent, to);
        }
        self.retransmission.count(handed - new);
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
    // A run of 20 MB calls it 13,347 times.
    #[inline(always)]
    pub(super) fn hand_over(
        &mut self,
        session: &Session,
        subflows: &mut Subflows,
        id: SubflowId,
        from: u64,
        burst: u64,
    ) -> u64 {
        let end = self.stream.end.min(self.stream.window_end);
        let Some(subflow) = subflows.get_mut(id.index()).filter(|s| s.usable()) else {
            return 0;
        };
        // A mapping stays within one fragment.
        let whole = session.stack().shared.tag_per_handover;
        let end = if whole { end.min(self.stream.fragments.end(from)) } else { end };
        subflow.tcp.sending_mut().queue_mut().begin_handover();
        let (mut sent, mut piece_end) = (0, from);
        while sent < burst && from + sent < end {
            let at = from + sent;
            if at >= piece_end {
                // A full send buffer ends the burst. It is checked between fragments.
                if subflow.tcp.sending().queue().memory() >= subflow.tcp.sending().buffer().limit()
                {
                    break;
                }
                piece_end = self.stream.fragments.end(at);
            }
            let most = (burst - sent).min(end.min(piece_end) - at);
            let Some(piece) = self.stream.slice(at, most) else {
                break;
            };
            sent += piece.len() as u64;
            subflow
                .tcp
                .sending_mut()
                .queue_mut()
                .window_mut()
                .share(self.stream.window_end.saturating_sub(at));
            self.note_queued(at, subflow.tcp.sending().queue().write_end());
            subflow.tcp.sending_mut().queue_mut().enqueue(piece, at);
        }
        if let Some(view) = self.scheduling.views.iter_mut().find(|view| view.id == id) {
            view.queued_bytes = subflow.tcp.sending().queue().queued_bytes();
            view.queued_memory = subflow.tcp.sending().queue().memory();
        }
        if sent > 0 {
            self.scheduling.scheduler.on_sent(id, from, sent);
            if self.tracks {
                self.carried.note(id, from, from + sent);
            }
        }
        sent
    }
}
