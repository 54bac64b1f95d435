//! The attempts to connect to the origin. Its addresses are tried one after the other. Sans-IO.

use std::net::SocketAddr;

use anabranch_units::{Duration, Instant};
use rustix::io::Errno;

use crate::errno::{Named, is_exhausted};

use super::record::End;

/// The shortest time between two notes to the operator about a lack of sockets.
const NOTE_EVERY: Duration = Duration::from_secs(60);

/// Limits the notes to the operator about a lack of sockets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shortage {
    noted: Option<Instant>,
}

impl Shortage {
    /// Returns a note about a socket error. Returns `None` if the error has another cause, or if the last
    /// note was sent a short time ago.
    pub(super) fn note(&mut self, now: Instant, error: Errno) -> Option<String> {
        if !is_exhausted(error) || self.noted.is_some_and(|at| now.since(at) < NOTE_EVERY) {
            return None;
        }
        self.noted = Some(now);
        let what = match error {
            Errno::MFILE => "this process has no descriptor left (LimitNOFILE, ulimit -n)",
            Errno::NFILE => "the host has no descriptor left (fs.file-max)",
            Errno::NOBUFS | Errno::NOMEM => "the host has no memory left for sockets",
            _ => "the host has no free port towards the origin (net.ipv4.ip_local_port_range)",
        };
        Some(format!("no socket to the origin: {}: {what}", Named(error)))
    }
}

/// The next step after a failed connection attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// Try the next address now.
    Next,
    /// The host has no socket left. Try the same address again later.
    Later,
    /// Close the connection.
    End(End),
}

/// The attempts to connect to the origin for one client connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calling {
    /// The number of addresses tried so far.
    tried: usize,
    /// The time limit for one attempt, and for the wait for a socket.
    limit: Duration,
    /// The deadline of the current attempt.
    until: Option<Instant>,
    /// The deadline of the wait for a socket. Set while the host has no socket left.
    waits_until: Option<Instant>,
    /// The error of the last failed attempt.
    error: Option<Errno>,
}

impl Calling {
    /// Creates the state before the first attempt. `limit` is the time limit of each attempt.
    pub(super) fn new(limit: Duration) -> Self {
        Self { tried: 0, limit, until: None, waits_until: None, error: None }
    }

    /// Starts the next attempt and returns its address. `None` if all addresses were tried.
    pub(super) fn next(&mut self, now: Instant, addresses: &[SocketAddr]) -> Option<SocketAddr> {
        self.until = None;
        let address = addresses.get(self.tried)?;
        self.tried += 1;
        self.until = Some(now + self.limit);
        Some(*address)
    }

    /// Records that the current attempt failed, and returns the next step.
    pub(super) fn fail(&mut self, now: Instant, error: Errno) -> After {
        self.until = None;
        self.error = Some(error);
        if !is_exhausted(error) {
            self.waits_until = None;
            return After::Next;
        }
        let until = *self.waits_until.get_or_insert(now + self.limit);
        if now >= until {
            return After::End(End::NoSocket);
        }
        self.tried -= 1;
        After::Later
    }

    /// Records that the current attempt succeeded.
    pub(super) fn succeed(&mut self) {
        (self.until, self.waits_until, self.error) = (None, None, None);
    }

    /// Returns whether the first attempt has been made.
    pub(super) fn has_begun(&self) -> bool {
        self.tried > 0 || self.waits_until.is_some()
    }

    /// Returns whether the current attempt has passed its deadline.
    pub(super) fn is_late(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns whether the host must have a socket again before the next attempt.
    pub(super) fn waits(&self) -> bool {
        self.until.is_none() && self.waits_until.is_some()
    }

    /// Returns the error of the last failed attempt.
    pub(super) fn error(&self) -> Option<Errno> {
        self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(5);

    fn addresses() -> [SocketAddr; 2] {
        [([192, 0, 2, 1], 80).into(), ([192, 0, 2, 2], 80).into()]
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn each_address_is_tried_once_within_its_time_limit() {
        let (all, mut calling) = (addresses(), Calling::new(LIMIT));
        assert_eq!(calling.next(at(0), &all), Some(all[0]));
        assert!(!calling.is_late(at(4999)));
        assert!(calling.is_late(at(5000)));
        assert_eq!(calling.fail(at(5000), Errno::TIMEDOUT), After::Next);
        assert!(!calling.is_late(at(6000)), "no attempt is under way");
        assert_eq!(calling.next(at(6000), &all), Some(all[1]));
        assert!(!calling.is_late(at(10_999)), "the second address has a time of its own");
        assert!(calling.is_late(at(11_000)));
        assert_eq!(calling.fail(at(11_000), Errno::CONNREFUSED), After::Next);
        assert_eq!(calling.next(at(11_000), &all), None);
        assert!(!calling.is_late(at(99_000)));
        assert_eq!((calling.error(), calling.waits()), (Some(Errno::CONNREFUSED), false));
    }

    #[test]
    fn without_a_socket_the_same_address_is_tried_again_until_the_time_is_up() {
        let (all, mut calling) = (addresses(), Calling::new(LIMIT));
        for millis in [0, 100, 4900] {
            assert_eq!(calling.next(at(millis), &all), Some(all[0]));
            assert_eq!(calling.fail(at(millis), Errno::ADDRNOTAVAIL), After::Later);
            assert!(calling.waits() && !calling.is_late(at(99_000)));
        }
        assert_eq!(calling.next(at(5000), &all), Some(all[0]));
        assert_eq!(calling.fail(at(5000), Errno::MFILE), After::End(End::NoSocket));
        assert_eq!(calling.error(), Some(Errno::MFILE));
    }

    #[test]
    fn a_shortage_is_noted_once_a_minute() {
        let mut shortage = Shortage::default();
        assert_eq!(shortage.note(at(0), Errno::CONNREFUSED), None);
        let note = shortage.note(at(0), Errno::ADDRNOTAVAIL).unwrap();
        assert!(note.contains("EADDRNOTAVAIL") && note.contains("ip_local_port_range"), "{note}");
        assert_eq!(shortage.note(at(59_999), Errno::MFILE), None);
        assert!(shortage.note(at(60_000), Errno::MFILE).unwrap().contains("LimitNOFILE"));
    }

    #[test]
    fn a_successful_attempt_clears_the_error_and_the_wait() {
        let (all, mut calling) = (addresses(), Calling::new(LIMIT));
        assert!(!calling.has_begun());
        calling.next(at(0), &all);
        assert!(calling.has_begun());
        calling.fail(at(0), Errno::NFILE);
        assert!(calling.has_begun(), "it waits for a descriptor");
        calling.next(at(100), &all);
        assert!(!calling.waits(), "an attempt is under way");
        calling.succeed();
        assert!(!calling.waits() && !calling.is_late(at(99_000)));
        assert_eq!(calling.error(), None);
    }
}
