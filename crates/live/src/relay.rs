//! Relays bytes of a connection between the client's stream and the origin's stream. Sans-IO.

use anabranch_host::Stream;
use anabranch_mptcp::{Event, WriteError};
use anabranch_units::Instant;
use bytes::{Buf, Bytes};

/// The largest number of bytes per read, and the largest number of bytes that a relay holds per direction.
pub(crate) const PIECE: usize = 65_536;

/// The error of a stream that accepts no more data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken;

/// One direction of a relay.
#[derive(Debug, Default)]
struct Lane {
    /// Data that was read but not written yet.
    pending: Bytes,
    /// Whether the sending side has closed. Data sent before that may still have to be read.
    finished: bool,
    /// Whether the stream of the receiving side was shut down, after the last byte.
    ended: bool,
    /// Whether the receiving side accepts no more data. Further data is discarded.
    refused: bool,
    /// The number of bytes written to the receiving side.
    moved: u64,
}

impl Lane {
    /// Moves data while data is available and the receiving side has room, and reads at most `most` bytes.
    /// Returns whether any byte or the end was moved.
    ///
    /// Data that was read before is written even if it exceeds `most`.
    ///
    /// Data that cannot be written is not read. It stays in the buffers of the stream, which therefore closes
    /// its window.
    fn pump(
        &mut self,
        now: Instant,
        from: &mut dyn Stream,
        to: &mut dyn Stream,
        most: u64,
    ) -> Result<bool, Broken> {
        if self.refused {
            while from.read(now, usize::MAX).is_some() {}
            return Ok(false);
        }
        let before = self.moved;
        loop {
            if self.pending.is_empty() {
                if !to.poll_writable() {
                    break;
                }
                let left = usize::try_from(most.saturating_sub(self.moved - before));
                let piece = to.preferred_write().map_or(PIECE, |most| most.min(PIECE));
                match from.read(now, left.map_or(piece, |left| left.min(piece))) {
                    Some(piece) => self.pending = piece,
                    None if self.finished && !self.ended => {
                        self.ended = true;
                        to.shutdown(now);
                        return Ok(true);
                    }
                    None => break,
                }
            }
            if !self.flush(now, to)? || self.moved - before >= most {
                break;
            }
        }
        Ok(self.moved > before)
    }

    /// Writes the data that was read before. Returns true if all of it was written.
    fn flush(&mut self, now: Instant, to: &mut dyn Stream) -> Result<bool, Broken> {
        while !self.pending.is_empty() {
            match to.write(now, self.pending.clone()) {
                Ok(taken) => {
                    self.pending.advance(taken);
                    self.moved += taken as u64;
                }
                Err(WriteError::Blocked) => return Ok(false),
                Err(_) => {
                    self.refused = true;
                    self.pending = Bytes::new();
                    return Err(Broken);
                }
            }
        }
        Ok(true)
    }
}

/// A relay in both directions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    /// From the client to the origin.
    up: Lane,
    /// From the origin to the client.
    down: Lane,
    /// The length of the header that precedes the client's data, in bytes. The header is sent by
    /// [`Self::up`].
    header: u64,
    /// The number of bytes passed to the origin when it closed its side.
    up_at_finish: u64,
}

impl Relay {
    /// Creates a relay that first sends `header` to the origin.
    pub(crate) fn new(header: Bytes) -> Self {
        let mut relay = Self { header: header.len() as u64, ..Self::default() };
        relay.up.pending = header;
        relay
    }

    /// Handles an event of the client's stream.
    pub(crate) fn note_client(&mut self, event: Event) {
        self.up.finished |= event == Event::PeerFinished;
    }

    /// Handles an event of the origin's stream. Returns whether the origin's response is incomplete.
    ///
    /// If the origin has closed its side before, the event means that it accepts no more data. The client
    /// still receives the whole response. A reset is ignored if it can only be the response to our own end of
    /// data.
    pub(crate) fn note_origin(&mut self, event: Event) -> bool {
        if event == Event::PeerFinished {
            self.down.finished = true;
            self.up_at_finish = self.up.moved;
        }
        let lost = self.up.moved > self.up_at_finish || !self.up.ended;
        self.up.refused |= event == Event::Closed && self.down.finished && lost;
        event == Event::Closed && !self.down.finished
    }

    /// Moves as much data as possible in both directions, and reads at most `most` bytes from the origin.
    /// Returns whether any byte or end was moved.
    ///
    /// If the origin accepts no more data, the rest of its response is still moved to the client.
    ///
    /// # Errors
    /// Returns [`Broken`] if the client accepts no more data, or if the origin accepts none and its whole
    /// response was moved.
    pub(crate) fn pump(
        &mut self,
        now: Instant,
        client: &mut dyn Stream,
        origin: &mut dyn Stream,
        most: u64,
    ) -> Result<bool, Broken> {
        let up = self.up.pump(now, client, origin, u64::MAX).unwrap_or(false);
        let down = most > 0 && self.down.pump(now, origin, client, most)?;
        if self.up.refused && self.has_answered() {
            return Err(Broken);
        }
        Ok(up || down)
    }

