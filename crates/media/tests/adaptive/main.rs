//! Tests of the adaptive player on a link with known rate and latency. Start, stalls and switches
//! are compared with formulas, and some properties must hold on any link.

mod groups;
mod sound;

use anabranch_media::{
    AdaptiveConfig, AdaptiveEvent, AdaptiveEventKind, AdaptivePlayer, Append, Chunk, ChunkRecord,
    Ladder, MediaTime, PlayerModel, Rendition, Requests, Resource, SyntheticLadder, Track,
    build_abr,
};
use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant};
use proptest::prelude::*;
use std::sync::Arc;

/// The number of bytes that arrive at once.
const PIECE: u64 = 1_000;

fn rendition(name: &str, rate_bps: u64, chunks: usize) -> Rendition {
    let chunk = |index: usize| Chunk {
        path: format!("{name}/{index}.ts"),
        offset: None,
        bytes: rate_bps / 2,
        duration_ns: 4_000_000_000,
        gap: false,
    };
    Rendition {
        name: name.into(),
        bandwidth_bps: rate_bps,
        average_bps: None,
        width: 0,
        height: 0,
        frame_rate: None,
        codecs: String::new(),
        playlist: Resource { path: format!("{name}.m3u8"), bytes: PIECE },
        init: None,
        later_inits: Vec::new(),
        sound: 0,
        chunks: (0..chunks).map(chunk).collect(),
    }
}

/// Returns a ladder with chunks of 4 s at these rates. Every playlist has `PIECE` bytes.
fn ladder(rates_bps: &[u64], chunks: usize) -> Ladder {
    let renditions =
        rates_bps.iter().map(|rate| rendition(&rate.to_string(), *rate, chunks)).collect();
    let master = Resource { path: "master.m3u8".into(), bytes: PIECE };
    Ladder { name: "toy".into(), master, renditions, audio: None, more_audio: Vec::new() }
}

/// A link with a latency for each response. The rate changes at given times (s, bits/s).
#[derive(Clone, Debug)]
struct Toy {
    latency_s: f64,
    rates: Vec<(f64, f64)>,
}

impl Toy {
    fn new(latency_s: f64, rate_bps: f64) -> Self {
        Self { latency_s, rates: vec![(0.0, rate_bps)] }
    }

    /// Returns the arrival time of `bytes` whose transfer begins at `from`.
    fn arrival(&self, from: f64, bytes: u64) -> f64 {
        let begun = self.rates.iter().rev().find(|(since, _)| *since <= from);
        from + bytes as f64 * 8.0 / begun.map_or(1.0, |(_, rate)| *rate)
    }
}

struct Watched {
    player: AdaptivePlayer,
    events: Vec<AdaptiveEvent>,
    resources: Vec<(f64, u32, String)>,
    /// The abandoned connections, with the times at which the player abandoned them.
    left: Vec<(f64, u32)>,
    /// The largest number of concurrent requests.
    most: usize,
    deepest: Duration,
}

impl Watched {
    /// Returns the times of all events of a type in seconds.
    fn times(&self, kind: AdaptiveEventKind) -> Vec<f64> {
        let of = self.events.iter().filter(|event| event.kind == kind);
        of.map(|event| seconds(event.time)).collect()
    }

    fn chunks(&self, track: Track) -> impl Iterator<Item = &ChunkRecord> {
        self.player.chunks().iter().filter(move |chunk| chunk.track == track)
    }
}

fn seconds(at: Instant) -> f64 {
    at.since(Instant::ZERO).as_secs_f64()
}

fn at(seconds: f64) -> Instant {
    Instant::ZERO + Duration::from_secs_f64(seconds)
}

/// A request in progress: its connection, the number of missing bytes, and the start of the next
/// transfer.
struct Coming {
    id: u64,
    connection: u32,
    left: u64,
    from: f64,
}

