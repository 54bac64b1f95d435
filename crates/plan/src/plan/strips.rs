//! Middleboxes: one removes MPTCP options from some kinds of segments, or from all. Another drops SYNs with
//! such options.

use std::fmt;

use anabranch_wire::{Flags, MptcpOption, Segment};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// The kind of a segment by its function in MPTCP. Every segment has exactly one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SegmentKind {
    /// A SYN, of an initial subflow or of a join.
    Syn,
    /// A SYN/ACK.
    SynAck,
    /// The third packet of a handshake: neither SYN nor payload, with `MP_CAPABLE` or `MP_JOIN`
    /// (RFC 8684 sections 3.1 and 3.2).
    ThirdAck,
    /// Any other segment: data, an acknowledgement or a reset.
    Data,
}

impl SegmentKind {
    /// Returns the kind of a segment.
    pub fn of(segment: &Segment) -> Self {
        let opens = |it: &MptcpOption| matches!(it, MptcpOption::Capable(_) | MptcpOption::Join(_));
        match segment.flags {
            flags if flags.contains(Flags::SYN.with(Flags::ACK)) => Self::SynAck,
            flags if flags.contains(Flags::SYN) => Self::Syn,
            _ if segment.payload.is_empty() && segment.mptcp.iter().any(opens) => Self::ThirdAck,
            _ => Self::Data,
        }
    }
}

/// Returns whether the segment is a SYN, not a SYN/ACK, with an MPTCP option.
pub fn is_mptcp_syn(segment: &Segment) -> bool {
    SegmentKind::of(segment) == SegmentKind::Syn && !segment.mptcp.is_empty()
}

/// The kinds of segments from which a path removes every MPTCP option, in both directions. In a
/// plan it is `true`, `false` or a list of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripsPlan {
    syn: bool,
    syn_ack: bool,
    third_ack: bool,
    data: bool,
}

impl StripsPlan {
    /// The empty set of kinds.
    pub const NONE: Self = Self { syn: false, syn_ack: false, third_ack: false, data: false };
    /// All kinds.
    pub const ALL: Self = Self { syn: true, syn_ack: true, third_ack: true, data: true };

    /// Returns the set with `kind` added.
    #[must_use]
    pub const fn with(mut self, kind: SegmentKind) -> Self {
        match kind {
            SegmentKind::Syn => self.syn = true,
            SegmentKind::SynAck => self.syn_ack = true,
            SegmentKind::ThirdAck => self.third_ack = true,
            SegmentKind::Data => self.data = true,
        }
        self
    }

    /// Returns whether the set contains a kind.
    pub const fn has(self, kind: SegmentKind) -> bool {
        match kind {
            SegmentKind::Syn => self.syn,
            SegmentKind::SynAck => self.syn_ack,
            SegmentKind::ThirdAck => self.third_ack,
            SegmentKind::Data => self.data,
        }
    }

    /// Removes the MPTCP options from a segment whose kind is in the set. Returns true if there were any.
    #[inline]
    pub fn strip(self, segment: &mut Segment) -> bool {
        if self == Self::NONE || !self.has(SegmentKind::of(segment)) {
            return false;
        }
        let had = segment.dss.is_some() || !segment.mptcp.is_empty();
        segment.dss = None;
        segment.mptcp.clear();
        had
    }
}

impl<'de> Deserialize<'de> for StripsPlan {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Kinds)
    }
}

/// Deserializes `true`, `false` or a list of kinds.
struct Kinds;

impl<'de> Visitor<'de> for Kinds {
    type Value = StripsPlan;

    fn expecting(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str("true, false or a list of kinds of segments")
    }

