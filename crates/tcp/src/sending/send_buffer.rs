//! The size of a connection's send buffer (`tcp_sndbuf_expand`), and the size that was reported to the layer
//! above (`__mptcp_sync_sndbuf`).

use anabranch_congestion::INITIAL_WINDOW;
use anabranch_units::Instant;

use super::Sending;
use crate::config::TcpConfig;

/// The size of the send buffer.
#[derive(Debug)]
pub struct SendBuffer {
    /// The size in bytes of memory (`sk_sndbuf`).
    limit: u64,
    most: u64,
    memory_per_segment: u64,
    /// The growth that was not reported to the layer above (`cached_sndbuf`).
    unreported: u32,
    /// Whether growth is reported to the layer above with a delay (`MPTCP_DELEGATE_SNDBUF`).
    reports_later: bool,
    /// Whether the application waits for free space (`SOCK_NOSPACE`).
    blocked: bool,
    /// Whether the buffer has grown since [`Self::take_growth`].
    grew: bool,
    /// Whether a check for growth is postponed until data that an acknowledgement permits has been sent.
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

    /// Returns the size, in bytes of memory.
    #[inline]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Grows the buffer to `factor` times the window (`tcp_sndbuf_expand`). Returns whether it grew.
    pub(crate) fn grow(&mut self, cwnd: u32, factor: u32) -> bool {
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

    /// Returns the size that was reported to the layer above, in bytes.
    pub fn told(&self) -> u64 {
        self.limit - u64::from(self.unreported)
    }

    /// Reports the current size to the layer above.
    pub(crate) fn report(&mut self) {
        self.unreported = 0;
    }

    /// Sets whether the application waits for free space.
    pub(crate) fn set_blocked(&mut self, blocked: bool) {
        self.blocked = blocked;
    }

    /// Returns whether the application waits for free space.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Records whether the buffer has grown.
    #[inline]
    pub(super) fn note_growth(&mut self, grew: bool) {
        self.grew |= grew;
    }

    /// Returns whether the buffer has grown since the last call.
    pub(crate) fn take_growth(&mut self) -> bool {
        std::mem::take(&mut self.grew)
    }

    /// Sets whether the check for growth is postponed.
    #[inline]
    fn set_check_postponed(&mut self, waits: bool) {
        self.unchecked = waits;
    }

    /// Returns whether the check for growth is postponed, and clears the flag.
    #[inline]
    fn take_check(&mut self) -> bool {
        std::mem::take(&mut self.unchecked)
    }
}

impl Sending {
    /// Grows the buffer if the application waits for free space and the window is not full (`tcp_new_space`,
    /// `tcp_should_expand_sndbuf`). Returns whether it grew. Linux checks this after every socket buffer of
    /// new data (`tcp_event_new_data_sent`).
    #[inline]
    pub(crate) fn grow_buffer_if_needed(&mut self, now: Instant) -> bool {
        if !self.wants_space() {
            return false;
        }
        let growth = self.cwnd.poll_buffer_growth(now, self.flight.in_flight());
        growth.is_some_and(|(cwnd, factor)| self.buffer.grow(cwnd, factor))
    }

    /// Grows the buffer after an acknowledgement, like [`Self::grow_buffer_if_needed`] (`tcp_data_snd_check`). If the
    /// acknowledgement permits data, the check is postponed until that data was sent. Stacks that grow a
    /// buffer while the window is full check at once.
    #[inline]
    pub(crate) fn grow_buffer_after_ack(&mut self, now: Instant) -> bool {
        let waits = !self.cwnd.grows_buffer_while_full() && self.can_send_after_ack(now);
        self.buffer.set_check_postponed(waits);
        !waits && self.grow_buffer_if_needed(now)
    }

    /// Performs the check that an acknowledgement postponed, when no more data can be sent.
    pub(crate) fn grow_buffer_behind_data(&mut self, now: Instant) {
        if self.buffer.take_check() {
            self.grow_buffer(now);
        }
    }

    /// Returns whether data can be sent after an acknowledgement: lost segments, or queued data that is not
    /// paced.
    pub(crate) fn can_send_after_ack(&self, now: Instant) -> bool {
        let lost = self.flight.needs_repair();
        let waits = self.queue.queued_bytes() > 0 && !self.queue.must_wait_for_more();
        let paced = self.cwnd.pacer().holds_back(now);
        lost || (waits && !paced && !self.queue.shut_out())
    }

    /// Grows the buffer if permitted, and records the growth.
    #[inline]
    pub(super) fn grow_buffer(&mut self, now: Instant) {
        let grew = self.grow_buffer_if_needed(now);
        self.buffer.note_growth(grew);
    }

    /// Returns whether the send buffer has space for `bytes` more in `segments` separate socket buffers.
    pub fn has_room(&self, segments: u64, bytes: u64) -> bool {
        self.queue.memory_with(segments, bytes) <= self.buffer.limit()
    }
}
