//! The requests of the player, and the prefetch ring with the received data.
//!
//! VLC's prefetch thread (`stream_filter/prefetch.c`) reads as fast as the network delivers, until
//! its ring is full. Then TCP flow control stops the server.
//!
//! Before playback, the demuxer of an MP4 looks for boxes after the media data: it seeks to the end
//! of the file and back. The prefetch thread can notice the seek only when a read returns. If it
//! does, it uses three connections:
//!
//! 1. The first connection reads the header.
//! 2. The second connection requests the end of the file (`access/http/file.c`, one response per
//!    connection). There is no data, so the status is 416, and the ring keeps its data.
//! 3. The third connection continues where the first response was abandoned.
//!
//! The server sends on an abandoned connection until the response on the next connection closes it.
//! If no data arrives between the two seeks, the first connection delivers the whole file.

use super::config::PlayerConfig;
use crate::http::{ByteRange, ClientData};
use crate::timeline::{Container, Timeline};
use anabranch_units::{Duration, Instant};

/// A request of the player to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The number of the request. The caller passes it with the received bytes.
    pub id: u64,
    /// The connection for the request. A number that was not used before means a new connection.
    pub connection: u32,
    /// The connection that the player abandons. It is closed, and its unread data is discarded.
    pub leaves: Option<u32>,
    /// Whether to close the abandoned connection at once, and not when this request is answered.
    pub closes_before: bool,
    /// The path of the resource on the server, encoded for a request line, without a leading slash.
    pub resource: String,
    /// The requested bytes. If absent, the request is for the whole resource.
    pub range: Option<ByteRange>,
    /// The player's buffer and deadline, if CMCD is enabled.
    pub client_data: ClientData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The data before the first packet is being read (the `moov` box).
    Header,
    /// The demuxer parses the header until this time. Reading continues.
    Parsing(Instant),
    /// The demuxer is at the end of the file until this time. Reading continues.
    AtEnd(Instant),
    /// The data after the last packet is being read. The first response was abandoned at
    /// `header_end`.
    Trailer { header_end: u64 },
    /// The film is being read.
    Film,
}

#[derive(Clone, Debug)]
pub(super) struct Intake {
    phase: Phase,
    /// The file position of the next byte of the current response.
    position: u64,
    request: u64,
    asked: bool,
    first_packet: u64,
    last_packet_end: u64,
    size_bytes: u64,
    ring_bytes: u64,
    closes_before_seek: bool,
    probe_after: Duration,
    probe_for: Duration,
}

impl Intake {
    pub(super) fn new(config: &PlayerConfig, film: &Timeline) -> Self {
        let packets = film.packets();
        let probing = config.probe_end && *film.container() == Container::Mp4;
        let first_packet = packets.first().map_or(0, |packet| packet.position);
        Self {
            phase: if probing { Phase::Header } else { Phase::Film },
            position: 0,
            request: 0,
            asked: false,
            first_packet,
            last_packet_end: packets.iter().map(crate::Packet::end).max().unwrap_or(0),
            size_bytes: film.size_bytes(),
            // A ring of size zero could not accept any data.
            ring_bytes: config.prefetch_bytes.max(1),
            closes_before_seek: config.closes_before_seek,
            probe_after: config.probe_after(first_packet),
            probe_for: Duration::from_nanos(config.probe_for_ns),
        }
    }

    pub(super) fn poll_request(&mut self, film: &Timeline) -> Option<Request> {
        if std::mem::replace(&mut self.asked, true) {
            return None;
        }
        Some(Request {
            id: self.request,
            connection: self.request as u32,
            leaves: self.request.checked_sub(1).map(|before| before as u32),
            closes_before: self.closes_before_seek,
            resource: film.resource(),
            range: Some(ByteRange::starting_at(self.position)),
            client_data: ClientData::default(),
        })
    }

    /// Advances the phase to `now`. Returns whether the received data has become part of the film.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        if let Phase::Parsing(until) = self.phase
            && now >= until
        {
            if self.probe_for.is_zero() {
                self.seek_to_end();
            } else {
                self.phase = Phase::AtEnd(until + self.probe_for);
            }
        }
        match self.phase {
            Phase::AtEnd(until) if now >= until => {
                self.phase = Phase::Film;
                true
            }
            _ => false,
        }
    }

    /// Returns the time of the next call of [`advance`](Self::advance).
    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.phase {
            Phase::Parsing(until) => Some(until + self.probe_for),
            Phase::AtEnd(until) => Some(until),
            Phase::Header | Phase::Trailer { .. } | Phase::Film => None,
        }
    }

    fn seek_to_end(&mut self) {
        self.ask(Phase::Trailer { header_end: self.position }, self.last_packet_end);
    }

    /// Receives `n` bytes for a request. Returns whether they are part of the film.
    pub(super) fn handle_bytes(&mut self, now: Instant, request: u64, n: u64) -> bool {
        self.advance(now);
        if request != self.request || !self.asked {
            return false;
        }
        self.position = self.position.saturating_add(n).min(self.size_bytes);
        match self.phase {
            Phase::Film => return true,
            Phase::Header if self.position >= self.first_packet => {
                self.phase = Phase::Parsing(now + self.probe_after);
                self.advance(now);
            }
            Phase::AtEnd(_) => self.seek_to_end(),
            Phase::Trailer { header_end } if self.position >= self.size_bytes => {
                self.ask(Phase::Film, header_end);
            }
            Phase::Header | Phase::Parsing(_) | Phase::Trailer { .. } => {}
        }
        false
    }

    /// Handles the end of a response. A response with status 416 has no bytes.
    pub(super) fn handle_end(&mut self, request: u64) {
        if request == self.request
            && self.asked
            && let Phase::Trailer { header_end } = self.phase
        {
            self.ask(Phase::Film, header_end);
        }
    }

    fn ask(&mut self, phase: Phase, position: u64) {
        self.phase = phase;
        self.position = position;
        self.request += 1;
        self.asked = false;
    }

    /// Returns the file position up to which the film has been received.
    pub(super) fn received(&self) -> u64 {
        if self.phase == Phase::Film { self.position } else { 0 }
    }

    /// Returns the number of bytes in the ring, if the demuxer has read up to `consumed`.
    pub(super) fn held(&self, consumed: u64) -> u64 {
        self.received().saturating_sub(consumed)
    }

    /// Returns the free space of the ring in bytes.
    pub(super) fn room(&self, consumed: u64) -> u64 {
        self.ring_bytes.saturating_sub(self.held(consumed))
    }
}
