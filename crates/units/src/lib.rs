//! Quantities and identifiers that all crates share: time, rate, sequence numbers and random streams.
//!
//! The types prevent mixing up units. In text and in column names, a suffix names the unit.

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
