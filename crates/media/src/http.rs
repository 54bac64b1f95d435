//! HTTP/1.1 (RFC 9112) for players and file servers: sans-IO, both roles, one range a request.
//!
//! Heads are parsed by `httparse`; bodies are counted, never kept. Implemented: GET, Host, Range,
//! persistent connections, pipelined requests. Not implemented: request bodies, transfer codings,
//! several ranges in one request, trailers, upgrades.

mod client;
mod range;
mod server;

pub use client::{GetRequest, ResponseError, ResponseEvent, ResponseHead, ResponseReader};
pub use range::ByteRange;
pub use server::{Answer, Method, RequestError, RequestHead, RequestReader};

/// The longest head that is read, in bytes: what nginx allows a request (four buffers of 8 KiB).
pub const HEAD_BYTES_MAX: usize = 32 * 1024;
/// The most header fields that a head may have.
pub const HEADER_FIELDS_MAX: usize = 64;

/// How far `head` reaches into `buffer`: the index behind its empty line, looking from `from` on.
fn head_end(buffer: &[u8], from: usize) -> Option<usize> {
    let start = from.saturating_sub(3).min(buffer.len());
    buffer[start..].windows(4).position(|four| four == b"\r\n\r\n").map(|at| start + at + 4)
}
