//! Reduces a failing case: fewer changes, fewer bytes, simpler plug-ins.

use crate::case::{Case, Cut};
use crate::mark::Mark;
use crate::meter::Meter;
use crate::run::{Report, run};

/// A reduced case that still breaks the same rule.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The reduced case.
    pub case: Case,
    /// The report of the reduced case.
    pub report: Report,
    /// The number of runs that the reduction took.
    pub runs: u32,
}

/// The maximum number of runs for a reduction.
const MOST_RUNS: u32 = 600;

struct Shrinker<'a> {
    before: &'a mut dyn FnMut(&Case),
    best: Shrunk,
    rule: &'static str,
    meter: Meter,
}

impl Shrinker<'_> {
    /// Tries a cut and keeps it if the case still breaks the same rule.
    fn attempt(&mut self, cut: Cut) -> bool {
        if self.best.runs >= MOST_RUNS || cut == self.best.case.cut {
            return false;
        }
        self.best.runs += 1;
        let case = Case::draw(self.best.case.seed, self.best.case.twin, cut);
        (self.before)(&case);
        let report = run(&case, self.meter);
        let same = report.fault.as_ref().is_some_and(|fault| fault.rule == self.rule);
        if same {
            self.best = Shrunk { case, report, runs: self.best.runs };
        }
        same
    }

    fn with_marks(&self, marks: Vec<Mark>) -> Cut {
        Cut { only: Some(marks), ..self.best.case.cut.clone() }
    }

    /// Removes changes by Zeller's delta debugging, but without testing the subsets themselves.
    fn fewer_marks(&mut self) {
        let mut parts = 2;
        loop {
            let marks = self.best.report.done.clone();
            let size = marks.len().div_ceil(parts).max(1);
            let mut smaller = false;
            for skipped in (0..marks.len()).step_by(size) {
                let mut left = marks.clone();
                left.drain(skipped..marks.len().min(skipped + size));
                if self.attempt(self.with_marks(left)) {
                    smaller = true;
                    break;
                }
            }
            if smaller {
                parts = parts.saturating_sub(1).max(2);
            } else if size == 1 {
                return;
            } else {
                parts *= 2;
            }
            if self.best.runs >= MOST_RUNS {
                return;
            }
        }
    }

    fn fewer_bytes(&mut self) {
        for bytes in [0, 1, 100, 1_000, 5_000, 20_000, 50_000, 100_000] {
            if self.attempt(Cut { bytes: Some(bytes), ..self.best.case.cut.clone() }) {
                return;
            }
        }
    }

    fn simpler_plugins(&mut self) {
        let cut = self.best.case.cut.clone();
        self.attempt(Cut { scheduler: Some("min-rtt".to_owned()), ..cut });
        let cut = self.best.case.cut.clone();
        self.attempt(Cut { congestion: Some("reno".to_owned()), ..cut });
    }
}

/// Reduces a failing case; returns `None` if the case does not fail. `before` is called before every run.
pub fn shrink(case: &Case, meter: Meter, before: &mut dyn FnMut(&Case)) -> Option<Shrunk> {
    let report = run(case, meter);
    let rule = report.fault.as_ref()?.rule;
    let mut shrinker =
        Shrinker { before, best: Shrunk { case: case.clone(), report, runs: 1 }, rule, meter };
    let marks = shrinker.best.report.done.clone();
    // First, select all changes by name. Random draws then no longer select them.
    if shrinker.attempt(shrinker.with_marks(marks)) {
        shrinker.simpler_plugins();
        shrinker.fewer_marks();
        shrinker.fewer_bytes();
        shrinker.fewer_marks();
    }
    Some(shrinker.best)
}
