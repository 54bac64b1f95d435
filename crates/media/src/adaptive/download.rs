//! The downloads of an adaptive player: the choice of the next request, responses, and abandoned
//! chunks.

use super::records::ChunkRecord;
use super::track::{Piece, Track, rendition};
use super::{AdaptivePlayer, PendingRequest, Requests, State, WATCH, Wanted};
use crate::abr::{AbrDecision, AbrView, ChunkSample, Loading};
use crate::http::ByteRange;
use crate::ladder::Chunk;
use anabranch_units::{Duration, Instant};

impl AdaptivePlayer {
    /// Returns the next chunk of a track in a rendition.
    pub(super) fn chunk(&self, track: Track, number: usize) -> &Chunk {
        let next = match (track, &self.audio) {
            (Track::Audio, Some(audio)) => audio.next,
            _ => self.video.next,
        };
        &rendition(&self.ladder, track, number).chunks[next]
    }

    /// Returns the track to fetch next, which is the one with less received film.
    fn lagging_track(&self) -> Option<Track> {
        match (&self.audio, self.audio_is_complete(), self.video_is_complete()) {
            (_, true, true) => None,
            (Some(audio), false, false) if audio.received < self.video.received => {
                Some(Track::Audio)
            }
            (_, _, false) => Some(Track::Video),
            (_, _, true) => Some(Track::Audio),
        }
    }

    /// Switches the audio to the group of the current video rendition, from the next audio chunk on
    /// (`AudioTrackController.switchLevel`). Chunks that the server does not have are skipped.
    pub(super) fn follow_video(&mut self, now: Instant) {
        let is_asked = self.pending.iter().any(|it| it.wanted.track() == Track::Audio);
        let Some(audio) = self.audio.as_mut().filter(|_| !is_asked) else {
            return;
        };
        let number = self.video.chosen.or(self.video.last).unwrap_or(0);
        let wanted = self.ladder.renditions[number].sound;
        let Some(sound) = self.ladder.sound(wanted) else {
            return;
        };
        if wanted != self.sound {
            self.sound = wanted;
            audio.next = sound.chunk_at(audio.received);
        }
        let before = audio.next;
        while audio.piece(wanted, sound) != Piece::Playlist
            && sound.chunks.get(audio.next).is_some_and(|chunk| chunk.gap)
        {
            audio.skip(sound.end_of(audio.next));
        }
        if audio.next > before {
            self.play(now);
        }
    }

    /// Returns the duration by which a chunk extends its track. It can be less than the chunk's
    /// duration if another group has other chunk boundaries.
    fn added(&self, track: Track, number: usize) -> Duration {
        match (track, &self.audio) {
            (Track::Audio, Some(audio)) => {
                let end = rendition(&self.ladder, track, number).end_of(audio.next);
                end.saturating_sub(audio.received)
            }
            _ => self.chunk(track, number).duration(),
        }
    }

    pub(super) fn received(&self, track: Track) -> Duration {
        match (track, &self.audio) {
            (Track::Audio, Some(audio)) => audio.received,
            _ => self.video.received,
        }
    }

    fn max_buffer(&self) -> Duration {
        let last = self.video.last.unwrap_or(0);
        self.settings.max_buffer(self.ladder.renditions[last].bandwidth_bps)
    }

    /// Returns the tracks that may request a chunk when their buffers have space, in the order of
    /// their requests.
    ///
    /// With a time, these are the tracks that may send a request then. With `None`, they are the
    /// tracks that need a timer, after all possible requests have been sent.
    pub(super) fn tracks_to_request(&self, now: Option<Instant>) -> [Option<Track>; 2] {
        match self.settings.requests {
            Requests::OneAtATime => {
                [self.lagging_track().filter(|_| self.pending.is_empty()), None]
            }
            Requests::OneATrack => {
                let video = !self.video_is_complete() && !self.is_pending(Track::Video);
                let audio = self.audio_may_request(now) && !self.is_pending(Track::Audio);
                let tracks = [video.then_some(Track::Video), audio.then_some(Track::Audio)];
                // From the third chunk on, the audio requests first. The previous audio chunk is
                // buffered when enough video has arrived, and this happens before the video itself
                // is buffered. The audio then requests the next chunk. The second audio chunk must
                // wait for more video.
                let [video, audio] = tracks;
                let sound_first = self.audio.as_ref().is_some_and(|audio| audio.next >= 2);
                if sound_first { [audio, video] } else { tracks }
            }
        }
    }

