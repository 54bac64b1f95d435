//! The supply of a connection with data: the verbs with which the layer above changes the sending half.

use anabranch_units::Instant;
use bytes::Bytes;

use super::Tcp;
use crate::config::Moment;
use crate::sending::Sending;

/// The sending half of a connection, as the layer above may change it ([`Tcp::supply`]).
#[derive(Debug)]
pub struct Supply<'a>(&'a mut Sending);

impl Tcp {
    /// Returns the verbs with which the layer above supplies data.
    #[inline]
    pub fn supply(&mut self) -> Supply<'_> {
        Supply(&mut self.sending)
    }
}

impl Supply<'_> {
    /// Starts to send data with tags.
    pub fn begin_tags(&mut self) {
        self.0.tagging_mut().begin();
    }

    /// Ends the use of tags. Queued data keeps its tags, and the next segment still has space for options of
    /// the layer above.
    pub fn end_tags(&mut self) {
        self.0.tagging_mut().end();
    }

    /// Begins a new handover. Its data does not extend the last tag.
    #[inline]
    pub fn begin_handover(&mut self) {
        self.0.queue_mut().begin_handover();
    }

    /// Queues a payload. `data` is its position in the stream of the layer above.
    #[inline]
    pub fn queue(&mut self, payload: Bytes, data: u64) {
        self.0.queue_mut().push(payload, data);
    }

    /// Queues the FIN behind all data.
    pub fn queue_fin(&mut self) {
        self.0.queue_mut().push_fin();
    }

    /// Raises the window to `window` bytes: the part of the layer above's window from the start of the queued
    /// data on.
    #[inline]
    pub fn grow_window(&mut self, window: u64) {
        self.0.queue_mut().window_mut().grow_to(window);
    }

    /// Permits `window` bytes beyond the acknowledged data: the window of the layer above, but at least the
    /// queued data.
    #[inline]
    pub fn admit(&mut self, window: u64) {
        self.0.queue_mut().admit(window);
    }

    /// Pushes the queued data, because the next data is sent on another connection.
    pub fn push_handed_over(&mut self, moment: Moment<'_>) {
        self.0.push_handed_over(moment);
    }

    /// Pushes the queued data after an acknowledgement, before data is scheduled on another connection.
    pub fn push_answered(&mut self, moment: Moment<'_>) {
        self.0.push_answered(moment);
    }

    /// Sets whether the next socket buffer is deferred.
    pub fn set_deferred(&mut self, deferred: bool) {
        self.0.queue_mut().set_deferred(deferred);
    }

    /// Splits and retransmits the segments in flight that are larger than the path permits now. `reserved` is
    /// the position of a segment whose options need additional space, and the number of bytes.
    pub fn retransmit_larger(&mut self, now: Instant, reserved: Option<(u64, u32)>) {
        self.0.retransmit_larger(now, reserved);
    }

    /// Marks the rate sample as limited by the application, if less is queued than may be sent.
    pub fn check_app_limited(&mut self) {
        self.0.check_app_limited();
    }

    /// Records the first transmission time of each outstanding segment, and keeps it after a retransmission.
    pub fn note_first_transmissions(&mut self) {
        self.0.note_first_transmissions();
    }

    /// Halves the window at the request of the scheduler.
    pub fn penalise(&mut self) {
        self.0.penalise();
    }

    /// Sets whether the application waits for free space in the send buffer.
    #[inline]
    pub fn set_blocked(&mut self, blocked: bool) {
        self.0.buffer_mut().set_blocked(blocked);
    }

    /// Grows the send buffer after an acknowledgement, if permitted. Returns whether it grew.
    #[inline]
    pub fn grow_buffer_after_ack(&mut self, now: Instant) -> bool {
        self.0.grow_buffer_after_ack(now)
    }

    /// Performs the check that an acknowledgement postponed, when no more data can be sent.
    #[inline]
    pub fn grow_buffer_behind_data(&mut self, now: Instant) {
        self.0.grow_buffer_behind_data(now);
    }

    /// Returns whether the send buffer has grown since the last call.
    #[inline]
    pub fn take_buffer_growth(&mut self) -> bool {
        self.0.buffer_mut().take_growth()
    }

    /// Reports the current size of the send buffer to the layer above.
    pub fn report_buffer(&mut self) {
        self.0.buffer_mut().report();
    }

    /// Sets the congestion window. For tests of the layer above.
    #[doc(hidden)]
    pub fn set_cwnd(&mut self, segments: u32) {
        self.0.set_cwnd(segments);
    }

    /// Grows the send buffer to twice a window. Returns whether it grew. For tests of the layer above.
    #[doc(hidden)]
    pub fn grow_buffer(&mut self, segments: u32) -> bool {
        self.0.buffer_mut().grow(segments, 2)
    }

    /// Sets the peer's window. For tests of the layer above.
    #[doc(hidden)]
    pub fn set_window(&mut self, window: u64) {
        self.0.queue_mut().set_window(window);
    }

    /// Drops all data that was not sent. For tests of the layer above.
    #[doc(hidden)]
    pub fn discard_unsent(&mut self) {
        self.0.queue_mut().discard_unsent();
    }
}
