//! Runs a case and catches panics.

use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

use anabranch_units::Instant;

use crate::case::Case;
use crate::fault::Fault;
use crate::mark::Mark;
use crate::meter::Meter;
use crate::world::World;

/// The result of a case.
#[derive(Clone, Debug)]
pub struct Report {
    /// The fault, if the case failed.
    pub fault: Option<Fault>,
    /// All changes that were made in the run, in order.
    pub done: Vec<Mark>,
    /// The changes as text.
    pub story: Vec<String>,
    /// A hash of everything that was sent. It is equal for equal runs.
    pub digest: u64,
    /// The number of segments sent.
    pub segments: u64,
    /// The number of timers fired.
    pub firings: u64,
    /// The virtual time at the end.
    pub end: Instant,
    /// The most memory of the client and the server in bytes, if the allocator counts.
    pub most_held: [i64; 2],
    /// Whether both applications have closed.
    pub closed: bool,
}

thread_local! {
    /// The message of the last panic of this thread.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Installs a hook that stores the message of a panic instead of printing it.
fn capture_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let watched = PANIC.with(|last| {
                let mut last = last.borrow_mut();
                let watched = last.is_some();
                if watched {
                    *last = Some(info.to_string().replace('\n', " "));
                }
                watched
            });
            if !watched {
                before(info);
            }
        }));
    });
}

/// Runs a case.
pub fn run(case: &Case, meter: Meter) -> Report {
    capture_panics();
    PANIC.with(|last| *last.borrow_mut() = Some(String::new()));
    let mut world = World::new(case, meter);
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| world.run()));
    let message = PANIC.with(|last| last.borrow_mut().take()).unwrap_or_default();
    let fault = match outcome {
        Ok(result) => result.err(),
        Err(_) => Some(Fault { rule: "panic", detail: message, at: world.now }),
    };
    let mut done: Vec<Mark> = world.acted.iter().map(|(mark, _)| *mark).collect();
    done.extend(world.mediator.done.iter().map(|(mark, _)| *mark));
    let mut story: Vec<String> =
        world.acted.iter().map(|(mark, action)| format!("{mark} {action:?}")).collect();
    story.extend(world.mediator.done.iter().map(|(mark, kind)| format!("{mark} {kind:?}")));
    Report {
        fault,
        done,
        story,
        digest: world.digest,
        segments: world.work.segments,
        firings: world.work.firings,
        end: world.now,
        most_held: [world.sides[0].most_held, world.sides[1].most_held],
        closed: world.sides.iter().all(|s| s.first().is_some_and(|(_, a)| a.closed)),
    }
}
