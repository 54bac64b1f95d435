//! What runs at each end of a connection: a sender at the server, a reader or player at the client.

mod client;
mod media;
mod player;
mod server;

pub(crate) use client::{Client, ClientNeed};
pub(crate) use media::Media;
pub(crate) use player::report_ladder;
pub(crate) use server::Serving;
