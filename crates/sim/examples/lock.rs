//! Prints the digests of the runs of the lock, or of other seeds.
//!
//! `lock stored` prints the lines of `tests/lock/worlds.txt`, each with a seed and a digest. `lock A..B`
//! prints the lines of other seeds, and the settings that each seed draws. With `--against FILE`, it compares
//! the lines with that file instead. If a line differs, it prints the first such line and exits with
//! status 1.

#[path = "../tests/lock/digest.rs"]
mod digest;
#[path = "../tests/lock/links.rs"]
mod links;
#[path = "../tests/lock/plans.rs"]
mod plans;
#[path = "../tests/lock/store.rs"]
mod store;

use std::collections::BTreeMap;
use std::process::ExitCode;

const USAGE: &str = "usage: lock stored|A..B [--against FILE]";

fn seeds(text: &str) -> Option<Vec<u64>> {
    if text == "stored" {
        return Some(store::read(store::STORED).into_iter().map(|(seed, _)| seed).collect());
    }
    let (from, to) = text.split_once("..")?;
    Some((from.parse().ok()?..to.parse().ok()?).collect())
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (asked, file) = match words[..] {
        [asked] => (seeds(asked), None),
        [asked, "--against", file] => (seeds(asked), Some(file)),
        _ => (None, None),
    };
    let Some(asked) = asked else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let text = file.map(|file| std::fs::read_to_string(file).expect("a file of digests"));
    let expected: Option<BTreeMap<u64, &str>> =
        text.as_deref().map(|text| store::read(text).into_iter().collect());
    for seed in asked {
        let line = store::line(seed);
        let Some(expected) = &expected else {
            let words = if words[0] == "stored" { 2 } else { usize::MAX };
            println!("{}", line.split(' ').take(words).collect::<Vec<_>>().join(" "));
            continue;
        };
        if line.split(' ').nth(1) != expected.get(&seed).copied() {
            println!("{line}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
