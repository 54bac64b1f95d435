//! The sending half of a subflow: the segments in flight, losses, recovery, window, timers and the data to send.

mod acknowledge;
pub(super) mod delivery_rate;
mod duplicates;
pub(super) mod flight;
pub(super) mod intent;
pub(super) mod loss_interval;
pub(super) mod losses;
mod new_reno;
pub(super) mod pacing;
mod push;
pub(super) mod queue;
pub(super) mod recovery;
pub(crate) mod rtt;
mod send_buffer;
pub(super) mod timers;
mod transmit;
pub(super) mod validation;
