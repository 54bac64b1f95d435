//! What may be done to segments, and by whom.

use anabranch_units::RandomStream;

/// What the mediator between the endpoints may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Twin {
    /// A network: loss, reordering, duplication, outages that end. Every byte arrives.
    Benign,
    /// The same, and an attacker who sends but does not see the packets: still every byte arrives.
    Blind,
    /// An attacker who sees and changes everything: no panic, no unbounded memory, no endless loop.
    Hostile,
}

impl Twin {
    /// Every one, in the order in which seeds go through them.
    pub const ALL: [Self; 3] = [Self::Benign, Self::Blind, Self::Hostile];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Benign => "benign",
            Self::Blind => "blind",
            Self::Hostile => "hostile",
        }
    }
}

/// What may be done to a segment or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    // The network.
    Drop,
    Duplicate,
    Delay,
    // Somebody who sends but does not see.
    Replay,
    BlindReset,
    BlindSyn,
    BlindData,
    BlindJoin,
    BlindOptions,
    // Somebody who sees and changes.
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

/// Changes that a network makes.
const NETWORK: &[Kind] = &[Kind::Drop, Kind::Duplicate, Kind::Delay];
/// Changes that somebody can make who does not see the packets.
const BLIND: &[Kind] = &[
    Kind::Replay,
    Kind::BlindReset,
    Kind::BlindSyn,
    Kind::BlindData,
    Kind::BlindJoin,
    Kind::BlindOptions,
];
/// Changes that somebody can make who sees the packets.
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

/// What an event may do to the bytes that an application reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Harm {
    /// Nothing: the bytes read are a prefix of the bytes sent.
    None,
    /// The bytes may differ where no checksum guards them.
    Payload,
    /// Anything.
    Stream,
}

impl Kind {
    /// The kinds of a case: each that the twin has, or some of them.
    pub(crate) fn draw(random: &mut RandomStream, twin: Twin) -> Vec<Self> {
        let pool: Vec<Self> = match twin {
            Twin::Benign => NETWORK.to_vec(),
            Twin::Blind => [NETWORK, BLIND].concat(),
            Twin::Hostile => [NETWORK, BLIND, HOSTILE].concat(),
        };
        // Few kinds at a time find what many together hide.
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
