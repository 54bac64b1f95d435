//! Tests that bursts (GSO), when split, equal the segments that are sent one by one.

mod pair;

use anabranch_mptcp::profile::{LINUX_6_18, MPTCP_0_94};
use anabranch_mptcp::{Config, EcnMode, Stack};
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Instant};
use anabranch_wire::{Ecn, Flags, Segment};
use bytes::Bytes;
use pair::{Pair, Way, at, film};
use proptest::prelude::*;

#[derive(Clone, Debug)]
struct Plan {
    config: Config,
    rtts: Vec<u64>,
    /// The length of each write of the server, and the wait before it in milliseconds.
    writes: Vec<(usize, u64)>,
    /// The number of bytes that the client writes at the same time, in parts.
    upload: usize,
    /// The number of packets per thousand that are lost, and that are marked. `chance` is the random seed.
    loss: u32,
    chance: u32,
    /// The largest number of segments in a burst.
    most: u32,
}

fn config() -> impl Strategy<Value = Config> {
    let stack: &[Stack] = &[LINUX_6_18, MPTCP_0_94];
    (
        prop::sample::select(stack),
        prop::sample::select(&["reno", "cubic", "bbr", "lia"][..]),
        prop::sample::select(&["linux", "min-rtt", "round-robin", "redundant"][..]),
        (any::<bool>(), any::<bool>(), prop::bool::weighted(0.7), prop::bool::weighted(0.2)),
        prop::sample::select(&[EcnMode::Off, EcnMode::Request][..]),
        prop::sample::select(&[32_768u64, 131_072, 1 << 20][..]),
        prop::sample::select(&[4096u64, 32_728][..]),
    )
        .prop_map(|(stack, congestion, scheduler, switches, ecn, buffer, fragment)| {
            let (pacing, nodelay, multipath, checksum) = switches;
            Config {
                stack,
                congestion: PluginChoice::named(congestion),
                scheduler: PluginChoice::named(scheduler),
                pacing,
                nodelay,
                ecn,
                multipath,
                checksum: checksum && multipath,
                receive_buffer_initial: buffer,
                send_fragment: fragment,
                ..Config::default()
            }
        })
}

fn plan() -> impl Strategy<Value = Plan> {
    (
        config(),
        prop::collection::vec(5..60u64, 1..3),
        // The first write is large enough for a burst.
        prop::collection::vec((1..60_000usize, 0..80u64), 1..5).prop_map(|mut writes| {
            writes.insert(0, (20_000, 0));
            writes
        }),
        0..40_000usize,
        0..40u32,
        any::<u32>(),
        2..64u32,
    )
        .prop_map(|(config, rtts, writes, upload, loss, chance, most)| Plan {
            config,
            rtts,
            writes,
            upload,
            loss,
            chance,
            most,
        })
}

impl Plan {
    /// Checks that bursts were sent, or none if each segment has its own checksum, unless losses ended MPTCP.
    /// In older stacks, one mapping covers the data scheduled at once, which may be a single segment.
    fn takes_effect(&self, pair: &mut Pair) -> bool {
        let sealed = self.config.checksum && pair.server().is_multipath();
        if sealed {
            pair.bursts == 0
        } else {
            pair.bursts > 0 || (self.config.stack.shared.tag_per_handover && self.config.multipath)
        }
    }
}

/// Returns a pseudo-random number for the packet with this number.
fn drawn(chance: u32, number: u32) -> u32 {
    let mixed = (chance ^ number.wrapping_mul(0x9e37_79b9)).wrapping_mul(0x85eb_ca6b);
    (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35) >> 8
}

/// Runs a whole transfer with bursts of up to `most` segments.
fn run(plan: &Plan, most: u32, offloads: bool) -> Pair {
    let mut pair = Pair::new(&plan.rtts, plan.config.clone(), plan.config.clone());
    (pair.most, pair.offloads) = (most, offloads);
    let (mut number, loss, chance) = (0, plan.loss, plan.chance);
    // As many ECN-capable packets are marked as are lost.
    pair.filter = Box::new(move |_, _, _, segment| {
        number += 1;
        let drawn = drawn(chance, number) % 1000;
        if segment.ecn.is_capable() && drawn < 2 * loss {
            segment.ecn = Ecn::Ce;
        }
        drawn >= loss
    });
    pair.run_until(at(150));
    let (mut moment, mut from) = (150, 0);
    let whole = film(plan.writes.iter().map(|(bytes, _)| bytes).sum());
    let piece = plan.upload / plan.writes.len();
    for (bytes, wait) in &plan.writes {
        // If its SYN was lost, the client is not open yet.
        let now = pair.now;
        let _ = pair.client().write(now, film(piece).into());
        pair.serve(&whole[from..from + bytes]);
        from += bytes;
        moment += wait;
        pair.run_until(at(moment));
    }
    pair.end();
    pair.run_until(at(moment) + Duration::from_secs(20));
    assert!(pair.received == whole, "{} of {}", pair.received.len(), whole.len());
    pair
}

