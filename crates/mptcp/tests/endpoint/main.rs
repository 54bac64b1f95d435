//! The endpoint's table of connections: who is found, who is freed, who may open.

mod backlog;
mod cookies;
mod host;
mod life;
mod time_wait;
