//! What runs at one end of a connection.

mod bulk;
mod http_server;
mod paced;
mod player;
mod reader;
mod writing;

use anabranch_trace::Rows;
use anabranch_units::Instant;
use thiserror::Error;

use crate::session::{Session, Viewing};
use crate::stream::Stream;

pub use bulk::Bulk;
pub use http_server::{Files, HttpServer};
pub use paced::Paced;
pub use player::{Player, report_ladder};
pub use reader::Reader;

/// When an application is to be driven again, besides at its own time ([`Application::poll_timeout`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When its connection has news.
    AtNews,
    /// Behind what goes out now, and when its connection has news.
    BehindOutput,
    /// Whenever something happens to its host: what it does depends on the time.
    AtAnything,
    /// On a new connection; the one it has is to be aborted. Only a client's application may ask for it.
    OnNewConnection(Former),
}

/// When the connection that an application leaves for a new one is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// Before the new one is opened.
    Closed,
    /// When the application is answered on the new one ([`Application::is_answered`]); it is not read until then.
    KeptUntilAnswer,
}

/// A client read bytes that were not sent there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("client {client} read wrong bytes at position {position}")]
pub struct WrongBytes {
    /// The client's number.
    pub client: u32,
    /// The position in the stream or resource.
    pub position: u64,
}

/// One end of a connection: it reads, writes, and asks to be woken.
///
/// An application of a client has a [`Session`] and outlives its connection; one of a server serves one
/// connection.
pub trait Application {
    /// Takes the connection's news, and reads and writes whatever is possible now.
    ///
    /// # Errors
    /// What was read is not what was sent.
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes>;

    /// When it wants to be driven though nothing happens; asked for after each [`Self::drive`].
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether what it has asked for on its connection is being answered.
    fn is_answered(&self) -> bool {
        true
    }

    /// What it has measured so far, if it is a client's.
    fn session(&self) -> Option<&Session> {
        None
    }

    /// The same, to close its books.
    fn session_mut(&mut self) -> Option<&mut Session> {
        None
    }

    /// What its viewer has, if it plays a film.
    fn viewing(&self, _now: Instant) -> Option<Viewing> {
        None
    }

    /// Writes down what happened since the last time it was asked.
    fn tell(&mut self, _rows: &mut Rows) {}

    /// Writes down how it stands.
    fn sample(&self, _now: Instant, _rows: &mut Rows) {}

    /// Writes down what there is to say of the whole, when it is over.
    fn report(&self, _rows: &mut Rows) {}
}
