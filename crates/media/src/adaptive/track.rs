//! The progress of one track: the received film and the next chunk.

use crate::ladder::{Ladder, Rendition};
use anabranch_units::Duration;
use std::collections::BTreeSet;

/// The track of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Track {
    /// Video. If audio is not fetched separately, the audio is included.
    Video,
    /// Separate audio.
    Audio,
}

impl Track {
    /// Returns the track's name in the trace.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Video => "video",
            Self::Audio => "audio",
        }
    }
}

/// The resource that a request fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Playlist,
    Init,
    Chunk,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    /// The index of the chunk that is fetched next or is being fetched.
    pub(super) next: usize,
    /// The duration of all complete chunks.
    pub(super) received: Duration,
    /// The rendition of the previous chunk.
    pub(super) last: Option<usize>,
    /// The rendition chosen for the next chunk.
    pub(super) chosen: Option<usize>,
    /// Renditions whose playlists have arrived.
    playlists: BTreeSet<usize>,
    /// The rendition and the index of the initialization section that the decoder uses.
    init: Option<(usize, usize)>,
    /// The film time at which the last requested chunk ends.
    pub(super) asked_to: Option<Duration>,
    /// The switches: film time and new rendition. The first entry is the start of the film.
    pub(super) switches: Vec<(Duration, usize)>,
}

impl Progress {
    /// Returns whether any playlist has arrived.
    pub(super) fn knows_a_playlist(&self) -> bool {
        !self.playlists.is_empty()
    }

    /// Returns whether the playlist of a rendition has arrived.
    pub(super) fn knows_playlist(&self, rendition: usize) -> bool {
        self.playlists.contains(&rendition)
    }

    /// Skips a chunk that the server does not have. The chunk ends at film time `end`.
    pub(super) fn skip(&mut self, end: Duration) {
        self.received = self.received.max(end);
        self.next += 1;
    }

    /// Returns the resource to fetch next. A chunk needs its playlist and initialization section
    /// first.
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

    /// Handles the completion of a resource.
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
                self.chosen = None;
            }
        }
    }

    /// Records a request for the next chunk, in this rendition and with this duration.
    pub(super) fn ask(&mut self, rendition: usize, duration: Duration) {
        self.asked_to = Some(self.received + duration);
        if self.last != Some(rendition) {
            self.switches.push((self.received, rendition));
        }
    }

    /// Cancels the current chunk.
    pub(super) fn give_up(&mut self) {
        self.switches.pop_if(|(at, _)| *at == self.received);
        self.chosen = None;
    }
}

/// Returns a rendition by track and index.
pub(super) fn rendition(ladder: &Ladder, track: Track, number: usize) -> &Rendition {
    match (track, ladder.sound(number)) {
        (Track::Audio, Some(audio)) => audio,
        _ => &ladder.renditions[number],
    }
}
