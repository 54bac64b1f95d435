//! Tests of the drill: runs are reproducible, planted faults are found and reduced, and stored
//! corpora pass.

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
fn the_corpus_of_the_parser_passes() {
    let files = corpus("wire");
    assert!(files.len() > 20, "{} files", files.len());
    for (name, bytes) in files {
        println!("{name}");
        fuzz::wire(&bytes);
    }
}

#[test]
fn the_corpus_of_the_endpoint_passes() {
    let files = corpus("endpoint");
    assert!(files.len() > 20, "{} files", files.len());
    for (name, bytes) in files {
        println!("{name}");
        fuzz::endpoint(&bytes);
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for twin in Twin::ALL {
        let [one, two] = [0, 0].map(|_| run(&Case::draw(3, twin, Cut::default()), Meter::NONE));
        assert_eq!((one.digest, one.segments, &one.done), (two.digest, two.segments, &two.done));
        let other = run(&Case::draw(4, twin, Cut::default()), Meter::NONE);
        assert_ne!(one.digest, other.digest);
    }
}

#[test]
fn a_list_of_changes_reproduces_the_run() {
    let whole = run(&Case::draw(5, Twin::Hostile, Cut::default()), Meter::NONE);
    assert!(!whole.done.is_empty());
    let cut = Cut { only: Some(whole.done.clone()), ..Cut::default() };
    let again = run(&Case::draw(5, Twin::Hostile, cut), Meter::NONE);
    assert_eq!((again.digest, again.done), (whole.digest, whole.done));
    let none = Cut { only: parse_marks("none"), ..Cut::default() };
    assert!(run(&Case::draw(5, Twin::Hostile, none), Meter::NONE).done.is_empty());
}

#[test]
fn every_twin_makes_changes_and_endpoints_survive_them() {
    for twin in Twin::ALL {
        let (mut done, mut closed) = (0, 0);
        for seed in 0..20 {
            let report = run(&Case::draw(seed, twin, Cut::default()), Meter::NONE);
            done += report.done.len();
            closed += u32::from(report.closed);
            assert_eq!(report.fault, None, "{}", Case::draw(seed, twin, Cut::default()).command());
        }
        assert!(done > 50, "{} made {done} changes", twin.name());
        assert!(closed >= 10, "{} of 20 closed under {}", closed, twin.name());
    }
}

/// The meter adds 10 MB for every call, which exceeds the limit. The check must detect it.
#[test]
fn growing_memory_is_detected_and_the_case_reduced() {
    fn growing() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static HELD: AtomicUsize = AtomicUsize::new(0);
        HELD.fetch_add(10 << 20, Ordering::Relaxed)
    }
    let case = Case::draw(7, Twin::Hostile, Cut::default());
    let meter = Meter::new(growing);
    assert_eq!(run(&case, meter).fault.map(|fault| fault.rule), Some("memory"));
    let mut runs = 0;
    let small = shrink(&case, meter, &mut |_| runs += 1).expect("the case fails");
    assert!(runs > 1);
    assert_eq!(small.report.fault.as_ref().map(|fault| fault.rule), Some("memory"));
    assert_eq!(small.report.done, [], "no change is needed for the fault");
    assert!(small.case.command().contains("--only none"), "{}", small.case.command());
}
