//! Tests of the progressive player with constructed arrivals, and of properties that hold for all
//! arrivals.

use anabranch_media::{
    BrokenReferences, Cause, Container, Fate, PacketKind, PlaybackEvent, PlaybackEventKind,
    PlayerConfig, ProgressivePlayer, RecordedFilm, RecordedPackets, Stream, SyntheticFilm,
    Timeline,
};
use anabranch_units::{Duration, Instant};
use proptest::prelude::*;
use std::sync::Arc;

const MILLI: i64 = 1_000_000;

/// Returns a film with 25 pictures per second. Each picture has 9,900 bytes and is followed by 100
/// bytes of audio: 2 Mb/s, without a header. Every `group`-th picture is an I picture, and the
/// others are P pictures.
fn plain_film(container: Container, pictures: i64, group: i64) -> Arc<Timeline> {
    let mut packets = RecordedPackets::default();
    for picture in 0..pictures {
        let key = picture % group == 0;
        for (stream, offset, size, kind) in [
            (Stream::Video, 0, 9_900, if key { PacketKind::I } else { PacketKind::P }),
            (Stream::Audio, 9_900, 100, PacketKind::Audio),
        ] {
            packets.stream.push(stream);
            packets.position.push(Some(picture * 10_000 + offset));
            packets.size.push(size);
            packets.pts_ns.push(picture * 40 * MILLI);
            packets.dts_ns.push(picture * 40 * MILLI);
            packets.kind.push(kind);
            packets.reference.push(true);
        }
    }
    let film = RecordedFilm {
        name: "plain".into(),
        container,
        size_bytes: pictures * 10_000,
        duration_ns: pictures * 40 * MILLI,
        frame_rate: 25.0,
        width: 640,
        height: 480,
        packets,
    };
    Arc::new(Timeline::try_from(&film).expect("the film is valid"))
}

fn at(millis: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(millis)
}

/// Arrivals at a constant rate: 1,000 bytes per `every`, from time `from` until `until_bytes` have
/// arrived.
#[derive(Clone, Copy)]
struct Arrivals {
    from: Instant,
    every: Duration,
    until_bytes: u64,
}

fn every(micros: u64, until_bytes: u64) -> Arrivals {
    Arrivals { from: Instant::ZERO, every: Duration::from_micros(micros), until_bytes }
}

fn after(millis: u64, phase: Arrivals) -> Arrivals {
    Arrivals { from: at(millis), ..phase }
}

fn reads(phases: &[Arrivals]) -> Vec<(Instant, u64)> {
    let mut reads = Vec::new();
    let (mut now, mut total) = (Instant::ZERO, 0);
    for phase in phases {
        now = now.max(phase.from);
        while total < phase.until_bytes {
            let n = (phase.until_bytes - total).min(1_000);
            now += phase.every;
            total += n;
            reads.push((now, n));
        }
    }
    reads
}

/// Returns a configuration that fetches an MP4 over one connection, like an MPEG-TS, so that the
/// arrivals are simple.
fn one_request() -> PlayerConfig {
    PlayerConfig { probe_end: false, ..PlayerConfig::default() }
}

/// Plays until the film ends or no event is left. Bytes that the player does not accept wait.
fn watch(
    config: PlayerConfig,
    film: &Arc<Timeline>,
    reads: &[(Instant, u64)],
) -> (ProgressivePlayer, Vec<PlaybackEvent>) {
    let ring = config.prefetch_bytes;
    let mut player = ProgressivePlayer::new(config, film.clone());
    let request = player.poll_request(Instant::ZERO).expect("a player begins with a request");
    let mut reads = reads.iter().copied().peekable();
    let (mut waiting, mut now, mut events) = (0, Instant::ZERO, Vec::new());
    while !player.is_finished() {
        let next_read = reads.peek().map(|&(time, _)| time);
        let Some(next) = next_read.into_iter().chain(player.poll_timeout()).min() else {
            break;
        };
        assert!(next >= now, "time goes forward");
        now = next;
        if player.poll_timeout().is_some_and(|timeout| timeout <= now) {
            player.handle_timeout(now);
            let later = player.poll_timeout().is_none_or(|timeout| timeout > now);
            assert!(later, "a handled timeout is no longer pending");
        } else {
            waiting += reads.next().map_or(0, |(_, n)| n);
        }
        let taken = player.readable(now).min(waiting);
        player.handle_bytes(now, request.id, taken);
        waiting -= taken;
        assert!(player.buffer(now).bytes <= ring, "the ring never overflows");
        events.extend(std::iter::from_fn(|| player.poll_event()));
    }
    (player, events)
}