    /// Returns whether enough video has arrived for another audio request
    /// (`AudioStreamController`).
    ///
    /// - The audio playlist is requested together with the first video playlist.
    /// - No audio chunk is requested before a video playlist has arrived (`onAudioTrackLoaded`).
    /// - The next audio chunk is requested when the previous one is buffered. That requires video
    ///   for a twentieth of its duration (`WAITING_INIT_PTS`, `BufferController.blockAudio`).
    /// - Only the last audio chunk may begin after the end of the current or next video chunk
    ///   (`doTickIdle`).
    fn audio_may_request(&self, now: Option<Instant>) -> bool {
        let (Some(sound), Some(audio)) = (self.ladder.sound(self.sound), &self.audio) else {
            return false;
        };
        if self.audio_is_complete() {
            return false;
        }
        if audio.piece(self.sound, sound) == Piece::Playlist {
            return true;
        }
        let before = audio.next.checked_sub(1).map(|before| sound.chunks[before].duration());
        let buffered = before.is_none_or(|before| {
            let needed = audio.received.saturating_sub(before) + before / 20;
            self.video_is_complete() || self.video.received > needed
        });
        let may_begin = self.video.knows_a_playlist() && buffered;
        let on_its_way = self.video.asked_to.filter(|end| *end > self.video.received);
        let limit = on_its_way.or_else(|| match now {
            Some(now) if !self.may_request(Track::Video, now) => None,
            Some(_) => self.next_video_end(),
            // While a playlist or initialization section of the video is being fetched, no timer is
            // needed. The end of that request calls this function again.
            None => self.is_pending(Track::Video).then(|| self.next_video_end()).flatten(),
        });
        may_begin
            && (self.audio_is_at_last_chunk() || limit.is_none_or(|end| audio.received <= end))
    }

    /// Returns the end of the next video chunk.
    fn next_video_end(&self) -> Option<Duration> {
        let chunks = &self.ladder.renditions[self.video.last.unwrap_or(0)].chunks;
        let next = chunks.get(self.video.next)?;
        Some(self.video.received + next.duration())
    }

    /// Returns whether a track may request a chunk at time `now`.
    fn may_request(&self, track: Track, now: Instant) -> bool {
        self.may_request_at(track).is_none_or(|at| at <= now)
    }

    fn is_pending(&self, track: Track) -> bool {
        self.pending.iter().any(|it| it.wanted.track() == track)
    }

    fn audio_is_at_last_chunk(&self) -> bool {
        let all = self.ladder.sound(self.sound).map_or(0, |audio| audio.chunks.len());
        self.audio.as_ref().is_some_and(|audio| audio.next + 1 == all)
    }

    /// Returns the time at which a track may send a request. `None` means at once. The time is the
    /// end of the rule's wait, or the time at which the buffer has space. With one request per
    /// track, the last audio chunk does not need space (`AudioStreamController.doTickIdle`).
    pub(super) fn may_request_at(&self, track: Track) -> Option<Instant> {
        let separate_audio = self.settings.requests == Requests::OneATrack && track == Track::Audio;
        if separate_audio && self.audio_is_at_last_chunk() {
            return None;
        }
        self.wait_until.filter(|_| !separate_audio).or_else(|| self.space_at(track))
    }

    /// Returns the time at which the buffer of a track has space for another chunk. `None` means
    /// that it has space now.
    fn space_at(&self, track: Track) -> Option<Instant> {
        let State::Playing { since, from } = self.state else {
            return None;
        };
        let full = self.received(track).saturating_sub(self.max_buffer());
        Some(since + full.saturating_sub(from))
    }

    /// Returns the next resource to fetch: a chunk, or the playlist or initialization section that
    /// it needs first.
    pub(super) fn next_piece(
        &mut self,
        now: Instant,
    ) -> Option<(Wanted, String, u64, Option<ByteRange>)> {
        self.tracks_to_request(Some(now))
            .into_iter()
            .flatten()
            .find_map(|track| self.piece_of(now, track))
    }

    fn piece_of(
        &mut self,
        now: Instant,
        track: Track,
    ) -> Option<(Wanted, String, u64, Option<ByteRange>)> {
        self.wait_until = self.wait_until.filter(|until| now < *until);
        if self.may_request_at(track).is_some_and(|at| now < at) {
            return None;
        }
        let number = match (track, self.video.chosen) {
            (Track::Audio, _) => self.sound,
            (Track::Video, Some(chosen)) => chosen,
            (Track::Video, None) => match self.ask_rule(now) {
                AbrDecision::Fetch(wanted) => wanted.min(self.ladder.renditions.len() - 1),
                AbrDecision::Wait(seconds) => {
                    // The rule is called again after at least 1 ms, so that time advances.
                    let wait = Duration::from_secs_f64(seconds.clamp(0.001, 3600.0));
                    self.wait_until = Some(now + wait);
                    return None;
                }
            },
        };
        let number = if track == Track::Video { self.with_chunk(number) } else { number };
        self.progress(track).chosen = Some(number);
        let ladder = self.ladder.clone();
        let from = rendition(&ladder, track, number);
        let piece = self.progress(track).piece(number, from);
        let wanted = Wanted::Piece { track, piece, rendition: number };
        let init = from.init_of(self.progress(track).next);
        let chunk = match (piece, init) {
            (Piece::Playlist, _) => {
                return Some((wanted, from.playlist.path.clone(), from.playlist.bytes, None));
            }
            (Piece::Init, Some((_, init))) => init,
            _ => self.chunk(track, number),
        };
        let fetched = (wanted, chunk.path.clone(), chunk.bytes, chunk.range());
        if piece == Piece::Chunk {
            let (record, duration) =
                (self.open_record(now, track, number), self.added(track, number));
            self.chunks.push(record);
            self.progress(track).ask(number, duration);
        }
        Some(fetched)
    }