/// Plays the film to the end. Every connection has the full rate of the link.
fn watch(config: &AdaptiveConfig, ladder: Ladder, abr: &str, link: &Toy) -> Watched {
    ladder.check().expect("the ladder is valid");
    let files = ladder.files();
    let choice: PluginChoice = serde_json::from_str(abr).expect("a name and parameters");
    let rule = build_abr(&choice, &Registry::TABLES).expect("the rule exists");
    let mut player = AdaptivePlayer::new(config, Arc::new(ladder), rule);
    let (mut now, mut coming) = (Instant::ZERO, Vec::<Coming>::new());
    let (mut events, mut resources, mut deepest) = (Vec::new(), Vec::new(), Duration::ZERO);
    let (mut position, mut left, mut most) = (Duration::ZERO, Vec::new(), 0);
    let mut at_one_time = 0;
    while !player.is_finished() {
        while let Some(request) = player.poll_request(now) {
            if let Some(gone) = request.leaves {
                coming.retain(|it| it.connection != gone);
                left.push((seconds(now), gone));
            }
            let taken = coming.iter().any(|it| it.connection == request.connection);
            assert!(!taken, "a connection answers one request at a time");
            let bytes = request
                .range
                .map_or(files[&request.resource], |r| r.last.map_or(0, |last| last - r.first + 1));
            let (id, connection) = (request.id, request.connection);
            coming.push(Coming {
                id,
                connection,
                left: bytes,
                from: seconds(now) + link.latency_s,
            });
            most = most.max(coming.len());
            resources.push((seconds(now), request.connection, request.resource));
        }
        let pieces = coming.iter().map(|it| at(link.arrival(it.from, it.left.min(PIECE))));
        let first = pieces.enumerate().min_by_key(|(_, at)| *at);
        let next = first.map(|(_, at)| at).into_iter().chain(player.poll_timeout()).min();
        let next = next.expect("an unfinished player waits for something");
        assert!(next >= now, "time goes forward");
        at_one_time = if next == now { at_one_time + 1 } else { 0 };
        assert!(at_one_time < 100, "the player waits for a time that has come, and does nothing");
        now = next;
        if player.poll_timeout().is_some_and(|timeout| timeout <= now) {
            player.handle_timeout(now);
        } else if let Some((place, _)) = first {
            let it = &mut coming[place];
            let taken = it.left.min(PIECE);
            player.handle_bytes(now, it.id, taken);
            it.from = link.arrival(it.from, taken);
            it.left -= taken;
            coming.retain(|it| it.left > 0);
        }
        assert!(player.position(now) >= position, "the film goes forward");
        position = player.position(now);
        deepest = deepest.max(player.buffer(now).media);
        events.extend(std::iter::from_fn(|| player.poll_event()));
    }
    Watched { player, events, resources, left, most, deepest }
}

fn vlc() -> AdaptiveConfig {
    AdaptiveConfig::default()
}

fn hlsjs() -> AdaptiveConfig {
    AdaptiveConfig { model: PlayerModel::Hlsjs, ..AdaptiveConfig::default() }
}

const LOWEST: &str = r#"{"name":"fixed","rendition":0}"#;

#[track_caller]
fn assert_near(found: &[f64], expected: &[f64], tolerance: f64) {
    let near = |(found, expected): (&f64, &f64)| (found - expected).abs() <= tolerance;
    let same = found.len() == expected.len() && found.iter().zip(expected).all(near);
    assert!(same, "found {found:?}, expected {expected:?}");
}

#[test]
fn the_start_takes_two_playlists_and_six_seconds_of_film() {
    let seen = watch(&vlc(), ladder(&[1_000_000], 10), LOWEST, &Toy::new(0.1, 2e6));
    // Two playlists take 4 ms each, a chunk takes 2 s, and half a chunk 1 s. Each response starts
    // 0.1 s after its request.
    let start = 0.104 * 2.0 + 2.1 + 1.1;
    assert_near(&seen.times(AdaptiveEventKind::Start), &[start], 0.005);
    assert_near(&seen.times(AdaptiveEventKind::Underflow), &[], 0.0);
    assert_near(&seen.times(AdaptiveEventKind::End), &[start + 40.0], 0.005);
    let names: Vec<&str> = seen.resources.iter().take(3).map(|(.., name)| name.as_str()).collect();
    assert_eq!(names, ["master.m3u8", "1000000.m3u8", "1000000/0.ts"]);
    assert_eq!(seen.resources.len(), 12, "every playlist once, every chunk once");
}

