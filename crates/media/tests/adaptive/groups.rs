//! Tests of audio groups that follow the video rendition, of gaps, and of changes of the
//! initialization section.

use super::{Toy, Watched, hlsjs, ladder, rendition, vlc, watch};
use anabranch_media::{Chunk, Ladder, Track};

/// The name of an ABR rule that switches up after the first chunk if the link is fast enough.
const THROUGHPUT: &str = r#"{"name":"throughput"}"#;

fn names(seen: &Watched) -> Vec<&str> {
    seen.resources
        .iter()
        .map(|(.., name)| name.as_str())
        .filter(|name| !name.ends_with("m3u8"))
        .collect()
}

/// Returns a ladder with two renditions and separate audio for each.
fn with_groups(low_chunks: usize, high_chunks: usize) -> Ladder {
    let mut film = ladder(&[1_000_000, 2_000_000], 4);
    film.audio = Some(rendition("low", 64_000, low_chunks));
    film.more_audio = vec![rendition("high", 128_000, high_chunks)];
    film.renditions[1].sound = 1;
    film.check().expect("the ladder is valid");
    film
}

#[test]
fn audio_follows_the_group_of_the_video_rendition() {
    for config in [vlc(), hlsjs()] {
        let seen = watch(&config, with_groups(4, 4), THROUGHPUT, &Toy::new(0.0, 9e6));
        let sound: Vec<_> = seen.chunks(Track::Audio).map(|it| (it.index, it.rendition)).collect();
        assert_eq!(sound, [(0, 0), (1, 1), (2, 1), (3, 1)]);
        let pictures: Vec<_> = seen.chunks(Track::Video).map(|it| it.rendition).collect();
        assert_eq!(pictures, [0, 1, 1, 1]);
        let playlists = seen.resources.iter().filter(|(.., name)| name == "high.m3u8").count();
        assert_eq!(playlists, 1);
    }
}

#[test]
fn an_audio_group_with_other_chunks_continues_at_the_same_time() {
    // The audio chunks are 4 s long in the first group and 2 s long in the second group. After the
    // switch at 4 s, the audio continues with the third chunk of the second group.
    let mut film = with_groups(4, 8);
    for chunk in &mut film.more_audio[0].chunks {
        chunk.duration_ns = 2_000_000_000;
    }
    let seen = watch(&hlsjs(), film, THROUGHPUT, &Toy::new(0.0, 9e6));
    let sound: Vec<_> = seen.chunks(Track::Audio).map(|it| (it.index, it.rendition)).collect();
    assert_eq!(sound, [(0, 0), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)]);
}

#[test]
fn long_audio_chunks_wait_for_short_video_chunks() {
    // There are 9 video chunks of 1 s and 3 audio chunks of 3 s. The audio is ahead while the
    // playlist of the higher rendition is being fetched.
    let mut film = ladder(&[500_000, 2_000_000], 9);
    for chunk in film.renditions.iter_mut().flat_map(|it| &mut it.chunks) {
        chunk.duration_ns = 1_000_000_000;
    }
    let mut sound = rendition("sound", 64_000, 3);
    for chunk in &mut sound.chunks {
        chunk.duration_ns = 3_000_000_000;
    }
    film.audio = Some(sound);
    for latency_s in [0.0, 0.05, 0.3] {
        let seen = watch(&hlsjs(), film.clone(), THROUGHPUT, &Toy::new(latency_s, 9e6));
        assert_eq!(seen.chunks(Track::Video).count(), 9);
        assert_eq!(seen.chunks(Track::Audio).count(), 3);
    }
}

/// Marks a chunk as missing on the server.
fn gap(chunk: &mut Chunk) {
    (chunk.gap, chunk.bytes) = (true, 0);
}

#[test]
fn a_gap_is_fetched_from_another_rendition() {
    let mut film = ladder(&[1_000_000, 2_000_000], 4);
    gap(&mut film.renditions[1].chunks[2]);
    film.check().unwrap();
    let seen = watch(&vlc(), film, THROUGHPUT, &Toy::new(0.0, 9e6));
    assert_eq!(names(&seen), ["1000000/0.ts", "2000000/1.ts", "1000000/2.ts", "2000000/3.ts"]);
}

#[test]
fn gaps_in_the_audio_are_skipped() {
    let mut film = ladder(&[1_000_000], 4);
    let mut sound = rendition("sound", 64_000, 4);
    for at in [0, 2, 3] {
        gap(&mut sound.chunks[at]);
    }
    film.audio = Some(sound);
    for config in [vlc(), hlsjs()] {
        let seen = watch(&config, film.clone(), THROUGHPUT, &Toy::new(0.0, 9e6));
        let sound: Vec<_> = seen.chunks(Track::Audio).map(|it| it.index).collect();
        assert_eq!(sound, [1]);
        assert_eq!(seen.chunks(Track::Video).count(), 4);
    }
}

#[test]
fn a_later_initialization_section_is_fetched_before_its_first_chunk() {
    let mut film = ladder(&[1_000_000], 4);
    let init = |name: &str| Chunk {
        path: name.into(),
        duration_ns: 0,
        ..film.renditions[0].chunks[0].clone()
    };
    let inits = (init("one.mp4"), init("two.mp4"));
    film.renditions[0].init = Some(inits.0);
    film.renditions[0].later_inits = vec![(2, inits.1)];
    let seen = watch(&vlc(), film, THROUGHPUT, &Toy::new(0.0, 9e6));
    let expected =
        ["one.mp4", "1000000/0.ts", "1000000/1.ts", "two.mp4", "1000000/2.ts", "1000000/3.ts"];
    assert_eq!(names(&seen), expected);
}
