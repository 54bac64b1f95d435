//! Applications: the programs at the ends of connections.

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

/// The event after which an application is called again. Its timer ([`Application::poll_timeout`]) also
/// causes a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// An event of its connection.
    AtNews,
    /// The host has sent all segments that can be sent now, or the connection has an event.
    BehindOutput,
    /// Any input of the host, because the application's actions depend on the time.
    AtAnything,
    /// The lane needs a new connection. The lane's present connection, if any, is aborted. Only a client's
    /// application may return this.
    OnNewConnection {
        /// The lane.
        lane: usize,
        /// The time at which the present connection is aborted.
        former: Former,
    },
    /// The connection in this lane is aborted, and the application is called again at once. Only a client's
    /// application may return this.
    Without(usize),
}

/// The time at which a replaced connection is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Former {
    /// Before the new connection is opened.
    Closed,
    /// When the response on the new connection begins ([`Application::is_answered`]). The old connection is
    /// not read any more.
    KeptUntilAnswer,
}

/// The connections of a client's application. A lane is a numbered slot for one connection. Lane 0 has a
/// connection from the start; [`Next::OnNewConnection`] adds lanes.
pub trait Lanes {
    /// Returns the connection in a lane, or `None` if it is missing or not yet opened.
    fn get(&mut self, lane: usize) -> Option<&mut dyn Stream>;
}

/// The program at one end of a connection: it reads, writes, and sets a timer.
///
/// A client's application has a [`Session`] and outlives its connections. A server's application serves one
/// connection. An application with one connection at a time implements [`Self::drive`]. A client's
/// application with several connections implements [`Self::drive_all`]. The default methods do nothing.
pub trait Application {
    /// Handles the connection's events, then reads and writes as much as possible.
    ///
    /// # Errors
    /// Returns an error if bytes read differ from those sent.
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        let _ = (now, connection);
        Ok(Next::AtNews)
    }

    /// Handles the events of all connections of a client, like [`Self::drive`]. A host calls a client's
    /// application by this method.
    ///
    /// # Errors
    /// Returns an error if bytes read differ from those sent.
    fn drive_all(&mut self, now: Instant, lanes: &mut dyn Lanes) -> Result<Next, WrongBytes> {
        lanes.get(0).map_or(Ok(Next::AtNews), |connection| self.drive(now, connection))
    }

    /// Returns the time of the application's timer. The host queries it after each call of [`Self::drive`].
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Returns whether the response to the last request on the newest connection has begun.
    fn is_answered(&self) -> bool {
        true
    }

    /// Returns the measurements of a client's application.
    fn session(&self) -> Option<&Session> {
        None
    }

    /// Returns the measurements of a client's application, to complete them.
    fn session_mut(&mut self) -> Option<&mut Session> {
        None
    }

    /// Returns the player's state, if the application plays a film.
    fn viewing(&self, _now: Instant) -> Option<Viewing> {
        None
    }

    /// Adds rows for the events since the last call.
    fn tell(&mut self, _rows: &mut Rows) {}

    /// Adds rows for the application's current state.
    fn sample(&self, _now: Instant, _rows: &mut Rows) {}

    /// Adds rows for the whole run, at its end.
    fn report(&self, _rows: &mut Rows) {}
}
