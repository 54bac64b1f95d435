//! HTTP/1.1 exchanges (RFC 9112) in clear text, read from the data of a connection in order.
//!
//! The bytes of frames may be cut, and frames may be missing. A head is read as far as it was captured. If its length or
//! that of its body is not known, the body ends with the last byte before the next request.

use std::collections::VecDeque;

use crate::heads::{METHODS, Request, Response};
use crate::text::{Part, Text};

/// The longest head that is read, in bytes.
const MOST_HEAD: usize = 32 * 1024;
/// The most exchanges of a connection that are kept.
const MOST_EXCHANGES: usize = 20_000;
/// The longest playlist that is kept, in bytes.
const MOST_PLAYLIST: usize = 1 << 20;
/// The most bytes of playlists of a connection that are kept.
const MOST_PLAYLISTS: usize = 4 << 20;

/// A request and its response. Times are nanoseconds since the first frame of the file.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    /// The method.
    pub method: String,
    /// The target as in the request line.
    pub target: String,
    /// The field `Host`.
    pub host: Option<String>,
    /// The field `Range`.
    pub range: Option<String>,
    /// The status; `None` if no response was seen.
    pub status: Option<u16>,
    /// The field `Content-Length` of the response.
    pub content_length: Option<u64>,
    /// The field `Content-Type` of the response.
    pub content_type: Option<String>,
    /// Bytes of the body that were in order, without the lines of chunks.
    pub body_bytes: u64,
    /// Time of the request's first byte.
    pub asked_ns: i64,
    /// Time of the response's first byte.
    pub first_byte_ns: Option<i64>,
    /// Time of the body's last byte; `None` if the body did not end. If the length is a guess, the last byte so far.
    pub done_ns: Option<i64>,
    /// The body of a playlist, if all of it was captured.
    pub playlist: Option<Vec<u8>>,
    /// Whether the length of the body is a guess: it is all data up to the next request.
    pub is_length_guessed: bool,
}

/// The place in a direction of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// In a head.
    #[default]
    Head,
    /// In a body of which so many bytes are left.
    Body(u64),
    /// Before or in the line of a chunk's length (RFC 9112 section 7.1).
    ChunkLine,
    /// In a chunk of which so many bytes are left, the line end behind it included.
    Chunk(u64),
    /// In the lines behind the last chunk.
    Trailer,
    /// In a body of unknown length.
    Unknown,
}

/// One direction of a conversation.
#[derive(Clone, Debug, Default)]
struct Way {
    text: Text,
    place: Place,
    /// The head or line so far.
    head: Vec<u8>,
    /// Time of its first byte.
    head_ns: i64,
}

/// The protocol of a connection's data.
#[derive(Clone, Debug, Default)]
pub enum Http {
    /// No data yet.
    #[default]
    Unknown,
    /// Another protocol, or the beginning was not captured.
    Other,
    /// HTTP/1.1 in clear text.
    Read(Box<Exchanges>),
}

impl Http {
    /// Returns the exchanges.
    pub fn list(&self) -> &[Exchange] {
        match self {
            Self::Read(exchanges) => &exchanges.list,
            Self::Unknown | Self::Other => &[],
        }
    }
}

/// The HTTP exchanges of a connection.
#[derive(Clone, Debug)]
pub struct Exchanges {
    /// The exchanges in the order of their requests.
    pub list: Vec<Exchange>,
    /// Exchanges that are not kept, because there are too many.
    pub more: u64,
    /// Requests without a response, by their place in the list.
    open: VecDeque<usize>,
    ways: [Way; 2],
    last_down_ns: Option<i64>,
    playlist_bytes: usize,
    is_over: bool,
}

impl Exchanges {
    /// Begins with the first payload of a client, if it begins like a request.
    pub(crate) fn begin(first: &[u8]) -> Option<Box<Self>> {
        METHODS.iter().any(|method| first.starts_with(method)).then(|| {
            Box::new(Self {
                list: Vec::new(),
                more: 0,
                open: VecDeque::new(),
                ways: Default::default(),
                last_down_ns: None,
                playlist_bytes: 0,
                is_over: false,
            })
        })
    }

