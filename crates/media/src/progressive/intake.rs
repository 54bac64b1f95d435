//! The player's requests and its received data: the prefetch ring.
//!
//! VLC's prefetch thread (`stream_filter/prefetch.c`) reads as fast as the network delivers until
//! its ring is full. Then TCP flow control stops the server.
//!
//! The demuxer of an MP4 looks for boxes after the media data before it plays: it seeks to the end
//! and back. If the prefetch thread notices the seek, which it does when a read returns, it uses
//! three connections:
//!
//! 1. The first one reads the header.
//! 2. The second one requests the end (`access/http/file.c`, one response per connection). There is
//!    nothing, so the status is 416. The ring keeps its data.
//! 3. The third one reads on where the first response was left.
//!
//! The server fills an abandoned connection until the answer on the next one closes it. If no data
//! arrives between the seeks, the first connection delivers the whole file.

use super::config::PlayerConfig;
use crate::http::{ByteRange, ClientData};
use crate::timeline::{Container, Timeline};
use anabranch_units::{Duration, Instant};

/// A request of the player to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number. The caller passes received bytes with it.
    pub id: u64,
    /// The connection for this request. A number that has not been used before means a new
    /// connection.
    pub connection: u32,
    /// The connection that the player abandons and closes, including its unread data.
    pub leaves: Option<u32>,
    /// Whether to close that connection at once, and not when this request is answered.
    pub closes_before: bool,
    /// The resource: its path on the server, encoded for a request line, without a leading slash.
    pub resource: String,
    /// The requested bytes; the whole resource if absent.
    pub range: Option<ByteRange>,
    /// The player's buffer and deadline, if it reports them.
    pub client_data: ClientData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reading the data before the first packet (the `moov` box).
    Header,
    /// Reading on while the demuxer parses the header, until this time.
    Parsing(Instant),
    /// Reading on while the demuxer is at the end of the file, until this time.
    AtEnd(Instant),
    /// Reading the data after the last packet. The first response was left at `header_end`.
    Trailer { header_end: u64 },
    /// Reading the film.
    Film,
}

#[derive(Clone, Debug)]
pub(super) struct Intake {
    phase: Phase,
    /// The file position of the next byte of the current request.
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
            // A ring of size zero would accept no data.
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

    /// Advances the phases by time. Returns true if the received data has become that of the film.
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

    /// Returns the latest time to call [`advance`](Self::advance).
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

    /// Receives `n` bytes of a request. Returns true if they belong to the film.
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

    /// Receives the end of a response. A response with status 416 has no bytes.
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

    /// Returns the number of bytes in the ring if the demuxer has read up to `consumed`.
    pub(super) fn held(&self, consumed: u64) -> u64 {
        self.received().saturating_sub(consumed)
    }

    /// Returns the free space of the ring in bytes.
    pub(super) fn room(&self, consumed: u64) -> u64 {
        self.ring_bytes.saturating_sub(self.held(consumed))
    }
}
