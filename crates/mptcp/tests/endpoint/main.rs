//! The endpoint's table of connections: look-up, removal, and the admission of new connections.

mod backlog;
mod cookies;
mod host;
mod life;
mod time_wait;
