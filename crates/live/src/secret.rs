//! Random numbers from the system.

use std::io;

use anabranch_units::Seed;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns an unpredictable seed. The keys, sequence numbers and secrets of real connections are derived from
/// it.
pub(crate) fn secret_seed() -> io::Result<Seed> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    let (seed, run) = bytes.split_at(8);
    let word = |bytes: &[u8]| bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    Ok(Seed { seed: word(seed), run: word(run) })
}
