//! What runs at each end of a connection: a sender at the server, a reader or player at the client.

mod client;
mod server;

pub(crate) use client::{Client, ClientNeed};
pub(crate) use server::{Film, Serving};
