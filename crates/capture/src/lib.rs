//! Captures of TCP and MPTCP sessions: files, link layers, connections, subflows and what they show.

mod analysis;
mod connection;
mod data_stream;
mod file;
mod link_layer;
mod positions;
mod ranges;
mod record;
mod round_trips;
mod stream;
mod summary;

pub use analysis::{Analysis, Counts, Role};
pub use connection::{Connection, Fallback, Signal, Signalled, Subflow};
pub use data_stream::DataStream;
pub use file::{FileError, Frame, Frames};
pub use record::{Capable0, Record, Skipped, Subtypes};
pub use round_trips::RoundTrips;
pub use stream::{Direction, Half, Side, Slice, Stream};
