//! The lines of the lock file: digests of the cases of a seed.

use crate::case::{Case, Cut};
use crate::harm::Twin;
use crate::meter::Meter;
use crate::run::run;

/// Returns a line of the lock file: a seed, and the digests of its benign, blind and hostile case.
/// A digest covers all sent and delivered data.
pub fn lock_line(seed: u64) -> String {
    let digest = |twin| run(&Case::draw(seed, twin, Cut::default()), Meter::NONE).digest;
    Twin::ALL
        .map(digest)
        .iter()
        .fold(seed.to_string(), |line, digest| format!("{line} {digest:016x}"))
}
