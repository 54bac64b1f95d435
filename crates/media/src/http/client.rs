//! The client side: writes requests, reads response heads, and counts the bytes of bodies (RFC
//! 9112).

use super::cmcd::ClientData;
use super::range::{ByteRange, parse_number};
use super::{HEAD_BYTES_MAX, HEADER_FIELDS_MAX, head_end};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt::Write;

/// A GET request for a resource or for a range of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetRequest {
    /// The value of the `Host` field, which HTTP/1.1 requires (RFC 9112 section 3.2).
    pub host: String,
    /// The resource's path as [`encoded_path`](super::encoded_path) returns it, for example
    /// `/a%20film.mp4`.
    pub target: String,
    /// The requested bytes. If absent, the request is for the whole resource (status 200).
    pub range: Option<ByteRange>,
    /// The player's buffer and deadline, sent as CMCD.
    pub client_data: ClientData,
}

impl GetRequest {
    /// Returns the request as bytes. Spaces, control characters and non-ASCII bytes are
    /// percent-encoded.
    pub fn encode(&self) -> Bytes {
        let mut head = String::from("GET ");
        push_escaped(&mut head, &self.target);
        head.push_str(" HTTP/1.1\r\nHost: ");
        push_escaped(&mut head, &self.host);
        head.push_str("\r\nAccept: */*\r\n");
        if let Some(range) = self.range {
            head.push_str("Range: ");
            head.push_str(&range.encode());
            head.push_str("\r\n");
        }
        self.client_data.push_field(&mut head);
        head.push_str("\r\n");
        Bytes::from(head)
    }
}

fn push_escaped(head: &mut String, text: &str) {
    for byte in text.bytes() {
        if byte.is_ascii_graphic() {
            head.push(char::from(byte));
        } else {
            let _ = write!(head, "%{byte:02X}");
        }
    }
}

/// The head of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, such as 200, 206, 404 or 416.
    pub status: u16,
    /// The length of the body in bytes.
    pub content_length: u64,
    /// The range of the resource that the body contains. Present if the status is 206.
    pub content_range: Option<ByteRange>,
    /// The length of the whole resource in bytes, if the head contains it.
    pub resource_length: Option<u64>,
    /// Whether the server keeps the connection open for another request.
    pub keep_alive: bool,
}

/// An event while a response is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEvent {
    /// A response begins.
    Head(ResponseHead),
    /// This number of bytes of the body has arrived. Never zero.
    Body(u64),
    /// The response is complete. The next bytes begin another response.
    End,
}

/// The reason why a response cannot be read. The connection then cannot be used any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The head has more than [`HEAD_BYTES_MAX`] bytes.
    #[error("a response head of more than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// The head contains no body length, or two different lengths, or a transfer coding.
    #[error("a response of unknown length")]
    LengthUnknown,
    /// The head is not valid HTTP/1.x.
    #[error("a malformed response head: {0}")]
    Malformed(#[from] httparse::Error),
}

/// Reads the responses on one connection.
#[derive(Clone, Debug, Default)]
pub struct ResponseReader {
    head: Vec<u8>,
    body_left: u64,
    in_body: bool,
    failed: Option<ResponseError>,
    events: VecDeque<ResponseEvent>,
}

