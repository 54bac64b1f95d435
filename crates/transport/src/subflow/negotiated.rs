//! The options that SYNs settle: one side offers them, and what the other answers with is had by both.
//!
//! A SYN, a SYN/ACK and the answer to a join have them from here, and nowhere else; so has the record of a SYN that waits for
//! its third packet. MSS and MPTCP's are settled by addresses and keys, and stand elsewhere.

use anabranch_wire::{Segment, Timestamps};

use crate::config::{Config, window_scale};

/// The largest shift of a window (RFC 7323 section 2.3).
const MOST_SCALE: u8 = 14;

/// The bits that [`remember`] takes; some are free.
pub(crate) const REMEMBERED_BITS: u32 = 8;
/// The flags among them: SACK, and timestamps.
const SACK: u16 = 1;
const STAMPS: u16 = 1 << 1;
/// The place of the window scale among them, four bits, and what stands there where a SYN has no scale.
const SCALE: u32 = 2;
const NO_SCALE: u8 = 15;

/// What a server remembers of the options of a peer's SYN while that waits for its third packet, beside the
/// timestamp's value.
pub(crate) fn remember(syn: &Segment) -> u16 {
    let flags = [(syn.sack_permitted, SACK), (syn.timestamps.is_some(), STAMPS)];
    let flags: u16 = flags.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
    let scale = syn.window_scale.map_or(NO_SCALE, |scale| scale.min(MOST_SCALE));
    flags | u16::from(scale) << SCALE
}

/// Puts on a SYN what was [remembered](remember) of it; `stamp` is its timestamp's value.
pub(crate) fn recall(remembered: u16, stamp: u32, syn: &mut Segment) {
    let scale = (remembered >> SCALE) as u8 & NO_SCALE;
    syn.window_scale = (scale != NO_SCALE).then_some(scale);
    syn.sack_permitted = remembered & SACK != 0;
    syn.timestamps = (remembered & STAMPS != 0).then_some(Timestamps { value: stamp, echo: 0 });
}

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
            sack_permitted: config.stack.tcp.sack,
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
    fn a_syn_that_waits_has_all_its_options_still() {
        let stamps = Some(Timestamps { value: 7, echo: 0 });
        for (scale, sack, stamps) in [
            (None, false, None),
            (Some(0), true, None),
            (Some(MOST_SCALE), false, stamps),
            (None, true, stamps),
        ] {
            let syn = Segment {
                window_scale: scale,
                sack_permitted: sack,
                timestamps: stamps,
                ..Segment::default()
            };
            let remembered = remember(&syn);
            assert!(remembered < 1 << REMEMBERED_BITS);
            let mut recalled = Segment::default();
            recall(remembered, 7, &mut recalled);
            assert_eq!(recalled, syn);
        }
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
