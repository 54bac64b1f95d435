//! Changes of the flight for unit tests of other parts.

use anabranch_units::{Duration, Instant};

use super::acknowledge::{Acknowledged, Delivered, advance};
use super::{Flight, Sent};

impl Flight {
    pub(crate) fn acknowledge_bytes(&mut self, bytes: u64) {
        self.bytes_acked += bytes;
    }

    pub(crate) fn set_lost_out(&mut self, segments: u32) {
        self.lost_out = segments;
    }
}

impl Delivered {
    /// Returns the result of an acknowledgement that delivers one segment.
    pub(crate) fn of(now: Instant, sent: &Sent, min_rtt: Option<Duration>) -> Self {
        let mut delivered = Self::default();
        let ack = Acknowledged {
            now,
            prior_una: 0,
            una: 0,
            ranges: None,
            echo: None,
            high_seq: 0,
            min_rtt,
            mss: 1000,
            merges: false,
        };
        advance(&mut delivered, &ack, sent);
        delivered
    }
}
