//! What befalls packets on the wire beside delay and loss: some fall behind, some are copied, some spoilt.

use anabranch_units::{Duration, RandomStream, Seed};

use crate::{ConfigError, Damage};

/// What a wire does to packets, each in a stream of chance of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Impairments {
    /// Some packets fall behind those that follow.
    pub reorder: Option<Reorder>,
    /// The share of packets of which a copy arrives behind them.
    pub duplicate: f64,
    /// The share of packets that are spoilt, so that the checksum at the far end throws them away.
    pub corrupt: f64,
    /// The share of spoilt packets whose checksum is right all the same: they arrive with a [`Damage`].
    pub corrupt_passes: f64,
}

/// Which packets fall behind, and how far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reorder {
    /// The share of packets that may be chosen.
    pub share: f64,
    /// How much later than in their turn they arrive.
    pub delay: Duration,
    /// The least number of packets from one that falls behind to the next, 1 or more (netem's `gap`): with a
    /// gap of 5 and a share of 1, every fifth packet.
    pub gap: u64,
}

impl Impairments {
    /// Packets arrive once, whole and in order.
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

/// Impairments at work: one draw a packet from the stream of each that is configured.
#[derive(Clone, Debug)]
pub(crate) struct Impairing {
    reorder: Option<Falling>,
    duplicate: Option<Share>,
    corrupt: Option<Share>,
    /// Of those that are spoilt.
    passes: Option<Share>,
}

#[derive(Clone, Debug)]
struct Falling {
    share: Share,
    delay: Duration,
    gap: u64,
    /// Packets since the last one that fell behind.
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

/// What befalls one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mishap {
    /// How far it falls behind.
    pub(crate) behind: Option<Duration>,
    pub(crate) copied: bool,
    pub(crate) spoilt: bool,
    /// It is spoilt, and no checksum finds out.
    pub(crate) damage: Option<Damage>,
}

impl Impairing {
    /// `None` when nothing befalls any packet. The streams are `link.<name>.reorder` and so on.
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

    /// Some packets fall behind.
    pub(crate) fn reorders(&self) -> bool {
        self.reorder.is_some()
    }

    /// What befalls the next packet that sets out.
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
