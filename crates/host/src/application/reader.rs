//! A client that reads all data.

use anabranch_mptcp::Event;
use anabranch_trace::Rows;
use anabranch_units::Instant;

use super::{Application, Next, WrongBytes};
use crate::pattern;
use crate::session::Session;
use crate::stream::Stream;

/// The buffer size of a recv(2) call in bytes. The host sends the acknowledgements and window updates of one
/// call before the next call (`mptcp_cleanup_rbuf`, `tcp_cleanup_rbuf`).
const CALL: usize = pattern::PIECE as usize;

/// Reads to the end of the stream, and checks the bytes against the pattern.
#[derive(Debug)]
pub struct Reader {
    session: Session,
    /// The stream position of the next byte, for the check.
    position: u64,
}

impl Reader {
    /// Creates a reader for this session.
    pub fn new(session: Session) -> Self {
        Self { session, position: 0 }
    }

    /// Reads up to `most` bytes. Returns true if it read that many.
    #[inline]
    fn read_up_to(
        &mut self,
        now: Instant,
        connection: &mut dyn Stream,
        most: usize,
    ) -> Result<bool, WrongBytes> {
        let mut left = most;
        while left > 0 {
            let Some(bytes) = connection.read(now, left) else { return Ok(false) };
            left -= bytes.len();
            self.session.check(now, self.position, &bytes)?;
            self.position += bytes.len() as u64;
            self.session.note_read(now, bytes.len() as u64);
        }
        Ok(true)
    }
}

impl Application for Reader {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while let Some(event) = connection.poll_event() {
            if event == Event::PeerFinished {
                connection.shutdown(now);
                self.read_up_to(now, connection, usize::MAX)?;
                self.session.finish(now);
            } else {
                self.session.note_event(now, event);
            }
        }
        let more = self.read_up_to(now, connection, CALL)?;
        Ok(if more { Next::BehindOutput } else { Next::AtNews })
    }

    fn session(&self) -> Option<&Session> {
        Some(&self.session)
    }

    fn session_mut(&mut self) -> Option<&mut Session> {
        Some(&mut self.session)
    }

    fn sample(&self, now: Instant, rows: &mut Rows) {
        self.session.sample(now, None, rows);
    }

    fn report(&self, rows: &mut Rows) {
        self.session.report(rows);
    }
}

#[cfg(test)]
mod tests {
    use anabranch_mptcp::WriteError;
    use bytes::Bytes;

    use super::*;

    /// A stream with received buffers.
    struct Waiting(Vec<Bytes>);

    impl Stream for Waiting {
        fn connected_at(&self) -> Option<Instant> {
            Some(Instant::ZERO)
        }

        fn poll_event(&mut self) -> Option<Event> {
            None
        }

        fn read(&mut self, _: Instant, limit: usize) -> Option<Bytes> {
            let first = self.0.first_mut()?;
            let piece = first.split_to(first.len().min(limit));
            self.0.retain(|piece| !piece.is_empty());
            Some(piece)
        }

        fn write(&mut self, _: Instant, _: Bytes) -> Result<usize, WriteError> {
            Err(WriteError::Closed)
        }

        fn poll_writable(&mut self) -> bool {
            false
        }

        fn shutdown(&mut self, _: Instant) {}
    }

    #[test]
    fn a_call_reads_256_kib_and_the_next_call_follows_its_output() {
        let mut waiting = Waiting(Vec::new());
        for piece in 0..5u64 {
            waiting.0.push(pattern::piece(piece * 60_000, 60_000).slice(..60_000));
        }
        let mut reader = Reader::new(Session::new(0, Instant::ZERO, None));
        let at = |ms: u64| Instant::ZERO + anabranch_units::Duration::from_millis(ms);
        assert_eq!(reader.drive(at(1), &mut waiting), Ok(Next::BehindOutput));
        assert_eq!(reader.session.bytes_read, 262_144);
        assert_eq!(reader.drive(at(1), &mut waiting), Ok(Next::AtNews));
        assert_eq!(reader.session.bytes_read, 300_000);
    }
}
