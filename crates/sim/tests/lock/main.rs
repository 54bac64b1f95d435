//! The lock: stored digests of short runs. If a change alters one of them, it changes results
//! (CONTRIBUTING.md, "Results may change, but not silently").

mod digest;
mod links;
mod plans;
mod store;

use std::thread;

use crate::store::{STORED, line, read};

/// The number of threads that run worlds.
const THREADS: usize = 2;

/// Returns the lines for these seeds in order.
fn lines(seeds: &[u64]) -> Vec<String> {
    let part = seeds.len().div_ceil(THREADS);
    thread::scope(|scope| {
        let threads: Vec<_> = seeds
            .chunks(part)
            .map(|seeds| scope.spawn(|| seeds.iter().copied().map(line).collect::<Vec<_>>()))
            .collect();
        threads.into_iter().flat_map(|it| it.join().expect("no run panics here")).collect()
    })
}

#[test]
fn no_run_has_moved() {
    let stored = read(STORED);
    assert!(stored.len() > 100, "{} runs", stored.len());
    let seeds: Vec<u64> = stored.iter().map(|(seed, _)| *seed).collect();
    let found = lines(&seeds);
    let moved: Vec<&String> = found
        .iter()
        .zip(&stored)
        .filter(|(found, (_, digest))| found.split(' ').nth(1) != Some(digest))
        .map(|(found, _)| found)
        .collect();
    let shown =
        moved.iter().take(20).map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n");
    assert!(
        moved.is_empty(),
        "{} of {} runs have moved, among them:\n{shown}\nhint: if they should, run `make lock` and name the change in CHANGELOG.md \
         under Changes results",
        moved.len(),
        stored.len()
    );
}