    fn visit_bool<E>(self, all: bool) -> Result<StripsPlan, E> {
        Ok(if all { StripsPlan::ALL } else { StripsPlan::NONE })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<StripsPlan, A::Error> {
        let mut kinds = StripsPlan::NONE;
        while let Some(kind) = list.next_element()? {
            kinds = kinds.with(kind);
        }
        Ok(kinds)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::{CapableKeys, Dss, MpCapable, MpJoin};
    use bytes::Bytes;

    use super::*;

    const KINDS: [SegmentKind; 4] =
        [SegmentKind::Syn, SegmentKind::SynAck, SegmentKind::ThirdAck, SegmentKind::Data];

    fn segment(flags: Flags, mptcp: Vec<MptcpOption>, payload: &'static [u8]) -> Segment {
        let payload = Bytes::from_static(payload);
        Segment { flags, mptcp, payload, ..Segment::default() }
    }

    fn capable(keys: CapableKeys) -> Vec<MptcpOption> {
        vec![MptcpOption::Capable(MpCapable::with_keys(keys))]
    }

    /// Returns one segment of each kind in the order of [`KINDS`].
    fn handshake() -> [Segment; 4] {
        let both = CapableKeys::Both { initiator: 1, responder: 2 };
        let dss = Some(Dss::default());
        [
            segment(Flags::SYN, capable(CapableKeys::None), b""),
            segment(Flags::SYN.with(Flags::ACK), capable(CapableKeys::Responder(2)), b""),
            segment(Flags::ACK, capable(both), b""),
            Segment { dss, ..segment(Flags::ACK, Vec::new(), b"") },
        ]
    }

    #[test]
    fn only_the_selected_kind_is_stripped() {
        for (which, kind) in KINDS.into_iter().enumerate() {
            let strips = StripsPlan::NONE.with(kind);
            for (index, mut segment) in handshake().into_iter().enumerate() {
                let before = segment.clone();
                assert_eq!(SegmentKind::of(&segment), KINDS[index]);
                assert_eq!(strips.strip(&mut segment), index == which);
                let bare = Segment { dss: None, mptcp: Vec::new(), ..before.clone() };
                assert_eq!(segment, if index == which { bare } else { before });
                assert!(!strips.strip(&mut segment.clone()) || index != which, "no option is left");
            }
        }
    }

    #[test]
    fn the_firewall_drops_only_syns_with_options() {
        let dropped = handshake().map(|segment| is_mptcp_syn(&segment));
        assert_eq!(dropped, [true, false, false, false]);
        assert!(!is_mptcp_syn(&segment(Flags::SYN, Vec::new(), b"")), "a SYN of plain TCP passes");
    }

    #[test]
    fn segments_after_the_handshake_are_data_whatever_their_options() {
        let first = CapableKeys::WithData { initiator: 1, responder: 2, length: 4, checksum: None };
        let data = segment(Flags::ACK, capable(first), b"data");
        assert_eq!(SegmentKind::of(&data), SegmentKind::Data);
        let join = vec![MptcpOption::Join(MpJoin::Ack { hmac: [0; 20] })];
        assert_eq!(SegmentKind::of(&segment(Flags::ACK, join, b"")), SegmentKind::ThirdAck);
        let close = vec![MptcpOption::FastClose { key: 1 }];
        assert_eq!(SegmentKind::of(&segment(Flags::RST, close, b"")), SegmentKind::Data);
        assert!(!StripsPlan::ALL.strip(&mut segment(Flags::ACK, Vec::new(), b"plain")));
    }

    #[test]
    fn a_plan_selects_all_none_or_a_list() {
        let read = |text: &str| serde_json::from_str::<StripsPlan>(text);
        assert_eq!(read("true").ok(), Some(StripsPlan::ALL));
        assert_eq!(read("false").ok(), Some(StripsPlan::NONE));
        assert_eq!(read("[]").ok(), Some(StripsPlan::NONE));
        let two = StripsPlan::NONE.with(SegmentKind::SynAck).with(SegmentKind::ThirdAck);
        assert_eq!(read(r#"["syn-ack", "third-ack"]"#).ok(), Some(two));
        let all = r#"["syn", "syn-ack", "third-ack", "data"]"#;
        assert_eq!(read(all).ok(), Some(StripsPlan::ALL));
        for wrong in [r#""syn""#, r#"["fin"]"#, "1", "null"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
