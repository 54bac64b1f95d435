//! Tests of simultaneous requests for video and audio, as in hls.js.

use super::{LOWEST, Toy, Watched, assert_near, hlsjs, ladder, rendition, seconds, watch};
use anabranch_media::{AdaptiveConfig, AdaptiveEventKind, ChunkRecord, Ladder, Requests, Track};

/// Returns a film with separate audio.
fn with_sound(rates_bps: &[u64], chunks: usize) -> Ladder {
    let audio = Some(rendition("audio", 100_000, chunks));
    Ladder { audio, ..ladder(rates_bps, chunks) }
}

#[test]
fn hlsjs_fetches_audio_and_video_at_the_same_time() {
    let seen = watch(&hlsjs(), with_sound(&[1_000_000], 10), LOWEST, &Toy::new(0.0, 2e6));
    assert_eq!(seen.most, 2);
    let asked = |name: &str| {
        seen.resources.iter().find(|it| it.2 == name).map(|(at, connection, _)| (*at, *connection))
    };
    let expected = [
        ("master.m3u8", (0.0, 0)),
        // Both playlists are requested together, and so are the first chunks of both tracks.
        ("1000000.m3u8", (0.004, 0)),
        ("audio.m3u8", (0.004, 1)),
        ("1000000/0.ts", (0.008, 0)),
        ("audio/0.ts", (0.008, 1)),
        // The second audio chunk waits for the first video chunk, which takes 2 s.
        ("1000000/1.ts", (2.008, 0)),
        ("audio/1.ts", (2.008, 1)),
        // From the third chunk on, the audio requests first. It gets the most recently used
        // connection.
        ("audio/2.ts", (4.008, 0)),
        ("1000000/2.ts", (4.008, 1)),
        ("audio/3.ts", (6.008, 1)),
        ("1000000/3.ts", (6.008, 0)),
    ];
    for (name, (at, connection)) in expected {
        let (found_at, on) = asked(name).expect("the resource is requested");
        assert!((found_at - at).abs() < 1e-6 && on == connection, "{name}: {found_at} on {on}");
    }
    assert_near(&seen.times(AdaptiveEventKind::Start), &[2.008], 1e-6);
    assert_near(&seen.times(AdaptiveEventKind::Underflow), &[], 0.0);
    // The same film with one request at a time.
    let by_turns = AdaptiveConfig { requests: Some(Requests::OneAtATime), ..hlsjs() };
    let seen = watch(&by_turns, with_sound(&[1_000_000], 10), LOWEST, &Toy::new(0.0, 2e6));
    assert_eq!(seen.most, 1);
    assert_near(&seen.times(AdaptiveEventKind::Start), &[0.012 + 2.2], 1e-6);
}

/// Returns (completion time, end) of the video chunks and (start, request time) of the audio
/// chunks, in seconds.
fn times(seen: &Watched, sound_s: f64) -> [Vec<(f64, f64)>; 2] {
    let done = |chunk: &ChunkRecord| chunk.done.map_or(f64::NAN, seconds);
    let pictures = seen.chunks(Track::Video);
    let pictures = pictures.map(|it| (done(it), 4.0 * (it.index + 1) as f64)).collect();
    let sound = seen.chunks(Track::Audio);
    [pictures, sound.map(|it| (seconds(it.asked), sound_s * it.index as f64)).collect()]
}