    /// Returns how many bytes are held in memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.ways.iter().map(|way| way.text.held_bytes() + way.head.len()).sum::<usize>()
            + self.playlist_bytes
    }

    /// Gives up, and frees what was held.
    pub(crate) fn give_up(&mut self) {
        self.is_over = true;
        self.playlist_bytes = 0;
        for exchange in &mut self.list {
            exchange.playlist = None;
        }
        self.ways = Default::default();
        self.open.clear();
    }

    /// Sets the position of the first byte in a direction.
    pub(crate) fn begin_at(&mut self, way: usize, position: u64) {
        self.ways[way].text.begin_at(position);
    }

    /// Takes data of a direction (0 to the server, 1 to the client) at its position in the data stream. `bytes` is the
    /// captured beginning of its `len` bytes. Data behind `limit` waits: a subflow has not delivered it yet.
    pub(crate) fn on_data(
        &mut self,
        way: usize,
        (position, len, limit): (u64, u64, u64),
        bytes: &[u8],
        now: i64,
    ) {
        if self.is_over {
            return;
        }
        let parts = self.ways[way].text.add(position, len, bytes, limit);
        for part in parts {
            if way == 0 {
                self.on_request(&part, now);
            } else {
                self.on_response(&part, now);
            }
            if self.is_over {
                return;
            }
        }
    }

    fn on_request(&mut self, part: &Part, now: i64) {
        let mut bytes = part.bytes.as_slice();
        while !self.is_over {
            match self.ways[0].place {
                Place::Head if bytes.is_empty() => break,
                Place::Head => {
                    let Some((head, rest)) = self.take_head(0, bytes, now) else { break };
                    self.begin_exchange(&head);
                    bytes = rest;
                }
                Place::Body(left) => {
                    let taken = left.min(bytes.len() as u64);
                    bytes = &bytes[taken as usize..];
                    let left = left - taken;
                    self.ways[0].place = if left == 0 { Place::Head } else { Place::Body(left) };
                    if left > 0 {
                        break;
                    }
                }
                _ => break,
            }
        }
        if part.missing == 0 || self.is_over {
            return;
        }
        if let Place::Body(left) = self.ways[0].place {
            let left = left.saturating_sub(part.missing);
            self.ways[0].place = if left == 0 { Place::Head } else { Place::Body(left) };
            return;
        }
        // The rest of the head was not captured. The next request begins with another segment.
        let head = std::mem::take(&mut self.ways[0].head);
        if !head.is_empty() {
            self.begin_exchange(&head);
        }
        self.ways[0].place = Place::Head;
    }

    /// Takes bytes of a head. Returns the head and the rest, once the head has ended.
    fn take_head<'a>(
        &mut self,
        way: usize,
        bytes: &'a [u8],
        now: i64,
    ) -> Option<(Vec<u8>, &'a [u8])> {
        let own = &mut self.ways[way];
        if own.head.is_empty() {
            own.head_ns = now;
        }
        let before = own.head.len();
        let room = MOST_HEAD.saturating_sub(before).min(bytes.len());
        own.head.extend_from_slice(&bytes[..room]);
        let from = before.saturating_sub(3);
        let end = own.head[from..].windows(4).position(|four| four == b"\r\n\r\n");
        if let Some(at) = end {
            let end = from + at + 4;
            own.head.truncate(end);
            let rest = &bytes[end - before..];
            return Some((std::mem::take(&mut own.head), rest));
        }
        if own.head.len() >= MOST_HEAD {
            self.give_up();
        }
        None
    }

    fn begin_exchange(&mut self, head: &[u8]) {
        let Some(request) = Request::parse(head) else {
            self.give_up();
            return;
        };
        let asked_ns = self.ways[0].head_ns;
        self.end_guessed();
        self.ways[0].place = match request.body {
            0 => Place::Head,
            length => Place::Body(length),
        };
        if self.list.len() >= MOST_EXCHANGES {
            self.more += 1;
            self.give_up();
            return;
        }
        self.open.push_back(self.list.len());
        self.list.push(Exchange {
            method: request.method,
            target: request.target,
            host: request.host,
            range: request.range,
            asked_ns,
            ..Exchange::default()
        });
    }

    /// Ends a body of unknown length, because the next request has come.
    fn end_guessed(&mut self) {
        if self.ways[1].place == Place::Unknown && self.open.len() == 1 {
            if let Some(exchange) = self.open.pop_front().and_then(|at| self.list.get_mut(at)) {
                exchange.done_ns = self.last_down_ns;
                exchange.playlist = None;
            }
            self.ways[1].place = Place::Head;
        }
    }

    fn on_response(&mut self, part: &Part, now: i64) {
        let mut bytes = part.bytes.as_slice();
        while !bytes.is_empty() && !self.is_over {
            let Some(&at) = self.open.front() else {
                // A response without a request: the beginning was not captured.
                break;
            };
            bytes = match self.ways[1].place {
                Place::Head => {
                    self.list[at].first_byte_ns.get_or_insert(now);
                    match self.take_head(1, bytes, now) {
                        Some((head, rest)) => {
                            self.begin_body(at, &head, true, now);
                            rest
                        }
                        None => break,
                    }
                }
                Place::Body(left) => self.body(at, bytes, left, now, Place::Body),
                Place::ChunkLine => self.chunk_line(at, bytes, now),
                Place::Chunk(left) => self.body(at, bytes, left, now, Place::Chunk),
                Place::Trailer => self.trailer(at, bytes, now),
                Place::Unknown => {
                    self.list[at].body_bytes += bytes.len() as u64;
                    self.list[at].done_ns = Some(now);
                    &[]
                }
            };
        }
        if part.missing > 0 && !self.is_over {
            self.on_missing(part.missing, now);
        }
        if !part.bytes.is_empty() || part.missing > 0 {
            self.last_down_ns = Some(now);
        }
    }

    /// Takes bytes of a response that were not captured.
    fn on_missing(&mut self, missing: u64, now: i64) {
        let Some(&at) = self.open.front() else { return };
        match self.ways[1].place {
            Place::Body(left) => {
                self.list[at].playlist = None;
                let taken = left.min(missing);
                self.list[at].body_bytes += taken;
                self.go_on(at, Place::Body(left - taken), now);
                if missing > taken {
                    self.on_missing(missing - taken, now);
                }
            }
            Place::Chunk(left) if left > missing => {
                self.list[at].playlist = None;
                self.list[at].body_bytes += missing;
                self.ways[1].place = Place::Chunk(left - missing);
            }
            Place::Head => {
                self.list[at].first_byte_ns.get_or_insert(now);
                let head = std::mem::take(&mut self.ways[1].head);
                self.begin_body(at, &head, false, now);
            }
            _ => {
                self.list[at].playlist = None;
                self.list[at].is_length_guessed = true;
                self.list[at].body_bytes += missing;
                self.list[at].done_ns = Some(now);
                self.ways[1].place = Place::Unknown;
            }
        }
    }

    /// Takes a head of a response, of which all or only the beginning was captured.
    fn begin_body(&mut self, at: usize, head: &[u8], is_whole: bool, now: i64) {
        let response = Response::parse(head);
        // An interim response (RFC 9110 section 15.2) is followed by another.
        if is_whole && response.status.is_some_and(|status| (100..200).contains(&status)) {
            return;
        }
        if is_whole && response.status.is_none() {
            self.give_up();
            return;
        }
        let exchange = &mut self.list[at];
        exchange.status = response.status;
        exchange.content_length = response.length;
        let is_playlist = response.kind.as_deref().is_some_and(|kind| kind.contains("mpegurl"))
            || exchange
                .target
                .split('?')
                .next()
                .is_some_and(|path| path.to_ascii_lowercase().contains(".m3u8"));
        exchange.content_type = response.kind;
        let has_no_body = exchange.method == "HEAD" || matches!(response.status, Some(204 | 304));
        let keeps = is_playlist && !response.is_encoded && is_whole;
        exchange.playlist = keeps.then(Vec::new);
        let place = match (is_whole, response.is_chunked, response.length) {
            _ if has_no_body && is_whole => Place::Body(0),
            (true, true, _) => Place::ChunkLine,
            (true, false, Some(length)) => Place::Body(length),
            _ => {
                exchange.is_length_guessed = true;
                exchange.done_ns = Some(now);
                Place::Unknown
            }
        };
        self.go_on(at, place, now);
    }

    /// Goes on at a place; a body without a rest has ended.
    fn go_on(&mut self, at: usize, place: Place, now: i64) {
        self.ways[1].place = match place {
            Place::Body(0) => {
                self.list[at].done_ns = Some(now);
                self.open.pop_front();
                Place::Head
            }
            Place::Chunk(0) => Place::ChunkLine,
            other => other,
        };
    }

    /// Takes bytes of a body or chunk of which `left` are left, and returns the rest.
    fn body<'a>(
        &mut self,
        at: usize,
        bytes: &'a [u8],
        left: u64,
        now: i64,
        place: fn(u64) -> Place,
    ) -> &'a [u8] {
        let taken = left.min(bytes.len() as u64) as usize;
        // The line end behind a chunk is not part of the body.
        let tail = if matches!(place(1), Place::Chunk(_)) { 2 } else { 0 };
        let content = (left.saturating_sub(tail) as usize).min(taken);
        self.list[at].body_bytes += content as u64;
        self.keep(at, &bytes[..content]);
        self.go_on(at, place(left - taken as u64), now);
        &bytes[taken..]
    }

    /// Keeps bytes of a playlist.
    fn keep(&mut self, at: usize, bytes: &[u8]) {
        let Some(playlist) = &mut self.list[at].playlist else { return };
        if playlist.len() + bytes.len() > MOST_PLAYLIST
            || self.playlist_bytes + bytes.len() > MOST_PLAYLISTS
        {
            self.playlist_bytes -= playlist.len();
            self.list[at].playlist = None;
            return;
        }
        playlist.extend_from_slice(bytes);
        self.playlist_bytes += bytes.len();
    }

    /// Takes bytes of the line with a chunk's length.
    fn chunk_line<'a>(&mut self, at: usize, bytes: &'a [u8], now: i64) -> &'a [u8] {
        let (line, rest) = self.line(bytes);
        let Some(line) = line else { return rest };
        let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(digits)
            .ok()
            .map(str::trim)
            .map(|text| u64::from_str_radix(text, 16));
        match size {
            Some(Ok(0)) => self.ways[1].place = Place::Trailer,
            Some(Ok(size)) => self.go_on(at, Place::Chunk(size.saturating_add(2)), now),
            _ => self.give_up(),
        }
        rest
    }

    fn trailer<'a>(&mut self, at: usize, bytes: &'a [u8], now: i64) -> &'a [u8] {
        let (line, rest) = self.line(bytes);
        if line.is_some_and(|line| line.is_empty()) {
            self.go_on(at, Place::Body(0), now);
        }
        rest
    }

    /// Takes bytes of a line. Returns the line without its end, once it has ended, and the rest.
    fn line<'a>(&mut self, bytes: &'a [u8]) -> (Option<Vec<u8>>, &'a [u8]) {
        let head = &mut self.ways[1].head;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let upto = end.map_or(bytes.len(), |at| at + 1);
        head.extend_from_slice(&bytes[..upto]);
        if head.len() > MOST_HEAD {
            self.give_up();
            return (None, &[]);
        }
        let line = end.map(|_| {
            let line = std::mem::take(head);
            line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(&line).to_vec()
        });
        (line, &bytes[upto..])
    }
}
