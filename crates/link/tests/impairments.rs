//! Tests of reordering, duplication and corruption: their shares, their random streams and their totals.

use anabranch_link::{
    Chain, ConfigError, DropReason, Fate, FixedLink, Impairments, Link, LinkConfig, LossModel,
    Medium, QueueLimit, Reorder, VaryingLink, WifiMedium, WifiModel, WifiStandard,
};
use anabranch_units::{ByteCount, Duration, Instant, Rate, Seed};

const PACKETS: u64 = 100_000;
/// The size and the rate: 1,250 bytes at 10 Mb/s take a millisecond.
const SIZE: ByteCount = ByteCount(1250);
const RATE: Rate = Rate::from_bps(10_000_000);

fn ms(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

fn config(impairments: Impairments) -> LinkConfig {
    let (limit, delay) = (QueueLimit::Packets(100), Duration::from_millis(20));
    LinkConfig { impairments, ..LinkConfig::new("wifi.down", RATE, limit, delay) }
}

fn link(config: LinkConfig, run: u64) -> Box<dyn Link<u64>> {
    let seed = Seed { seed: 3, run };
    if config.is_plain() {
        Box::new(FixedLink::new(config, seed))
    } else {
        Box::new(VaryingLink::of_set_rate(config, seed))
    }
}

/// Returns the fates of packets that enter a millisecond apart, in the order of the reports. The link is polled at its
/// timeouts.
fn fates(link: &mut dyn Link<u64>, packets: u64) -> Vec<Fate<u64>> {
    let mut told = Vec::new();
    for packet in 0..packets {
        while let Some(due) = link.poll_timeout().filter(|&due| due <= ms(packet)) {
            told.extend(std::iter::from_fn(|| link.poll_fate(due)));
        }
        link.enqueue(ms(packet), packet, SIZE);
    }
    while let Some(due) = link.poll_timeout() {
        told.extend(std::iter::from_fn(|| link.poll_fate(due)));
    }
    let stats = link.stats();
    assert_eq!(link.in_transit(), 0);
    assert_eq!(stats.enqueued + stats.duplicated, stats.delivered + stats.dropped());
    told
}

/// Returns the packets that were delivered and their times: only copies, or only originals.
fn delivered(told: &[Fate<u64>], copies: bool) -> Vec<(u64, Instant)> {
    let out = |fate: &Fate<u64>| match *fate {
        Fate::Delivered { at, packet, copy, .. } if copy == copies => Some((packet, at)),
        _ => None,
    };
    told.iter().filter_map(out).collect()
}

/// Checks that a count is within four standard deviations of a binomial distribution. 1 in 16,000 seeds exceeds them.
#[track_caller]
fn assert_binomial(what: &str, count: u64, of: u64, share: f64) {
    let mean = of as f64 * share;
    let bound = 4.0 * (mean * (1.0 - share)).sqrt();
    assert!((count as f64 - mean).abs() < bound, "{what}: {count}, expected {mean} +- {bound}");
}

const BEHIND: Reorder = Reorder { share: 0.05, delay: Duration::from_micros(3_500), gap: 1 };

#[test]
fn some_packets_are_reordered() {
    for run in 0..3 {
        let impairments = Impairments { reorder: Some(BEHIND), ..Impairments::NONE };
        let mut link = link(config(impairments), run);
        assert!(!link.keeps_order());
        let told = delivered(&fates(&mut *link, PACKETS), false);
        assert_eq!(told.len() as u64, PACKETS);
        // A packet arrives 21 ms after it entered. A reordered packet arrives 3.5 ms later, after three packets
        // behind it.
        let late: Vec<u64> =
            told.iter().filter(|(n, at)| *at != ms(n + 21)).map(|told| told.0).collect();
        assert_binomial("late", late.len() as u64, PACKETS, BEHIND.share);
        assert_eq!(link.stats().reordered, late.len() as u64);
        assert!(
            told.windows(2).all(|pair| pair[0].1 <= pair[1].1),
            "reported in the order of time"
        );
        for &(packet, at) in told.iter().filter(|(packet, _)| late.contains(packet)).take(500) {
            assert_eq!(at, ms(packet + 21) + BEHIND.delay);
            let place = told.iter().position(|told| told.0 == packet).unwrap();
            let before = told[..place].iter().filter(|told| told.0 > packet).count();
            let also = (1..=3).filter(|n| late.contains(&(packet + n))).count();
            let least = 3.min(PACKETS - 1 - packet) as usize - also.min(3);
            assert_eq!(before, least, "packet {packet}");
        }
    }
}

#[test]
fn reorder_gap_n_reorders_every_nth_packet() {
    let reorder = Some(Reorder { share: 1.0, gap: 5, ..BEHIND });
    let mut link = link(config(Impairments { reorder, ..Impairments::NONE }), 0);
    let told = delivered(&fates(&mut *link, 1000), false);
    let mut late: Vec<u64> =
        told.iter().filter(|(n, at)| *at != ms(n + 21)).map(|told| told.0).collect();
    late.sort_unstable();
    assert_eq!(late, (0..200).map(|n| 5 * n + 4).collect::<Vec<_>>());
}

#[test]
fn duplicates_take_no_capacity_of_the_link() {
    for run in 0..3 {
        let impairments = Impairments { duplicate: 0.02, ..Impairments::NONE };
        let mut link = link(config(impairments), run);
        let told = fates(&mut *link, PACKETS);
        let expected: Vec<_> = (0..PACKETS).map(|n| (n, ms(n + 21))).collect();
        assert_eq!(delivered(&told, false), expected);
        let copies = delivered(&told, true);
        assert_binomial("copies", copies.len() as u64, PACKETS, 0.02);
        assert!(copies.iter().all(|&(n, at)| at == ms(n + 21)), "with what they are copies of");
        assert_eq!(link.stats().duplicated, copies.len() as u64);
        assert_eq!(link.stats().delivered, PACKETS + copies.len() as u64);
    }
}

#[test]
fn corrupted_packets_are_dropped_at_their_arrival() {
    for run in 0..3 {
        let impairments = Impairments { corrupt: 0.01, ..Impairments::NONE };
        let mut link = link(config(impairments), run);
        let told = fates(&mut *link, PACKETS);
        let mut spoilt = 0;
        for fate in &told {
            if let Fate::Dropped { at, packet, why, copy: false } = *fate {
                assert_eq!((at, why), (ms(packet + 21), DropReason::Corrupt), "the whole way");
                spoilt += 1;
            }
        }
        assert_binomial("spoilt", spoilt, PACKETS, 0.01);
        assert_eq!(link.stats().dropped_corrupt, spoilt);
    }
}

#[test]
fn some_corrupted_packets_pass_and_no_other_fate_changes() {
    let spoilt = Impairments { corrupt: 0.1, duplicate: 0.1, ..Impairments::NONE };
    let found_out = fates(&mut *link(config(spoilt), 0), PACKETS);
    let some_pass = Impairments { corrupt_passes: 0.25, ..spoilt };
    let told = fates(&mut *link(config(some_pass), 0), PACKETS);
    assert_eq!(told.len(), found_out.len());
    let (mut spoilt, mut damages) = (0, std::collections::BTreeMap::new());
    for (before, now) in found_out.iter().zip(&told) {
        match (*before, *now) {
            (
                Fate::Dropped { at, packet, why, copy },
                Fate::Delivered {
                    at: there, packet: this, copy: same, damage: Some(damage), ..
                },
            ) => {
                assert_eq!((at, packet, copy), (there, this, same));
                assert_eq!(why, DropReason::Corrupt);
                // A copy has the damage of its original.
                assert_eq!(*damages.entry(packet).or_insert(damage), damage);
                spoilt += u64::from(!copy);
            }
            (before, now) => {
                assert_eq!(before, now);
                spoilt += u64::from(matches!(now, Fate::Dropped { copy: false, .. }));
            }
        }
    }
    assert_binomial("changed", damages.len() as u64, spoilt, 0.25);
    let again = fates(&mut *link(config(some_pass), 0), PACKETS);
    assert_eq!(again, told);
}

/// Returns the lost packets, and the arrivals of the others.
fn fortunes(impairments: Impairments) -> (Vec<u64>, Vec<(u64, Instant)>) {
    let settings = LinkConfig {
        loss: Some(LossModel::Bernoulli(0.1)),
        jitter: Duration::from_micros(300),
        ..config(impairments)
    };
    // Packets come in groups of three every 2 ms, so some find the queue of two full.
    let mut link = link(LinkConfig { queue: QueueLimit::Packets(2), ..settings }, 0);
    let mut told = Vec::new();
    for packet in 0..6000 {
        let now = ms(packet / 3 * 2);
        told.extend(std::iter::from_fn(|| link.poll_fate(now)));
        link.enqueue(now, packet, SIZE);
    }
    told.extend(std::iter::from_fn(|| link.poll_fate(Instant::FAR_FUTURE)));
    let lost = |fate: &Fate<u64>| match *fate {
        Fate::Dropped { packet, why: DropReason::Loss, .. } => Some(packet),
        _ => None,
    };
    assert_eq!(link.stats().dropped_queue, 2000);
    let mut arrived = delivered(&told, false);
    arrived.sort_unstable();
    (told.iter().filter_map(lost).collect(), arrived)
}

#[test]
fn each_impairment_draws_from_its_own_stream() {
    // The link without impairments is a fixed one. The other links process packet by packet.
    let (lost, arrived) = fortunes(Impairments::NONE);
    assert!(lost.len() > 300);
    let copied = Impairments { duplicate: 0.3, ..Impairments::NONE };
    assert_eq!(fortunes(copied), (lost.clone(), arrived.clone()));
    let behind = Impairments { reorder: Some(BEHIND), ..Impairments::NONE };
    let (same, later) = fortunes(behind);
    assert_eq!(same, lost);
    let moved = later.iter().zip(&arrived).filter(|(late, turn)| late != turn).count();
    assert!((100..400).contains(&moved), "5 % of 3,700: {moved}");
    let spoilt = Impairments { corrupt: 0.3, ..behind };
    let (same, whole) = fortunes(spoilt);
    assert_eq!(same, lost);
    assert!(whole.iter().all(|told| later.contains(told)), "those left arrive as they did");
    assert!(whole.len() < arrived.len() * 8 / 10);
}

#[test]
fn impairments_also_apply_to_wifi_and_chains() {
    let all =
        Impairments { reorder: Some(BEHIND), duplicate: 0.02, corrupt: 0.01, corrupt_passes: 0.0 };
    let lane = LinkConfig { rate: Rate::UNLIMITED, ..config(all) };
    let model = WifiModel::new(WifiStandard::G, "desk");
    let mut air = WifiMedium::new("6", vec![(lane, model)], Seed { seed: 3, run: 0 });
    let mut copies = 0;
    for packet in 0..20_000 {
        while let Some(due) = air.poll_timeout().filter(|&due| due <= ms(packet)) {
            while let Some((_, fate)) = air.poll_fate(due) {
                copies += u64::from(matches!(fate, Fate::Delivered { copy: true, .. }));
            }
        }
        air.enqueue(ms(packet), 0, packet, SIZE);
    }
    let stats = *air.stats(0);
    assert!(copies > 300 && stats.reordered > 800 && stats.dropped_corrupt > 100, "{stats:?}");
    assert_eq!(stats.entered(), stats.delivered + stats.dropped() + air.in_transit(0));

    let hop = |name: &str| {
        // The second hop needs room for the copies of the first.
        let rate = Rate::from_bps(2 * RATE.bps());
        let config = LinkConfig { name: name.to_owned(), rate, ..config(all) };
        Box::new(VaryingLink::of_set_rate(config, Seed { seed: 3, run: 0 })) as Box<_>
    };
    let mut chain = Chain::new("way", vec![hop("first"), hop("second")]);
    assert!(!Link::<u64>::keeps_order(&chain));
    let told = fates(&mut chain, 20_000);
    let (first, second) = (delivered(&told, false), delivered(&told, true));
    assert!(first.windows(2).any(|pair| pair[0].0 > pair[1].0), "some were overtaken");
    assert!(first.windows(2).all(|pair| pair[0].1 <= pair[1].1), "reported in the order of time");
    assert!(second.len() > 600, "{} copies of two hops", second.len());
}

#[test]
fn a_late_poll_reports_fates_in_the_order_of_time() {
    let reorder = Some(Reorder { share: 1.0, gap: 3, delay: Duration::from_micros(4_500) });
    let mut link = link(config(Impairments { reorder, ..Impairments::NONE }), 0);
    for packet in 0..9 {
        link.enqueue(ms(0), packet, SIZE);
    }
    let told: Vec<_> = std::iter::from_fn(|| link.poll_fate(Instant::FAR_FUTURE)).collect();
    let order: Vec<u64> = delivered(&told, false).iter().map(|told| told.0).collect();
    assert_eq!(order, [0, 1, 3, 4, 6, 2, 7, 5, 8]);
}

#[test]
fn going_down_also_discards_reordered_packets() {
    let reorder = Some(Reorder { share: 1.0, gap: 2, delay: Duration::from_millis(50) });
    let mut link = link(config(Impairments { reorder, ..Impairments::NONE }), 0);
    for packet in 0..4 {
        link.enqueue(ms(0), packet, SIZE);
    }
    // Two packets are on the wire in order, and two are delayed. All are discarded except the one that has arrived.
    link.set(ms(22), anabranch_link::Change::Down);
    let told: Vec<_> = std::iter::from_fn(|| link.poll_fate(ms(22))).collect();
    assert_eq!(delivered(&told, false), [(0, ms(21))]);
    assert_eq!((link.stats().dropped_down, link.in_transit()), (3, 0));
}

#[test]
fn invalid_impairments_are_refused() {
    let none = Impairments::NONE;
    let share = |parameter, value| Err(ConfigError::Probability { parameter, value });
    assert_eq!(config(Impairments { duplicate: 1.5, ..none }).check(), share("duplicate", 1.5));
    assert_eq!(config(Impairments { corrupt: -0.1, ..none }).check(), share("corrupt", -0.1));
    let fault = config(Impairments { duplicate: 1.5, ..none }).check().expect_err("above 1");
    assert_eq!(fault.to_string(), "probability duplicate lies outside 0..1: 1.5");
    let passes = Impairments { corrupt_passes: 1.1, ..none };
    assert_eq!(config(passes).check(), share("corrupt_passes", 1.1));
    for reorder in [Reorder { delay: Duration::ZERO, ..BEHIND }, Reorder { gap: 0, ..BEHIND }] {
        let impairments = Impairments { reorder: Some(reorder), ..none };
        assert_eq!(config(impairments).check(), Err(ConfigError::Reorder));
    }
}

#[test]
#[should_panic(expected = "a fixed link is a plain one")]
fn a_fixed_link_refuses_impairments() {
    let config = config(Impairments { corrupt: 0.1, ..Impairments::NONE });
    let _ = FixedLink::<u64>::new(config, Seed { seed: 1, run: 0 });
}

#[test]
fn a_copy_is_reported_as_one_with_every_fate() {
    // All packets are duplicated. Half of them are corrupted before the duplication, so the copy is corrupted, too.
    let impairments = Impairments { duplicate: 1.0, corrupt: 0.5, ..Impairments::NONE };
    let mut link = link(config(impairments), 0);
    let told = fates(&mut *link, 1000);
    for packet in 0..1000 {
        let mut copies: Vec<bool> = told
            .iter()
            .filter_map(|fate| match *fate {
                Fate::Delivered { packet: this, copy, .. }
                | Fate::Dropped { packet: this, copy, .. } => (this == packet).then_some(copy),
            })
            .collect();
        copies.sort_unstable();
        assert_eq!(copies, [false, true], "packet {packet}");
    }
    assert!((300..700).contains(&(link.stats().dropped_corrupt / 2)));
    // A packet and its copy are on the wire when the link goes down.
    link.enqueue(ms(5_000), 1000, SIZE);
    link.set(ms(5_010), anabranch_link::Change::Down);
    let told: Vec<_> = std::iter::from_fn(|| link.poll_fate(ms(5_010))).collect();
    let copies = told.iter().map(|fate| matches!(fate, Fate::Dropped { copy: true, .. }));
    assert_eq!(copies.collect::<Vec<_>>(), [false, true]);
}
