//! The size of a subflow's send buffer (`tcp_sndbuf_expand`), and the size that its connection knows
//! (`__mptcp_sync_sndbuf`).

use anabranch_congestion::INITIAL_WINDOW;
use anabranch_units::Instant;

use super::Sending;
use crate::config::TcpConfig;

/// The size of the send buffer.
#[derive(Debug)]
pub struct SendBuffer {
    /// Bytes of memory (`sk_sndbuf`).
    limit: u64,
    most: u64,
    memory_per_segment: u64,
    /// The growth that was not reported to the connection (`cached_sndbuf`).
    unreported: u32,
    /// Growth is reported to the connection later (`MPTCP_DELEGATE_SNDBUF`).
    reports_later: bool,
    /// The application waits for room (`SOCK_NOSPACE`).
    blocked: bool,
    /// The buffer has grown since the connection last looked.
    grew: bool,
    /// An acknowledgement left the check for growth until what it lets out has gone.
    unchecked: bool,
}

impl SendBuffer {
    /// Creates the buffer of a new connection.
    pub(super) fn new(config: &TcpConfig) -> Self {
        let mut buffer = Self {
            limit: 0,
            most: config.send_buffer_max,
            memory_per_segment: config.host.send_memory_per_segment,
            unreported: 0,
            reports_later: false,
            blocked: false,
            grew: false,
            unchecked: false,
        };
        buffer.grow(INITIAL_WINDOW, 2);
        buffer.reports_later = config.reports_growth_later;
        buffer
    }

    /// Returns the size, bytes of memory.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Grows the buffer to `factor` times the window (`tcp_sndbuf_expand`). Returns whether it grew.
    pub fn grow(&mut self, cwnd: u32, factor: u32) -> bool {
        let segments = u64::from(cwnd.max(INITIAL_WINDOW));
        let wanted = u64::from(factor) * segments * self.memory_per_segment;
        let wanted = wanted.min(self.most);
        let grew = wanted > self.limit;
        if grew {
            if self.reports_later {
                self.unreported = self.unreported.saturating_add((wanted - self.limit) as u32);
            }
            self.limit = wanted;
        }
        grew
    }

    /// Returns the size that the connection knows, bytes.
    pub fn told(&self) -> u64 {
        self.limit - u64::from(self.unreported)
    }

    /// Makes the size known to the connection.
    pub fn tell(&mut self) {
        self.unreported = 0;
    }

    /// Sets whether the application waits for room.
    pub fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Returns whether the application waits for room.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Takes note of growth for the connection.
    #[inline]
    pub(super) fn note_growth(&mut self, grew: bool) {
        self.grew |= grew;
    }

    /// Returns whether the buffer has grown since the last call.
    pub fn take_growth(&mut self) -> bool {
        std::mem::take(&mut self.grew)
    }

    /// Sets whether the check for growth waits until data has gone.
    #[inline]
    fn postpone_check(&mut self, waits: bool) {
        self.unchecked = waits;
    }

    /// Returns whether the check waits, and takes it.
    #[inline]
    fn take_check(&mut self) -> bool {
        std::mem::take(&mut self.unchecked)
    }
}

impl Sending {
    /// An application that waits for room gets a larger buffer unless the window is full (`tcp_new_space`,
    /// `tcp_should_expand_sndbuf`); true when it grew. It is checked behind every socket buffer of new data
    /// (`tcp_event_new_data_sent`).
    #[inline]
    pub(crate) fn expand_buffer(&mut self, now: Instant) -> bool {
        if !self.wants_space() {
            return false;
        }
        let growth = self.cwnd.poll_buffer_growth(now, self.flight.in_flight());
        growth.is_some_and(|(cwnd, factor)| self.buffer.grow(cwnd, factor))
    }

    /// Grows the buffer after an acknowledgement, as [`Self::expand_buffer`] does (`tcp_data_snd_check`). If the
    /// acknowledgement admits data, the rest of the window after that data decides, except in stacks that grow a buffer
    /// while the window is full.
    #[inline]
    pub fn expand_buffer_after_ack(&mut self, now: Instant) -> bool {
        let waits = !self.cwnd.grows_buffer_while_full() && self.lets_out(now);
        self.buffer.postpone_check(waits);
        !waits && self.expand_buffer(now)
    }

    /// The check that an acknowledgement left until nothing more goes out.
    pub fn expand_buffer_behind_data(&mut self, now: Instant) {
        if self.buffer.take_check() {
            self.grow_buffer(now);
        }
    }

    /// An acknowledgement lets data out: what was lost, or what waits and is not paced.
    pub(crate) fn lets_out(&self, now: Instant) -> bool {
        let lost = self.flight.needs_repair();
        let waits = self.queue.queued_bytes() > 0 && !self.queue.must_wait_for_more();
        let paced = self.cwnd.pacer().holds_back(now);
        lost || (waits && !paced && !self.queue.shut_out())
    }

    /// Expands the buffer if it may grow, and takes note for the connection.
    #[inline]
    pub(super) fn grow_buffer(&mut self, now: Instant) {
        let grew = self.expand_buffer(now);
        self.buffer.note_growth(grew);
    }

    /// Returns whether the send buffer has room for `bytes` more, if each of so many `segments` had a socket buffer of
    /// its own.
    pub fn has_room(&self, segments: u64, bytes: u64) -> bool {
        self.queue.memory_with(segments, bytes) <= self.buffer.limit()
    }
}
