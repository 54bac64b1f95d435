//! An application's interface to its connection: a connection of our endpoint, or a kernel's socket.

use anabranch_mptcp::{Connection, Event, WriteError};
use anabranch_scheduler::Hint;
use anabranch_units::Instant;
use bytes::Bytes;

/// A bidirectional byte stream. No method blocks: an event reports when an operation becomes
/// possible.
pub trait Stream {
    /// Returns the time at which the stream was established.
    fn connected_at(&self) -> Option<Instant>;

    /// Returns the next event.
    fn poll_event(&mut self) -> Option<Event>;

    /// Reads up to `limit` contiguous bytes; `None` if there is nothing to read.
    fn read(&mut self, now: Instant, limit: usize) -> Option<Bytes>;

    /// Writes as many bytes as the send buffer accepts.
    ///
    /// # Errors
    /// Returns an error if the buffer is full; [`Event::Writable`] then follows. Also returns one if the
    /// stream no longer accepts data.
    fn write(&mut self, now: Instant, bytes: Bytes) -> Result<usize, WriteError>;

    /// Returns the preferred number of bytes per write; `None` if there is no preference.
    fn preferred_write(&self) -> Option<usize> {
        None
    }

    /// Returns whether poll(2) would report the stream as writable. If not, [`Event::Writable`]
    /// follows.
    fn poll_writable(&mut self) -> bool;

    /// Sets the scheduler hint for the data that is written next. A kernel's socket ignores it.
    fn set_hint(&mut self, _hint: Hint) {}

    /// Closes the sending direction. Written data is still delivered.
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
