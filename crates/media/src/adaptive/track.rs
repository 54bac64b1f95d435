//! One track of the film: what of it is received, and what comes next.

use super::config::Append;
use crate::ladder::{Ladder, Rendition};
use anabranch_units::Duration;
use std::collections::BTreeSet;

/// Which track a chunk is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// The pictures, and the sound where it is not fetched by itself.
    Video,
    /// The sound.
    Audio,
}

impl Track {
    /// The track's name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }
}

/// A piece of a track that is to be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Playlist,
    Init,
    Chunk,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The next chunk to be fetched, or the one on its way.
    pub(super) next: usize,
    /// Film of the chunks that are in.
    pub(super) received: Duration,
    /// Film of the chunk on its way that can be shown.
    partial: Duration,
    /// The rendition of the chunk before.
    pub(super) last: Option<usize>,
    /// The rendition that was chosen for the next one.
    pub(super) chosen: Option<usize>,
    /// Renditions whose playlists are known.
    playlists: BTreeSet<usize>,
    /// The rendition and the set-up that the decoder currently has.
    init: Option<(usize, usize)>,
    /// Where the chunk that was asked for last ends.
    pub(super) asked_to: Option<Duration>,
    /// Where the film changes its rendition, and to which; the first is where it begins.
    pub(super) switches: Vec<(Duration, usize)>,
}

impl Progress {
    /// How far the track can be shown.
    pub(super) fn end(&self) -> Duration {
        self.received + self.partial
    }

    /// Whether any playlist is in.
    pub(super) fn knows_a_playlist(&self) -> bool {
        !self.playlists.is_empty()
    }

    /// Returns whether the playlist of a rendition has arrived.
    pub(super) fn knows_playlist(&self, rendition: usize) -> bool {
        self.playlists.contains(&rendition)
    }

    /// Skips a chunk that is missing on the server, up to its end.
    pub(super) fn pass(&mut self, end: Duration) {
        self.received = self.received.max(end);
        self.next += 1;
    }

    /// The piece to fetch before the chosen rendition's next chunk can be shown.
    pub(super) fn piece(&self, rendition: usize, of: &Rendition) -> Piece {
        if !self.playlists.contains(&rendition) {
            Piece::Playlist
        } else if of
            .init_of(self.next)
            .is_some_and(|(which, _)| self.init != Some((rendition, which)))
        {
            Piece::Init
        } else {
            Piece::Chunk
        }
    }

    /// The chunk on its way is in as far as that.
    pub(super) fn grow(&mut self, append: Append, duration: Duration, received: u64, bytes: u64) {
        if append == Append::Stream {
            let nanos = u128::from(duration.as_nanos()) * u128::from(received) / u128::from(bytes);
            self.partial = Duration::from_nanos(nanos as u64);
        }
    }

    /// A piece is in.
    pub(super) fn take(
        &mut self,
        piece: Piece,
        (rendition, of): (usize, &Rendition),
        duration: Duration,
    ) {
        match piece {
            Piece::Playlist => drop(self.playlists.insert(rendition)),
            Piece::Init => {
                self.init = of.init_of(self.next).map(|(which, _)| (rendition, which));
            }
            Piece::Chunk => {
                self.received += duration;
                self.next += 1;
                self.last = Some(rendition);
                self.partial = Duration::ZERO;
                self.chosen = None;
            }
        }
    }

    /// The next chunk, of this length, is asked for in a rendition.
    pub(super) fn ask(&mut self, rendition: usize, duration: Duration) {
        self.asked_to = Some(self.received + duration);
        if self.last != Some(rendition) {
            self.switches.push((self.received, rendition));
        }
    }

    /// The chunk on its way is not to come any more.
    pub(super) fn give_up(&mut self) {
        self.switches.pop_if(|(at, _)| *at == self.received);
        self.partial = Duration::ZERO;
        self.chosen = None;
    }
}

/// A rendition by track and number.
pub(super) fn rendition(ladder: &Ladder, track: Track, number: usize) -> &Rendition {
    match (track, ladder.sound(number)) {
        (Track::Audio, Some(audio)) => audio,
        _ => &ladder.renditions[number],
    }
}
