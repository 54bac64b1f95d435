//! Waiting for descriptors and for a time, to the microsecond.

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};

use anabranch_units::{Duration, Instant};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::thread::set_current_timer_slack;

use crate::clock::Clock;

/// How late the kernel may wake the thread to save power, ns; 50,000 of itself.
const TIMER_SLACK: u64 = 1;

/// Readiness of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number under which it was added.
    pub token: u64,
    /// It can be read, or has ended.
    pub readable: bool,
    /// It can be written.
    pub writable: bool,
}

/// Descriptors that are waited for (epoll).
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
}

impl Poller {
    /// One that waits for nothing yet. The calling thread's timers are made precise.
    ///
    /// # Errors
    /// The kernel has no room.
    pub fn new() -> io::Result<Self> {
        set_current_timer_slack(NonZero::new(TIMER_SLACK))?;
        Ok(Self { epoll: epoll::create(CreateFlags::CLOEXEC)?, events: Vec::with_capacity(64) })
    }

    /// Waits from now on for something to read, as long as there is anything.
    ///
    /// # Errors
    /// The kernel has no room.
    pub fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Waits from now on for changes of a socket, each told once: more to read, or more room to write.
    ///
    /// # Errors
    /// The kernel has no room.
    pub fn add_edges(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags)?)
    }

    /// Waits until something is ready or it is time; `None` waits for ever.
    ///
    /// # Errors
    /// The kernel refuses to wait.
    pub fn wait(&mut self, clock: &Clock, until: Option<Instant>) -> io::Result<Vec<Ready>> {
        let left = until.map(|until| timespec(until.since(clock.now())));
        self.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.events);
        match epoll::wait(&self.epoll, spare, left.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ends = EventFlags::IN | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        let ready = |event: &epoll::Event| {
            let (flags, data) = (event.flags, event.data);
            Ready {
                token: data.u64(),
                readable: flags.intersects(ends),
                writable: flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR),
            }
        };
        Ok(self.events.iter().map(ready).collect())
    }
}

fn timespec(span: Duration) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}
