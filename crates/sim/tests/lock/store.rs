//! The stored digests: a line each with the seed and the digest.

use anabranch_sim::Plan;

use crate::digest::digest;
use crate::plans::plan;

/// `worlds.txt`.
pub(crate) const STORED: &str = include_str!("worlds.txt");

/// Seed and digest of each line.
pub(crate) fn read(text: &str) -> Vec<(u64, &str)> {
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let seed = words.next().and_then(|word| word.parse().ok());
            (seed.unwrap_or_else(|| panic!("no seed: {line}")), words.next().unwrap_or(""))
        })
        .collect()
}

/// The line of a seed, computed now, and behind it what the seed draws.
pub(crate) fn line(seed: u64) -> String {
    let text = plan(seed);
    let told = Plan::from_json(&text).map_or_else(|error| error.to_string(), |plan| plan.scenario);
    format!("{seed} {} {told}", digest(&text))
}
