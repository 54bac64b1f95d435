//! Loss and jitter: rates within the bounds of chance, and the same luck for the same seed.

use anabranch_link::{DropReason, FixedLink, Link, LossAt, LossModel, QueueLimit};
use anabranch_units::{Duration, Instant, Seed};

use crate::driver::{SEED, SIZE, Told, config, ms, run, us};

const PACKETS: u32 = 200_000;

/// Sends packets a millisecond apart; `true` stands for a lost one.
fn losses(model: LossModel, at: LossAt, seed: Seed) -> Vec<bool> {
    let mut settings = config(QueueLimit::Packets(100));
    settings.loss = Some(model);
    settings.loss_at = at;
    let mut link = FixedLink::new(settings, seed);
    let mut lost = vec![false; PACKETS as usize];
    for packet in 0..PACKETS {
        link.enqueue(ms(u64::from(packet)), packet, SIZE);
    }
    for (packet, _, why) in run(&mut link, Instant::FAR_FUTURE) {
        lost[packet as usize] = why == Some(DropReason::Loss);
    }
    assert_eq!(link.in_transit(), 0);
    lost
}

fn count(losses: &[bool]) -> f64 {
    losses.iter().filter(|&&lost| lost).count() as f64
}

#[test]
fn bernoulli_loses_its_share() {
    for at in [LossAt::Entry, LossAt::Exit] {
        for probability in [0.005, 0.1] {
            let lost = count(&losses(LossModel::Bernoulli(probability), at, SEED));
            let mean = f64::from(PACKETS) * probability;
            // Four standard deviations of the binomial distribution: 1 in 16,000 seeds exceed it.
            let bound = 4.0 * (mean * (1.0 - probability)).sqrt();
            assert!(lost > 0.0, "a link that never loses would test nothing");
            assert!((lost - mean).abs() < bound, "lost {lost}, expected {mean} +- {bound}");
        }
    }
}

#[test]
fn gilbert_elliott_loses_its_share_in_bursts() {
    let (p, r) = (0.01, 0.2);
    let model = LossModel::GilbertElliott { p, r, h: 0.0, k: 1.0 };
    let losses = losses(model, LossAt::Exit, SEED);
    let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
    let lost = count(&losses);
    // About 1,900 bursts of geometric length (deviation near 1 / r): 4 deviations are near 10 %.
    assert!((lost / bursts * r - 1.0).abs() < 0.1, "mean burst {} packets", lost / bursts);
    let share = lost / f64::from(PACKETS);
    assert!((share / model.mean_loss() - 1.0).abs() < 0.15, "lost {share} of the packets");
}

#[test]
fn the_good_state_may_lose_and_the_bad_one_may_spare() {
    let model = LossModel::GilbertElliott { p: 0.02, r: 0.1, h: 0.7, k: 0.99 };
    let share = count(&losses(model, LossAt::Entry, SEED)) / f64::from(PACKETS);
    assert!((share / model.mean_loss() - 1.0).abs() < 0.1, "lost {share} of the packets");
}

#[test]
fn the_seed_and_the_name_make_the_luck() {
    let model = LossModel::Bernoulli(0.1);
    let first = losses(model, LossAt::Exit, SEED);
    assert_eq!(first, losses(model, LossAt::Exit, SEED));
    assert_eq!(first, losses(model, LossAt::Entry, SEED), "the n-th packet has the n-th luck");
    assert_ne!(first, losses(model, LossAt::Exit, Seed { seed: 1, run: 1 }));
}

/// Sends packets so fast that every second one finds the queue full.
fn overloaded(name: &str, jitter: Duration) -> Vec<Told> {
    let mut settings = config(QueueLimit::Packets(2));
    name.clone_into(&mut settings.name);
    settings.loss = Some(LossModel::Bernoulli(0.3));
    settings.jitter = jitter;
    let mut link = FixedLink::new(settings, SEED);
    for packet in 0..1_000 {
        link.enqueue(us(500 * u64::from(packet)), packet, SIZE);
    }
    run(&mut link, Instant::FAR_FUTURE)
}

#[test]
fn jitter_draws_from_a_stream_of_its_own() {
    let fates = |jitter, name| {
        let mut told = overloaded(name, jitter);
        told.sort_unstable();
        told.into_iter().map(|(packet, _, why)| (packet, why)).collect::<Vec<_>>()
    };
    let still = fates(Duration::ZERO, "wifi.down");
    assert_eq!(still, fates(Duration::from_millis(5), "wifi.down"));
    assert_ne!(still, fates(Duration::ZERO, "lte.down"), "each link has its own luck");
}

#[test]
fn a_packet_dropped_at_the_entry_takes_its_luck_with_it() {
    // Packet n is lost at the exit of the overloaded link only if an idle link loses packet n too.
    let idle = losses(LossModel::Bernoulli(0.3), LossAt::Exit, SEED);
    let told = overloaded("wifi.down", Duration::ZERO);
    assert!(told.iter().any(|t| t.2 == Some(DropReason::QueueFull)));
    for (packet, _, why) in told {
        if why != Some(DropReason::QueueFull) {
            assert_eq!(why.is_some(), idle[packet as usize], "packet {packet}");
        }
    }
}

#[test]
fn jitter_is_bounded_and_keeps_the_order() {
    let mut settings = config(QueueLimit::Unlimited);
    settings.jitter = Duration::from_millis(5);
    let mut link = FixedLink::new(settings, SEED);
    for packet in 0..10_000 {
        link.enqueue(ms(u64::from(packet)), packet, SIZE);
    }
    let told = run(&mut link, Instant::FAR_FUTURE);
    assert!(told.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1));
    let extra: Vec<_> = told
        .iter()
        .map(|&(packet, at, _)| at.as_nanos() - ms(u64::from(packet) + 21).as_nanos())
        .collect();
    assert!(extra.iter().all(|&nanos| nanos <= 5_000_000), "waiting for others adds nothing");
    assert!(extra.iter().any(|&nanos| nanos < 500_000), "the delay itself is the floor");
    assert!(extra.iter().any(|&nanos| nanos > 4_500_000), "all of the jitter is used");
}
