//! The source of a link's random draws: the run's streams, or those of a laboratory's emulator.
//!
//! The simulator is compared with measurements of an emulator that draws losses from a seed. The tables of the
//! measurements contain the seeds. A link with the same draws loses the same packets: if the emulator lost the n-th
//! packet, so does the link. Kernel and simulator can therefore be compared run by run.

use anabranch_units::{Duration, RandomStream, Seed};

use crate::Direction;

/// The source of the losses and the jitter of a link with a set rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draws {
    /// The random streams `link.<name>.loss` and `link.<name>.jitter` of the run.
    #[default]
    Streams,
    /// The emulator's generator (splitmix64), which is the same in every run. A packet draws its loss if the link is up
    /// and has a loss model. It draws its jitter if the queue has room for it.
    Emulator {
        /// The seed of the emulator's path, shared by both directions.
        seed: u64,
        /// The direction of this link.
        direction: Direction,
    },
}

/// The draws of one link, in the order of its packets.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "one a link, and drawn from for every packet")]
pub(crate) enum Drawing {
    Streams { loss: RandomStream, jitter: RandomStream },
    Emulator { loss: SplitMix64, jitter: SplitMix64 },
}

impl Drawing {
    pub(crate) fn new(draws: Draws, link: &str, seed: Seed) -> Self {
        match draws {
            Draws::Streams => Self::Streams {
                loss: seed.stream(&format!("link.{link}.loss")),
                jitter: seed.stream(&format!("link.{link}.jitter")),
            },
            Draws::Emulator { seed, direction } => {
                let mut loss = SplitMix64::of_emulator(seed, direction);
                loss.next_u64();
                let mut jitter = SplitMix64 { state: loss.state ^ JITTER };
                jitter.next_u64();
                Self::Emulator { loss, jitter }
            }
        }
    }

    /// Returns the draw for the loss of a packet. `up` is false if the link is down.
    #[inline]
    pub(crate) fn luck(&mut self, up: bool) -> u64 {
        match self {
            Self::Streams { loss, .. } => loss.next_u64(),
            Self::Emulator { loss, .. } if up => loss.next_u64(),
            Self::Emulator { .. } => u64::MAX,
        }
    }

    /// Draws the jitter, up to `most`, of any packet that enters. Returns zero for the emulator, which draws later.
    #[inline]
    pub(crate) fn jitter_of_any(&mut self, most: Duration) -> Duration {
        match self {
            Self::Streams { jitter, .. } if !most.is_zero() => {
                Duration::from_nanos(jitter.below(most.as_nanos().saturating_add(1)))
            }
            _ => Duration::ZERO,
        }
    }

    /// Draws the jitter, up to `most`, of a packet that has room in the queue. Returns zero for random streams, which
    /// draw at the entry.
    #[inline]
    pub(crate) fn jitter_of_admitted(&mut self, most: Duration) -> Duration {
        match self {
            Self::Emulator { jitter, .. } if !most.is_zero() => {
                let product = u128::from(jitter.next_u64()) * u128::from(most.as_nanos());
                Duration::from_nanos((product >> 64) as u64)
            }
            _ => Duration::ZERO,
        }
    }
}

/// The difference between the initial states of the emulator's jitter and loss generators.
const JITTER: u64 = 0x5851_F42D_4C95_7F2D;

/// The generator splitmix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Creates the generator that the emulator uses for a direction of a path.
    fn of_emulator(seed: u64, direction: Direction) -> Self {
        let down = u64::from(direction == Direction::Down);
        Self { state: seed.wrapping_mul(2).wrapping_add(down) }
    }

    fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first values for seed 1234567, as published with the generator
    /// (<https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64>).
    #[test]
    fn the_generator_is_splitmix64() {
        let mut generator = SplitMix64 { state: 1_234_567 };
        let drawn: Vec<u64> = (0..5).map(|_| generator.next_u64()).collect();
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(drawn, published);
    }
}
