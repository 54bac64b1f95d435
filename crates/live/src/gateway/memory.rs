//! Counts the memory that connections hold, and resets connections if it is short.

use std::net::IpAddr;

use anabranch_transport::Connection;
use anabranch_units::{Duration, Instant};

use super::Gateway;
use super::admission::Refusal;
use super::record::End;
use super::shares::Holding;

/// The time between two counts: normally, and while memory is short.
const COUNT: Duration = Duration::from_millis(100);
const COUNT_WHILE_SHORT: Duration = Duration::from_millis(20);
/// A connection stands still if no byte has left for this time.
const STALLED: Duration = Duration::from_secs(10);
/// The least time between two notes that memory is short.
const NOTE: Duration = Duration::from_secs(10);

impl Gateway<'_> {
    /// Returns whether a connection from an address may be opened. Counts a refusal.
    pub(super) fn admits(&mut self, from: IpAddr) -> bool {
        let refused = self.shares.refuses(from);
        if refused {
            self.admission.refuse(Refusal::Memory);
        }
        !refused && self.admission.admits(from)
    }

    /// Counts the memory that connections hold, and resets connections if it is short.
    pub(super) fn count_memory(&mut self, now: Instant) {
        let mut holdings: Vec<Holding> = Vec::with_capacity(self.served.len());
        for (number, served) in &mut self.served {
            let connection = served.handle.and_then(|handle| self.endpoint.get(handle));
            let of_connection = connection.map_or([0; 2], Connection::memory_held);
            if served.end.is_none() {
                holdings.push(served.measure(now, *number, of_connection));
            }
        }
        let counted = self.shares.count(now, &holdings);
        if self.admission.is_crowded() {
            let stalled = holdings.iter().filter(|it| now.since(it.moved_at) >= STALLED);
            self.admission.note_stalled(stalled.map(|it| (it.moved_at, it.number)));
        } else {
            self.admission.note_stalled([]);
        }
        for &number in &counted.reset {
            self.fail(number, End::Memory);
        }
        // Process the held-back connections again: memory may be free now.
        self.touched.append(&mut self.held_back);
        self.next_count = now + if self.shares.is_short() { COUNT_WHILE_SHORT } else { COUNT };
        if counted.turned && self.shares.is_short() && now >= self.next_memory_note {
            self.next_memory_note = now + NOTE;
            let (held, limit) = (self.shares.held() >> 20, self.shares.limit() >> 20);
            let paused = self.shares.paused();
            self.watcher.note(&format!(
                "memory is short: {held} of {limit} MiB held; {paused} connections hold more than their share \
                 and wait"
            ));
        }
    }

    /// Returns how many bytes a connection may read from its origin now.
    pub(super) fn readable_now(&self, number: u64) -> u64 {
        if !self.shares.is_short() {
            return u64::MAX;
        }
        let Some(served) = self.served.get(&number) else { return 0 };
        let connection = served.handle.and_then(|handle| self.endpoint.get(handle));
        let [up, down] = served.held(connection.map_or([0; 2], Connection::memory_held));
        self.shares.room(number, up + down)
    }
}
