//! Captures of TCP and MPTCP sessions: files, link layers, TCP connections, and the MPTCP connections that they form.

mod analysis;
mod connection;
mod data_stream;
mod file;
mod frame;
mod half;
mod link_layer;
mod pcapng;
mod positions;
mod ranges;
mod record;
mod round_trips;
mod stream;
mod summary;

pub use analysis::{Analysis, Counts, Role};
pub use connection::{Connection, Fallback, Signal, Signalled, Subflow};
pub use data_stream::DataStream;
pub use file::Frames;
pub use frame::{FileError, Frame};
pub use half::Half;
pub use record::{Capable0, Record, Skipped, Subtypes};
pub use round_trips::RoundTrips;
pub use stream::{Direction, Side, Slice, Stream};