    /// Writes the remaining data of a closed client connection to the origin. Returns whether all of it was
    /// written.
    ///
    /// # Errors
    /// Returns [`Broken`] if the origin accepts no more data.
    pub(crate) fn flush(&mut self, now: Instant, origin: &mut dyn Stream) -> Result<bool, Broken> {
        let done = self.up.flush(now, origin)?;
        if done && !std::mem::replace(&mut self.up.ended, true) {
            origin.shutdown(now);
        }
        Ok(done)
    }

    /// Returns whether the whole response of the origin and its end were passed to the client's stream.
    pub(crate) fn has_answered(&self) -> bool {
        self.down.ended
    }

    /// Returns whether both sides have closed, and the end of each was passed to the other.
    pub(crate) fn is_complete(&self) -> bool {
        self.up.finished && self.down.ended
    }

    /// Returns the number of relayed bytes: from the client to the origin, and from the origin to the client.
    pub(crate) fn moved(&self) -> [u64; 2] {
        [self.up.moved.saturating_sub(self.header), self.down.moved]
    }

    /// Returns the number of bytes held in the relay: from the client, and from the origin.
    pub(crate) fn held(&self) -> [u64; 2] {
        [self.up.pending.len() as u64, self.down.pending.len() as u64]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A stream with limited room. It counts its reads.
    #[derive(Default)]
    struct Fake {
        waits: VecDeque<Bytes>,
        room: usize,
        got: Vec<u8>,
        shut: bool,
        dead: bool,
        reads: usize,
    }

    impl Stream for Fake {
        fn connected_at(&self) -> Option<Instant> {
            Some(Instant::ZERO)
        }

        fn poll_event(&mut self) -> Option<Event> {
            None
        }

        fn read(&mut self, _now: Instant, limit: usize) -> Option<Bytes> {
            self.reads += 1;
            let front = self.waits.front_mut()?;
            if front.len() > limit {
                return Some(front.split_to(limit));
            }
            self.waits.pop_front()
        }

        fn write(&mut self, _now: Instant, bytes: Bytes) -> Result<usize, WriteError> {
            if self.dead {
                return Err(WriteError::Closed);
            }
            let taken = bytes.len().min(self.room);
            if taken == 0 {
                return Err(WriteError::Blocked);
            }
            self.room -= taken;
            self.got.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn poll_writable(&mut self) -> bool {
            self.room > 0 || self.dead
        }

        fn shutdown(&mut self, _now: Instant) {
            self.shut = true;
        }
    }

    fn says(bytes: &[u8]) -> Fake {
        let waits = VecDeque::from([Bytes::copy_from_slice(bytes)]);
        Fake { waits, room: usize::MAX, ..Fake::default() }
    }

    const NOW: Instant = Instant::ZERO;

    #[test]
    fn bytes_go_both_ways_after_the_header() {
        let (mut client, mut origin) = (says(b"question"), says(b"answer"));
        let mut relay = Relay::new(Bytes::from_static(b"header "));
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(true));
        assert_eq!((&origin.got[..], &client.got[..]), (&b"header question"[..], &b"answer"[..]));
        assert_eq!(relay.moved(), [8, 6], "the header is not the client's");
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(false));
    }

    #[test]
    fn data_without_room_at_the_receiver_is_not_read() {
        let (mut client, mut origin) = (says(&vec![7; 300_000]), says(b""));
        origin.room = 100_000;
        let mut relay = Relay::default();
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert_eq!(origin.got.len(), 100_000);
        assert!(relay.held()[0] <= PIECE as u64, "{:?} bytes held", relay.held());
        let reads = client.reads;
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert_eq!(client.reads, reads);
        origin.room = usize::MAX;
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert_eq!(origin.got, vec![7; 300_000]);
    }

