//! What stands on the wire, against bytes worked out from the RFCs and against itself.

mod capture;
mod crypto;
mod limits;
mod options;
mod packet;
mod round_trip;
mod strategy;
mod total;
