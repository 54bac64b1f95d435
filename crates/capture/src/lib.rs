//! Captures of TCP and MPTCP sessions: files, link layers, TCP connections, and the MPTCP connections that they form.

mod analysis;
mod connection;
mod course;
mod data_stream;
mod exchange;
mod file;
mod frame;
mod half;
mod heads;
mod link_layer;
mod pair;
mod pcapng;
mod positions;
mod ranges;
mod record;
mod round_trips;
mod stream;
mod summary;
mod tables;
mod text;

pub use analysis::{Analysis, Counts, Role};
pub use connection::{Connection, Fallback, Signal, Signalled, Subflow};
pub use course::Course;
pub use data_stream::DataStream;
pub use exchange::{Exchange, Exchanges, Http};
pub use file::Frames;
pub use frame::{FileError, Frame};
pub use half::Half;
pub use pair::{Journal, Pair};
pub use record::{Capable0, Record, Skipped, Subtypes};
pub use round_trips::{RoundTrips, Smoothed};
pub use stream::{Direction, Side, Slice, Stream};