    #[test]
    fn a_limit_of_zero_reads_nothing_from_the_origin() {
        let (mut client, mut origin) = (says(b"question"), says(b"answer"));
        let mut relay = Relay::default();
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, 0), Ok(true));
        assert_eq!((&origin.got[..], origin.reads, client.got.len()), (&b"question"[..], 0, 0));
    }

    #[test]
    fn at_most_the_limit_is_read_from_the_origin() {
        let (mut client, mut origin) = (says(b""), says(&vec![7; 5 * PIECE]));
        let mut relay = Relay::default();
        relay.pump(NOW, &mut client, &mut origin, PIECE as u64 + 1).unwrap();
        assert_eq!(client.got.len(), PIECE + 1);
        relay.pump(NOW, &mut client, &mut origin, 1).unwrap();
        assert_eq!(client.got.len(), PIECE + 2);
    }

    #[test]
    fn a_half_close_follows_the_last_byte_and_the_other_half_continues() {
        let (mut client, mut origin) = (says(b"all I have to say"), says(b""));
        origin.room = 3;
        let mut relay = Relay::default();
        relay.note_client(Event::PeerFinished);
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert!(!origin.shut, "bytes are left");
        origin.room = 100;
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert!(origin.shut && !client.shut && !relay.is_complete());
        origin.waits.push_back(Bytes::from_static(b"long after"));
        assert!(!relay.note_origin(Event::PeerFinished));
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert_eq!(client.got, b"long after");
        assert!(client.shut && relay.is_complete());
    }

    #[test]
    fn a_broken_origin_is_reported() {
        let (mut client, mut origin) = (says(b"x"), says(b""));
        origin.dead = true;
        let mut relay = Relay::default();
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(false));
        assert!(relay.note_origin(Event::Closed));
        assert!(!relay.has_answered());
    }

    #[test]
    fn the_whole_answer_reaches_the_client_after_the_origin_stops_reading() {
        let (mut client, mut origin) = (says(b"nobody reads this"), says(b"the whole answer"));
        (client.room, origin.dead) = (9, true);
        let mut relay = Relay::default();
        assert!(!relay.note_origin(Event::PeerFinished));
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(true));
        assert_eq!((&client.got[..], client.shut), (&b"the whole"[..], false));
        client.waits.push_back(Bytes::from_static(b"nor this"));
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(false));
        assert!(client.waits.is_empty(), "unread data does not close the client's window");
        client.room = 100;
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Err(Broken));
        assert_eq!((&client.got[..], client.shut), (&b"the whole answer"[..], true));
        assert!(relay.has_answered());
    }

    #[test]
    fn an_origin_that_resets_later_data_ends_after_its_answer() {
        let (mut client, mut origin) = (says(b""), says(b"the whole answer"));
        client.room = 9;
        let mut relay = Relay::default();
        assert!(!relay.note_origin(Event::PeerFinished));
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        client.waits.push_back(Bytes::from_static(b"too late"));
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert_eq!(origin.got, b"too late", "the kernel takes it; the reset comes later");
        assert!(!relay.note_origin(Event::Closed), "the answer is not cut short");
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(false));
        assert!(!client.shut, "the client has no room for the rest yet");
        client.room = 100;
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Err(Broken));
        assert_eq!((&client.got[..], client.shut), (&b"the whole answer"[..], true));
    }

    #[test]
    fn a_reset_that_only_answers_our_end_breaks_nothing() {
        let (mut client, mut origin) = (says(b"question"), says(b""));
        let mut relay = Relay::default();
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert!(!relay.note_origin(Event::PeerFinished));
        relay.note_client(Event::PeerFinished);
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert!(origin.shut && relay.is_complete());
        assert!(!relay.note_origin(Event::Closed));
        assert_eq!(relay.pump(NOW, &mut client, &mut origin, u64::MAX), Ok(false));
        // The relay has not closed its side, so the reset must be a response to data in flight.
        let mut relay = Relay::default();
        assert!(!relay.note_origin(Event::PeerFinished));
        relay.pump(NOW, &mut says(b""), &mut says(b""), u64::MAX).unwrap();
        assert!(!relay.note_origin(Event::Closed));
        assert_eq!(relay.pump(NOW, &mut says(b""), &mut says(b""), u64::MAX), Err(Broken));
    }

    #[test]
    fn a_connection_is_complete_when_both_sides_have_finished() {
        for (client_finishes, origin_finishes) in [(false, true), (true, false), (true, true)] {
            let (mut client, mut origin) = (says(b"q"), says(b"a"));
            let mut relay = Relay::default();
            if client_finishes {
                relay.note_client(Event::PeerFinished);
            }
            if origin_finishes {
                relay.note_origin(Event::PeerFinished);
            }
            relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
            assert_eq!(relay.is_complete(), client_finishes && origin_finishes);
            assert_eq!(relay.has_answered(), origin_finishes);
            assert_eq!((client.shut, origin.shut), (origin_finishes, client_finishes));
            assert_eq!((relay.moved(), relay.held()), ([1, 1], [0, 0]));
        }
    }

    #[test]
    fn the_last_data_of_a_closed_client_reaches_the_origin() {
        let (mut client, mut origin) = (says(b"last words"), says(b""));
        origin.room = 4;
        let mut relay = Relay::default();
        relay.pump(NOW, &mut client, &mut origin, u64::MAX).unwrap();
        assert_eq!(relay.flush(NOW, &mut origin), Ok(false));
        origin.room = 100;
        assert_eq!(relay.flush(NOW, &mut origin), Ok(true));
        assert_eq!((&origin.got[..], origin.shut), (&b"last words"[..], true));
    }
}
