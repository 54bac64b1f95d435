//! HTTP/1.1 (RFC 9112) for players and file servers, sans-IO. A request is for one range at most.
//!
//! Heads are parsed by `httparse`. Bodies are counted, not stored. Implemented: GET, HEAD, Host,
//! Range, persistent connections, pipelined requests. Not implemented: request bodies, transfer
//! codings, several ranges in one request, trailers, upgrades.

mod client;
mod cmcd;
mod range;
mod server;

use std::fmt::Write;

pub use client::{GetRequest, ResponseError, ResponseEvent, ResponseHead, ResponseReader};
pub use cmcd::ClientData;
pub use range::ByteRange;
pub use server::{Answer, Method, RequestError, RequestHead, RequestReader};

/// The longest accepted head in bytes. nginx accepts the same for a request (four buffers of 8
/// KiB).
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The largest accepted number of header fields in a head.
pub const HEADER_FIELDS_MAX: usize = 64;
/// The characters that a path may contain unencoded, besides letters and digits (RFC 3986 section
/// 3.3): unreserved characters, sub-delims, `:`, `@`, and the slash between segments.
const PATH_SIGNS: &[u8] = b"-._~!$&'()*+,;=:@/";

/// Returns a path in the form of a request line.
///
/// Every byte that a path may not contain is percent-encoded, including `%`, `?` and `#` (RFC 3986
/// sections 2.1 and 3.3). A path that is already encoded is encoded a second time.
///
/// ```
/// assert_eq!(anabranch_media::http::encoded_path("50 %/fü"), "50%20%25/f%C3%BC");
/// ```
pub fn encoded_path(path: &str) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || PATH_SIGNS.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Returns the length of the head in `buffer`, including the empty line at its end. The search
/// starts at `from`.
fn head_end(buffer: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3).min(buffer.len());
    buffer[start..].windows(4).position(|four| four == b"\r\n\r\n").map(|at| start + at + 4)
}
