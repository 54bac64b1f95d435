//! Seeded random numbers: one named stream per source of randomness.
//!
//! A stream depends only on the seed, the run number and its name. If a path is added, no other stream
//! changes, so two schedulers can be compared under the same random events.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// The source of all streams of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed {
    /// The experiment's seed.
    pub seed: u64,
    /// The number of the run (trial) with that seed.
    pub run: u64,
}

impl Seed {
    /// Returns the stream with a name. Equal names give equal streams.
    pub fn stream(self, name: &str) -> RandomStream {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&self.seed.to_le_bytes());
        key[8..16].copy_from_slice(&self.run.to_le_bytes());
        // FNV-1a, with two different offsets. The hashes of different names must differ, but need not resist
        // an attacker.
        for (slot, offset) in [(16, 0xcbf2_9ce4_8422_2325_u64), (24, 0x9e37_79b9_7f4a_7c15)] {
            let hash = name
                .bytes()
                .fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            key[slot..slot + 8].copy_from_slice(&hash.to_le_bytes());
        }
        RandomStream { rng: ChaCha8Rng::from_seed(key) }
    }
}

/// A position in a stream. It takes an eighth of a stream's memory, for users that draw rarely.
#[derive(Clone, Copy, Debug)]
pub struct Bookmark {
    key: [u8; 32],
    /// The number of 32-bit words drawn.
    words: u64,
}

impl Bookmark {
    /// Calls `draws` with the stream at this position, and moves the position past the drawn numbers.
    pub fn draw<T>(&mut self, draws: impl FnOnce(&mut RandomStream) -> T) -> T {
        let mut rng = ChaCha8Rng::from_seed(self.key);
        rng.set_word_pos(u128::from(self.words));
        let mut stream = RandomStream { rng };
        let result = draws(&mut stream);
        *self = stream.bookmark();
        result
    }
}

/// One named stream of random numbers.
#[derive(Clone, Debug)]
pub struct RandomStream {
    rng: ChaCha8Rng,
}

impl RandomStream {
    /// Returns the current position.
    pub fn bookmark(&self) -> Bookmark {
        Bookmark { key: self.rng.get_seed(), words: self.rng.get_word_pos() as u64 }
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Returns an independent stream, seeded from this one.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        Self::from_key(self.draw_key())
    }

    /// Draws a key of 32 bytes. [`Self::from_key`] creates the stream that [`Self::fork`] would return.
    pub fn draw_key(&mut self) -> [u8; 32] {
        let mut key = [0u8; 32];
        for word in key.chunks_exact_mut(8) {
            word.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        key
    }

    /// Creates the stream of a key.
    pub fn from_key(key: [u8; 32]) -> Self {
        Self { rng: ChaCha8Rng::from_seed(key) }
    }

    /// Returns a number uniformly distributed in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a whole number uniformly distributed in [0, bound).
    ///
    /// # Panics
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no member to draw");
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true with the given probability in [0, 1].
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }

    /// Returns a number from the standard normal distribution (Box-Muller; the second number of the pair is
    /// not used).
    pub fn standard_normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_name_seed_and_run_and_repeat() {
        let seed = Seed { seed: 1, run: 0 };
        let first = |s: Seed, name: &str| s.stream(name).next_u64();
        assert_eq!(first(seed, "path.wifi.loss"), first(seed, "path.wifi.loss"));
        assert_ne!(first(seed, "path.wifi.loss"), first(seed, "path.lte.loss"));
        assert_ne!(first(seed, "a"), first(Seed { seed: 2, run: 0 }, "a"));
        assert_ne!(first(seed, "a"), first(Seed { seed: 1, run: 1 }, "a"));
    }

    #[test]
    fn chance_is_true_with_its_probability() {
        let mut stream = Seed { seed: 7, run: 0 }.stream("test");
        let hits = (0..100_000).filter(|_| stream.chance(0.005)).count();
        assert!((400..600).contains(&hits), "0.5 % of 100,000 is 500, saw {hits}");
    }

    #[test]
    fn below_returns_every_number_under_the_bound() {
        let mut stream = Seed { seed: 7, run: 0 }.stream("below");
        let mut seen = [0u32; 7];
        for _ in 0..7_000 {
            seen[stream.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| n > 800), "{seen:?}");
    }
}
