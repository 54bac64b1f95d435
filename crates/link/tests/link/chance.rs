//! Tests of loss and jitter: shares within the bounds of chance, and equal draws for equal seeds.

use anabranch_link::{DropReason, FixedLink, Link, LossAt, LossModel, QueueLimit};
use anabranch_units::{Duration, Instant, Seed};

use crate::driver::{SEED, SIZE, Told, config, ms, run, us};

const PACKETS: u32 = 200_000;

/// Sends packets a millisecond apart. Returns for each whether it was lost.
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
            // Four standard deviations of the binomial distribution. 1 in 16,000 seeds exceeds them.
            let bound = 4.0 * (mean * (1.0 - probability)).sqrt();
            assert!(lost > 0.0, "a link that never loses would test nothing");
            assert!((lost - mean).abs() < bound, "lost {lost}, expected {mean} +- {bound}");
        }
    }
}

#[test]
fn bernoulli_losses_are_independent() {
    let probability = 0.05;
    let lost = losses(LossModel::Bernoulli(probability), LossAt::Exit, SEED);
    for distance in [1, 2, 5, 64] {
        let both = lost.windows(distance + 1).filter(|w| w[0] && w[distance]).count() as f64;
        // Pairs at the same distance overlap, so their count has the variance N (q - q^2 + 2 (p^3 - q^2)) with q = p^2.
        let (pairs, q) = (f64::from(PACKETS) - distance as f64, probability * probability);
        let variance = pairs * (q - q * q + 2.0 * (probability.powi(3) - q * q));
        assert!((both - pairs * q).abs() < 4.0 * variance.sqrt(), "{distance} apart: {both}");
    }
}

/// Returns the expected number of losses of a chain, and four of its standard deviations. The states of packets n apart
/// have the correlation l^n with l = 1 - p - r. The number of packets in the bad state therefore has the variance N b
/// (1 - b) (1 + l) / (1 - l). The losses in a given state add their own binomial variance.
fn expected(model: LossModel) -> (f64, f64) {
    let LossModel::GilbertElliott { p, r, h, k } = model else { panic!("no chain: {model:?}") };
    let (bad, l, packets) = (p / (p + r), 1.0 - p - r, f64::from(PACKETS));
    let states = bad * (1.0 - bad) * (1.0 + l) / (1.0 - l) * (k - h).powi(2);
    let draws = bad * h * (1.0 - h) + (1.0 - bad) * k * (1.0 - k);
    let mean = packets * (bad * (1.0 - h) + (1.0 - bad) * (1.0 - k));
    (mean, 4.0 * (packets * (states + draws)).sqrt())
}

#[test]
fn gilbert_elliott_loses_its_share() {
    for model in [
        LossModel::GilbertElliott { p: 0.01, r: 0.2, h: 0.0, k: 1.0 },
        LossModel::GilbertElliott { p: 0.02, r: 0.1, h: 0.7, k: 0.99 },
        LossModel::GilbertElliott { p: 0.005, r: 0.05, h: 0.2, k: 0.999 },
        LossModel::GilbertElliott { p: 0.3, r: 0.6, h: 0.0, k: 1.0 },
    ] {
        let lost = count(&losses(model, LossAt::Exit, SEED));
        let (mean, bound) = expected(model);
        assert!((lost - mean).abs() < bound, "lost {lost}, expected {mean} +- {bound}");
        assert!(bound < 0.3 * mean, "{bound} of {mean} would find nothing");
        assert!((model.mean_loss() * f64::from(PACKETS) / mean - 1.0).abs() < 1e-9);
    }
}

/// Returns the lengths of the runs of `what`, without the first and the last run.
fn runs(losses: &[bool], what: bool) -> Vec<f64> {
    let runs: Vec<_> = losses.chunk_by(|a, b| a == b).collect();
    let inner = &runs[1..runs.len() - 1];
    inner.iter().filter(|run| run[0] == what).map(|run| run.len() as f64).collect()
}

#[test]
fn a_simple_gilbert_chain_stays_geometrically_long() {
    let (p, r) = (0.01, 0.2);
    let losses = losses(LossModel::GilbertElliott { p, r, h: 0.0, k: 1.0 }, LossAt::Exit, SEED);
    // A visit to a state has the mean length 1/x and the standard deviation sqrt(1 - x) / x.
    for (what, leave) in [(true, r), (false, p)] {
        let runs = runs(&losses, what);
        let number = runs.len() as f64;
        let mean = runs.iter().sum::<f64>() / number;
        let bound = 4.0 * (1.0_f64 - leave).sqrt() / leave / number.sqrt();
        assert!(number > 1500.0, "{number} runs");
        assert!(
            (mean - 1.0 / leave).abs() < bound,
            "{mean} packets, not {} +- {bound}",
            1.0 / leave
        );
        // The length exceeds n with the probability (1 - x)^n.
        for n in [1, 3, 10] {
            let share = (1.0 - leave).powi(n);
            let longer = runs.iter().filter(|length| **length > f64::from(n)).count() as f64;
            let bound = 4.0 * (number * share * (1.0 - share)).sqrt();
            assert!(
                (longer - number * share).abs() < bound,
                "{longer} of {number} longer than {n}"
            );
        }
    }
}

#[test]
fn the_seed_and_the_name_determine_the_losses() {
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
fn jitter_draws_from_a_separate_stream() {
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
fn a_packet_dropped_at_the_entry_uses_its_draw() {
    // The overloaded link can lose packet n at its exit only if an idle link loses packet n, too.
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