fn happened(events: &[PlaybackEvent]) -> Vec<(PlaybackEventKind, Instant)> {
    events.iter().filter(|event| event.kind != Full).map(|event| (event.kind, event.time)).collect()
}

fn kinds(events: &[PlaybackEvent]) -> Vec<PlaybackEventKind> {
    happened(events).into_iter().map(|(kind, _)| kind).collect()
}

fn indices(player: &ProgressivePlayer, fate: Fate) -> Vec<u32> {
    player.frames().iter().filter(|frame| frame.fate == fate).map(|frame| frame.index).collect()
}

use PlaybackEventKind::{End, Full, Resume, Start, Underflow};

/// Returns the times and positions of the requests for a film whose header has 100,000 bytes and
/// takes 7 ms to parse. 1,000 bytes arrive per `micros`.
fn requests(config: PlayerConfig, micros: u64) -> Vec<(Instant, u64)> {
    let packets = RecordedPackets {
        stream: vec![Stream::Video; 100],
        position: (0..100).map(|at| Some(100_000 + 10_000 * at)).collect(),
        size: vec![10_000; 100],
        pts_ns: (0..100).map(|at| at * 40 * MILLI).collect(),
        dts_ns: (0..100).map(|at| at * 40 * MILLI).collect(),
        kind: vec![PacketKind::P; 100],
        reference: vec![true; 100],
    };
    let film = RecordedFilm {
        name: "header".into(),
        container: Container::Mp4,
        size_bytes: 1_100_000,
        duration_ns: 4000 * MILLI,
        frame_rate: 25.0,
        width: 640,
        height: 480,
        packets,
    };
    let mut player =
        ProgressivePlayer::new(config, Arc::new(Timeline::try_from(&film).expect("valid")));
    let first = player.poll_request(Instant::ZERO).expect("a player begins with a request");
    let mut asked = vec![(Instant::ZERO, first)];
    for (now, n) in reads(&[every(micros, 200_000)]) {
        while player.poll_timeout().is_some_and(|timeout| timeout <= now) {
            let timeout = player.poll_timeout().expect("the timeout is still set");
            player.handle_timeout(timeout);
            asked.extend(player.poll_request(timeout).map(|it| (timeout, it)));
        }
        player.handle_bytes(now, 0, n);
        asked.extend(player.poll_request(now).map(|it| (now, it)));
        if asked.len() > 1 {
            break;
        }
    }
    asked.into_iter().map(|(now, it)| (now, it.range.map_or(0, |range| range.first))).collect()
}

#[test]
fn a_seek_to_the_end_is_noticed_only_if_data_arrives_meanwhile() {
    let beginning = (Instant::ZERO, 0);
    let config = |probe_after_ns, probe_for_ns| PlayerConfig {
        probe_after_ns,
        probe_for_ns,
        ..PlayerConfig::default()
    };
    // The header is complete after 400 ms, parsing takes 7 ms, and the demuxer stays at the end for
    // 1.4 ms. Data arrives at 404, 408 and 412 ms.
    let vlc = requests(config(None, 1_400_000), 4_000);
    assert_eq!(vlc, [beginning, (at(408), 1_100_000)]);
    // The header is complete after 500 ms, and data arrives at 505 and 510 ms.
    assert_eq!(requests(config(None, 1_400_000), 5_000), [beginning]);
    // If the demuxer stays longer, the seek is noticed.
    let longer = requests(config(None, 3_100_000), 5_000);
    assert_eq!(longer, [beginning, (at(510), 1_100_000)]);
    assert_eq!(requests(config(Some(5_000_000), 1_400_000), 4_000), [beginning]);
    // With a time of zero, the seek is always noticed.
    assert_eq!(requests(PlayerConfig::default(), 5_000), [beginning, (at(507), 1_100_000)]);
    let at_once = requests(config(Some(0), 0), 4_000);
    assert_eq!(at_once, [beginning, (at(400), 1_100_000)]);
}

