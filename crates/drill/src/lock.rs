//! The lines of the lock: the digests of a seed's cases.

use crate::case::{Case, Cut};
use crate::harm::Twin;
use crate::meter::Meter;
use crate::run::run;

/// One line of the lock: a seed, and the digests of its benign, blind and hostile case.
/// A digest covers everything that is sent and delivered.
pub fn lock_line(seed: u64) -> String {
    let digest = |twin| run(&Case::draw(seed, twin, Cut::default()), Meter::NONE).digest;
    Twin::ALL
        .map(digest)
        .iter()
        .fold(seed.to_string(), |line, digest| format!("{line} {digest:016x}"))
}
