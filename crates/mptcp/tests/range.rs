//! The path manager `range`: which paths it joins, and its treatment of a path outside the range.

mod pair;

use anabranch_mptcp::Config;
use anabranch_mptcp::path_manager::{self, Candidate, OpenPath, PathManager};
use anabranch_plugin::PluginChoice;
use anabranch_units::{Duration, Instant, Rate};
use anabranch_wire::{Flags, MptcpOption};
use pair::{Pair, Way, at, candidate, config, film};

fn range(text: &str) -> Box<dyn PathManager> {
    path_manager::build(&PluginChoice::parse(text).expect("a plug-in")).expect("known")
}

fn open(path: usize, srtt_ms: u64, mbps: u64) -> OpenPath {
    OpenPath {
        local: candidate(path).local,
        srtt: Some(Duration::from_millis(srtt_ms)),
        rate: Some(Rate::from_bps(mbps * 1_000_000)),
    }
}

fn declared(path: usize, mbps: u64) -> Candidate {
    Candidate { rate: Some(Rate::from_bps(mbps * 1_000_000)), ..candidate(path) }
}

#[test]
fn a_rate_is_compared_with_the_largest_and_a_delay_with_the_smallest() {
    let now = Instant::ZERO;
    let in_use = [open(0, 60, 8), open(1, 20, 4)];
    let mut manager = range("range");
    let pairs = [declared(2, 1), declared(3, 2), candidate(4), declared(5, 100)];
    assert_eq!(manager.on_established(now, &pairs, &in_use), pairs[1..]);
    assert_eq!(manager.on_announced(now, &pairs, &in_use), pairs[1..]);
    assert!(manager.admits(now, &open(2, 110, 1), &in_use), "3 * 20 + 50 ms");
    assert!(!manager.admits(now, &open(3, 111, 1), &in_use));
    assert!(manager.admits(now, &OpenPath { srtt: None, ..open(4, 0, 1) }, &in_use));
    assert_eq!(manager.on_established(now, &pairs, &in_use), pairs[2..], "left alone");
    let later = now + Duration::from_secs(10);
    assert_eq!(manager.on_established(later, &pairs, &in_use), pairs[1..]);
    let mut strict = range("range(delay_factor=1, delay_margin_ms=0, rate_share=1, retry_s=3)");
    assert_eq!(strict.on_established(now, &pairs, &in_use), pairs[2..]);
    assert!(strict.admits(now, &open(2, 20, 1), &in_use));
    assert!(!strict.admits(now, &open(4, 21, 1), &in_use));
    assert_eq!(strict.on_established(at(2_999), &pairs[2..], &in_use), pairs[3..]);
    assert_eq!(strict.on_established(at(3_000), &pairs[2..], &in_use), pairs[2..]);
}

#[test]
fn range_retry_pause_doubles_up_to_a_limit_and_never_ends() {
    let in_use = [open(0, 20, 4)];
    let pairs = [candidate(1)];
    for (text, first_s, tries) in [("range", 10, 110), ("range(retry_s=1)", 1, 120)] {
        let mut manager = range(text);
        let (mut now, mut refused_at) = (Instant::ZERO, Vec::new());
        while now < at(86_400_000) {
            if !manager.on_established(now, &pairs, &in_use).is_empty() {
                assert!(!manager.admits(now, &open(1, 500, 4), &in_use));
                refused_at.push(now);
            }
            now += Duration::from_millis(500);
        }
        let waits: Vec<_> = refused_at.windows(2).map(|two| two[1].since(two[0])).collect();
        assert_eq!(waits[..3], [1, 2, 4].map(|times| Duration::from_secs(first_s * times)));
        assert_eq!(waits.last(), Some(&Duration::from_secs(900)));
        assert!(refused_at.len() < tries, "{text}: {}", refused_at.len());
        // The pauses start again after a path within the range was admitted.
        now += Duration::from_secs(900);
        assert!(manager.admits(now, &open(1, 20, 4), &in_use));
        assert!(!manager.admits(now, &open(1, 500, 4), &in_use));
        assert_eq!(
            manager.on_established(now + Duration::from_secs(first_s), &pairs, &in_use),
            pairs
        );
    }
    let none = PluginChoice::parse("range(retry_s=0)").expect("a plug-in");
    assert!(path_manager::build(&none).is_err(), "at once, for ever");
}

#[test]
fn a_path_too_far_is_reset_before_it_carries_data_and_tried_again_later() {
    let manager = PluginChoice::parse("range(retry_s=2)").expect("a plug-in");
    let client = Config { path_manager: manager, ..config() };
    let mut pair = Pair::new(&[50, 190, 210], client, config());
    pair.run_until(at(200));
    let film = film(400_000);
    pair.serve(&film[..1000]);
    pair.run_until(at(1500));
    pair.serve(&film[1000..]);
    pair.run_until(at(2400));
    let resets: Vec<_> = pair
        .sent(Way::ToServer, 2)
        .filter(|(_, _, _, segment)| segment.flags.contains(Flags::RST))
        .collect();
    assert_eq!(resets.len(), 1, "3 * 50 + 50 ms");
    let reason = resets[0].3.mptcp.iter().find_map(|option| match option {
        MptcpOption::TcpRst(reset) => Some(reset.reason),
        _ => None,
    });
    assert_eq!(reason, Some(5));
    let data = |pair: &Pair, path: usize| {
        pair.sent(Way::ToClient, path).filter(|(_, _, _, s)| !s.payload.is_empty()).count()
    };
    assert!(data(&pair, 1) > 10, "190 ms is in range");
    assert_eq!(data(&pair, 2), 0);
    assert_eq!(pair.server().view().summaries().count(), 2, "the server never had a subflow of it");
    pair.serve(&film);
    pair.run_until(at(6000));
    let syns = pair.sent(Way::ToServer, 2).filter(|(_, _, _, s)| s.flags.contains(Flags::SYN));
    let times: Vec<_> = syns.map(|(at, _, _, _)| *at).collect();
    assert!(times.len() >= 2, "tried again: {times:?}");
    let apart = times[1].since(times[0]);
    assert!(apart >= Duration::from_millis(2200), "a round trip and 2 s: {apart:?}");
    assert_eq!(pair.received, [&film[..], &film[..]].concat());
}
