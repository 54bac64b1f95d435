//! Films, players and HTTP: bytes and time in, playback events out.
//!
//! - [`Timeline`] is a film as packets in file order, with the pictures and what they depend on. It
//!   comes from a probed file ([`RecordedFilm`]) or is made up ([`SyntheticFilm`]).
//! - [`ProgressivePlayer`] plays one the way VLC 3 plays a file over HTTP.
//! - [`Ladder`] is a film at several rates, in chunks: what HLS playlists say. It comes from real
//!   ones or is made up ([`SyntheticLadder`]).
//! - [`AdaptivePlayer`] plays one, chunk by chunk; an [`AbrRule`] chooses the rates.
//! - [`http`] is HTTP/1.1, both roles.
//!
//! Nothing here knows TCP, reads a clock or opens a socket: `handle_*` is input from the world,
//! `poll_*` is output to it.

mod abr;
mod adaptive;
mod content;
pub mod http;
mod ladder;
mod progressive;
mod recorded;
mod synthetic;
mod timeline;

pub use abr::{
    AbrDecision, AbrRule, AbrRules, AbrView, ChunkSample, Loading, abr_names, abr_parameters,
    build_abr,
};
pub use adaptive::{
    AdaptiveConfig, AdaptiveEvent, AdaptiveEventKind, AdaptivePlayer, Append, ChunkRecord,
    PlayerModel, Requests, Track,
};
pub use ladder::{
    Chunk, Ladder, LadderError, Rendition, Resource, SyntheticLadder, SyntheticLadderError,
};
pub use progressive::{
    BrokenReferences, Buffer, Cause, Fate, FrameRecord, PlaybackEvent, PlaybackEventKind,
    PlayerConfig, ProgressivePlayer, Request,
};
pub use recorded::{RecordedFilm, RecordedFilmError, RecordedPackets};
pub use synthetic::{SyntheticFilm, SyntheticFilmError};
pub use timeline::{Container, MediaTime, Packet, PacketKind, Picture, Stream, Timeline};
