//! The options that SYNs negotiate: window scale, timestamps and SACK. A side uses an option only if both
//! SYNs have it.
//!
//! This file writes the options of every SYN and SYN/ACK, and encodes those of a stored SYN. The MSS and the
//! options of the layer above are in other files, because they depend on addresses and keys.

use anabranch_wire::{Segment, Timestamps};

use crate::config::{TcpConfig, window_scale};

/// The largest shift of a window (RFC 7323 section 2.3).
const MOST_SCALE: u8 = 14;

/// The number of bits that [`remember`] needs. Some are unused.
pub const REMEMBERED_BITS: u32 = 8;
/// The bits of SACK and of timestamps.
const SACK: u16 = 1;
const STAMPS: u16 = 1 << 1;
/// The shift of the window scale, which has four bits, and its value for a SYN without window scale.
const SCALE: u32 = 2;
const NO_SCALE: u8 = 15;

/// Encodes the options of a peer's SYN in a few bits, without the value of the timestamp. A server stores
/// them while it waits for the third packet.
pub fn remember(syn: &Segment) -> u16 {
    let flags = [(syn.sack_permitted, SACK), (syn.timestamps.is_some(), STAMPS)];
    let flags: u16 = flags.iter().filter(|(has, _)| *has).map(|(_, bit)| bit).sum();
    let scale = syn.window_scale.map_or(NO_SCALE, |scale| scale.min(MOST_SCALE));
    flags | u16::from(scale) << SCALE
}

/// Adds [encoded](remember) options to a SYN. `stamp` is the value of its timestamp.
pub fn recall(remembered: u16, stamp: u32, syn: &mut Segment) {
    let scale = (remembered >> SCALE) as u8 & NO_SCALE;
    syn.window_scale = (scale != NO_SCALE).then_some(scale);
    syn.sack_permitted = remembered & SACK != 0;
    syn.timestamps = (remembered & STAMPS != 0).then_some(Timestamps { value: stamp, echo: 0 });
}

/// The options that both sides use. Before the peer's SYN arrives, those that we offer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    /// The shift of the peer's window, and that of ours.
    pub(super) send_scale: u8,
    pub(super) receive_scale: u8,
    scaling: bool,
    pub(super) timestamps: bool,
    pub(super) sack_permitted: bool,
}

impl Agreed {
    /// Returns the options that our SYN offers.
    pub(super) fn offer(config: &TcpConfig) -> Self {
        Self {
            send_scale: 0,
            receive_scale: window_scale(config.receive_buffer_max),
            scaling: true,
            timestamps: true,
            sack_permitted: config.stack.sack,
        }
    }

    /// Returns the options that both sides have. `syn` is the peer's SYN or SYN/ACK.
    #[must_use]
    pub(super) fn answered_by(self, syn: &Segment) -> Self {
        Self {
            send_scale: syn.window_scale.map_or(self.send_scale, |scale| scale.min(MOST_SCALE)),
            receive_scale: syn.window_scale.map_or(0, |_| self.receive_scale),
            scaling: self.scaling && syn.window_scale.is_some(),
            timestamps: self.timestamps && syn.timestamps.is_some(),
            sack_permitted: self.sack_permitted && syn.sack_permitted,
        }
    }

    /// Adds the options to a SYN or a SYN/ACK, with `stamps` if timestamps are used. A window scale of 0 is
    /// also answered with a window scale (RFC 7323 section 2.2).
    pub(super) fn put_on(&self, segment: &mut Segment, stamps: Timestamps) {
        segment.window_scale = self.scaling.then_some(self.receive_scale);
        segment.timestamps = self.timestamps.then_some(stamps);
        segment.sack_permitted = self.sack_permitted;
    }

    /// Returns the number of bytes that these options need in every later segment.
    pub(super) fn bytes(&self) -> u32 {
        if self.timestamps { 12 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(syn: &Segment) -> Segment {
        let agreed = Agreed::offer(&TcpConfig::default()).answered_by(syn);
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
    fn syn_ack_carries_only_options_offered_by_the_syn() {
        // RFC 7323 sections 2.2 and 3.2, RFC 2018 section 2.
        let bare = answered(&Segment::default());
        assert_eq!((bare.window_scale, bare.timestamps, bare.sack_permitted), (None, None, false));
        let own = window_scale(TcpConfig::default().receive_buffer_max);
        let scaled = answered(&Segment { window_scale: Some(0), ..Segment::default() });
        assert_eq!((scaled.window_scale, scaled.timestamps), (Some(own), None));
        let stamps = Some(Timestamps::default());
        let stamped = answered(&Segment { timestamps: stamps, ..Segment::default() });
        assert_eq!((stamped.window_scale, stamped.timestamps), (None, stamps));
    }
}
