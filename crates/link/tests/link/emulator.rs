//! Tests of the laboratory's emulator's draws. The emulator itself counted the expected values.

use anabranch_link::{
    ConfigError, Direction, Draws, DropReason, FixedLink, Impairments, Link, LinkConfig, LossModel,
    QueueLimit,
};
use anabranch_units::{Duration, Instant, Seed};

use super::driver::{SEED, SIZE, config, ms, poll, run, span, us};

fn emulated(seed: u64, direction: Direction, loss: Option<f64>, queue: QueueLimit) -> LinkConfig {
    let draws = Draws::Emulator { seed, direction };
    LinkConfig { draws, loss: loss.map(LossModel::Bernoulli), ..config(queue) }
}

/// Returns the lost packets. They are sent 2 ms apart, so no queue builds up.
fn lost(config: LinkConfig, packets: u32, seed: Seed) -> Vec<u32> {
    let mut link = FixedLink::new(config, seed);
    let mut told = Vec::new();
    for number in 0..packets {
        link.enqueue(ms(2 * u64::from(number)), number, SIZE);
        told.extend(poll(&mut link, ms(2 * u64::from(number))));
    }
    told.extend(run(&mut link, Instant::FAR_FUTURE));
    told.iter().filter(|told| told.2 == Some(DropReason::Loss)).map(|told| told.0).collect()
}

/// Rows of groundtruth/lossy.csv without a drop of the queue. The loss is 0.5 %, and path 1 has the seed `seed` + 1.
/// The emulator lost `emu1_rndloss` of `emu1_in_p` packets.
#[test]
fn the_number_of_losses_is_that_of_the_emulator() {
    for (seed, packets, measured) in [
        (224_773, 17_047, 91),
        (821_282, 18_495, 89),
        (351_477, 19_607, 82),
        (604_885, 18_707, 85),
        (858_293, 17_543, 97),
        (111_698, 15_644, 95),
    ] {
        let config = emulated(seed + 1, Direction::Down, Some(0.005), QueueLimit::Unlimited);
        assert_eq!(lost(config, packets, SEED).len(), measured, "seed {seed}");
    }
}

#[test]
fn directions_and_seeds_differ_and_runs_do_not() {
    let of = |seed, direction, run| {
        let config = emulated(seed, direction, Some(0.02), QueueLimit::Unlimited);
        lost(config, 2_000, Seed { seed: 1, run })
    };
    let first = of(7, Direction::Down, 0);
    assert!(!first.is_empty());
    assert_eq!(first, of(7, Direction::Down, 1));
    assert_ne!(first, of(7, Direction::Up, 0));
    assert_ne!(first, of(8, Direction::Down, 0));
}

/// Returns how much later than service and delay a packet arrives that finds an idle link.
fn lateness(link: &mut FixedLink<u32>, number: u32, at: Instant) -> Duration {
    link.enqueue(at, number, SIZE);
    let told = run(link, at + span(100));
    let arrived = told.iter().find(|told| told.0 == number).expect("it arrives");
    arrived.1.since(at + span(21))
}

#[test]
fn a_packet_that_finds_no_room_draws_no_jitter() {
    let jittery = |queue| {
        let config = emulated(7, Direction::Down, None, queue);
        FixedLink::new(LinkConfig { jitter: span(1), ..config }, SEED)
    };
    let mut plain = jittery(QueueLimit::Packets(1));
    let expected = [lateness(&mut plain, 0, ms(0)), lateness(&mut plain, 1, ms(200))];
    assert_ne!(expected[0], expected[1]);
    assert!(expected.iter().all(|&late| late > Duration::ZERO && late < span(1)));

    let mut full = jittery(QueueLimit::Packets(1));
    full.enqueue(us(0), 0, SIZE);
    full.enqueue(us(0), 9, SIZE);
    let told = run(&mut full, ms(100));
    assert!(told.contains(&(9, us(0), Some(DropReason::QueueFull))), "{told:?}");
    assert_eq!(lateness(&mut full, 1, ms(200)), expected[1]);
}

#[test]
fn a_packet_draws_no_loss_while_the_link_is_down() {
    use anabranch_link::Change;
    let config = || emulated(7, Direction::Down, Some(0.02), QueueLimit::Unlimited);
    let mut link = FixedLink::new(config(), SEED);
    link.set(us(0), Change::Down);
    (0..500).for_each(|number| link.enqueue(us(0), 100_000 + number, SIZE));
    link.set(us(0), Change::Up);
    let mut told = poll(&mut link, us(0));
    assert_eq!(told.len(), 500);
    for number in 0..2_000 {
        link.enqueue(ms(2 * u64::from(number)), number, SIZE);
    }
    told = run(&mut link, Instant::FAR_FUTURE);
    let found: Vec<u32> =
        told.iter().filter(|told| told.2 == Some(DropReason::Loss)).map(|told| told.0).collect();
    assert_eq!(found, lost(config(), 2_000, SEED));
}

#[test]
fn only_a_plain_link_accepts_the_emulator_s_draws() {
    let impairments = Impairments { duplicate: 0.1, ..Impairments::NONE };
    let plain = emulated(7, Direction::Down, None, QueueLimit::Unlimited);
    assert_eq!(plain.check(), Ok(()));
    assert_eq!(LinkConfig { impairments, ..plain }.check(), Err(ConfigError::Draws));
}
