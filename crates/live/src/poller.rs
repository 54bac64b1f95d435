//! Waits for descriptors and for a point in time, with a precision of one microsecond.

use std::io;
use std::num::NonZero;
use std::os::fd::{AsFd, OwnedFd};

use anabranch_units::{Duration, Instant};
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::thread::{current_timer_slack, set_current_timer_slack};

use crate::clock::Clock;

/// The delay by which the kernel may postpone a timer to save power, ns. The default is 50,000.
const TIMER_SLACK: u64 = 1;

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The token with which the descriptor was added.
    pub token: u64,
    /// Whether it can be read, its peer has closed, or it has failed.
    pub readable: bool,
    /// Whether it can be written, or has failed.
    pub writable: bool,
    /// Whether an error is pending (`EPOLLERR`).
    pub broken: bool,
}

/// A set of watched descriptors (epoll).
pub struct Poller {
    epoll: OwnedFd,
    events: Vec<epoll::Event>,
    _precise: Precise,
}

/// Makes timers of the current thread precise, and restores the previous setting when dropped.
struct Precise {
    /// The previous timer slack, ns. `None` for real-time threads, which have no timer slack.
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
        // The call fails only if the kernel does not support it. `new` has made the same call successfully.
        let _ = set_current_timer_slack(self.before);
    }
}

impl Poller {
    /// Creates an empty set. It makes the timers of the calling thread precise until it is dropped. Threads
    /// started by this thread in the meantime inherit the setting and keep it.
    ///
    /// # Errors
    /// Returns an error if the kernel has no descriptor or memory left.
    pub fn new() -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, events: Vec::with_capacity(64), _precise: Precise::new()? })
    }

    /// Watches a descriptor. It is reported while it can be read.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot watch it.
    pub fn add(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), EventFlags::IN)?)
    }

    /// Watches a socket. Each change is reported once: more data to read, or more room to write.
    ///
    /// # Errors
    /// Returns an error if the kernel cannot watch it.
    pub fn add_edges(&self, source: impl AsFd, token: u64) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, source, EventData::new_u64(token), flags)?)
    }

    /// Stops watching a descriptor.
    ///
    /// # Errors
    /// Returns an error if the descriptor was not registered.
    pub fn remove(&self, source: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// Waits until a descriptor is ready or the time is `until`. With `None`, there is no time limit.
    ///
    /// # Errors
    /// Returns the error of the system call.
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
    fn a_level_is_reported_repeatedly_and_an_edge_once() {
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
    fn an_end_is_readable_and_a_removed_descriptor_is_not_reported() {
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
    fn a_wait_lasts_until_its_time() {
        let mut poller = Poller::new().unwrap();
        let clock = Clock::start();
        let until = clock.now() + Duration::from_micros(2500);
        assert_eq!(poller.wait(&clock, Some(until)).unwrap(), []);
        assert!(clock.now() >= until);
        assert_eq!(timespec(Duration::from_nanos(3_000_000_007)).tv_sec, 3);
        assert_eq!(timespec(Duration::from_nanos(3_000_000_007)).tv_nsec, 7);
    }

    #[test]
    fn timers_are_precise_while_the_poller_exists() {
        let before = current_timer_slack().unwrap();
        let poller = Poller::new().unwrap();
        assert_eq!(current_timer_slack().unwrap(), TIMER_SLACK);
        drop(poller);
        assert_eq!(current_timer_slack().unwrap(), before);
    }
}
