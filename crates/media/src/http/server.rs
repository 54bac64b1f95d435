//! The server side: reads requests, selects the bytes to send, and writes response heads (RFC
//! 9112).

use super::cmcd::{self, ClientData};
use super::range::ByteRange;
use super::{HEAD_BYTES_MAX, HEADER_FIELDS_MAX, head_end};
use bytes::Bytes;
use std::ops::Range;

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET: a request for the head and the body.
    Get,
    /// HEAD: a request for the head only.
    Head,
}

/// The head of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    /// The method.
    pub method: Method,
    /// The path of the resource as sent by the client.
    pub target: String,
    /// The requested bytes. If absent or invalid, the request is for the whole resource.
    pub range: Option<ByteRange>,
    /// Whether the client may send another request on this connection.
    pub keep_alive: bool,
    /// The player's buffer and deadline (CMCD), if the client sent them.
    pub client_data: ClientData,
}

/// The reason why a request cannot be read. The connection then cannot be used any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The head has more than [`HEAD_BYTES_MAX`] bytes.
    #[error("a request head of more than {HEAD_BYTES_MAX} bytes")]
    HeadTooLong,
    /// The head is not valid HTTP/1.x.
    #[error("a malformed request head: {0}")]
    Malformed(#[from] httparse::Error),
    /// The method is neither GET nor HEAD.
    #[error("a method other than GET and HEAD")]
    MethodUnknown,
    /// The request has a body, which this server does not accept.
    #[error("a request with a body")]
    WithBody,
}

/// Reads the requests on one connection. Requests may be pipelined.
#[derive(Clone, Debug, Default)]
pub struct RequestReader {
    buffer: Vec<u8>,
    searched: usize,
    failed: Option<RequestError>,
}

impl RequestReader {
    /// Creates a reader for a new connection.
    pub fn new() -> Self {
        Self::default()
    }

    /// Buffers received bytes. Bytes after an error are dropped.
    ///
    /// [`poll_request`](Self::poll_request) returns the requests. The buffer is bounded if the
    /// caller does not read the connection while it answers a request.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        if self.failed.is_none() {
            self.buffer.extend_from_slice(bytes);
        }
    }

    /// Returns the next request when its head is complete.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a request that this server accepts. Every later call
    /// returns the same error.
    pub fn poll_request(&mut self) -> Result<Option<RequestHead>, RequestError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let read = match head_end(&self.buffer, self.searched) {
            Some(end) if end <= HEAD_BYTES_MAX => parse_head(&self.buffer[..end]).map(|head| {
                self.buffer.drain(..end);
                self.searched = 0;
                Some(head)
            }),
            None if self.buffer.len() < HEAD_BYTES_MAX => {
                self.searched = self.buffer.len();
                Ok(None)
            }
            _ => Err(RequestError::HeadTooLong),
        };
        read.inspect_err(|&error| {
            self.failed = Some(error);
            self.buffer = Vec::new();
        })
    }
}

fn parse_head(bytes: &[u8]) -> Result<RequestHead, RequestError> {
    let mut fields = [httparse::EMPTY_HEADER; HEADER_FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    if request.parse(bytes)?.is_partial() {
        return Err(httparse::Error::NewLine.into());
    }
    let method = match request.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        _ => return Err(RequestError::MethodUnknown),
    };
    let mut head = RequestHead {
        method,
        target: request.path.unwrap_or_default().into(),
        range: None,
        keep_alive: request.version == Some(1),
        client_data: ClientData::default(),
    };
    for field in request.headers.iter() {
        let value = std::str::from_utf8(field.value).unwrap_or_default().trim();
        if field.name.eq_ignore_ascii_case("range") {
            head.range = ByteRange::parse(value);
        } else if field.name.eq_ignore_ascii_case(cmcd::FIELD) {
            head.client_data = ClientData::parse(value);
        } else if field.name.eq_ignore_ascii_case("connection") {
            head.keep_alive &= !value.eq_ignore_ascii_case("close");
        } else if field.name.eq_ignore_ascii_case("transfer-encoding")
            || (field.name.eq_ignore_ascii_case("content-length") && value != "0")
        {
            return Err(RequestError::WithBody);
        }
    }
    Ok(head)
}

/// The response of a server: the head, and the part of the resource that forms the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code: 200, 206, 404 or 416.
    pub status: u16,
    /// The head as bytes.
    pub head: Bytes,
    /// The bytes of the resource that form the body. The caller has the resource and sends them.
    /// Empty if there is no body.
    pub body: Range<u64>,
}

