//! What runs at one end of a connection.

mod bulk;
mod http_server;
mod paced;
mod player;
mod reader;
mod writing;

use anabranch_trace::Rows;
use anabranch_units::Instant;

use crate::session::{Session, Viewing};
use crate::stream::Stream;

pub use crate::pattern::WrongBytes;
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
    /// On a new connection in a lane; the one that it has there, if any, is to be aborted. Only a client's
    /// application may ask for it.
    OnNewConnection {
        /// The lane.
        lane: usize,
        /// When the one that it has there is aborted.
        former: Former,
    },
    /// At once, without the connection that it has in a lane: that is to be aborted. Only a client's application
    /// may ask for it.
    Without(usize),
}

/// When the connection that an application leaves for a new one is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// Before the new one is opened.
    Closed,
    /// When the application is answered on the new one ([`Application::is_answered`]); it is not read until then.
    KeptUntilAnswer,
}

/// The connections of a client's application, each in a lane: a place that the application numbers, from 0. It
/// has one in lane 0 from the beginning, and others by [`Next::OnNewConnection`].
pub trait Lanes {
    /// The connection in a lane; `None` where there is none, or none yet.
    fn get(&mut self, lane: usize) -> Option<&mut dyn Stream>;
}

/// One end of a connection: it reads, writes, and asks to be woken.
///
/// An application of a client has a [`Session`] and outlives its connections; one of a server serves one
/// connection. One that has a single connection at a time implements [`Self::drive`], one of a client that has
/// several [`Self::drive_all`]; what implements neither does nothing.
pub trait Application {
    /// Takes the connection's news, and reads and writes whatever is possible now.
    ///
    /// # Errors
    /// What was read is not what was sent.
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        let _ = (now, connection);
        Ok(Next::AtNews)
    }

    /// As [`Self::drive`], of a client, with all its connections: a host drives a client by this.
    ///
    /// # Errors
    /// What was read is not what was sent.
    fn drive_all(&mut self, now: Instant, lanes: &mut dyn Lanes) -> Result<Next, WrongBytes> {
        lanes.get(0).map_or(Ok(Next::AtNews), |connection| self.drive(now, connection))
    }

    /// When it wants to be driven though nothing happens; asked for after each [`Self::drive`].
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether what it has asked for on the connection that it was given last is being answered.
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
