//! Helpers that drive a link.

use anabranch_link::{DropReason, Fate, FixedLink, Link, LinkConfig, QueueLimit};
use anabranch_units::{ByteCount, Duration, Instant, Rate, Seed};

pub(crate) const SEED: Seed = Seed { seed: 1, run: 0 };
/// The size and the rate: 1,250 bytes at 10 Mb/s take a millisecond.
pub(crate) const SIZE: ByteCount = ByteCount(1250);
pub(crate) const RATE: Rate = Rate::from_bps(10_000_000);

/// A packet's fate: its number, the time, and the reason if it was dropped.
pub(crate) type Told = (u32, Instant, Option<DropReason>);

pub(crate) fn ms(millis: u64) -> Instant {
    us(millis * 1000)
}

pub(crate) fn us(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

pub(crate) fn span(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The settings of a link with 10 Mb/s and 20 ms.
pub(crate) fn config(queue: QueueLimit) -> LinkConfig {
    LinkConfig::new("wifi.down", RATE, queue, span(20))
}

pub(crate) fn link(queue: QueueLimit) -> FixedLink<u32> {
    FixedLink::new(config(queue), SEED)
}

pub(crate) fn tell(fate: Fate<u32>) -> Told {
    match fate {
        Fate::Delivered { at, packet, .. } => (packet, at, None),
        Fate::Dropped { at, packet, why, .. } => (packet, at, Some(why)),
    }
}

/// Returns every fate that is known at `now`.
pub(crate) fn poll(link: &mut dyn Link<u32>, now: Instant) -> Vec<Told> {
    let next = || {
        let quiet = link.quiet_until(now);
        let fate = link.poll_fate(now);
        if let Some(until) = quiet {
            assert!(fate.is_none(), "a quiet link has nothing to tell");
            assert_eq!(link.poll_timeout().unwrap_or(Instant::FAR_FUTURE), until);
        }
        fate
    };
    std::iter::from_fn(next).map(tell).collect()
}

/// Polls the link at its timeouts up to `until`, and checks that each wake-up was necessary.
pub(crate) fn run(link: &mut dyn Link<u32>, until: Instant) -> Vec<Told> {
    let mut told = Vec::new();
    while let Some(at) = link.poll_timeout().filter(|&at| at <= until) {
        let fates = poll(link, at);
        for &(packet, delivered_at, why) in &fates {
            assert!(why.is_some() || delivered_at == at, "packet {packet} is delivered in time");
        }
        // Or a frame on the air was not received, and no wake-up is pending.
        let moves = link.poll_timeout().is_none_or(|next| next > at);
        assert!(!fates.is_empty() || moves, "a wake-up gets things done");
        told.extend(fates);
    }
    told
}

/// Checks that every packet is accounted for.
pub(crate) fn assert_conserved(link: &dyn Link<u32>) {
    let stats = link.stats();
    assert_eq!(stats.entered(), stats.delivered + stats.dropped() + link.in_transit(), "{stats:?}");
}
