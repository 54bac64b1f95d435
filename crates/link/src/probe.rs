//! Measurements of a medium for figures and tests: its throughput when it is saturated, and the delay of single
//! packets.

use anabranch_units::{ByteCount, Duration, Instant};

use crate::{Fate, Medium};

/// The number of packets that are kept in each queue. It exceeds the largest aggregate.
const BACKLOG: u64 = 128;

/// Returns the bytes that each of these lanes delivers in every window. The lanes are saturated with packets of
/// `size` bytes.
///
/// Their queues must hold 128 packets.
pub fn carried(
    medium: &mut dyn Medium<u64>,
    lanes: &[usize],
    size: ByteCount,
    window: Duration,
    windows: usize,
) -> Vec<Vec<u64>> {
    let mut bytes = vec![vec![0; windows]; lanes.len()];
    let mut now = Instant::ZERO;
    let end = Instant::ZERO + window * windows as u64;
    loop {
        for &lane in lanes {
            while medium.queued(now, lane).packets < BACKLOG {
                medium.enqueue(now, lane, 0, size);
            }
        }
        now = medium.poll_timeout().map_or(end, |at| at.max(now));
        if now >= end {
            return bytes;
        }
        while let Some((lane, fate)) = medium.poll_fate(now) {
            let place = lanes.iter().position(|&other| other == lane);
            if let (Fate::Delivered { at, .. }, Some(place)) = (fate, place) {
                bytes[place][(at.as_nanos() / window.as_nanos()) as usize] += size.0;
            }
        }
    }
}

/// Returns the delays of packets that enter a lane at intervals of `every`. An entry is `None` if the packet is lost
/// or has not left when the last one enters.
pub fn delays(
    medium: &mut dyn Medium<u64>,
    lane: usize,
    size: ByteCount,
    every: Duration,
    packets: usize,
) -> Vec<Option<Duration>> {
    let mut took = vec![None; packets];
    let entered = |packet: u64| Instant::ZERO + every * packet;
    for packet in 0..packets as u64 {
        let now = entered(packet);
        while let Some((_, fate)) = medium.poll_fate(now) {
            if let Fate::Delivered { at, packet, .. } = fate {
                took[packet as usize] = Some(at.since(entered(packet)));
            }
        }
        medium.enqueue(now, lane, packet, size);
    }
    took
}
