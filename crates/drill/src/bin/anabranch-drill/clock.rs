//! Real time in the drill: its budget, and the detection of cases that hang. Endpoints do not use it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The time after which a case counts as hanging. The longest of thousands of cases took a few seconds.
const LONGEST_CASE: Duration = Duration::from_secs(120);

#[expect(clippy::disallowed_methods, reason = "a budget of real time; no endpoint sees it")]
fn now() -> Instant {
    Instant::now()
}

/// Returns the CPU time of this process, if Linux provides it.
fn cpu() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// The limits on the duration of a drill.
#[derive(Debug)]
pub(crate) struct Budget {
    start: Instant,
    seconds: Option<u64>,
    cpu_seconds: Option<u64>,
}

impl Budget {
    pub(crate) fn new(seconds: Option<u64>, cpu_seconds: Option<u64>) -> Self {
        Self { start: now(), seconds, cpu_seconds }
    }

    pub(crate) fn spent(&self) -> bool {
        let wall = now().duration_since(self.start);
        let over = |limit: Option<u64>, used: Duration| {
            limit.is_some_and(|limit| used >= Duration::from_secs(limit))
        };
        over(self.seconds, wall) || over(self.cpu_seconds, cpu().unwrap_or(wall))
    }
}

/// A thread that ends the process if a case takes too long, and prints the command of the case.
#[derive(Clone, Debug)]
pub(crate) struct Watchdog(Arc<Mutex<Option<(Instant, String)>>>);

impl Watchdog {
    #[expect(clippy::disallowed_methods, reason = "what watches for a hang cannot hang with it")]
    pub(crate) fn start() -> Self {
        let watched = Self(Arc::default());
        let seen = watched.clone();
        std::thread::spawn(move || {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let Ok(case) = seen.0.lock() else { return };
                if let Some((since, command)) = &*case
                    && now().duration_since(*since) > LONGEST_CASE
                {
                    println!("FAILED hang: no end after {} s", LONGEST_CASE.as_secs());
                    println!("  {command}");
                    std::process::exit(1);
                }
            }
        });
        watched
    }

    /// Records the start of a case, or of another run of it.
    pub(crate) fn watch(&self, command: String) {
        if let Ok(mut case) = self.0.lock() {
            *case = Some((now(), command));
        }
    }
}
