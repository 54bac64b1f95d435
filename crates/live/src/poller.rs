//! Waiting for descriptors and for a time, to the microsecond.

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};

use anabranch_units::{Duration, Instant};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::clock::Clock;

/// The delay that the kernel may add to a timer to save power, ns; 50,000 by default.
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
    /// An error is pending on it (`EPOLLERR`).
    pub broken: bool,
}

/// Descriptors that are waited for (epoll).
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    _precise: Precise,
}

/// The timers of a thread while they are precise; then they are what they were.
struct Precise {
    /// The thread's own slack, ns; none before others, whose timers have none.
    before: Option<NonZero<u64>>,
}

impl Precise {
    fn new() -> io::Result<Self> {
        let before = NonZero::new(current_timer_slack()?);
        set_current_timer_slack(NonZero::new(TIMER_SLACK))?;
        Ok(Self { before })
    }
}

impl Drop for Precise {
    fn drop(&mut self) {
        // It has no other fault than an unknown call, which has been made.
        let _ = set_current_timer_slack(self.before);
    }
}

impl Poller {
    /// One that waits for nothing yet. The calling thread's timers are precise until it is dropped, and so are
    /// those of whoever the thread starts, for good.
    ///
    /// # Errors
    /// The kernel has no room.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(64), _precise: Precise::new()? })
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

    /// Stops waiting for a descriptor.
    ///
    /// # Errors
    /// Returns an error if the descriptor was not registered.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
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
                broken: flags.contains(EventFlags::ERR),
            }
        };
        Ok(self.events.iter().map(ready).collect())
    }
}

fn timespec(span: Duration) -> Timespec {
    let nanos = span.as_nanos();
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 }
}

#[cfg(test)]
mod tests {
    use rustix::io::{read, write};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    const TOKEN: u64 = 1 << 40 | 7;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap()
    }

    /// Returns the descriptors that are ready now.
    fn now(poller: &mut Poller) -> Vec<Ready> {
        let clock = Clock::start();
        poller.wait(&clock, Some(clock.now())).unwrap()
    }

    #[test]
    fn a_level_is_told_as_long_as_it_lasts_and_an_edge_once() {
        let (mut poller, (level, to_level), (edge, to_edge)) =
            (Poller::new().unwrap(), pair(), pair());
        poller.add(&level, TOKEN).unwrap();
        poller.add_edges(&edge, TOKEN + 1).unwrap();
        // A new socket is writable.
        let ready = Ready { token: TOKEN + 1, readable: false, writable: true, broken: false };
        assert_eq!(now(&mut poller), [ready]);
        assert_eq!(now(&mut poller), []);
        for to in [&to_level, &to_edge] {
            write(to, b"x").unwrap();
        }
        let mut both = now(&mut poller);
        both.sort_by_key(|ready| ready.token);
        let level_ready = Ready { token: TOKEN, readable: true, writable: false, broken: false };
        assert_eq!(both, [level_ready, Ready { readable: true, ..ready }]);
        assert_eq!(now(&mut poller), [level_ready]);
        assert_eq!(read(&level, &mut [0; 9]), Ok(1));
        assert_eq!(now(&mut poller), []);
    }

    #[test]
    fn an_end_is_readable_and_what_is_removed_is_not_told() {
        let (mut poller, (ours, peer)) = (Poller::new().unwrap(), pair());
        poller.add(&ours, TOKEN).unwrap();
        drop(peer);
        let [ready] = now(&mut poller)[..] else { panic!("nothing is ready") };
        assert!(ready.readable && ready.token == TOKEN);
        poller.remove(&ours).unwrap();
        assert_eq!(now(&mut poller), []);
        assert!(poller.remove(&ours).is_err());
    }

    #[test]
    fn it_waits_until_its_time_and_not_less() {
        let mut poller = Poller::new().unwrap();
        let clock = Clock::start();
        let until = clock.now() + Duration::from_micros(2500);
        assert_eq!(poller.wait(&clock, Some(until)).unwrap(), []);
        assert!(clock.now() >= until);
        assert_eq!(timespec(Duration::from_nanos(3_000_000_007)).tv_sec, 3);
        assert_eq!(timespec(Duration::from_nanos(3_000_000_007)).tv_nsec, 7);
    }

    #[test]
    fn timers_of_the_thread_are_precise_only_as_long_as_it_lasts() {
        let before = current_timer_slack().unwrap();
        let poller = Poller::new().unwrap();
        assert_eq!(current_timer_slack().unwrap(), TIMER_SLACK);
        drop(poller);
        assert_eq!(current_timer_slack().unwrap(), before);
    }
}
