//! Films, players and HTTP, sans-IO: bytes and time are the input, and playback events are the
//! output.
//!
//! - A [`Timeline`] is a film as packets in file order, with its pictures and the references
//!   between them. It is built from a probed file ([`RecordedFilm`]) or generated
//!   ([`SyntheticFilm`]).
//! - A [`ProgressivePlayer`] plays a timeline as VLC 3 plays a file over HTTP.
//! - A [`Ladder`] is a film at several rates, cut into chunks, as HLS playlists describe it. It is
//!   built from real playlists or generated ([`SyntheticLadder`]).
//! - An [`AdaptivePlayer`] plays a ladder chunk by chunk, and an [`AbrRule`] chooses the rates.
//! - [`http`] implements the client and the server side of HTTP/1.1.
//!
//! The crate does not depend on TCP, reads no clock and opens no socket. `handle_*` methods process
//! input, and `poll_*` methods return output.

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