/// Returns the packets of a run: time, direction, path and segment.
fn told(pair: &Pair) -> Vec<(Instant, bool, usize, &Segment)> {
    pair.log.iter().map(|(t, way, path, s)| (*t, *way == Way::ToClient, *path, s)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn split_burst_equals_segments_sent_one_by_one(plan in plan()) {
        let (alone, mut bursts) = (run(&plan, 1, false), run(&plan, plan.most, false));
        let (one, other) = (told(&alone), told(&bursts));
        let differs = one.iter().zip(&other).position(|(one, other)| one != other);
        if let Some(place) = differs {
            prop_assert!(false, "packet {}: {:?} {:?}", place, one[place], other[place]);
        }
        prop_assert_eq!(one.len(), other.len());
        prop_assert_eq!(alone.bursts, 0);
        prop_assert!(plan.takes_effect(&mut bursts), "{} bursts", bursts.bursts);
    }

    #[test]
    fn bursts_arrive_as_they_left(plan in plan()) {
        let mut pair = run(&plan, plan.most, true);
        prop_assert!(plan.takes_effect(&mut pair), "{} bursts", pair.bursts);
    }
}

/// Sends ten segments, at most `most` per burst. Returns each burst's segments, and whether it has PSH.
fn sent(most: u32, config: Config) -> Vec<(usize, bool)> {
    let mut pair = Pair::new(&[1], config.clone(), config);
    (pair.most, pair.offloads) = (most, true);
    pair.run_until(at(100));
    pair.log.clear();
    pair.serve(&film(9 * 1424 + 100));
    let data = pair.sent(Way::ToClient, 0).filter(|(_, _, _, s)| !s.payload.is_empty());
    data.map(|(_, _, _, s)| (s.payload.len().div_ceil(1424), s.flags.contains(Flags::PSH)))
        .collect()
}

#[test]
fn burst_ends_at_its_socket_buffer_or_the_end_of_data() {
    // tcp_tso_autosize: ten segments, twice per millisecond, allow 19 kB, which are 13 segments of 1448
    // bytes. All ten fit into one buffer.
    let nodelay = Config { nodelay: true, ..pair::config() };
    assert_eq!(sent(40, nodelay.clone()), [(10, true)]);
    assert_eq!(sent(4, nodelay.clone()), [(4, false), (4, false), (2, true)]);
    assert_eq!(sent(1, nodelay.clone()).len(), 10);
    // With checksums, each segment has its own mapping.
    let sealed = sent(40, Config { checksum: true, ..nodelay });
    assert!(sealed.len() == 10 && sealed.iter().all(|(segments, _)| *segments == 1));
}

#[test]
fn burst_gathers_separate_writes_without_copying() {
    for multipath in [true, false] {
        let config = Config { multipath, nodelay: true, ..pair::config() };
        let mut pair = Pair::new(&[1], config.clone(), config);
        pair.run_until(at(100));
        let (now, pieces) = (pair.now, [3000, 5000].map(|length| Bytes::from(film(length))));
        for piece in &pieces {
            assert_eq!(pair.server().write(now, piece.clone()), Ok(piece.len()));
        }
        let (mut segment, mut rest) = (Segment::default(), vec![Bytes::new()]);
        let mut found = Vec::new();
        while pair.server.poll_gather(now, 40, &mut segment, &mut rest).is_some() {
            found.extend(std::iter::once(&segment.payload).chain(&rest).cloned());
        }
        let places = |of: &[Bytes]| of.iter().map(|it| (it.as_ptr(), it.len())).collect::<Vec<_>>();
        found.retain(|piece| !piece.is_empty());
        assert_eq!(places(&found), places(&pieces), "all of it, where it was written");
    }
}
