//! The connections of an endpoint, identified by handles that are never reused.

use anabranch_units::Instant;

use super::timed::Timed;
use crate::connection::Connection;

/// The handle of a connection. After the connection is freed, the handle stays invalid forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionHandle {
    pub(super) slot: u32,
    /// The number of connections that the endpoint created before this one.
    pub(super) generation: u64,
}

impl ConnectionHandle {
    /// Returns the connection's slot in the endpoint's table. Slots start at 0, and a freed connection's slot
    /// is reused.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// A connection and the endpoint's data about it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) connection: Box<Connection>,
    pub(super) generation: u64,
    /// The number of the listener that accepted the connection.
    pub(super) listener: Option<u32>,
    /// Whether the connection is queued for output.
    pub(super) ready: bool,
    /// Whether the connection is queued for events.
    pub(super) news: bool,
}

impl Entry {
    /// Returns whether the connection has events and must be added to the event queue.
    /// [`Event::Drained`](crate::Event::Drained) counts as one if no timer is set (`rests`).
    #[inline]
    pub(super) fn has_untold(&self, rests: bool) -> bool {
        !self.news && (self.connection.has_news() || (rests && self.connection.is_drained()))
    }

    /// Returns whether the connection's four-tuples have changed.
    #[inline]
    pub(super) fn has_changed(&self) -> bool {
        self.connection.subflows().has_moved()
    }
}

/// The table of connections.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Timed<Entry>,
    /// The number of connections created so far.
    made: u64,
}

impl Table {
    /// Returns the number of connections created so far.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Returns the number of a new connection.
    pub(super) fn next_number(&mut self) -> u64 {
        self.made += 1;
        self.made - 1
    }

    /// Adds connection number `generation`.
    pub(super) fn insert(
        &mut self,
        generation: u64,
        connection: Connection,
        listener: Option<u32>,
    ) -> ConnectionHandle {
        let connection = Box::new(connection);
        let entry = Entry { connection, generation, listener, ready: false, news: false };
        ConnectionHandle { slot: self.entries.insert(entry) as u32, generation }
    }

    /// Removes a connection.
    pub(super) fn remove(&mut self, handle: ConnectionHandle) -> Option<Entry> {
        self.entries.remove(handle.index())
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns all connections, by slot.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Entry)> {
        self.entries.iter()
    }

    /// Sets the wake-up time of the connection in this slot.
    #[inline]
    pub(super) fn set_wake(&mut self, slot: u32, at: Instant) {
        self.entries.set_wake(slot as usize, at);
    }

    /// Returns the earliest wake-up time of all connections. `FAR_FUTURE` if no connection has one.
    #[inline]
    pub(super) fn wake(&self) -> Instant {
        self.entries.wake()
    }

    /// Returns the slot of the connection with the earliest wake-up time, if that has passed.
    pub(super) fn first_due(&self, now: Instant) -> Option<usize> {
        self.entries.first().filter(|(at, _)| *at <= now).map(|(_, slot)| slot)
    }

    #[inline]
    pub(super) fn get_slot(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)
    }

    #[inline]
    pub(super) fn get(&self, handle: ConnectionHandle) -> Option<&Entry> {
        let entry = self.entries.get(handle.index())?;
        (entry.generation == handle.generation).then_some(entry)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(handle.index())?;
        (entry.generation == handle.generation).then_some(entry)
    }
}