#[test]
fn hlsjs_starts_with_one_chunk_and_stalls_after_each_slow_chunk() {
    let seen = watch(&hlsjs(), ladder(&[1_000_000], 10), LOWEST, &Toy::new(0.1, 0.8e6));
    // A playlist takes 0.11 s, and a chunk of 4 s takes 5.1 s.
    let start = 0.11 * 2.0 + 5.1;
    let stall = |k: usize| start + 4.0 + 5.1 * k as f64;
    let stalls: Vec<f64> = (0..9).map(stall).collect();
    let resumes: Vec<f64> = (1..10).map(|k| start + 5.1 * f64::from(k)).collect();
    assert_near(&seen.times(AdaptiveEventKind::Start), &[start], 1e-6);
    assert_near(&seen.times(AdaptiveEventKind::Underflow), &stalls, 1e-6);
    assert_near(&seen.times(AdaptiveEventKind::Resume), &resumes, 1e-6);
    assert_near(&seen.times(AdaptiveEventKind::End), &[start + 40.0 + 9.0 * 1.1], 1e-6);
}

#[test]
fn vlc_shows_chunks_while_they_arrive_and_refills_one_second() {
    let seen = watch(&vlc(), ladder(&[1_000_000], 14), LOWEST, &Toy::new(0.0, 0.8e6));
    // After the playlists, 0.8 s of film arrive per second, so 6 s have arrived after 7.5 s. An
    // underflow occurs when 0.8 t = t - 7.5, and later when 0.8 t = shown + (t - resumed). Data
    // arrives every 8 ms, which can change the result by 40 ms.
    let t0 = 0.02;
    let (underflows, resumes) = ([37.5, 43.75, 50.0, 56.25, 62.5, 68.75], [38.75, 45.0, 51.25]);
    let shifted = |times: &[f64]| times.iter().map(|t| t + t0).collect::<Vec<_>>();
    assert_near(&seen.times(AdaptiveEventKind::Start), &shifted(&[7.5]), 0.02);
    assert_near(&seen.times(AdaptiveEventKind::Underflow), &shifted(&underflows), 0.3);
    assert_near(&seen.times(AdaptiveEventKind::Resume)[..3], &shifted(&resumes), 0.2);
}

