//! The lock: stored digests of drill cases. In contrast to the simulator's lock (`crates/sim/tests/lock`),
//! the cases include uploads, closing, forged segments and changed options.

use anabranch_drill::lock_line;

#[test]
fn no_case_has_moved() {
    let stored: Vec<&str> = include_str!("lock.txt").lines().collect();
    assert!(stored.len() > 100, "{} seeds", stored.len());
    let moved: Vec<u64> = stored
        .iter()
        .map(|line| {
            (line, line.split(' ').next().and_then(|seed| seed.parse().ok()).expect("a seed"))
        })
        .filter(|(line, seed)| **line != lock_line(*seed))
        .map(|(_, seed)| seed)
        .collect();
    assert!(
        moved.is_empty(),
        "{} of {} seeds have moved: {moved:?}\nhint: if they should, run `make lock` and name the change in CHANGELOG.md \
         under Changes results",
        moved.len(),
        stored.len()
    );
}