#[test]
fn on_a_fast_network_playback_starts_at_1250_ms_of_film_and_shows_all_pictures() {
    let film = plain_film(Container::Mp4, 100, 25);
    // 1,000 bytes per 2 ms are 4 Mb/s, twice the rate of the film.
    let (player, events) = watch(one_request(), &film, &reads(&[every(2_000, 1_000_000)]));
    // Pictures 0 to 31 cover 1,250 ms: 320,000 bytes, which take 640 ms. The first picture is due
    // 10 ms later, and the last one is displayed for 40 ms.
    assert_eq!(happened(&events), [(Start, at(640)), (End, at(650 + 100 * 40))]);
    assert_eq!(indices(&player, Fate::Displayed).len(), 100);
    for frame in &player.frames()[1..] {
        assert_eq!(frame.due, Some(at(650 + u64::from(frame.index) * 40)));
        assert_eq!(frame.shown, frame.due);
    }
}

#[test]
fn an_mpeg_ts_starts_when_its_clock_exceeds_the_cache() {
    let film = plain_film(Container::MpegTs, 100, 25);
    let (player, events) = watch(one_request(), &film, &reads(&[every(2_000, 1_000_000)]));
    // There is a clock reference every 80 ms (two pictures). The first one above 1,000 ms is in the
    // first transport packet of picture 26. The pictures are 700 ms behind the clock.
    assert_eq!(events[0].time, at(520 + 2));
    assert_eq!(player.frames()[1].due, Some(at(522 + 10 + 700 + 40)));
    assert_eq!(indices(&player, Fate::Displayed).len(), 100);
}

#[test]
fn buffering_is_full_one_clock_report_before_it_ends() {
    let film = plain_film(Container::Mp4, 100, 25);
    let (_, events) = watch(one_request(), &film, &reads(&[every(2_000, 1_000_000)]));
    // The clock report of 1,000 ms needs picture 25, and that of 1,250 ms needs picture 31. The
    // demuxer reads all packets with decoding times up to that of the report.
    let times: Vec<_> = events.iter().map(|event| (event.kind, event.time)).collect();
    assert_eq!(times[..2], [(Full, at(26 * 20)), (Start, at(32 * 20))]);
}

#[test]
fn a_slow_arrival_makes_the_decoder_drop_pictures() {
    // 60 pictures arrive early. The rest arrives at nine tenths of the film's rate, so each picture
    // is 4.4 ms later than the previous one, relative to its display time.
    let film = plain_film(Container::Mp4, 300, 25);
    let arrival = reads(&[every(1_000, 600_000), after(1_700, every(4_444, 3_000_000))]);
    let (player, events) = watch(one_request(), &film, &arrival);
    assert_eq!(kinds(&events), [Start, Underflow, Resume, End]);
    // From 267 on, pictures are more than half a period late, and the display discards them. From
    // 271 on, they leave the decoder more than a period late. After the fifth of these, 275, the
    // decoder has no output. After the twelfth, 282, it drops 283, and then one more picture per
    // late one. Pictures from 289 on are earlier than the new origin of the clock.
    let late: Vec<u32> = (267..=275).chain(289..=292).collect();
    assert_eq!(indices(&player, Fate::Discarded(Cause::Late)), late);
    let haste: Vec<u32> = (276..=283).chain([285, 287]).collect();
    assert_eq!(indices(&player, Fate::Discarded(Cause::Haste)), haste);
    assert_eq!(indices(&player, Fate::Flushed), [284, 286], "these were still in the decoder");
}

#[test]
fn data_just_in_time_causes_no_underflow() {
    let film = plain_film(Container::Mp4, 200, 25);
    // The first 4 s of film arrive early. The clock report of 4,000 ms is due at 4,650 ms and needs
    // picture 100, which takes 10 ms at 1,000 bytes per millisecond.
    let arrival =
        |resume| reads(&[every(2_000, 1_000_000), after(resume, every(1_000, 2_000_000))]);
    let (player, events) = watch(one_request(), &film, &arrival(4_640));
    assert_eq!(happened(&events), [(Start, at(640)), (End, at(650 + 200 * 40))]);
    // The decoder holds two pictures back, so pictures 98 and 99 are late. They were due at 4,570
    // and 4,610 ms.
    assert_eq!(indices(&player, Fate::Discarded(Cause::Late)), [98, 99]);
    let (_, events) = watch(one_request(), &film, &arrival(4_642));
    assert_eq!(kinds(&events)[1], Underflow);
}

