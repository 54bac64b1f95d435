//! A client that reads all that comes.

use anabranch_trace::Rows;
use anabranch_transport::Event;
use anabranch_units::Instant;

use super::{Application, Next, WrongBytes};
use crate::pattern;
use crate::session::Session;
use crate::stream::Stream;

/// Reads to the end, and checks that it is the pattern.
#[derive(Debug)]
pub struct Reader {
    session: Session,
    /// Where the next byte of the stream stands, for the check of its value.
    position: u64,
}

impl Reader {
    /// A reader of this session.
    pub fn new(session: Session) -> Self {
        Self { session, position: 0 }
    }

    #[inline(always)]
    fn read_all(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<(), WrongBytes> {
        while let Some(bytes) = connection.read(now, usize::MAX) {
            if !pattern::matches(self.position, &bytes) {
                return Err(WrongBytes { client: self.session.id, position: self.position });
            }
            self.position += bytes.len() as u64;
            self.session.note_read(now, bytes.len() as u64);
        }
        Ok(())
    }
}

impl Application for Reader {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        while let Some(event) = connection.poll_event() {
            if event == Event::PeerFinished {
                connection.shutdown(now);
                self.read_all(now, connection)?;
                self.session.finish(now);
            } else {
                self.session.note_event(now, event);
            }
        }
        self.read_all(now, connection)?;
        Ok(Next::AtNews)
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
