//! `anabranch-drill`: runs cases for a range of seeds or for a time.

mod clock;
mod options;

use std::io::Write as _;
use std::process::ExitCode;

use anabranch_drill::{Case, Meter, Report, Shrunk, lock_line, run, shrink};
use cap::Cap;

use clock::{Budget, Watchdog};
use options::Options;

#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

const METER: Meter = Meter::new(|| ALLOCATOR.allocated());

/// The most failing cases that are reduced. For later ones, only the command is printed.
const SHRUNK_AT_MOST: u64 = 10;

/// The totals of the runs so far.
#[derive(Debug, Default)]
struct Tally {
    cases: u64,
    segments: u64,
    unclosed: u64,
    failed: u64,
    most_held: i64,
    digest: u64,
}

impl Tally {
    fn add(&mut self, report: &Report) {
        self.cases += 1;
        self.segments += report.segments;
        self.unclosed += u64::from(!report.closed);
        self.failed += u64::from(report.fault.is_some());
        self.most_held = self.most_held.max(report.most_held[0]).max(report.most_held[1]);
        self.digest = self.digest.rotate_left(7) ^ report.digest;
    }

    fn summary(&self) -> String {
        let Self { cases, segments, unclosed, failed, most_held, digest } = self;
        format!(
            "{cases} cases, {segments} segments, {failed} failed, {unclosed} left unclosed, \
             at most {most_held} bytes held, digest {digest:016x}"
        )
    }
}

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("error: {message}\n\n{}", options::USAGE);
            return ExitCode::from(2);
        }
    };
    if options.digests {
        (options.first..options.end).for_each(|seed| println!("{}", lock_line(seed)));
        return ExitCode::SUCCESS;
    }
    let watchdog = Watchdog::start();
    if options.alone {
        return one(&options, &watchdog);
    }
    let mut tally = Tally::default();
    let budget = Budget::new(options.seconds, options.cpu_seconds);
    println!("drill: from seed {} on", options.first);
    for seed in options.first..options.end {
        if budget.spent() {
            break;
        }
        for &twin in &options.twins {
            let case = Case::draw(seed, twin, options.cut.clone());
            watchdog.watch(case.command());
            let report = run(&case, METER);
            tally.add(&report);
            if report.fault.is_some() {
                report_failure(
                    &case,
                    &report,
                    tally.failed <= SHRUNK_AT_MOST && options.shrinks,
                    &watchdog,
                );
            }
        }
        if seed % 500 == 499 {
            println!("drill: up to seed {seed}: {}", tally.summary());
        }
    }
    println!("drill: {}", tally.summary());
    ExitCode::from(u8::from(tally.failed > 0))
}

/// Runs one seed and prints all changes.
fn one(options: &Options, watchdog: &Watchdog) -> ExitCode {
    let mut failed = false;
    for &twin in &options.twins {
        let mut case = Case::draw(options.first, twin, options.cut.clone());
        case.traced = options.verbose;
        watchdog.watch(case.command());
        if options.verbose {
            println!("{case:#?}");
        }
        let report = run(&case, METER);
        for line in &report.story {
            println!("  {line}");
        }
        println!(
            "{} {}: {} segments, {} timers, {}, held {:?}, {}, digest {:016x}",
            twin.name(),
            options.first,
            report.segments,
            report.firings,
            report.end,
            report.most_held,
            if report.closed { "closed" } else { "not closed" },
            report.digest
        );
        case.traced = false;
        if report.fault.is_some() {
            failed = true;
            report_failure(&case, &report, options.shrinks, watchdog);
        }
    }
    ExitCode::from(u8::from(failed))
}

/// Prints a failure: the command of the case, and the command of the reduced case.
fn report_failure(case: &Case, report: &Report, shrinks: bool, watchdog: &Watchdog) {
    let Some(fault) = &report.fault else { return };
    println!("FAILED {} at {}: {}", fault.rule, fault.at, fault.detail);
    println!("  {}", case.command());
    let _ = std::io::stdout().flush();
    let small = if shrinks {
        shrink(case, METER, &mut |case| watchdog.watch(case.command()))
    } else {
        None
    };
    if let Some(Shrunk { case, report, runs }) = small
        && let Some(fault) = &report.fault
    {
        println!("  after {runs} runs: {} at {}: {}", fault.rule, fault.at, fault.detail);
        println!("  {}", case.command());
        println!("  {}", report.story.join(", "));
    }
}
