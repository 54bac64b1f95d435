//! A server that sends as much as the transport takes.

use anabranch_units::Instant;

use super::writing::{take_news, write_piece};
use super::{Application, Next, WrongBytes};
use crate::stream::Stream;

/// Sends the pattern, up to a number of bytes or without end, and closes. It reads nothing: what a client says
/// fills the receive buffer, and keeps the connection from being freed ([`crate::Host::free_ended`]).
#[derive(Debug)]
pub struct Bulk {
    written: u64,
    limit: u64,
    /// The send buffer was full; nothing is written until the connection says so.
    blocked: bool,
}

impl Bulk {
    /// One that sends `bytes`; `None` is without end.
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
