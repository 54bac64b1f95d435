//! The connections of an endpoint, under handles that no later connection has.

use anabranch_units::Instant;

use super::timed::Timed;
use crate::connection::Connection;

/// A connection of an endpoint. The handle of one that was freed is refused for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConnectionHandle {
    pub(super) slot: u32,
    /// How many connections the endpoint had before it.
    pub(super) generation: u64,
}

impl ConnectionHandle {
    /// Its place in the endpoint's table: a small number, which another connection gets once this one is
    /// freed. While none is freed, connections have 0, 1, 2 and so on.
    pub fn index(self) -> usize {
        self.slot as usize
    }
}

/// A connection and what the endpoint remembers of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) connection: Box<Connection>,
    pub(super) generation: u64,
    /// The listener that accepted it, by number.
    pub(super) listener: Option<u32>,
    /// It waits to be asked for segments.
    pub(super) ready: bool,
    /// It waits to be asked for news.
    pub(super) news: bool,
}

impl Entry {
    /// There is news of it that is not in the queue yet; its last, once it `rests`, is that it is drained.
    #[inline(always)]
    pub(super) fn has_untold(&self, rests: bool) -> bool {
        !self.news && (self.connection.has_news() || (rests && self.connection.is_drained()))
    }

    /// The endpoint has to look at more of it than its segments and timers.
    #[inline(always)]
    pub(super) fn has_changed(&self) -> bool {
        self.connection.subflows().has_moved()
    }
}

/// The table.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Timed<Entry>,
    /// Connections there have been.
    made: u64,
}

impl Table {
    /// Connections there have been.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// The number of one more.
    pub(super) fn number(&mut self) -> u64 {
        self.made += 1;
        self.made - 1
    }

    /// Adds the connection of a number.
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

    /// The number of connections.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All connections, by slot.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (usize, &Entry)> {
        self.entries.iter()
    }

    /// The connection in this slot wants to be woken at this time.
    #[inline(always)]
    pub(super) fn set_wake(&mut self, slot: u32, at: Instant) {
        self.entries.set_wake(slot as usize, at);
    }

    /// The time at which the first connection wants to be woken; far future for never.
    #[inline(always)]
    pub(super) fn wake(&self) -> Instant {
        self.entries.wake()
    }

    /// The slot of the first connection that wants to be woken by now.
    pub(super) fn first_due(&self, now: Instant) -> Option<usize> {
        self.entries.first().filter(|(at, _)| *at <= now).map(|(_, slot)| slot)
    }

    #[inline(always)]
    pub(super) fn slot(&mut self, slot: u32) -> Option<&mut Entry> {
        self.entries.get_mut(slot as usize)
    }

    #[inline(always)]
    pub(super) fn get(&self, handle: ConnectionHandle) -> Option<&Entry> {
        let entry = self.entries.get(handle.index())?;
        (entry.generation == handle.generation).then_some(entry)
    }

    #[inline(always)]
    pub(super) fn get_mut(&mut self, handle: ConnectionHandle) -> Option<&mut Entry> {
        let entry = self.entries.get_mut(handle.index())?;
        (entry.generation == handle.generation).then_some(entry)
    }
}
