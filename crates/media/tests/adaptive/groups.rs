//! Tests of sound that follows the pictures' group, of gaps, and of set-ups that change within a rendition.

use super::{Toy, Watched, hlsjs, ladder, rendition, vlc, watch};
use anabranch_media::{Chunk, Ladder, Track};

/// An adaptation rule that switches up after the first chunk if the link is fast enough.
const THROUGHPUT: &str = r#"{"name":"throughput"}"#;

fn names(seen: &Watched) -> Vec<&str> {
    seen.resources
        .iter()
        .map(|(.., name)| name.as_str())
        .filter(|name| !name.ends_with("m3u8"))
        .collect()
}

/// Two renditions, each with its own sound.
fn with_groups(low_chunks: usize, high_chunks: usize) -> Ladder {
    let mut film = ladder(&[1_000_000, 2_000_000], 4);
    film.audio = Some(rendition("low", 64_000, low_chunks));
    film.more_audio = vec![rendition("high", 128_000, high_chunks)];
    film.renditions[1].sound = 1;
    film.check().expect("a ladder that can be played");
    film
}

#[test]
fn sound_follows_the_group_of_the_pictures() {
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
fn a_group_that_is_cut_differently_goes_on_at_the_same_time() {
    // The first rendition's sound has chunks of 4 s, the second's of 2 s. Its third chunk follows, at 4 s.
    let mut film = with_groups(4, 8);
    for chunk in &mut film.more_audio[0].chunks {
        chunk.duration_ns = 2_000_000_000;
    }
    let seen = watch(&hlsjs(), film, THROUGHPUT, &Toy::new(0.0, 9e6));
    let sound: Vec<_> = seen.chunks(Track::Audio).map(|it| (it.index, it.rendition)).collect();
    assert_eq!(sound, [(0, 0), (2, 1), (3, 1), (4, 1), (5, 1), (6, 1), (7, 1)]);
}

#[test]
fn long_chunks_of_sound_wait_for_short_chunks_of_pictures() {
    // 9 chunks of 1 s and 3 chunks of 3 s. While the higher rendition's playlist is on its way, the sound is ahead.
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
fn another_rendition_is_fetched_at_a_gap() {
    let mut film = ladder(&[1_000_000, 2_000_000], 4);
    gap(&mut film.renditions[1].chunks[2]);
    film.check().unwrap();
    let seen = watch(&vlc(), film, THROUGHPUT, &Toy::new(0.0, 9e6));
    assert_eq!(names(&seen), ["1000000/0.ts", "2000000/1.ts", "1000000/2.ts", "2000000/3.ts"]);
}

#[test]
fn gaps_in_the_sound_are_passed_over() {
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
fn a_later_set_up_comes_before_its_first_chunk() {
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
