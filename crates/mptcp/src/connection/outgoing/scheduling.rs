//! Scheduling: calls the scheduler and queues data on the subflows that it chooses (`__mptcp_push_pending`).

use anabranch_tcp::config::Moment;
use anabranch_units::{Duration, Instant, SubflowId};

use super::{Outgoing, Session, Subflows};
use anabranch_scheduler::{Ask, Decision, SubflowSet};

/// The shortest time after which a waiting scheduler is called again. Otherwise a scheduler could advance
/// time by nanoseconds, and a simulation would never end. 50 µs is the timer slack of an ordinary Linux
/// thread (`PR_SET_TIMERSLACK`).
const SHORTEST_WAIT: Duration = Duration::from_micros(50);

impl Outgoing {
    /// Queues data on subflows until the scheduler waits. `ends` means that the application has closed its
    /// sending side. Returns whether there was data to schedule or a `DATA_FIN` to send.
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
        self.retransmission.clear();
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
        let Some(only) = subflows.get_first_mut().filter(|s| s.usable()) else {
            return;
        };
        while let Some(piece) =
            self.stream.read(self.stream.cursor, self.stream.end - self.stream.cursor)
        {
            let length = piece.len() as u64;
            only.tcp.supply().queue(piece, self.stream.cursor);
            self.stream.cursor += length;
        }
        self.stream.next = self.stream.cursor;
    }

    /// Prepares the next request to the scheduler. Data to reinject comes first, then new data, then other
    /// data if the scheduler `reads` it. Returns false if there is no such data.
    #[inline]
    pub(super) fn update_request(
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

    /// Returns whether the peer's window has space for the smallest amount that this stack sends: one byte,
    /// or a whole segment.
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
        self.scheduling.update_views(subflows);
        if self.scheduling.views.is_empty() {
            return;
        }
        // After an acknowledgement, the scheduler runs only if the window has space (`ack_update_msk`).
        if !self.delegation.answers() || self.stream.next < self.stream.window_end {
            self.retransmission.set_interval(now, subflows);
        }
        let (mut penalised, mut last) = (false, None);
        self.request.now = now;
        if self.delegation.is_due() && !self.push_delegated(session, subflows) {
            return;
        }
        if new && !self.delegation.answers() && self.stream.window_end <= self.stream.cursor {
            self.scheduling.scheduler.on_window_closed(&self.scheduling.views);
        }
        while self.update_request(session, subflows, reads) {
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
                        if from.is_none() && self.set_delegated(session, on, burst) {
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

    /// Sends the data queued on `last` if the scheduler now chose other subflows (`__mptcp_push_pending`).
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
            subflow.tcp.supply().push_handed_over(Moment { host: session.host(), now });
            if let Some(view) = self.scheduling.views.iter_mut().find(|view| view.id == id) {
                view.queued_memory = subflow.tcp.sending().queue().memory();
            }
        }
    }

    /// Returns the number of bytes for one decision of a scheduler that keeps its choice: whole segments of
    /// `segment` bytes up to the congestion window. Returns one `segment` if the send buffer may be full
    /// earlier.
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

    /// Executes a decision. Returns false if no data could be queued.
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
                let sent = self.push_to(session, subflows, id, from, burst);
                (sent, sent)
            }
            None => self.push_to_all(session, subflows, on, from, burst),
        };
        if reach > 0 {
            self.advance(from, reach, handed);
        }
        reach > 0
    }

    /// Like [`Self::push_to`], for several subflows. Returns the largest number of bytes that a subflow
    /// took, and the sum over all of them.
    #[inline(never)]
    fn push_to_all(
        &mut self,
        session: &Session,
        subflows: &mut Subflows,
        on: SubflowSet,
        from: u64,
        burst: u64,
    ) -> (u64, u64) {
        on.iter()
            .map(|id| self.push_to(session, subflows, id, from, burst))
            .fold((0, 0), |(most, all), sent| (sent.max(most), all + sent))
    }

    /// Records that `[from, from + sent)` was scheduled: new data, data sent ahead, or data sent again.
    /// `handed` is the number of bytes that all subflows together took. The bytes beyond the new ones count
    /// as reinjected.
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
                out.cursor = out.ahead.advance(out.cursor);
            }
        } else {
            out.ahead.insert(from, to);
        }
        out.next = out.next.max(to);
        if self.carried.has_queued() {
            self.carried.remove_queued(from, to);
        }
    }

    /// Queues up to `burst` bytes from `from` on a subflow. Returns the number of queued bytes.
    // A run of 20 MB calls it 13,347 times.
    #[inline(always)]
    pub(super) fn push_to(
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
        // A mapping does not cross the end of a fragment.
        let whole = session.stack().shared.tag_per_handover;
        let end = if whole { end.min(self.stream.fragments.end(from)) } else { end };
        subflow.tcp.supply().begin_handover();
        let (mut sent, mut piece_end) = (0, from);
        while sent < burst && from + sent < end {
            let at = from + sent;
            if at >= piece_end {
                // The burst ends when the send buffer is full. The send buffer is checked only at the end of
                // a fragment.
                if subflow.tcp.sending().queue().memory() >= subflow.tcp.sending().buffer().limit()
                {
                    break;
                }
                piece_end = self.stream.fragments.end(at);
            }
            let most = (burst - sent).min(end.min(piece_end) - at);
            let Some(piece) = self.stream.read(at, most) else {
                break;
            };
            sent += piece.len() as u64;
            subflow.tcp.supply().grow_window(self.stream.window_end.saturating_sub(at));
            self.note_queued(at, subflow.tcp.sending().queue().write_end());
            subflow.tcp.supply().queue(piece, at);
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