#[test]
fn an_underflow_flushes_rebuffers_and_loses_pictures_before_the_new_clock() {
    let film = plain_film(Container::Mp4, 200, 25);
    let arrival = reads(&[every(2_000, 1_000_000), after(6_000, every(2_000, 2_000_000))]);
    let (player, events) = watch(one_request(), &film, &arrival);
    // Picture 100 completes the report of 4,000 ms at 6,020 ms, which is 1,370 ms late. The next
    // report, of 4,250 ms, is the new origin of the clock. The report of 5,500 ms ends the
    // buffering with picture 137.
    let resumed = 6_020 + (137 - 100) * 20;
    let end = resumed + 10 + (200 * 40 - 4_250);
    assert_eq!(
        happened(&events),
        [(Start, at(640)), (Underflow, at(6_020)), (Resume, at(resumed)), (End, at(end))]
    );
    // A single outlier in three values does not increase the network delay.
    assert!(events.iter().all(|event| event.delay == Duration::from_millis(1_000)));
    assert_eq!(indices(&player, Fate::Flushed), [99, 100], "these were still in the decoder");
    // Picture 98 left the decoder together with picture 100. Pictures 102 to 105 are before the
    // origin of the clock. Picture 101 is displayed at once during buffering.
    assert_eq!(indices(&player, Fate::Discarded(Cause::Late)), [98, 102, 103, 104, 105]);
    assert_eq!(player.frames()[101].shown, Some(at(6_080)));
}

#[test]
fn an_mpeg_ts_loses_pictures_by_a_flush_and_none_late() {
    let film = plain_film(Container::MpegTs, 300, 50);
    // The arrival is slow: 1,000 bytes per 5 ms are 1.6 Mb/s, and the film has 2 Mb/s.
    let (player, events) = watch(one_request(), &film, &reads(&[every(5_000, 3_000_000)]));
    let underflows: Vec<Instant> =
        events.iter().filter(|event| event.kind == Underflow).map(|event| event.time).collect();
    assert!(underflows.len() > 1);
    assert_eq!(indices(&player, Fate::Discarded(Cause::Late)), []);
    // The clock is 700 ms ahead of the pictures. When a report is late, 17 pictures have been read.
    // Those shown while the player waited for the report are not flushed.
    let flushed = indices(&player, Fate::Flushed);
    let per_underflow = flushed.len() / underflows.len();
    assert!((15..=18).contains(&per_underflow), "{per_underflow} per underflow");
    // The decoder has lost its references, so all pictures up to the next I picture are dropped.
    for pair in flushed.windows(2).filter(|pair| pair[0] + 1 < pair[1]) {
        let key = (pair[0] + 1).div_ceil(50) * 50;
        let dropped = pair[0] + 1..key;
        let fate = |index: u32| player.frames()[index as usize].fate;
        assert!(dropped.clone().all(|index| fate(index) == Fate::Discarded(Cause::Reference)));
        assert_eq!(fate(key), Fate::Displayed, "picture {key}, after {dropped:?}");
    }
}

#[test]
fn the_delay_grows_with_the_second_late_report() {
    let film = plain_film(Container::Mp4, 400, 25);
    let arrival = reads(&[
        every(2_000, 1_000_000),
        after(6_000, every(2_000, 2_000_000)),
        after(12_000, every(2_000, 4_000_000)),
    ]);
    let (_, events) = watch(one_request(), &film, &arrival);
    let playing = events.iter().filter(|event| event.kind != Full);
    let delays: Vec<u64> = playing.map(|event| event.delay.as_millis()).collect();
    let kinds = kinds(&events);
    assert_eq!(kinds, [Start, Underflow, Resume, Underflow, Resume, End]);
    assert_eq!(delays[..3], [1_000; 3]);
    // The lateness is 1,370 ms, then 12,020 - (6,770 - 4,250 + 8,000) = 1,500 ms. The smaller value
    // is the median.
    assert_eq!(delays[3..], [2_370; 3]);
}