#[test]
fn audio_requests_follow_the_received_video() {
    // The time to fetch video equals its playing time. Audio takes much less time.
    for (sound_s, chunks) in [(4.0, 12), (2.0, 24), (12.0, 4), (3.5, 14)] {
        let mut film = with_sound(&[1_000_000], 12);
        film.audio = Some(rendition("audio", 100_000, chunks)).map(|mut audio| {
            audio.chunks.iter_mut().for_each(|it| it.duration_ns = (sound_s * 1e9) as u64);
            audio
        });
        let seen = watch(&hlsjs(), film, LOWEST, &Toy::new(0.0, 1e6));
        let [pictures, sound] = times(&seen, sound_s);
        for (number, (asked, begins)) in sound.iter().enumerate().skip(1) {
            let is_in = |by: f64| pictures.iter().rfind(|it| it.0 <= by + 1e-9);
            let shown = is_in(*asked).map_or(0.0, |it| it.1);
            // The previous audio chunk is buffered when video for a twentieth of it has arrived.
            let needed = begins - 0.95 * sound_s;
            assert!(shown > needed, "{number} of {sound_s} s with pictures of {shown} s");
            // The current video chunk ends four seconds later. Only the last audio chunk may begin
            // after that end.
            let is_last = number + 1 == sound.len();
            assert!(*begins <= shown + 4.0 || is_last, "{number} of {sound_s} s beside {shown} s");
        }
        // An audio chunk with the duration of a video chunk is requested together with that video
        // chunk.
        if (sound_s - 4.0).abs() < 1e-9 {
            let mut beside = sound.iter().skip(1).zip(&pictures);
            assert!(beside.all(|((asked, _), (before, _))| (asked - before).abs() < 1e-9));
        }
    }
}

#[test]
fn audio_is_requested_while_the_video_buffer_is_full() {
    let config = AdaptiveConfig { max_buffer_bytes: Some(0), ..hlsjs() };
    let mut film = with_sound(&[1_000_000], 30);
    // With audio chunks of 5 s, the buffers of the two tracks have space at different times.
    film.audio = film.audio.map(|mut audio| {
        audio.chunks.truncate(24);
        audio.chunks.iter_mut().for_each(|chunk| chunk.duration_ns = 5_000_000_000);
        audio
    });
    let seen = watch(&config, film, LOWEST, &Toy::new(0.0, 50e6));
    let start = seen.times(AdaptiveEventKind::Start)[0];
    for (track, seconds_of_one) in [(Track::Video, 4.0), (Track::Audio, 5.0)] {
        for chunk in seen.chunks(track).filter(|chunk| chunk.index * 5 > 40) {
            let (has, shown) = (chunk.index as f64 * seconds_of_one, seconds(chunk.asked) - start);
            let is_last = track == Track::Audio && chunk.index == 23;
            assert!(is_last || (has - shown - 30.0).abs() < 1e-6, "{track:?}: {has} at {shown}");
        }
    }
}

#[test]
fn abandoning_video_keeps_the_audio_request_and_uses_its_connection_if_idle() {
    let mut link = Toy::new(0.0, 20e6);
    link.rates.push((3.0, 0.9e6));
    let config = AdaptiveConfig { max_buffer_ns: Some(5_000_000_000), ..hlsjs() };
    let config = AdaptiveConfig { max_buffer_bytes: Some(0), ..config };
    // Fetching an audio chunk takes almost no time or, at a high rate, more time than the abandoned
    // video chunk.
    let given_up = |sound_bps: u64| {
        let mut film = ladder(&[200_000, 1_000_000, 8_000_000], 12);
        film.audio = Some(rendition("audio", sound_bps, 12));
        let seen = watch(&config, film, r#"{"name":"hlsjs"}"#, &link);
        let lost = seen
            .chunks(Track::Video)
            .find(|chunk| chunk.abandoned)
            .expect("one chunk is abandoned");
        let (at, left) = seen.left[0];
        let next =
            seen.resources.iter().find(|it| it.0 >= at).expect("one more resource is requested");
        let beside = seen
            .chunks(Track::Audio)
            .find(|it| seconds(it.asked) <= at && it.done.is_some_and(|done| seconds(done) > at));
        assert!(seen.chunks(Track::Audio).all(|it| !it.abandoned && it.done.is_some()));
        assert_eq!(seen.chunks(Track::Audio).count(), 12, "no audio chunk is requested twice");
        assert!(seconds(lost.asked) < at);
        (next.1, left, beside.is_some())
    };
    let (next, left, beside) = given_up(20_000);
    assert!(
        !beside && next < 2 && next != left,
        "the other connection, which is idle: {next}, not {left}"
    );
    let (next, left, beside) = given_up(1_000_000);
    assert!(beside && next == 2 && left < 2, "a new connection: {next}, because {left} is closed");
}
