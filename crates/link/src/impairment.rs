//! Impairments of packets on the wire besides delay and loss: reordering, duplication and corruption.

use anabranch_units::{Duration, RandomStream, Seed};

use crate::{ConfigError, Damage};

/// The impairments of a wire. Each draws from a separate random stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairments {
    /// The reordering of some packets.
    pub reorder: Option<Reorder>,
    /// The fraction of packets that are duplicated. The copy arrives after the original unless the original is
    /// reordered.
    pub duplicate: f64,
    /// The fraction of packets that are corrupted. The receiver's checksum detects the corruption, and drops the
    /// packet.
    pub corrupt: f64,
    /// The fraction of corrupted packets that pass the checksum by chance. They arrive with a [`Damage`].
    pub corrupt_passes: f64,
}

/// The reordering of packets: some arrive later, so that others overtake them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// The fraction of packets that are selected for a delay, subject to `gap`.
    pub share: f64,
    /// The additional delay.
    pub delay: Duration,
    /// The smallest distance between two delayed packets, at least 1 (netem's `gap`). With a gap of 5 and a `share`
    /// of 1, every fifth packet is delayed.
    pub gap: u64,
}

impl Impairments {
    /// No impairment: packets arrive once, intact and in order.
    pub const NONE: Self =
        Self { reorder: None, duplicate: 0.0, corrupt: 0.0, corrupt_passes: 0.0 };

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let reorder = self.reorder.map_or(0.0, |reorder| reorder.share);
        let shares = [
            ("reorder", reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("corrupt_passes", self.corrupt_passes),
        ];
        for (parameter, value) in shares {
            if !(0.0..=1.0).contains(&value) {
                return Err(ConfigError::Probability { parameter, value });
            }
        }
        let stands = |reorder: Reorder| reorder.delay.is_zero() || reorder.gap == 0;
        if self.reorder.is_some_and(stands) { Err(ConfigError::Reorder) } else { Ok(()) }
    }
}

/// The impairments of one link, with their random streams. Each configured impairment takes one draw per packet.
#[derive(Clone, Debug)]
pub(crate) struct Impairing {
    reorder: Option<Falling>,
    duplicate: Option<Share>,
    corrupt: Option<Share>,
    /// The fraction of corrupted packets that pass the checksum.
    passes: Option<Share>,
}

#[derive(Clone, Debug)]
struct Falling {
    share: Share,
    delay: Duration,
    gap: u64,
    /// The number of packets since the last delayed one.
    since: u64,
}

#[derive(Clone, Debug)]
struct Share {
    share: f64,
    luck: RandomStream,
}

impl Share {
    fn strikes(&mut self) -> bool {
        self.luck.chance(self.share)
    }
}

/// The impairments of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mishap {
    /// The additional delay, if the packet is reordered.
    pub(crate) behind: Option<Duration>,
    pub(crate) copied: bool,
    pub(crate) spoilt: bool,
    /// The change of the payload, if the packet is corrupted and its checksum does not detect it.
    pub(crate) damage: Option<Damage>,
}

impl Impairing {
    /// Creates the impairments of a link; `None` if there are none. The streams are `link.<name>.reorder`,
    /// `.duplicate`, `.corrupt` and `.passes`.
    pub(crate) fn new(what: &Impairments, name: &str, seed: Seed) -> Option<Self> {
        if *what == Impairments::NONE {
            return None;
        }
        let share = |key: &str, share: f64| Share {
            share,
            luck: seed.stream(&format!("link.{name}.{key}")),
        };
        let some = |key: &str, given: f64| (given > 0.0).then(|| share(key, given));
        Some(Self {
            reorder: what.reorder.map(|reorder| Falling {
                share: share("reorder", reorder.share),
                delay: reorder.delay,
                gap: reorder.gap,
                since: 0,
            }),
            duplicate: some("duplicate", what.duplicate),
            corrupt: some("corrupt", what.corrupt),
            passes: some("passes", what.corrupt_passes),
        })
    }

    /// Returns whether packets are reordered.
    pub(crate) fn reorders(&self) -> bool {
        self.reorder.is_some()
    }

    /// Draws the impairments of the next packet.
    pub(crate) fn next(&mut self) -> Mishap {
        let strikes = |share: &mut Option<Share>| share.as_mut().is_some_and(Share::strikes);
        let behind = self.reorder.as_mut().and_then(Falling::next);
        let copied = strikes(&mut self.duplicate);
        let spoilt = strikes(&mut self.corrupt);
        let passes = self.passes.as_mut().filter(|_| spoilt);
        let damage = passes.and_then(|it| it.strikes().then(|| Damage::draw(&mut it.luck)));
        Mishap { behind, copied, spoilt, damage }
    }
}

impl Falling {
    fn next(&mut self) -> Option<Duration> {
        let chosen = self.share.strikes();
        self.since += 1;
        if !chosen || self.since < self.gap {
            return None;
        }
        self.since = 0;
        Some(self.delay)
    }
}