#[test]
fn lateness_beyond_the_cap_restarts_the_clock_without_buffering() {
    let film = plain_film(Container::Mp4, 400, 25);
    let config = PlayerConfig { jitter_cap_ns: 500_000_000, ..one_request() };
    let arrival = reads(&[
        every(2_000, 1_000_000),
        after(6_000, every(2_000, 2_000_000)),
        after(12_000, every(2_000, 4_000_000)),
    ]);
    let (player, events) = watch(config, &film, &arrival);
    let kinds = kinds(&events);
    assert_eq!(kinds, [Start, Underflow, Resume, Underflow, Resume, End]);
    assert!(events.iter().all(|event| event.delay == Duration::from_millis(1_000)));
    assert_eq!(indices(&player, Fate::Flushed), [99, 100], "only the first underflow flushes");
}

#[test]
fn a_full_ring_stops_reading() {
    let film = Arc::new(Timeline::papers_film());
    let mut player = ProgressivePlayer::new(one_request(), film.clone());
    let request = player.poll_request(Instant::ZERO).unwrap();
    let pour = |player: &mut ProgressivePlayer, now| {
        let mut taken = 0;
        while player.readable(now) > 0 {
            let n = player.readable(now).min(64 * 1024);
            player.handle_bytes(now, request.id, n);
            taken += n;
        }
        taken
    };
    let first = pour(&mut player, Instant::ZERO);
    assert_eq!(player.buffer(Instant::ZERO).bytes, 16 * 1024 * 1024);
    // Two seconds of film have been demuxed. The ring contains the data after them.
    assert!((16 << 20..20 << 20).contains(&first), "{first} bytes at once");
    let mut total = first;
    while player.poll_timeout().is_some_and(|timeout| timeout < at(60_000)) {
        let now = player.poll_timeout().unwrap();
        player.handle_timeout(now);
        total += pour(&mut player, now);
    }
    // From then on, the player reads at the rate of the film.
    let ahead = total as f64 * 8.0 / film.rate_bps() - 60.0;
    assert!((15.0..45.0).contains(&ahead), "{ahead} s ahead");
}

#[test]
fn a_file_is_opened_as_in_vlc() {
    let film = Arc::new(
        Timeline::try_from(&SyntheticFilm {
            duration_ns: Some(5_000_000_000),
            ..SyntheticFilm::named("short")
        })
        .unwrap(),
    );
    let header = film.packets()[0].position;
    let config =
        PlayerConfig { probe_after_ns: Some(0), probe_for_ns: 0, ..PlayerConfig::default() };
    let mut player = ProgressivePlayer::new(config, film.clone());
    let ask = |player: &mut ProgressivePlayer| {
        let request = player.poll_request(Instant::ZERO).unwrap();
        assert_eq!(player.poll_request(Instant::ZERO), None, "once");
        (request.id, request.connection, request.range.unwrap().first)
    };
    assert_eq!(ask(&mut player), (0, 0, 0));
    player.handle_bytes(at(1), 0, header - 1);
    assert_eq!(player.poll_request(at(1)), None);
    player.handle_bytes(at(2), 0, 5_000);
    assert_eq!(ask(&mut player), (1, 1, film.size_bytes()));
    player.handle_bytes(at(3), 0, 1_000_000);
    assert_eq!(player.buffer(at(3)).bytes, 0, "bytes of an abandoned request are ignored");
    player.handle_end(at(4), 1);
    // The third request continues where the first response was abandoned.
    assert_eq!(ask(&mut player), (2, 2, header + 4_999));
    player.handle_bytes(at(5), 2, film.size_bytes() - header - 4_999);
    assert_eq!(player.poll_event().map(|event| event.kind), Some(Full));
    assert_eq!(player.poll_event().map(|event| event.kind), Some(Start));
}

/// Returns a short film with B pictures.
fn varied_film(mpeg_ts: bool) -> Arc<Timeline> {
    let container = if mpeg_ts { Container::MpegTs } else { Container::Mp4 };
    let film = SyntheticFilm {
        rate_bps: Some(2_000_000),
        duration_ns: Some(12_000_000_000),
        group_pictures: Some(60),
        chunk_ns: Some(40_000_000),
        container: Some(container),
        ..SyntheticFilm::named("varied")
    };
    Arc::new(Timeline::try_from(&film).expect("the film is valid"))
}

