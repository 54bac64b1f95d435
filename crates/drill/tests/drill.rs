//! The drill itself: it repeats, it finds what is planted, it shrinks; and the kept corpora.

use std::fs;
use std::path::PathBuf;

use anabranch_drill::{Case, Cut, Meter, Twin, fuzz, parse_marks, run, shrink};

fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("a file").path())
        .collect();
    files.sort();
    let named = |path: PathBuf| (path.display().to_string(), fs::read(&path).expect("a file"));
    files.into_iter().map(named).collect()
}

#[test]
fn the_parsers_corpus_passes() {
    let files = corpus("wire");
    assert!(files.len() > 20, "{} files", files.len());
    for (name, bytes) in files {
        println!("{name}");
        fuzz::wire(&bytes);
    }
}

#[test]
fn the_endpoints_corpus_passes() {
    let files = corpus("endpoint");
    assert!(files.len() > 20, "{} files", files.len());
    for (name, bytes) in files {
        println!("{name}");
        fuzz::endpoint(&bytes);
    }
}

#[test]
fn the_same_seed_is_the_same_run() {
    for twin in Twin::ALL {
        let [one, two] = [0, 0].map(|_| run(&Case::draw(3, twin, Cut::default()), Meter::NONE));
        assert_eq!((one.digest, one.segments, &one.done), (two.digest, two.segments, &two.done));
        let other = run(&Case::draw(4, twin, Cut::default()), Meter::NONE);
        assert_ne!(one.digest, other.digest);
    }
}

#[test]
fn the_list_of_what_was_done_repeats_the_run() {
    let whole = run(&Case::draw(5, Twin::Hostile, Cut::default()), Meter::NONE);
    assert!(!whole.done.is_empty());
    let cut = Cut { only: Some(whole.done.clone()), ..Cut::default() };
    let again = run(&Case::draw(5, Twin::Hostile, cut), Meter::NONE);
    assert_eq!((again.digest, again.done), (whole.digest, whole.done));
    let none = Cut { only: parse_marks("none"), ..Cut::default() };
    assert!(run(&Case::draw(5, Twin::Hostile, none), Meter::NONE).done.is_empty());
}

#[test]
fn every_twin_does_something_and_endpoints_live_through_it() {
    for twin in Twin::ALL {
        let (mut done, mut closed) = (0, 0);
        for seed in 0..20 {
            let report = run(&Case::draw(seed, twin, Cut::default()), Meter::NONE);
            done += report.done.len();
            closed += u32::from(report.closed);
            assert_eq!(report.fault, None, "{}", Case::draw(seed, twin, Cut::default()).command());
        }
        assert!(done > 50, "{} did {done} things", twin.name());
        assert!(closed >= 10, "{} of 20 closed under {}", closed, twin.name());
    }
}

/// A meter that says that every call keeps 10 MB: no endpoint does that, and the check must see it.
#[test]
fn memory_that_grows_is_found_and_shrunk() {
    fn growing() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static HELD: AtomicUsize = AtomicUsize::new(0);
        HELD.fetch_add(10 << 20, Ordering::Relaxed)
    }
    let case = Case::draw(7, Twin::Hostile, Cut::default());
    let meter = Meter::new(growing);
    assert_eq!(run(&case, meter).fault.map(|fault| fault.rule), Some("memory"));
    let mut runs = 0;
    let small = shrink(&case, meter, &mut |_| runs += 1).expect("it fails");
    assert!(runs > 1);
    assert_eq!(small.report.fault.as_ref().map(|fault| fault.rule), Some("memory"));
    assert_eq!(small.report.done, [], "nothing that was done matters");
    assert!(small.case.command().contains("--only none"), "{}", small.case.command());
}
