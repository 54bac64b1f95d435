//! The options that SYNs settle: one side offers them, and what the other answers with is had by both.
//!
//! A SYN, a SYN/ACK and the answer to a join have them from here, and nowhere else. MSS and MPTCP's are settled
//! by addresses and keys, and stand elsewhere.

use anabranch_wire::{Segment, Timestamps};

use crate::config::{Config, window_scale};

/// The largest shift of a window (RFC 7323 section 2.3).
const MOST_SCALE: u8 = 14;

/// What both sides have; before the peer's SYN, what we offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    /// By how much the peer's windows are shifted, and ours.
    pub(super) send_scale: u8,
    pub(super) receive_scale: u8,
    scaling: bool,
    pub(super) timestamps: bool,
    pub(super) sack_permitted: bool,
}

impl Agreed {
    /// What a SYN of ours offers.
    pub(super) fn offer(config: &Config) -> Self {
        Self {
            send_scale: 0,
            receive_scale: window_scale(config.receive_buffer_max),
            scaling: true,
            timestamps: true,
            sack_permitted: config.stack.sack,
        }
    }

    /// The peer's SYN or SYN/ACK: what it does not have nobody has.
    pub(super) fn learn(&mut self, syn: &Segment) {
        self.timestamps &= syn.timestamps.is_some();
        self.sack_permitted &= syn.sack_permitted;
        if let Some(scale) = syn.window_scale {
            self.send_scale = scale.min(MOST_SCALE);
        } else {
            (self.scaling, self.receive_scale) = (false, 0);
        }
    }

    /// Writes them on a SYN or a SYN/ACK, `stamps` where timestamps are among them. A scale answers a scale, also
    /// one of 0 (RFC 7323 section 2.2).
    pub(super) fn put_on(&self, segment: &mut Segment, stamps: Timestamps) {
        segment.window_scale = self.scaling.then_some(self.receive_scale);
        segment.timestamps = self.timestamps.then_some(stamps);
        segment.sack_permitted = self.sack_permitted;
    }

    /// Bytes that they take of every segment with data.
    pub(super) fn bytes(&self) -> u32 {
        if self.timestamps { 12 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(syn: &Segment) -> Segment {
        let mut agreed = Agreed::offer(&Config::default());
        agreed.learn(syn);
        let mut answer = Segment::default();
        agreed.put_on(&mut answer, Timestamps::default());
        answer
    }

    #[test]
    fn a_syn_is_answered_with_what_it_has_and_nothing_else() {
        // RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2.
        let bare = answered(&Segment::default());
        assert_eq!((bare.window_scale, bare.timestamps, bare.sack_permitted), (None, None, false));
        let own = window_scale(Config::default().receive_buffer_max);
        let scaled = answered(&Segment { window_scale: Some(0), ..Segment::default() });
        assert_eq!((scaled.window_scale, scaled.timestamps), (Some(own), None));
        let stamps = Some(Timestamps::default());
        let stamped = answered(&Segment { timestamps: stamps, ..Segment::default() });
        assert_eq!((stamped.window_scale, stamped.timestamps), (None, stamps));
    }
}
