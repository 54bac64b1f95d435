//! Films, players and HTTP: bytes and time in, playback events out.
//!
//! - [`Timeline`] is a film as packets in file order, with the pictures and what they depend on. It
//!   comes from a probed file ([`RecordedFilm`]) or is made up ([`SyntheticFilm`]).
//! - [`ProgressivePlayer`] plays one the way VLC 3 plays a file over HTTP.
//! - [`http`] is HTTP/1.1, both roles.
//!
//! Nothing here knows TCP, reads a clock or opens a socket: `handle_*` is input from the world,
//! `poll_*` is output to it.

pub mod http;
mod progressive;
mod recorded;
mod synthetic;
mod timeline;

pub use progressive::{
    BrokenReferences, Buffer, Cause, Fate, FrameRecord, PlaybackEvent, PlaybackEventKind,
    PlayerConfig, ProgressivePlayer, Request,
};
pub use recorded::{RecordedFilm, RecordedFilmError, RecordedPackets};
pub use synthetic::{SyntheticFilm, SyntheticFilmError};
pub use timeline::{Container, MediaTime, Packet, PacketKind, Picture, Stream, Timeline};
