//! What an application sees of its connection, whoever carries it: our endpoint or a kernel's socket.

use anabranch_scheduler::Hint;
use anabranch_transport::{Connection, Event, WriteError};
use anabranch_units::Instant;
use bytes::Bytes;

/// A stream of bytes each way. Nothing here waits: what cannot be done now is told by an event when it can.
pub trait Stream {
    /// When it was established.
    fn connected_at(&self) -> Option<Instant>;

    /// The next news.
    fn poll_event(&mut self) -> Option<Event>;

    /// Reads up to `limit` bytes that lie in one piece; `None` when there is nothing.
    fn read(&mut self, now: Instant, limit: usize) -> Option<Bytes>;

    /// Takes bytes to be sent, as many as there is room for.
    ///
    /// # Errors
    /// There is no room, and [`Event::Writable`] follows; or nothing can be sent any more.
    fn write(&mut self, now: Instant, bytes: Bytes) -> Result<usize, WriteError>;

    /// How many bytes had best be written at once; `None` where any number does.
    fn preferred_write(&self) -> Option<usize> {
        None
    }

    /// Whether there is room as poll(2) tells a writer; where there is not, [`Event::Writable`] follows when
    /// there is.
    fn poll_writable(&mut self) -> bool;

    /// Sets what the scheduler may know of the data that is written next. A kernel's socket has no use for it.
    fn set_hint(&mut self, _hint: Hint) {}

    /// No more will be written; what was written is still delivered.
    fn shutdown(&mut self, now: Instant);
}

impl Stream for Connection {
    fn connected_at(&self) -> Option<Instant> {
        self.connected_at()
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.poll_event()
    }

    fn read(&mut self, now: Instant, limit: usize) -> Option<Bytes> {
        self.read(now, limit)
    }

    fn write(&mut self, now: Instant, bytes: Bytes) -> Result<usize, WriteError> {
        self.write(now, bytes)
    }

    fn preferred_write(&self) -> Option<usize> {
        Some(self.preferred_write())
    }

    fn poll_writable(&mut self) -> bool {
        self.poll_writable()
    }

    fn set_hint(&mut self, hint: Hint) {
        self.set_hint(hint);
    }

    fn shutdown(&mut self, now: Instant) {
        self.shutdown(now);
    }
}
