//! Compares links with queueing theory: bursts into a drop-tail queue, and M/D/1.

use anabranch_link::{DropReason::QueueFull, FixedLink, Link, LinkConfig, QueueLimit};
use anabranch_units::{Duration, Instant};

use crate::driver::{RATE, SEED, SIZE, assert_conserved, link, ms, run, us};

/// The service time of a packet. The propagation delay is 20 ms.
const SERVICE_US: u64 = 1000;

#[test]
fn the_first_q_packets_of_a_burst_pass_one_service_time_apart() {
    for (packets, room) in [(1, 1), (5, 8), (8, 8), (9, 8), (1000, 8), (300, 1)] {
        let mut link = link(QueueLimit::Packets(room));
        for packet in 0..packets {
            link.enqueue(ms(7), packet, SIZE);
        }
        let told = run(&mut link, Instant::FAR_FUTURE);
        let passed: Vec<_> = told.iter().filter(|t| t.2.is_none()).map(|t| (t.0, t.1)).collect();
        let served = u64::from(packets).min(room);
        let expected: Vec<_> =
            (0..served).map(|n| (n as u32, us(7000 + (n + 1) * SERVICE_US + 20_000))).collect();
        assert_eq!(passed, expected, "{packets} packets into a queue of {room}");
        let dropped: Vec<_> =
            told.iter().filter(|t| t.2 == Some(QueueFull)).map(|t| (t.0, t.1)).collect();
        let expected: Vec<_> = (served as u32..packets).map(|n| (n, ms(7))).collect();
        assert_eq!(dropped, expected, "the last ones, and when they came");
        assert_conserved(&link);
    }
}

/// Returns the dropped packets, if packets arrive `gap_us` apart at a queue of `room`.
fn dropped(gap_us: u64, room: u64, packets: u32) -> Vec<u32> {
    let mut link = link(QueueLimit::Packets(room));
    let mut told = Vec::new();
    for packet in 0..packets {
        let now = us(gap_us * u64::from(packet));
        told.extend(run(&mut link, now));
        link.enqueue(now, packet, SIZE);
    }
    told.extend(run(&mut link, Instant::FAR_FUTURE));
    told.iter().filter(|t| t.2 == Some(QueueFull)).map(|t| t.0).collect()
}

#[test]
fn at_twice_the_rate_every_other_packet_is_dropped_once_the_queue_is_full() {
    // A queue of 3, and a packet every half service time. The number of packets that each one finds, including the
    // one in service, if departures come first: 0 1 1 2 2 3! 2 3! 2 ...
    assert_eq!(dropped(500, 3, 12), [5, 7, 9, 11]);
    // The queue gains one packet per two arrivals, so a queue of q is first full for packet 2 q - 1.
    for room in 1..20 {
        assert_eq!(dropped(500, room, 60).first(), Some(&(2 * room as u32 - 1)));
    }
}

#[test]
fn only_packets_above_the_rate_are_dropped() {
    // If the queue is never empty, floor((N - 1) gap / S) packets depart during N arrivals. At most `room` packets are
    // inside at the end, and all others were dropped.
    for (gap, room) in [(900, 5), (750, 10), (600, 2), (333, 7), (10, 50)] {
        let packets = 5000;
        let served = (packets - 1) * gap / SERVICE_US + room;
        let lost = dropped(gap, room, packets as u32).len() as u64;
        let expected = packets - served;
        // The phase decides whether the last packet finds a free place: a difference of one packet.
        assert!(lost.abs_diff(expected) <= 1, "gap {gap}, room {room}: {lost} against {expected}");
    }
    assert!(dropped(1000, 1, 5000).is_empty(), "at the rate itself nothing is");
}

/// Returns the mean of correlated values, and its standard error by batch means (Law, "Simulation Modeling and
/// Analysis", section 9.5.3). Batches that are much longer than the correlation time are nearly independent.
fn batch_means(values: &[f64]) -> (f64, f64) {
    const BATCHES: usize = 40;
    let length = values.len() / BATCHES;
    let means: Vec<f64> = values
        .chunks_exact(length)
        .map(|batch| batch.iter().sum::<f64>() / length as f64)
        .collect();
    let count = means.len() as f64;
    let mean = means.iter().sum::<f64>() / count;
    let variance = means.iter().map(|m| (m - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// Returns how long each of `packets` Poisson arrivals waits for its service at this load, in units of the service
/// time.
fn waits(load: f64, packets: u32) -> Vec<f64> {
    let settings = LinkConfig::new("md1", RATE, QueueLimit::Unlimited, Duration::ZERO);
    let mut link = FixedLink::new(settings, SEED);
    let mut stream = SEED.stream("arrivals");
    let service = RATE.transmit_time(SIZE);
    let mut now = Instant::ZERO;
    let mut entered = Vec::with_capacity(packets as usize);
    let mut waits = Vec::with_capacity(packets as usize);
    let mut note = |entered: &[Instant], told: Vec<crate::driver::Told>| {
        for (packet, at, _) in told {
            let waited = at.since(entered[packet as usize] + service);
            waits.push(waited.as_secs_f64() / service.as_secs_f64());
        }
    };
    for packet in 0..packets {
        let gap = -(1.0 - stream.uniform()).ln() / load * service.as_secs_f64();
        now += Duration::from_secs_f64(gap);
        note(&entered, run(&mut link, now));
        entered.push(now);
        link.enqueue(now, packet, SIZE);
    }
    note(&entered, run(&mut link, Instant::FAR_FUTURE));
    assert_eq!(waits.len(), packets as usize);
    waits
}

#[test]
fn poisson_arrivals_wait_as_in_the_pollaczek_khinchine_formula() {
    // M/D/1: the mean wait is rho / (2 mu (1 - rho)), with mu = 1 here.
    for (load, packets) in [(0.2, 200_000), (0.5, 400_000), (0.8, 1_000_000), (0.9, 2_000_000)] {
        let waits = waits(load, packets);
        let (mean, error) = batch_means(&waits);
        let theory = load / (2.0 * (1.0 - load));
        // Student's t with 39 degrees of freedom exceeds 4 for one in 3600 seeds.
        assert!(
            (mean - theory).abs() < 4.0 * error,
            "load {load}: {mean} +- {error} against {theory}"
        );
        assert!(4.0 * error < 0.08 * theory, "load {load}: +- {error} would find nothing");
        // Poisson arrivals see time averages: the fraction that finds the server busy is rho.
        let busy: Vec<f64> = waits.iter().map(|wait| f64::from(u8::from(*wait > 0.0))).collect();
        let (share, error) = batch_means(&busy);
        assert!((share - load).abs() < 4.0 * error, "load {load}: {share} +- {error} are busy");
    }
}
