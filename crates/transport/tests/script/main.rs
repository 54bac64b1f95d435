//! Scripts: one endpoint against a peer written by hand, a file a concern.

#[path = "../dialect/mod.rs"]
mod dialect;

mod close;
mod dss;
mod hostile;
mod loss;
mod mp_capable;
mod mp_join;
mod recovery;
mod stale;
mod tcp;
mod told;
mod validate;
mod window;
