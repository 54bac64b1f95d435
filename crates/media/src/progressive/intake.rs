//! What the player asks for and has received: the requests and the prefetch ring.
//!
//! VLC's prefetch (`stream_filter/prefetch.c`) reads as fast as the network delivers until its ring
//! is full, then stops; the connection's window does the rest.
//!
//! An MP4's demuxer looks for boxes behind the media data before it plays: it seeks there and back. If the thread
//! that fills the ring hears of it in between, as it does when a read returns, it goes there, on a new connection
//! (`access/http/file.c` asks with `Range` and takes one response a connection), finds nothing (416), keeps what it
//! has, and reads on where the first response was left, on a third. The server goes on to fill a connection that is
//! left until the answer on the next one closes it. If nothing comes in meanwhile, the one connection is all there is.

use super::config::PlayerConfig;
use crate::http::{ByteRange, ClientData};
use crate::timeline::{Container, Timeline};
use anabranch_units::{Duration, Instant};

/// A request of the player to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its number; bytes come back under it.
    pub id: u64,
    /// The connection to send it on; a number not seen before asks for a new one.
    pub connection: u32,
    /// The connection that the player reads nothing more from and closes, with whatever it still
    /// carries.
    pub leaves: Option<u32>,
    /// Whether it closes that one at once, and not when this request is answered.
    pub closes_before: bool,
    /// The resource: its path on the server as a request line has it, without a leading slash.
    pub resource: String,
    /// The bytes wanted; the whole resource if absent.
    pub range: Option<ByteRange>,
    /// The player's buffer and deadline, if it reports them.
    pub client_data: ClientData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Reading what lies before the first packet (the `moov` box), to look behind the last next.
    Header,
    /// Reading on while the demuxer works on the header, until then.
    Parsing(Instant),
    /// Reading on while the demuxer stands at the end of the file, until then.
    AtEnd(Instant),
    /// Reading what lies behind the last packet; the header was read up to here.
    Trailer { header_end: u64 },
    /// Reading the film.
    Film,
}

#[derive(Clone, Debug)]
pub(super) struct Intake {
    phase: Phase,
    /// The next byte expected of the current request, as a position in the file.
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
            // A ring of nothing would never move.
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

    /// Goes as far as time allows; true if what is in turns out to be the film's.
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

    /// When [`advance`](Self::advance) must be called at the latest.
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

    /// Takes `n` bytes of a request; true if they are the film's.
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

    /// Takes the end of a response; a 416 ends without a byte.
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

    /// How far the film has been received, as a position in the file.
    pub(super) fn received(&self) -> u64 {
        if self.phase == Phase::Film { self.position } else { 0 }
    }

    /// Bytes that lie in the ring when the demuxer has read up to `consumed`.
    pub(super) fn held(&self, consumed: u64) -> u64 {
        self.received().saturating_sub(consumed)
    }

    /// Bytes that the ring still takes.
    pub(super) fn room(&self, consumed: u64) -> u64 {
        self.ring_bytes.saturating_sub(self.held(consumed))
    }
}
