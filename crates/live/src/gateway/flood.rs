//! Drops SYNs of a source that sends too many while the backlog is full, before any other work is done for
//! them. A flood from few addresses then costs little more than reading its packets, and SYNs of other
//! sources are still answered.
//!
//! Sources are counted in a table of fixed size with several rows. A keyed hash assigns one counter per row
//! to each source. The count of a source is the smallest of its counters. Two sources affect each other only
//! if they share the counters in all rows, which is rare.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use anabranch_units::{Duration, Instant};

/// The number of SYNs per second that are answered for one source. A browser opens six connections to a host.
/// A client retransmits a dropped SYN after a second.
const SHARE: u8 = 8;
/// The time after which all counters are cleared.
const PERIOD: Duration = Duration::from_secs(1);
/// The number of bits of a counter's index, and the number of rows. The table has 128 KiB. It can count about
/// half a million SYNs before all counters have reached [`SHARE`].
const BITS: u32 = 16;
const ROWS: usize = 2;

/// The table of counters.
#[derive(Debug)]
pub(super) struct Flood {
    rows: [Box<[u8]>; ROWS],
    keyed: RandomState,
    since: Instant,
}

impl Flood {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            rows: std::array::from_fn(|_| vec![0; 1 << BITS].into()),
            keyed: RandomState::new(),
            since: now,
        }
    }

    /// Counts a SYN of a source. Returns whether the source has sent too many.
    pub(super) fn takes_too_much(&mut self, now: Instant, source: IpAddr) -> bool {
        if now.since(self.since) >= PERIOD {
            self.since = now;
            for row in &mut self.rows {
                row.fill(0);
            }
        }
        let hash = self.keyed.hash_one(source);
        let mut least = u8::MAX;
        for (number, row) in self.rows.iter_mut().enumerate() {
            let place = hash >> (number as u32 * BITS) & ((1 << BITS) - 1);
            let counter = &mut row[place as usize];
            least = least.min(*counter);
            *counter = counter.saturating_add(1);
        }
        least >= SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u32) -> IpAddr {
        IpAddr::from((0x0a00_0000 + last).to_be_bytes())
    }

    #[test]
    fn a_source_has_its_share_each_second() {
        let mut flood = Flood::new(Instant::ZERO);
        let mut taken = |now| (0..100).filter(|_| !flood.takes_too_much(now, source(1))).count();
        assert_eq!(taken(Instant::ZERO), usize::from(SHARE));
        assert_eq!(taken(Instant::ZERO + Duration::from_millis(999)), 0);
        assert_eq!(taken(Instant::ZERO + PERIOD), usize::from(SHARE));
    }

    #[test]
    fn a_flood_does_not_block_other_sources() {
        let mut flood = Flood::new(Instant::ZERO);
        for number in 0..50_000 {
            flood.takes_too_much(Instant::ZERO, source(number % 250));
        }
        // 250 of the 65,536 counters in each row have reached the limit. Another source has both of them with
        // a probability of 1 in 69,000.
        let kept_out = (1000..2000).filter(|it| flood.takes_too_much(Instant::ZERO, source(*it)));
        assert!(kept_out.count() <= 1);
    }
}
