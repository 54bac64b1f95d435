//! The client's half: writes requests, reads response heads, counts bodies (RFC 9112).

use super::cmcd::ClientData;
use super::range::{ByteRange, parse_number};
use super::{HEAD_BYTES_MAX, HEADER_FIELDS_MAX, head_end};
use bytes::Bytes;
use std::collections::VecDeque;
use std::fmt::Write;

/// A GET for one resource, or a range of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetRequest {
    /// The host, for the `Host` field that HTTP/1.1 demands (RFC 9112 section 3.2).
    pub host: String,
    /// The resource's path as [`encoded_path`](super::encoded_path) writes it, `/a%20film.mp4`.
    pub target: String,
    /// The bytes wanted; the whole resource, and a 200, if absent.
    pub range: Option<ByteRange>,
    /// The player's buffer and deadline, sent as CMCD.
    pub client_data: ClientData,
}

impl GetRequest {
    /// The request as bytes. Characters that would end a line or a word are percent-encoded.
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

/// What a response's head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// The status code, 200, 206, 404, 416 or another.
    pub status: u16,
    /// The body's length in bytes.
    pub content_length: u64,
    /// The range of the resource that the body is, when the status is 206.
    pub content_range: Option<ByteRange>,
    /// The resource's whole length in bytes, where the response tells.
    pub resource_length: Option<u64>,
    /// Whether the server keeps the connection for another request.
    pub keep_alive: bool,
}

/// What happened while reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseEvent {
    /// A response begins.
    Head(ResponseHead),
    /// The number of bytes of its body that arrived; never zero.
    Body(u64),
    /// The response is complete; the next bytes begin another.
    End,
}

/// Why a response cannot be read. The connection is useless afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResponseError {
    /// The head has more than [`HEAD_BYTES_MAX`] bytes.
    #[error("a response head of more than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// The head does not say how long the body is, or says it in a transfer coding.
    #[error("a response of unknown length")]
    LengthUnknown,
    /// The head is no HTTP/1.1.
    #[error("a malformed response head: {0}")]
    Malformed(#[from] httparse::Error),
}

/// Reads responses off one connection, one after the other.
#[derive(Clone, Debug, Default)]
pub struct ResponseReader {
    head: Vec<u8>,
    body_left: u64,
    in_body: bool,
    failed: Option<ResponseError>,
    events: VecDeque<ResponseEvent>,
}

impl ResponseReader {
    /// A reader at the beginning of a connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes as they arrive; cheap within a body, whose bytes are only counted.
    ///
    /// # Errors
    ///
    /// When the bytes are no response that this client understands; then and ever after.
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

    /// What was read, in order.
    pub fn poll_event(&mut self) -> Option<ResponseEvent> {
        self.events.pop_front()
    }

    /// Takes bytes of a head; returns those behind its end.
    fn read_head<'a>(&mut self, bytes: &'a [u8]) -> Result<&'a [u8], ResponseError> {
        let before = self.head.len();
        let room = HEAD_BYTES_MAX - before;
        self.head.extend_from_slice(&bytes[..bytes.len().min(room)]);
        let Some(end) = head_end(&self.head, before) else {
            return if bytes.len() >= room { Err(ResponseError::HeadTooLong) } else { Ok(&[]) };
        };
        let head = parse_head(&self.head[..end])?;
        self.head.clear();
        // An interim response (1xx) is followed by the one that counts (RFC 9110 section 15.2).
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

/// `bytes a-b/n`, `bytes a-b/*` or `bytes */n` (RFC 9110 section 14.4).
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
    fn a_get_is_written_as_the_rfc_has_it() {
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
    fn two_responses_follow_on_one_connection() {
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
    fn what_cannot_be_counted_is_refused() {
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
