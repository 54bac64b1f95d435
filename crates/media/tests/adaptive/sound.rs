//! Pictures and sound side by side, as hls.js fetches them.

use super::{LOWEST, Toy, assert_near, hlsjs, ladder, rendition, seconds, watch};
use anabranch_media::{AdaptiveConfig, AdaptiveEventKind, ChunkRecord, Ladder, Requests, Track};

/// A film with sound of its own.
fn with_sound(rates_bps: &[u64], chunks: usize) -> Ladder {
    let audio = Some(rendition("audio", 100_000, chunks));
    Ladder { audio, ..ladder(rates_bps, chunks) }
}

#[test]
fn hlsjs_fetches_sound_beside_the_pictures() {
    let seen = watch(&hlsjs(), with_sound(&[1_000_000], 10), LOWEST, &Toy::new(0.0, 2e6));
    assert_eq!(seen.most, 2);
    let asked = |name: &str| {
        seen.resources.iter().find(|it| it.2 == name).map(|(at, connection, _)| (*at, *connection))
    };
    let expected = [
        ("master.m3u8", (0.0, 0)),
        // The playlists are asked for together, and so are the first chunks of both tracks.
        ("1000000.m3u8", (0.004, 0)),
        ("audio.m3u8", (0.004, 1)),
        ("1000000/0.ts", (0.008, 0)),
        ("audio/0.ts", (0.008, 1)),
        // Sound has to wait for the pictures' first chunk, which takes 2 s, and goes on beside the second.
        ("1000000/1.ts", (2.008, 0)),
        ("audio/1.ts", (2.008, 1)),
        // The third begins where the second of the pictures ends: it may be fetched with that on its way.
        ("audio/2.ts", (2.208, 1)),
        ("1000000/2.ts", (4.008, 0)),
        ("audio/3.ts", (4.008, 1)),
    ];
    for (name, (at, connection)) in expected {
        let (found_at, on) = asked(name).expect("it is asked for");
        assert!((found_at - at).abs() < 1e-6 && on == connection, "{name}: {found_at} on {on}");
    }
    assert_near(&seen.times(AdaptiveEventKind::Start), &[2.008], 1e-6);
    assert_near(&seen.times(AdaptiveEventKind::Underflow), &[], 0.0);
    // The same, one at a time.
    let by_turns = AdaptiveConfig { requests: Some(Requests::OneAtATime), ..hlsjs() };
    let seen = watch(&by_turns, with_sound(&[1_000_000], 10), LOWEST, &Toy::new(0.0, 2e6));
    assert_eq!(seen.most, 1);
    assert_near(&seen.times(AdaptiveEventKind::Start), &[0.012 + 2.2], 1e-6);
}

#[test]
fn sound_is_a_chunk_ahead_of_the_pictures_on_their_way_at_most() {
    // Pictures take as long as they play; a chunk of sound a tenth of that.
    let seen = watch(&hlsjs(), with_sound(&[1_000_000], 12), LOWEST, &Toy::new(0.0, 1e6));
    let mut ahead = 0;
    for sound in seen.chunks(Track::Audio) {
        let under_way = |it: &&ChunkRecord| it.asked <= sound.asked && it.done > Some(sound.asked);
        let Some(pictures) = seen.chunks(Track::Video).find(under_way) else { continue };
        // The last one may come at any time.
        let most = pictures.index + if sound.index == 11 { 2 } else { 1 };
        assert!(sound.index <= most, "{sound:?} beside {pictures:?}");
        ahead += usize::from(sound.index == most);
    }
    assert_eq!(ahead, 10, "it is as far ahead as it may be, but for the first two");
}

#[test]
fn sound_goes_on_while_the_pictures_buffer_is_full() {
    let config = AdaptiveConfig { max_buffer_bytes: Some(0), ..hlsjs() };
    let mut film = with_sound(&[1_000_000], 30);
    // Chunks of sound are of 5 s, so that both tracks have room at other times.
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
fn giving_up_pictures_leaves_the_sound_alone_and_takes_its_connection_if_that_is_free() {
    let mut link = Toy::new(0.0, 20e6);
    link.rates.push((3.0, 0.9e6));
    let config = AdaptiveConfig { max_buffer_ns: Some(5_000_000_000), ..hlsjs() };
    let config = AdaptiveConfig { max_buffer_bytes: Some(0), ..config };
    // A chunk of sound takes a moment or, where it is heavy, longer than what is given up.
    let given_up = |sound_bps: u64| {
        let mut film = ladder(&[200_000, 1_000_000, 8_000_000], 12);
        film.audio = Some(rendition("audio", sound_bps, 12));
        let seen = watch(&config, film, r#"{"name":"hlsjs"}"#, &link);
        let lost =
            seen.chunks(Track::Video).find(|chunk| chunk.abandoned).expect("one is given up");
        let (at, left) = seen.left[0];
        let next = seen.resources.iter().find(|it| it.0 >= at).expect("one more is asked for");
        let beside = seen
            .chunks(Track::Audio)
            .find(|it| seconds(it.asked) <= at && it.done.is_some_and(|done| seconds(done) > at));
        assert!(seen.chunks(Track::Audio).all(|it| !it.abandoned && it.done.is_some()));
        assert_eq!(seen.chunks(Track::Audio).count(), 12, "no chunk of sound is asked for again");
        assert!(seconds(lost.asked) < at);
        (next.1, left, beside.is_some())
    };
    let (next, left, beside) = given_up(20_000);
    assert!(
        !beside && next < 2 && next != left,
        "the other one, which is free: {next}, not {left}"
    );
    let (next, left, beside) = given_up(1_000_000);
    assert!(beside && next == 2 && left < 2, "a new one: {next}, as {left} is closed");
}