#[test]
fn no_chunk_is_requested_while_the_buffer_is_full() {
    let seen = watch(&vlc(), ladder(&[1_000_000], 30), LOWEST, &Toy::new(0.05, 20e6));
    assert!(seen.deepest <= Duration::from_secs(34), "30 s and the requested chunk");
    let asked: Vec<f64> = seen.chunks(Track::Video).map(|chunk| seconds(chunk.asked)).collect();
    let gaps: Vec<f64> = asked[9..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_near(&gaps, &vec![4.0; gaps.len()], 1e-6);
    let bytes = AdaptiveConfig {
        max_buffer_ns: Some(8_000_000_000),
        max_buffer_bytes: Some(1_500_000),
        ..vlc()
    };
    let seen = watch(&bytes, ladder(&[1_000_000], 30), LOWEST, &Toy::new(0.05, 20e6));
    assert!(seen.deepest > Duration::from_secs(15), "1.5 MB hold 12 s and a chunk");
    assert!(seen.deepest <= Duration::from_secs(16));
}

#[test]
fn the_rendition_follows_the_link_and_switches_are_shown_later() {
    let mut link = Toy::new(0.0, 5e6);
    link.rates.push((20.0, 1.5e6));
    let rates = [1_000_000, 2_000_000, 4_000_000];
    let seen = watch(&vlc(), ladder(&rates, 20), r#"{"name":"throughput"}"#, &link);
    let chosen: Vec<usize> = seen.chunks(Track::Video).map(|chunk| chunk.rendition).collect();
    assert_eq!(chosen[..3], [0, 2, 2], "nine tenths of 5 Mb/s are enough for 4");
    assert_eq!(chosen.last(), Some(&0), "nine tenths of 1.5 Mb/s are not enough for 2");
    let changes = chosen.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let switches: Vec<_> =
        seen.events.iter().filter(|event| event.kind == AdaptiveEventKind::Switch).collect();
    assert_eq!(switches.len(), changes);
    assert_eq!(
        switches[0].pts,
        MediaTime::from_nanos(4_000_000_000),
        "the start of the second chunk"
    );
    let start = seen.times(AdaptiveEventKind::Start)[0];
    assert_near(&[seconds(switches[0].time)], &[start + 4.0], 1e-9);
    let playlists = seen.resources.iter().filter(|(.., name)| name.ends_with("m3u8")).count();
    assert!(
        (3..=4).contains(&playlists),
        "a rendition's playlist is fetched when it is first used"
    );
}

#[test]
fn separate_audio_is_fetched_between_video_chunks() {
    let mut both = ladder(&[1_000_000], 10);
    both.audio = Some(rendition("audio", 100_000, 10));
    let seen = watch(&vlc(), both, LOWEST, &Toy::new(0.0, 2e6));
    assert_eq!(seen.chunks(Track::Audio).count(), 10);
    // Three playlists take 4 ms each, and 4 s of video and audio take 2.2 s. Then come 4 s of
    // video, and 2 s of audio.
    assert_near(&seen.times(AdaptiveEventKind::Start), &[0.012 + 2.2 + 2.0 + 0.1], 0.01);
    assert_eq!(seen.most, 1);
    assert!(seen.resources.iter().all(|(_, connection, _)| *connection == 0));
}

#[test]
fn the_initialization_section_is_fetched_before_the_first_chunk_of_a_rendition() {
    let mut parts = ladder(&[1_000_000, 2_000_000], 4);
    for rendition in &mut parts.renditions {
        let init = Chunk { offset: Some(0), duration_ns: 0, ..rendition.chunks[0].clone() };
        rendition.init = Some(Chunk { path: format!("{}.mp4", rendition.name), ..init });
    }
    let seen = watch(&vlc(), parts, r#"{"name":"throughput"}"#, &Toy::new(0.0, 9e6));
    let names: Vec<&str> = seen.resources.iter().map(|(.., name)| name.as_str()).collect();
    assert_eq!(
        names,
        [
            "master.m3u8",
            "1000000.m3u8",
            "1000000.mp4",
            "1000000/0.ts",
            "2000000.m3u8",
            "2000000.mp4",
            "2000000/1.ts",
            "2000000/2.ts",
            "2000000/3.ts",
        ]
    );
}

#[test]
fn hlsjs_abandons_a_chunk_that_would_stall_and_opens_a_new_connection() {
    let mut link = Toy::new(0.0, 20e6);
    link.rates.push((3.0, 0.9e6));
    let rates = [200_000, 1_000_000, 8_000_000];
    let config = AdaptiveConfig { max_buffer_ns: Some(5_000_000_000), ..hlsjs() };
    let config = AdaptiveConfig { max_buffer_bytes: Some(0), ..config };
    let seen = watch(&config, ladder(&rates, 12), r#"{"name":"hlsjs"}"#, &link);
    let given_up: Vec<_> = seen.chunks(Track::Video).filter(|chunk| chunk.abandoned).collect();
    assert!(!given_up.is_empty(), "8 Mb/s do not fit 0.9 Mb/s");
    let lost = given_up[0];
    assert!(lost.done.is_none() && lost.bytes < 4_000_000);
    let again = seen.chunks(Track::Video).find(|c| c.index == lost.index && !c.abandoned).unwrap();
    assert!(again.rendition < lost.rendition);
    let connections: Vec<u32> =
        seen.resources.iter().map(|(_, connection, _)| *connection).collect();
    assert_eq!(connections.last(), Some(&(given_up.len() as u32)));
    let left: Vec<u32> = seen.left.iter().map(|(_, connection)| *connection).collect();
    assert_eq!(left, (0..given_up.len() as u32).collect::<Vec<_>>());
    assert_eq!(seen.chunks(Track::Video).filter(|chunk| chunk.done.is_some()).count(), 12);
}

#[test]
fn hlsjs_also_abandons_a_chunk_during_a_stall() {
    let mut link = Toy::new(0.0, 200e6);
    link.rates.push((6.0, 0.9e6));
    // A chunk of 4 s is requested with one second in the buffer, so playback stalls before the
    // first check.
    let config = AdaptiveConfig { max_buffer_ns: Some(1_000_000_000), ..hlsjs() };
    let config = AdaptiveConfig { max_buffer_bytes: Some(0), ..config };
    let rates = [200_000, 1_000_000, 8_000_000];
    let seen = watch(&config, ladder(&rates, 12), r#"{"name":"hlsjs"}"#, &link);
    let stalled = seen.times(AdaptiveEventKind::Underflow)[0];
    let lost = seen.chunks(Track::Video).find(|chunk| chunk.abandoned).unwrap();
    let again = seen.chunks(Track::Video).find(|c| c.index == lost.index && !c.abandoned).unwrap();
    assert!(
        seconds(again.asked) > stalled,
        "the first check is half a chunk's duration after the request"
    );
    assert!(again.rendition < lost.rendition);
}

fn plays_without_stalls(name: &str, rate: f64, minutes: f64) {
    for abr in ["vlc-rate", "vlc-nearoptimal", "hlsjs", "bola", "mpc", "throughput"] {
        let ladder = Ladder::try_from(&SyntheticLadder::named(name)).expect("a known ladder");
        let top = ladder.renditions.len() - 1;
        let abr_json = format!(r#"{{"name":"{abr}"}}"#);
        let seen = watch(&vlc(), ladder, &abr_json, &Toy::new(0.1, rate));
        assert_near(&seen.times(AdaptiveEventKind::Underflow), &[], 0.0);
        let start = seen.times(AdaptiveEventKind::Start)[0];
        let end = start + minutes * 60.0;
        assert_near(&seen.times(AdaptiveEventKind::End), &[end], 1e-6);
        let all = seen.chunks(Track::Video).count();
        let high = seen.chunks(Track::Video).filter(|chunk| chunk.rendition == top).count();
        assert!(
            high * 10 > all * 6,
            "{abr} uses the top rendition for {high} of {all} chunks of {name}"
        );
    }
}

#[test]
fn a_ladder_of_the_paper_plays_without_stalls_on_a_fast_link() {
    plays_without_stalls("uq18-jp", 8e6, 10.0);
}

#[test]
#[ignore = "long: six films of 5 min at 40 Mbit/s"]
fn the_other_ladder_of_the_paper_plays_without_stalls_on_a_fast_link() {
    plays_without_stalls("uq18-va", 40e6, 5.0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn on_any_link_each_chunk_is_fetched_once_and_durations_add_up(
        latency_s in 0.0..0.5,
        rates in prop::collection::vec((0.0..120.0, 2e5..1e7), 1..6),
        abr in prop::sample::select(vec![
            "vlc-rate", "vlc-nearoptimal", "hlsjs", "bola", "mpc", "throughput", "fixed",
        ]),
        model in prop::sample::select(vec![PlayerModel::Vlc, PlayerModel::Hlsjs]),
        append in prop::sample::select(vec![None, Some(Append::Stream), Some(Append::Whole)]),
        requests in prop::sample::select(vec![
            None, Some(Requests::OneAtATime), Some(Requests::OneATrack),
        ]),
        sound in any::<bool>(),
    ) {
        let mut film = ladder(&[200_000, 900_000, 2_500_000], 12);
        film.audio = sound.then(|| rendition("audio", 64_000, 12));
        let mut link = Toy { latency_s, rates };
        link.rates.sort_by(|one, other| one.0.total_cmp(&other.0));
        link.rates[0].0 = 0.0;
        let config = AdaptiveConfig { model, append, requests, ..AdaptiveConfig::default() };
        let seen = watch(&config, film, &format!(r#"{{"name":"{abr}"}}"#), &link);
        let tracks = if sound { vec![Track::Video, Track::Audio] } else { vec![Track::Video] };
        for track in tracks {
            let done = seen.chunks(track).filter(|chunk| chunk.done.is_some());
            let indices: Vec<usize> = done.map(|chunk| chunk.index).collect();
            prop_assert_eq!(indices, (0..12).collect::<Vec<_>>());
        }
        let underflows = seen.times(AdaptiveEventKind::Underflow);
        let resumes = seen.times(AdaptiveEventKind::Resume);
        prop_assert_eq!(underflows.len(), resumes.len());
        let stalled: f64 = resumes.iter().zip(&underflows).map(|(to, from)| to - from).sum();
        let start = seen.times(AdaptiveEventKind::Start)[0];
        let end = seen.times(AdaptiveEventKind::End)[0];
        prop_assert!((end - start - 48.0 - stalled).abs() < 1e-6);
        let times: Vec<Instant> = seen.events.iter().map(|event| event.time).collect();
        prop_assert!(times.is_sorted(), "events are in order");
        let of = |rendition: &mut Option<usize>, chunk: &ChunkRecord| {
            let changed = rendition.replace(chunk.rendition).is_some_and(|r| r != chunk.rendition);
            Some(changed)
        };
        let shown = seen.chunks(Track::Video).filter(|chunk| chunk.done.is_some());
        let changes = shown.scan(None, of).filter(|changed| *changed).count();
        prop_assert_eq!(seen.times(AdaptiveEventKind::Switch).len(), changes);
    }
}
