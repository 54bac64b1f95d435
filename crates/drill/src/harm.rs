//! The possible changes to segments, and the attackers that can make them.

use anabranch_units::RandomStream;

/// The abilities of the mediator between the endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Twin {
    /// A network with loss, reordering, duplication and temporary outages. All bytes must arrive.
    Benign,
    /// In addition, an attacker who can send but not see packets. All bytes must still arrive.
    Blind,
    /// An attacker who sees and changes everything. There must be no panic, no unbounded memory and
    /// no endless loop.
    Hostile,
}

impl Twin {
    /// All values, in the order in which they run for each seed.
    pub const ALL: [Self; 3] = [Self::Benign, Self::Blind, Self::Hostile];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Benign => "benign",
            Self::Blind => "blind",
            Self::Hostile => "hostile",
        }
    }
}

/// A change to a segment, or an additional segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    // Changes by the network.
    Drop,
    Duplicate,
    Delay,
    // Changes by an attacker who sends but does not see packets.
    Replay,
    BlindReset,
    BlindSyn,
    BlindData,
    BlindJoin,
    BlindOptions,
    // Changes by an attacker who sees and changes packets.
    Sequence,
    Acknowledgement,
    Flags,
    Window,
    Timestamps,
    Handshake,
    SackInvented,
    SackReneged,
    DssMapping,
    DssLength,
    DssAck,
    DssFin,
    DssDropped,
    OptionDropped,
    OptionDoubled,
    OptionAltered,
    OptionAdded,
    OptionMoved,
    PayloadCut,
    PayloadJoined,
    PayloadChanged,
    RawBits,
    RawOptions,
    ReplayElsewhere,
    InsideReset,
    InsideSyn,
    InsideData,
    KnownJoin,
    KnownAddAddr,
    KnownRemoveAddr,
    KnownFastClose,
    KnownFail,
}

/// Changes by the network.
const NETWORK: &[Kind] = &[Kind::Drop, Kind::Duplicate, Kind::Delay];
/// Changes by an attacker who does not see the packets.
const BLIND: &[Kind] = &[
    Kind::Replay,
    Kind::BlindReset,
    Kind::BlindSyn,
    Kind::BlindData,
    Kind::BlindJoin,
    Kind::BlindOptions,
];
/// Changes by an attacker who sees the packets.
const HOSTILE: &[Kind] = &[
    Kind::Sequence,
    Kind::Acknowledgement,
    Kind::Flags,
    Kind::Window,
    Kind::Timestamps,
    Kind::Handshake,
    Kind::SackInvented,
    Kind::SackReneged,
    Kind::DssMapping,
    Kind::DssLength,
    Kind::DssAck,
    Kind::DssFin,
    Kind::DssDropped,
    Kind::OptionDropped,
    Kind::OptionDoubled,
    Kind::OptionAltered,
    Kind::OptionAdded,
    Kind::OptionMoved,
    Kind::PayloadCut,
    Kind::PayloadJoined,
    Kind::PayloadChanged,
    Kind::RawBits,
    Kind::RawOptions,
    Kind::ReplayElsewhere,
    Kind::InsideReset,
    Kind::InsideSyn,
    Kind::InsideData,
    Kind::KnownJoin,
    Kind::KnownAddAddr,
    Kind::KnownRemoveAddr,
    Kind::KnownFastClose,
    Kind::KnownFail,
];

/// The largest effect that a change may have on the bytes read by an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    /// No effect: the bytes read are a prefix of the bytes sent.
    None,
    /// The bytes may differ if no checksum protects them.
    Payload,
    /// Any effect.
    Stream,
}

impl Kind {
    /// Draws the kinds of changes for a case: all kinds that `twin` allows, or some of them.
    pub(crate) fn draw(random: &mut RandomStream, twin: Twin) -> Vec<Self> {
        let pool: Vec<Self> = match twin {
            Twin::Benign => NETWORK.to_vec(),
            Twin::Blind => [NETWORK, BLIND].concat(),
            Twin::Hostile => [NETWORK, BLIND, HOSTILE].concat(),
        };
        // Some faults appear only if there are few kinds of changes.
        let share = [0.1, 0.3, 1.0][random.below(3) as usize];
        let mut kinds: Vec<Self> = pool.iter().copied().filter(|_| random.chance(share)).collect();
        if kinds.is_empty() {
            kinds.push(pool[random.below(pool.len() as u64) as usize]);
        }
        kinds
    }

    pub(crate) const fn harm(self) -> Harm {
        match self {
            Self::Drop
            | Self::Duplicate
            | Self::Delay
            | Self::Replay
            | Self::BlindReset
            | Self::BlindSyn
            | Self::BlindData
            | Self::BlindJoin
            | Self::BlindOptions
            | Self::Acknowledgement
            | Self::Window
            | Self::Timestamps
            | Self::SackInvented
            | Self::SackReneged
            | Self::DssAck
            | Self::PayloadCut
            | Self::InsideReset
            | Self::InsideSyn
            | Self::KnownJoin
            | Self::KnownAddAddr
            | Self::KnownRemoveAddr
            | Self::KnownFastClose => Harm::None,
            Self::PayloadChanged => Harm::Payload,
            _ => Harm::Stream,
        }
    }
}
