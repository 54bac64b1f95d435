//! A server that sends as much as the transport accepts.

use anabranch_units::Instant;

use super::writing::{take_news, write_piece};
use super::{Application, Next, WrongBytes};
use crate::stream::Stream;

/// Sends a number of bytes of the pattern, or an unlimited number, and closes. It never reads. If the client
/// sends data, the receive buffer fills, and the connection cannot be freed ([`crate::Host::free_ended`]).
#[derive(Debug)]
pub struct Bulk {
    written: u64,
    limit: u64,
    /// Whether the send buffer was full. Nothing is written until the connection reports that it is
    /// writable.
    blocked: bool,
}

impl Bulk {
    /// Creates an application that sends `bytes`; `None` for no limit.
    pub fn new(bytes: Option<u64>) -> Self {
        Self { written: 0, limit: bytes.unwrap_or(u64::MAX), blocked: false }
    }
}

impl Application for Bulk {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        self.blocked &= !take_news(connection);
        if connection.connected_at().is_none() || self.written >= self.limit {
            return Ok(Next::AtNews);
        }
        let Self { written, limit, blocked } = self;
        let next = write_piece(now, connection, true, blocked, written, *limit);
        if self.written >= self.limit {
            connection.shutdown(now);
        }
        Ok(next)
    }
}