/// Generates bursts and gaps around the rate of the film.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    proptest::collection::vec((0u64..2_500_000, 1u64..400_000), 5..120)
}

fn schedule(steps: &[(u64, u64)], size: u64) -> Vec<(Instant, u64)> {
    let (mut now, mut left, mut reads) = (Instant::ZERO, size, Vec::new());
    for &(gap_micros, bytes) in steps.iter().cycle() {
        now += Duration::from_micros(gap_micros);
        for _ in 0..bytes.div_ceil(20_000) {
            let n = left.min(20_000);
            reads.push((now, n));
            now += Duration::from_micros(10_000);
            left -= n;
        }
        if left == 0 {
            break;
        }
    }
    reads
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn any_arrival_plays_to_the_end(
        steps in arrivals(),
        mpeg_ts in any::<bool>(),
        discard in any::<bool>(),
        ring in 100_000u64..4_000_000,
    ) {
        let film = varied_film(mpeg_ts);
        let broken_references =
            if discard { BrokenReferences::Discard } else { BrokenReferences::Auto };
        let config = PlayerConfig {
            broken_references, prefetch_bytes: ring, ..one_request()
        };
        let reads = schedule(&steps, film.size_bytes());
        let (player, events) = watch(config.clone(), &film, &reads);
        prop_assert!(player.is_finished());

        // The first event is the start. Then underflow and resume alternate, and the last event is
        // the end.
        let kinds = kinds(&events);
        prop_assert_eq!(kinds.first(), Some(&Start));
        prop_assert_eq!(kinds.last(), Some(&End));
        for pair in kinds[1..kinds.len() - 1].chunks(2) {
            prop_assert!(pair[0] == Underflow && pair.get(1).is_none_or(|&kind| kind == Resume));
        }
        prop_assert!(events.is_sorted_by_key(|event| event.time));
        prop_assert!(events.is_sorted_by_key(|event| event.delay));
        prop_assert!(events.is_sorted_by_key(|event| event.pts));

        // Every picture has one fate. It has a display time exactly if it was displayed.
        prop_assert_eq!(player.frames().len(), film.pictures().len());
        prop_assert_eq!(indices(&player, Fate::Unplayed), Vec::<u32>::new());
        for frame in player.frames() {
            prop_assert_eq!(frame.shown.is_some(), frame.fate == Fate::Displayed);
        }
        let shown: Vec<Instant> = player.frames().iter().filter_map(|frame| frame.shown).collect();
        prop_assert!(shown.is_sorted(), "pictures are shown in their order");

        discards_follow_references(&film, &player, mpeg_ts || discard)?;
        let (again, events_again) = watch(config, &film, &reads);
        prop_assert_eq!(player.frames(), again.frames());
        prop_assert_eq!(events, events_again);
    }
}

/// Checks the fates of pictures whose references were lost.
///
/// If a picture was discarded because of its references, the pictures that depend on it are not
/// displayed. The same applies to a P picture whose reference was flushed, unless the player shows
/// damaged pictures.
fn discards_follow_references(
    film: &Timeline,
    player: &ProgressivePlayer,
    discarding: bool,
) -> Result<(), TestCaseError> {
    let fate = |index: u32| player.frames()[index as usize].fate;
    for (index, picture) in (0u32..).zip(film.pictures()) {
        let references = || picture.depends_on.iter().flatten();
        if references().any(|&other| fate(other) == Fate::Discarded(Cause::Reference)) {
            prop_assert_ne!(fate(index), Fate::Displayed);
        }
        if fate(index) == Fate::Discarded(Cause::Reference) {
            prop_assert!(discarding);
            prop_assert_ne!(picture.kind, PacketKind::I);
        }
        // A late reference was decoded, so pictures that depend on it can be decoded. They cannot
        // if it was flushed.
        let flushed = references().any(|&other| fate(other) == Fate::Flushed);
        if discarding && flushed && picture.kind == PacketKind::P {
            prop_assert!(matches!(fate(index), Fate::Flushed | Fate::Discarded(Cause::Reference)));
        }
    }
    Ok(())
}