    /// Returns the rendition to fetch: the chosen one, or another if that one has a gap at the next
    /// chunk.
    fn with_chunk(&self, chosen: usize) -> usize {
        if self.video.knows_playlist(chosen) {
            self.ladder.without_gap(chosen, self.video.next)
        } else {
            chosen
        }
    }

    fn open_record(&self, now: Instant, track: Track, number: usize) -> ChunkRecord {
        let chunk = self.chunk(track, number);
        let index = match (track, &self.audio) {
            (Track::Audio, Some(audio)) => audio.next,
            _ => self.video.next,
        };
        let buffer = self.buffer(now).media;
        ChunkRecord::asked(track, index, number, chunk, (now, buffer))
    }

    fn view(&self, now: Instant) -> AbrView<'_> {
        AbrView {
            ladder: &self.ladder,
            next: self.video.next,
            last: self.video.last,
            buffer_s: self.video.received.saturating_sub(self.position(now)).as_secs_f64(),
            max_buffer_s: self.max_buffer().as_secs_f64(),
        }
    }

    fn ask_rule(&mut self, now: Instant) -> AbrDecision {
        let ladder = self.ladder.clone();
        let view = AbrView { ladder: &ladder, ..self.view(now) };
        self.rule.choose(&view)
    }

    /// Handles the completion of the request at index `at`.
    pub(super) fn take(&mut self, now: Instant, at: usize) {
        let done = self.pending.remove(at);
        self.free.push(done.connection);
        let Wanted::Piece { track, piece, rendition } = done.wanted else {
            self.master = true;
            return;
        };
        let duration = self.chunk(track, rendition).duration();
        let added = self.added(track, rendition);
        let ladder = self.ladder.clone();
        let of = super::track::rendition(&ladder, track, rendition);
        self.progress(track).take(piece, (rendition, of), added);
        if piece != Piece::Chunk {
            return;
        }
        let buffer = self.buffer(now).media;
        if let Some(record) = done.record.and_then(|at| self.chunks.get_mut(at)) {
            record.close(now, done.first_byte, buffer);
        }
        if track == Track::Video {
            self.rule.on_chunk(&ChunkSample {
                rendition,
                bytes: done.bytes,
                first_byte_s: seconds(done.asked, done.first_byte.unwrap_or(now)),
                fetch_s: seconds(done.asked, now),
                duration_s: duration.as_secs_f64(),
            });
        }
        if self.video_is_complete() {
            self.total = self.video.received;
        }
    }

    /// Asks the rule whether to abandon the current download, and abandons it if the rule decides
    /// so.
    pub(super) fn watch(&mut self, now: Instant) {
        let due = |it: &PendingRequest| it.next_watch.is_some_and(|due| due <= now);
        let Some(at) = self.pending.iter().position(due) else {
            return;
        };
        self.pending[at].next_watch = Some(now + WATCH);
        let pending = self.pending[at];
        let Wanted::Piece { rendition, .. } = pending.wanted else {
            return;
        };
        // hls.js checks a download once playback has started, also during a stall, because a
        // stalled video element is not paused. A chunk that is already on the screen cannot be
        // abandoned.
        let shown = self.position(now) > self.video.received;
        if shown || matches!(self.state, State::Starting | State::Ended) {
            return;
        }
        let duration_s = self.chunk(Track::Video, rendition).duration().as_secs_f64();
        let since_s = seconds(pending.asked, now);
        let first_byte_s = pending.first_byte.map(|at| seconds(pending.asked, at));
        let PendingRequest { bytes, received, .. } = pending;
        let loading = Loading { rendition, duration_s, bytes, received, since_s, first_byte_s };
        let ladder = self.ladder.clone();
        let view = AbrView { ladder: &ladder, ..self.view(now) };
        if !self.rule.abandons(&view, &loading) {
            return;
        }
        self.pending.remove(at);
        self.left = Some(pending.connection);
        self.video.give_up();
        if let Some(record) = pending.record.and_then(|at| self.chunks.get_mut(at)) {
            record.give_up(pending.first_byte, received);
        }
        self.rule.on_chunk(&ChunkSample {
            rendition,
            bytes: received,
            first_byte_s: first_byte_s.unwrap_or(since_s),
            fetch_s: since_s,
            duration_s,
        });
    }
}

fn seconds(from: Instant, to: Instant) -> f64 {
    to.since(from).as_secs_f64()
}