impl ResponseReader {
    /// Creates a reader for a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Processes received bytes. The bytes of a body are only counted, which costs little.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a response that this client accepts. Every later call
    /// returns the same error.
    pub fn handle_bytes(&mut self, mut bytes: &[u8]) -> Result<(), ResponseError> {
        while !bytes.is_empty() {
            if let Some(error) = self.failed {
                return Err(error);
            }
            if self.in_body {
                let taken = self.body_left.min(bytes.len() as u64);
                self.body_left -= taken;
                self.events.push_back(ResponseEvent::Body(taken));
                self.end_when_complete();
                bytes = &bytes[taken as usize..];
            } else {
                bytes = self.read_head(bytes).inspect_err(|&error| self.failed = Some(error))?;
            }
        }
        Ok(())
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<ResponseEvent> {
        self.events.pop_front()
    }

    /// Processes bytes of a head. Returns the bytes after the end of the head.
    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ResponseError> {
        let before = self.head.len();
        let room = HEAD_BYTES_MAX - before;
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let Some(end) = head_end(&self.head, before) else {
            return if bytes.len() >= room { Err(ResponseError::HeadTooLong) } else { Ok(&[]) };
        };
        let head = parse_head(&self.head[..end])?;
        self.head.clear();
        // The final response follows an interim response (1xx) (RFC 9110 section 15.2).
        if !(100..200).contains(&head.status) {
            self.events.push_back(ResponseEvent::Head(head));
            (self.in_body, self.body_left) = (true, head.content_length);
            self.end_when_complete();
        }
        Ok(&bytes[end - before..])
    }

    fn end_when_complete(&mut self) {
        if self.body_left == 0 {
            self.in_body = false;
            self.events.push_back(ResponseEvent::End);
        }
    }
}

fn parse_head(bytes: &[u8]) -> Result<ResponseHead, ResponseError> {
    let mut fields = [httparse::EMPTY_HEADER; HEADER_FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    if response.parse(bytes)?.is_partial() {
        return Err(httparse::Error::NewLine.into());
    }
    let status = response.code.unwrap_or_default();
    let mut content_length = None;
    let mut head = ResponseHead {
        status,
        content_length: 0,
        content_range: None,
        resource_length: None,
        keep_alive: response.version == Some(1),
    };
    for field in response.headers.iter() {
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        if field.name.eq_ignore_ascii_case("content-length") {
            let length = parse_number(value).ok_or(ResponseError::LengthUnknown)?;
            if content_length.replace(length).is_some_and(|other| other != length) {
                return Err(ResponseError::LengthUnknown);
            }
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(ResponseError::LengthUnknown);
        } else if field.name.eq_ignore_ascii_case("content-range") {
            (head.content_range, head.resource_length) = parse_content_range(value);
        } else if field.name.eq_ignore_ascii_case("connection") {
            head.keep_alive &= !value.eq_ignore_ascii_case("close");
        }
    }
    let bodiless = (100..200).contains(&status) || status == 204 || status == 304;
    head.content_length = match content_length {
        _ if bodiless => 0,
        Some(length) => length,
        None => return Err(ResponseError::LengthUnknown),
    };
    if status == 200 {
        head.resource_length = Some(head.content_length);
    }
    Ok(head)
}

/// Parses `bytes a-b/n`, `bytes a-b/*` or `bytes */n` (RFC 9110 section 14.4). Returns the range
/// and the length of the resource.
fn parse_content_range(value: &str) -> (Option<ByteRange>, Option<u64>) {
    let Some((range, length)) =
        value.strip_prefix("bytes ").and_then(|value| value.split_once('/'))
    else {
        return (None, None);
    };
    let range = range.split_once('-').and_then(|(first, last)| {
        let (first, last) = (parse_number(first)?, parse_number(last)?);
        (first <= last).then_some(ByteRange { first, last: Some(last) })
    });
    (range, parse_number(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(chunks: &[&[u8]]) -> Result<Vec<ResponseEvent>, ResponseError> {
        let mut reader = ResponseReader::new();
        for chunk in chunks {
            reader.handle_bytes(chunk)?;
        }
        Ok(std::iter::from_fn(|| reader.poll_event()).collect())
    }

    #[test]
    fn a_get_request_has_the_format_of_the_rfc() {
        let request = GetRequest {
            host: "10.0.0.1".into(),
            target: "/a film.mp4".into(),
            range: Some(ByteRange::starting_at(100)),
            client_data: ClientData::default(),
        };
        assert_eq!(
            request.encode(),
            "GET /a%20film.mp4 HTTP/1.1\r\nHost: 10.0.0.1\r\nAccept: */*\r\n\
             Range: bytes=100-\r\n\r\n"
        );
    }

    #[test]
    fn two_responses_are_read_from_one_connection() {
        use ResponseEvent::{Body, End, Head};
        let events = read(&[
            b"HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nContent-Range: bytes */9\r\n",
            b"\r\nHTTP/1.1 206 Partial Content\r\ncontent-length: 5\r\n",
            b"Content-Range: bytes 4-8/9\r\nConnection: close\r\n\r\nab",
            b"cde",
        ])
        .unwrap();
        let refused = ResponseHead {
            status: 416,
            content_length: 0,
            content_range: None,
            resource_length: Some(9),
            keep_alive: true,
        };
        let part = ResponseHead {
            status: 206,
            content_length: 5,
            content_range: Some(ByteRange { first: 4, last: Some(8) }),
            resource_length: Some(9),
            keep_alive: false,
        };
        assert_eq!(events, [Head(refused), End, Head(part), Body(2), Body(3), End]);
    }

    #[test]
    fn responses_of_unknown_length_are_refused() {
        assert_eq!(read(&[b"HTTP/1.1 200 OK\r\n\r\n"]), Err(ResponseError::LengthUnknown));
        assert_eq!(
            read(&[b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"]),
            Err(ResponseError::LengthUnknown)
        );
        assert_eq!(
            read(&[b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"]),
            Err(ResponseError::LengthUnknown)
        );
        assert!(matches!(read(&[b"HELO\r\n\r\n"]), Err(ResponseError::Malformed(_))));
        let endless = vec![b'a'; HEAD_BYTES_MAX];
        assert_eq!(read(&[b"HTTP/1.1 200 OK\r\nX: ", &endless]), Err(ResponseError::HeadTooLong));
    }
}
