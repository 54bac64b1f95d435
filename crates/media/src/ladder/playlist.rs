//! Writes the playlists of a ladder (RFC 8216).

use super::{Chunk, Ladder, Rendition};
use std::fmt::Write;

/// Returns the group name of an audio rendition by its index.
fn group(number: usize) -> String {
    if number == 0 { "sound".into() } else { format!("sound-{number}") }
}

impl Ladder {
    /// Returns the master playlist, with one `EXT-X-MEDIA` per audio rendition and one
    /// `EXT-X-STREAM-INF` per video rendition.
    pub fn master_playlist(&self) -> String {
        let mut text = String::from("#EXTM3U\n#EXT-X-VERSION:4\n");
        let here = &self.master.path;
        for (number, audio) in self.sounds().enumerate() {
            let uri = relative(here, &audio.playlist.path);
            let name = &audio.name;
            let group = group(number);
            let _ = writeln!(
                text,
                "#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"{group}\",NAME=\"{name}\",DEFAULT=YES,\
                 AUTOSELECT=YES,URI=\"{uri}\""
            );
        }
        for rendition in &self.renditions {
            let _ = write!(text, "#EXT-X-STREAM-INF:BANDWIDTH={}", rendition.bandwidth_bps);
            if let Some(average) = rendition.average_bps {
                let _ = write!(text, ",AVERAGE-BANDWIDTH={average}");
            }
            if rendition.height > 0 {
                let _ = write!(text, ",RESOLUTION={}x{}", rendition.width, rendition.height);
            }
            if let Some(rate) = rendition.frame_rate {
                let _ = write!(text, ",FRAME-RATE={rate:.3}");
            }
            if !rendition.codecs.is_empty() {
                let _ = write!(text, ",CODECS=\"{}\"", rendition.codecs);
            }
            if self.audio.is_some() {
                let _ = write!(text, ",AUDIO=\"{}\"", group(rendition.sound));
            }
            let _ = writeln!(text, "\n{}", relative(here, &rendition.playlist.path));
        }
        text
    }
}

impl Rendition {
    /// Returns the media playlist of a complete film, with one `EXTINF` per chunk. A chunk that is
    /// a part of a file also has an `EXT-X-BYTERANGE`.
    pub fn media_playlist(&self) -> String {
        let longest = self.chunks.iter().map(|chunk| chunk.duration_ns).max().unwrap_or(0);
        // "The EXTINF duration of each Media Segment .., when rounded to the nearest integer, MUST
        // be less than or equal to the target duration" (RFC 8216 section 4.3.3.1).
        let target = (longest as f64 / 1e9).round() as u64;
        let here = &self.playlist.path;
        let mut text = format!(
            "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:{target}\n\
             #EXT-X-PLAYLIST-TYPE:VOD\n#EXT-X-MEDIA-SEQUENCE:0\n"
        );
        if let Some(init) = &self.init {
            push_map(&mut text, here, init);
        }
        for (number, chunk) in self.chunks.iter().enumerate() {
            if let Some((_, init)) = self.later_inits.iter().find(|(first, _)| *first == number) {
                push_map(&mut text, here, init);
            }
            push_chunk(&mut text, here, chunk);
        }
        text.push_str("#EXT-X-ENDLIST\n");
        text
    }
}

fn push_map(text: &mut String, here: &str, init: &Chunk) {
    let _ = write!(text, "#EXT-X-MAP:URI=\"{}\"", relative(here, &init.path));
    if let Some(offset) = init.offset {
        let _ = write!(text, ",BYTERANGE=\"{}@{offset}\"", init.bytes);
    }
    text.push('\n');
}

fn push_chunk(text: &mut String, here: &str, chunk: &Chunk) {
    let (seconds, rest) = (chunk.duration_ns / 1_000_000_000, chunk.duration_ns % 1_000_000_000);
    let _ = writeln!(text, "#EXTINF:{seconds}.{rest:09},");
    if chunk.gap {
        text.push_str("#EXT-X-GAP\n");
    }
    if let Some(offset) = chunk.offset.filter(|_| !chunk.gap) {
        let _ = writeln!(text, "#EXT-X-BYTERANGE:{}@{offset}", chunk.bytes);
    }
    let _ = writeln!(text, "{}", relative(here, &chunk.path));
}

/// Returns the reference to `path` in the playlist at `here`. It is relative if `path` is in the
/// playlist's folder.
fn relative<'a>(here: &str, path: &'a str) -> std::borrow::Cow<'a, str> {
    let folder = here.rfind('/').map_or(0, |slash| slash + 1);
    match path.strip_prefix(&here[..folder]) {
        Some(below) => below.into(),
        None => format!("/{path}").into(),
    }
}

#[cfg(test)]
mod tests {
    use crate::{Chunk, Ladder, Rendition, Resource};

    #[test]
    fn playlists_are_written_as_the_rfc_has_them() {
        let chunk = |offset| Chunk {
            path: "film/low/all.mp4".into(),
            offset: Some(offset),
            bytes: 100,
            duration_ns: 9_500_000_000,
            gap: false,
        };
        let low = Rendition {
            name: "low".into(),
            bandwidth_bps: 246_000,
            average_bps: Some(200_000),
            width: 426,
            height: 240,
            frame_rate: Some(30.0),
            codecs: "avc1.42c01e".into(),
            playlist: Resource { path: "film/low/index.m3u8".into(), bytes: 0 },
            init: Some(Chunk { bytes: 50, duration_ns: 0, ..chunk(0) }),
            later_inits: Vec::new(),
            sound: 0,
            chunks: vec![chunk(50), chunk(150)],
        };
        assert_eq!(
            low.media_playlist(),
            "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-TARGETDURATION:10\n#EXT-X-PLAYLIST-TYPE:VOD\n\
             #EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-MAP:URI=\"all.mp4\",BYTERANGE=\"50@0\"\n\
             #EXTINF:9.500000000,\n#EXT-X-BYTERANGE:100@50\nall.mp4\n\
             #EXTINF:9.500000000,\n#EXT-X-BYTERANGE:100@150\nall.mp4\n#EXT-X-ENDLIST\n"
        );
        let audio = Rendition {
            name: "audio".into(),
            playlist: Resource { path: "sound.m3u8".into(), bytes: 0 },
            ..low.clone()
        };
        let ladder = Ladder {
            name: "film".into(),
            master: Resource { path: "film/master.m3u8".into(), bytes: 0 },
            renditions: vec![low],
            audio: Some(audio),
            more_audio: Vec::new(),
        };
        assert_eq!(
            ladder.master_playlist(),
            "#EXTM3U\n#EXT-X-VERSION:4\n#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID=\"sound\",NAME=\"audio\",\
             DEFAULT=YES,AUTOSELECT=YES,URI=\"/sound.m3u8\"\n\
             #EXT-X-STREAM-INF:BANDWIDTH=246000,AVERAGE-BANDWIDTH=200000,RESOLUTION=426x240,\
             FRAME-RATE=30.000,CODECS=\"avc1.42c01e\",AUDIO=\"sound\"\nlow/index.m3u8\n"
        );
    }
}