impl Answer {
    /// Builds the response to a request. `resource_bytes` is the size of the resource, or `None` if
    /// it does not exist.
    pub fn new(request: &RequestHead, resource_bytes: Option<u64>) -> Self {
        let Some(size) = resource_bytes else {
            return Self::build(404, 0..0, "", request);
        };
        let Some(range) = request.range else {
            return Self::build(200, 0..size, "", request);
        };
        match range.of(size) {
            Some(body) => {
                let field =
                    format!("Content-Range: bytes {}-{}/{size}\r\n", body.start, body.end - 1);
                Self::build(206, body, &field, request)
            }
            None => Self::build(416, 0..0, &format!("Content-Range: bytes */{size}\r\n"), request),
        }
    }

    fn build(status: u16, body: Range<u64>, range_field: &str, request: &RequestHead) -> Self {
        let reason = match status {
            200 => "OK",
            206 => "Partial Content",
            404 => "Not Found",
            _ => "Range Not Satisfiable",
        };
        let connection = if request.keep_alive { "keep-alive" } else { "close" };
        let head = Bytes::from(format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Length: {}\r\n{range_field}\
             Accept-Ranges: bytes\r\nConnection: {connection}\r\n\r\n",
            body.end - body.start,
        ));
        let body = if request.method == Method::Get { body } else { 0..0 };
        Self { status, head, body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Option<RequestHead>, RequestError> {
        let mut reader = RequestReader::new();
        reader.handle_bytes(bytes);
        reader.poll_request()
    }

    #[test]
    fn pipelined_requests_are_returned_one_by_one() {
        let mut reader = RequestReader::new();
        reader.handle_bytes(
            b"GET /a HTTP/1.1\r\nHost: x\r\nRange: bytes=5-\r\n\r\nHEAD /b HTTP/1.0\r",
        );
        let first = reader.poll_request().unwrap().unwrap();
        assert_eq!((first.method, first.target.as_str()), (Method::Get, "/a"));
        assert_eq!(first.range, Some(ByteRange::starting_at(5)));
        assert!(first.keep_alive);
        assert_eq!(reader.poll_request(), Ok(None));
        reader.handle_bytes(b"\n\r\n");
        let second = reader.poll_request().unwrap().unwrap();
        assert_eq!((second.method, second.keep_alive), (Method::Head, false));
        assert_eq!(reader.poll_request(), Ok(None));
    }

    #[test]
    fn a_range_decides_the_status() {
        let get = |range| RequestHead {
            method: Method::Get,
            target: "/film".into(),
            range,
            keep_alive: true,
            client_data: ClientData::default(),
        };
        let answer = |range, size| {
            let answer = Answer::new(&get(range), size);
            (answer.status, answer.body)
        };
        assert_eq!(answer(None, Some(10)), (200, 0..10));
        assert_eq!(answer(Some(ByteRange::starting_at(4)), Some(10)), (206, 4..10));
        assert_eq!(answer(Some(ByteRange::starting_at(10)), Some(10)), (416, 0..0));
        assert_eq!(answer(None, None), (404, 0..0));
        let head = Answer::new(&get(Some(ByteRange::starting_at(4))), Some(10)).head;
        assert_eq!(
            head,
            "HTTP/1.1 206 Partial Content\r\nContent-Length: 6\r\nContent-Range: bytes 4-9/10\r\n\
             Accept-Ranges: bytes\r\nConnection: keep-alive\r\n\r\n"
        );
    }

    #[test]
    fn a_malformed_request_fails_the_connection() {
        assert!(matches!(read(b"\0\0\r\n\r\n"), Err(RequestError::Malformed(_))));
        assert_eq!(read(b"PUT / HTTP/1.1\r\n\r\n"), Err(RequestError::MethodUnknown));
        assert_eq!(
            read(b"GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
            Err(RequestError::WithBody)
        );
        let mut reader = RequestReader::new();
        reader.handle_bytes(&vec![b'a'; HEAD_BYTES_MAX]);
        assert_eq!(reader.poll_request(), Err(RequestError::HeadTooLong));
        reader.handle_bytes(b"GET / HTTP/1.1\r\n\r\n");
        assert_eq!(reader.poll_request(), Err(RequestError::HeadTooLong));
    }
}
