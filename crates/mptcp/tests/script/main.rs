//! Scripted tests: one endpoint against a scripted peer, with one file per subject.

#[path = "../dialect/mod.rs"]
mod dialect;

mod address;
mod checksum;
mod close;
mod dss;
mod duplicates;
mod ecn;
mod fallback;
mod family;
mod fastclose;
mod flood;
mod hostile;
mod identifiers;
mod lies;
mod loss;
mod mapping;
mod mp_capable;
mod mp_join;
mod options;
mod outage;
mod pacing;
mod parked;
mod path_mtu;
mod prio;
mod reading;
mod recovery;
mod reliability;
mod repaired;
mod small_window;
mod stale;
mod tcp;
mod told;
mod validate;
mod window;
