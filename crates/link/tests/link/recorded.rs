//! Tests of links that follow a recording.

use anabranch_link::{Link, Model, QueueLimit, Trace};
use anabranch_units::{ByteCount, Instant};

use crate::driver::{SIZE, ms, run, span};
use crate::varying::{link, steps_of};

/// Returns the arrivals in µs, minus the link's 20 ms, of packets of 1,250 bytes that all enter at 0.
fn arrivals(model: &Model, packets: u32) -> Vec<u64> {
    let mut link = link(model, QueueLimit::Unlimited);
    for packet in 0..packets {
        link.enqueue(ms(0), packet, SIZE);
    }
    let told = run(&mut link, Instant::FAR_FUTURE);
    told.iter().map(|told| told.1.as_micros() - 20_000).collect()
}

#[test]
fn the_rate_is_that_of_the_moment_even_within_a_packet() {
    // 10,000 bits per packet: 5 Mb/s for 3 ms, nothing for 2 ms, then 10 Mb/s.
    let model = steps_of(&[(0, 5_000, 0, 0.0), (3, 0, 0, 0.0), (5, 10_000, 0, 0.0)], None);
    assert_eq!(arrivals(&model, 4), [2000, 5500, 6500, 7500]);
}

#[test]
fn a_recording_repeats_from_its_beginning() {
    let model = steps_of(&[(0, 10_000, 0, 0.0), (1, 1_000, 0, 0.0)], Some(11));
    assert_eq!(arrivals(&model, 5), [1000, 11_000, 12_000, 22_000, 23_000]);
}

#[test]
fn without_a_repetition_the_last_step_holds() {
    let model = steps_of(&[(0, 10_000, 0, 0.0), (1, 1_000, 0, 0.0)], None);
    assert_eq!(arrivals(&model, 4), [1000, 11_000, 21_000, 31_000]);
}

#[test]
fn the_delay_is_that_of_the_departure_and_never_reorders() {
    let model = steps_of(&[(0, 10_000, 9, 0.0), (2, 10_000, 0, 0.0)], None);
    // Departures at 1, 2, 3, ..., 15 ms. The one at 2 ms is the last of the first step.
    let expected: Vec<u64> = (1..=15).map(|n| if n < 3 { n + 9 } else { n.max(11) }).collect();
    assert_eq!(arrivals(&model, 15), expected.iter().map(|at| at * 1000).collect::<Vec<_>>());
}

#[test]
fn losses_are_those_of_the_step() {
    let model = steps_of(&[(0, 10_000, 0, 0.0), (1000, 10_000, 0, 0.25)], None);
    let mut link = link(&model, QueueLimit::Unlimited);
    for packet in 0..9000 {
        link.enqueue(ms(0), packet, SIZE);
    }
    let told = run(&mut link, Instant::FAR_FUTURE);
    let lost = |from: u32, to: u32| {
        told.iter().filter(|t| t.2.is_some() && (from..to).contains(&t.0)).count()
    };
    assert_eq!(lost(0, 1000), 0);
    // 25 % of 8,000 are 2,000, with a standard deviation of 39.
    assert!(lost(1000, 9000).abs_diff(2000) < 150, "{}", lost(1000, 9000));
}

#[test]
fn delivery_opportunities_give_lines_times_1500_bytes_over_the_period() {
    // Three opportunities in 1.5 s, so the mean rate is 3 * 12,000 bits per 1.5 s.
    let at = [400, 1000, 1500].map(span);
    let model = Model::Trace(Trace::Opportunities { at: at.into(), bytes: 1500 });
    let mut link = link(&model, QueueLimit::Unlimited);
    for packet in 0..600 {
        link.enqueue(ms(0), packet, ByteCount(1500));
    }
    let told = run(&mut link, Instant::FAR_FUTURE);
    assert_eq!(told[0].1, ms(420));
    assert_eq!(told[599].1, ms(1500 * 200 + 20));
}
