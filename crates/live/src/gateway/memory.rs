//! Counts the memory held for connections, and resets connections if memory is short.

use std::net::IpAddr;

use anabranch_units::{Duration, Instant};

use super::Gateway;
use super::admission::Refusal;
use super::candidates::Standing;
use super::record::End;
use super::shares::Holding;

/// The shortest time between two notes about a shortage of memory.
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

    /// Counts the memory held for connections. If memory is short, resets connections and limits reading from
    /// origins.
    pub(super) fn count_memory(&mut self, now: Instant) {
        let mut holdings: Vec<Holding> = Vec::with_capacity(self.served.len());
        let mut standings: Vec<Standing> = Vec::with_capacity(self.served.len());
        // Connections whose client is gone are included, because the origin may not have read the last bytes.
        for (number, served) in &mut self.served {
            let connection = served.handle.and_then(|handle| self.endpoint.get(handle));
            let of_connection = connection.map_or([0; 2], |it| it.view().memory_held());
            let (holding, standing) = served.measure(now, *number, of_connection);
            holdings.push(holding);
            standings.push(standing);
        }
        let counted = self.shares.count(now, &holdings);
        self.admission.note_standings(now, &standings);
        for &number in &counted.reset {
            self.fail(number, End::Memory, None);
        }
        // Memory may be free now, so the connections that waited for this count are served again.
        self.agenda.note_count(now, self.shares.is_short());
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

    /// Returns the number of bytes that a connection may read from its origin now.
    pub(super) fn readable_now(&self, number: u64) -> u64 {
        if !self.shares.is_short() {
            return u64::MAX;
        }
        let Some(served) = self.served.get(&number) else { return 0 };
        let connection = served.handle.and_then(|handle| self.endpoint.get(handle));
        let [up, down] = served.held(connection.map_or([0; 2], |it| it.view().memory_held()));
        self.shares.room(number, up + down)
    }
}
