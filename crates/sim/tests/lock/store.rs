//! The stored digests, one line per seed.

use anabranch_sim::Plan;

use crate::digest::digest;
use crate::plans::plan;

/// The contents of `worlds.txt`.
pub(crate) const STORED: &str = include_str!("worlds.txt");

/// Returns the seed and the digest of every line.
pub(crate) fn read(text: &str) -> Vec<(u64, &str)> {
    text.lines()
        .map(|line| {
            let mut words = line.split(' ');
            let seed = words.next().and_then(|word| word.parse().ok());
            (seed.unwrap_or_else(|| panic!("no seed: {line}")), words.next().unwrap_or(""))
        })
        .collect()
}

/// Computes the line of a seed. It is followed by the settings that the seed draws.
pub(crate) fn line(seed: u64) -> String {
    let text = plan(seed);
    let told = Plan::from_json(&text).map_or_else(|error| error.to_string(), |plan| plan.scenario);
    format!("{seed} {} {told}", digest(&text))
}
