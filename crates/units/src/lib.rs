//! Quantities and identities shared by every room: time, rate, sequence numbers, seeded randomness.
//!
//! A wrong unit is a type error here; at text and column edges a suffix names the unit instead.

mod congestion_state;
mod random;
mod rate;
mod schedule;
mod sequence;
mod time;

pub use congestion_state::CongestionState;
pub use random::{Bookmark, RandomStream, Seed};
pub use rate::{ByteCount, Rate};
pub use schedule::Schedule;
pub use sequence::{DataSeq, SeqNumber, SubflowId};
pub use time::{Duration, Instant};
