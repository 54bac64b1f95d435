//! While the backlog is full: SYNs of a source beyond its share are dropped before anything else is done with them,
//! so that who floods from few addresses costs hardly more than the reading, and others are answered.
//!
//! Sources are counted in a table of fixed size by hashes nobody else can reckon. Each has a counter a row, and the
//! least of them speaks for it: two sources share all of theirs hardly ever, and then are counted together.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use anabranch_units::{Duration, Instant};

/// SYNs of one source that are answered a second. A browser opens six connections to a host; who is dropped asks again
/// after a second.
const SHARE: u8 = 8;
/// The age at which counts begin anew.
const PERIOD: Duration = Duration::from_secs(1);
/// Counters of a row, and rows: 128 KiB. Half a million sources have no more than their shares together.
const BITS: u32 = 16;
const ROWS: usize = 2;

/// The counters.
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

    /// One more SYN of a source has come; true when it is one too many.
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
    fn who_floods_takes_nothing_of_others() {
        let mut flood = Flood::new(Instant::ZERO);
        for number in 0..50_000 {
            flood.takes_too_much(Instant::ZERO, source(number % 250));
        }
        // 250 of 65,536 counters a row are used up: both of another with a chance of 1 in 69,000.
        let kept_out = (1000..2000).filter(|it| flood.takes_too_much(Instant::ZERO, source(*it)));
        assert!(kept_out.count() <= 1);
    }
}
