//! Scripts: one endpoint against a peer written by hand, a file a concern.

#[path = "../dialect/mod.rs"]
mod dialect;

mod checksum;
mod close;
mod dss;
mod fallback;
mod lies;
mod loss;
mod mapping;
mod mp_capable;
mod mp_join;
mod recovery;
mod tcp;
mod validate;
mod window;
