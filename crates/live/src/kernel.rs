//! A host that is a kernel: its devices, and our applications over its sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anabranch_host::{Application, Former, Lanes, Next, Stream, WrongBytes};
use anabranch_plan::application::Make;
use anabranch_trace::Rows;
use anabranch_units::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

use crate::namespace::within_any;
use crate::poller::Poller;
use crate::socket::{Kind, Socket};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Time between two tries to connect.
const AGAIN: Duration = Duration::from_millis(100);

/// A kernel in a namespace.
#[derive(Clone, Debug)]
pub struct KernelEnd {
    /// The file of its network namespace; the program's own where there is none.
    pub namespace: Option<PathBuf>,
    /// Its device on each path, in the paths' order.
    pub devices: Vec<String>,
    /// MPTCP, or plain TCP.
    pub multipath: bool,
    /// The congestion control of its sockets; the namespace's where there is none.
    pub congestion: Option<String>,
}

impl KernelEnd {
    /// Does something where it is.
    pub(crate) fn within<T>(&self, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        within_any(self.namespace.as_deref(), what)
    }

    fn kind(&self) -> Kind {
        Kind { multipath: self.multipath, congestion: self.congestion.clone() }
    }
}

/// There is no way to the other address, or our own is gone.
fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    let kinds = [AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable];
    kinds.contains(&error.kind())
}

/// The sockets of an application, each at the place of its lane.
#[derive(Default)]
struct Sockets(Vec<Option<Socket>>);

impl Sockets {
    fn lane_mut(&mut self, lane: usize) -> &mut Option<Socket> {
        if self.0.len() <= lane {
            self.0.resize_with(lane + 1, || None);
        }
        &mut self.0[lane]
    }

    fn are_none(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn have_news(&self) -> bool {
        self.0.iter().flatten().any(Socket::has_news)
    }
}

impl Lanes for Sockets {
    fn get(&mut self, lane: usize) -> Option<&mut dyn Stream> {
        self.0.get_mut(lane)?.as_mut().map(|socket| socket as &mut dyn Stream)
    }
}

/// An application and its sockets; of a server's the one in the first lane.
struct Place {
    application: Box<dyn Application>,
    sockets: Sockets,
    /// The lanes that it needs a socket in.
    wanted: Vec<usize>,
    /// The connection before, which lasts until the newest one is answered.
    former: Option<Socket>,
    /// When it is connected where it needs a socket.
    opens_at: Instant,
}

impl Place {
    fn new(application: Box<dyn Application>, sockets: Sockets, wanted: Vec<usize>) -> Self {
        Self { application, sockets, wanted, former: None, opens_at: Instant::ZERO }
    }

    /// When it is to be driven though nothing happens: without a socket not before one is opened.
    fn wakes_at(&self) -> Option<Instant> {
        let opens = (!self.wanted.is_empty()).then_some(self.opens_at);
        let wakes = self.application.poll_timeout().filter(|_| !self.sockets.are_none());
        [opens, wakes].into_iter().flatten().min()
    }

    /// The application does what there is for it to do.
    fn drive(&mut self, now: Instant) -> Result<Next, WrongBytes> {
        self.application.drive_all(now, &mut self.sockets)
    }
}

/// Applications over the sockets of a kernel.
pub(crate) struct KernelHost {
    end: KernelEnd,
    places: Vec<Place>,
    listener: Option<(OwnedFd, Box<Make>)>,
    /// A client's two addresses.
    route: Option<(SocketAddr, SocketAddr)>,
    /// Numbers of descriptors begin here: the listener's first, then those of the places.
    first_token: u64,
    fault: Option<WrongBytes>,
}

impl KernelHost {
    /// A client with its application, which connects between these addresses.
    pub(crate) fn client(
        end: KernelEnd,
        application: Box<dyn Application>,
        route: (SocketAddr, SocketAddr),
        first_token: u64,
    ) -> Self {
        let places = vec![Place::new(application, Sockets::default(), vec![0])];
        Self { end, places, listener: None, route: Some(route), first_token, fault: None }
    }

    /// A server, which listens at an address.
    pub(crate) fn server(
        end: KernelEnd,
        make: Box<Make>,
        address: SocketAddr,
        poller: &Poller,
        first_token: u64,
    ) -> io::Result<Self> {
        let kind = end.kind();
        let listener = end.within(|| {
            let fd = kind.open(address)?;
            sockopt::set_socket_reuseaddr(&fd, true)?;
            rustix::net::bind(&fd, &address)?;
            rustix::net::listen(&fd, BACKLOG)?;
            Ok(fd)
        })?;
        poller.add(&listener, first_token)?;
        let listener = Some((listener, make));
        Ok(Self { end, places: Vec::new(), listener, route: None, first_token, fault: None })
    }

    /// A descriptor of this number is ready.
    pub(crate) fn handle_ready(
        &mut self,
        now: Instant,
        poller: &Poller,
        token: u64,
        (readable, writable): (bool, bool),
    ) -> io::Result<()> {
        let Some(number) = (token - self.first_token).checked_sub(1) else {
            return self.accept(now, poller);
        };
        // A server's sockets are told apart by their places, a client's by their lanes.
        let number = number as usize;
        let (at, lane) = if self.listener.is_some() { (number, 0) } else { (0, number) };
        let place = self.places.get_mut(at);
        // It may be the socket before the one that the lane has now.
        if let Some(socket) = place.and_then(|place| place.sockets.lane_mut(lane).as_mut()) {
            socket.handle_ready(now, readable, writable);
        }
        self.drive(now, poller, at)
    }

    fn accept(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Some((listener, make)) = &self.listener {
            match rustix::net::accept_with(listener, flags) {
                Ok(fd) => {
                    let socket = Socket::accepted(fd, now);
                    let place = self.places.len();
                    poller.add_edges(&socket, self.first_token + 1 + place as u64)?;
                    self.places.push(Place::new(make(), Sockets(vec![Some(socket)]), Vec::new()));
                    self.drive(now, poller, place)?;
                }
                Err(Errno::AGAIN) => break,
                // The peer is gone before it was welcome.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Time has come: every application that it is time for is driven.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        for place in 0..self.places.len() {
            if self.places[place].wakes_at().is_some_and(|at| at <= now) {
                self.drive(now, poller, place)?;
            }
        }
        Ok(())
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.places.iter().filter_map(Place::wakes_at).min()
    }

    fn drive(&mut self, now: Instant, poller: &Poller, at: usize) -> io::Result<()> {
        loop {
            let place = &mut self.places[at];
            if self.fault.is_some() {
                return Ok(());
            }
            if !place.wanted.is_empty() && now >= place.opens_at {
                self.open(now, poller, at)?;
                continue;
            }
            if place.sockets.are_none() {
                return Ok(());
            }
            let driven = place.drive(now);
            if place.application.is_answered() {
                place.former = None;
            }
            match driven {
                Ok(Next::OnNewConnection { lane, former }) if self.route.is_some() => {
                    place.wanted.push(lane);
                    let left = place.sockets.lane_mut(lane).take();
                    place.former = left.filter(|_| former == Former::KeptUntilAnswer);
                }
                Ok(Next::Without(lane)) => drop(place.sockets.lane_mut(lane).take()),
                // What it wrote is the kernel's: nothing of it is left to go out first.
                Ok(Next::BehindOutput) => {}
                Ok(_) if place.sockets.have_news() => {}
                Ok(_) => return Ok(()),
                Err(fault) => self.fault = Some(fault),
            }
        }
    }

    /// Opens a client's sockets in the lanes that it needs them in.
    fn open(&mut self, now: Instant, poller: &Poller, at: usize) -> io::Result<()> {
        let Some((local, remote)) = self.route else { return Ok(()) };
        let Some(lane) = self.places[at].wanted.first().copied() else { return Ok(()) };
        let kind = self.end.kind();
        match self.end.within(|| Socket::connect(&kind, local, remote)) {
            Ok(socket) => {
                poller.add_edges(&socket, self.first_token + 1 + lane as u64)?;
                let place = &mut self.places[at];
                *place.sockets.lane_mut(lane) = Some(socket);
                place.wanted.remove(0);
                Ok(())
            }
            // Its interface is down.
            Err(error) if is_unreachable(&error) => {
                self.places[at].opens_at = now + AGAIN;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The congestion control of its first connection, as the kernel has it.
    pub(crate) fn congestion(&self) -> Option<String> {
        self.places.first()?.sockets.0.iter().flatten().next()?.congestion()
    }

    /// What was read that nobody sent.
    pub(crate) fn fault(&self) -> Option<WrongBytes> {
        self.fault
    }

    /// A client's application.
    pub(crate) fn application(&self) -> Option<&dyn Application> {
        Some(&*self.places.first()?.application)
    }

    /// A client's application, to close its books.
    pub(crate) fn application_mut(&mut self) -> Option<&mut dyn Application> {
        Some(&mut *self.places.first_mut()?.application)
    }

    /// Writes down what happened to its applications since the last time it was asked.
    pub(crate) fn tell(&mut self, rows: &mut Rows) {
        for place in &mut self.places {
            place.application.tell(rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_is_repeated_without_a_way_and_not_after_a_refusal() {
        let unreachable = |errno: Errno| is_unreachable(&errno.into());
        for errno in [Errno::ADDRNOTAVAIL, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::NETUNREACH] {
            assert!(unreachable(errno), "{errno:?}");
        }
        for errno in [Errno::CONNREFUSED, Errno::MFILE, Errno::ACCESS, Errno::TIMEDOUT] {
            assert!(!unreachable(errno), "{errno:?}");
        }
    }

    #[test]
    fn sockets_have_the_places_of_their_lanes() {
        let mut sockets = Sockets::default();
        assert!(sockets.are_none() && !sockets.have_news());
        let (fd, _peer) = std::os::unix::net::UnixStream::pair().unwrap();
        *sockets.lane_mut(2) = Some(Socket::accepted(fd.into(), Instant::ZERO));
        assert_eq!(sockets.0.len(), 3);
        assert!(sockets.get(0).is_none() && sockets.get(2).is_some() && sockets.get(3).is_none());
        assert!(!sockets.are_none() && sockets.have_news(), "it is connected");
        assert!(sockets.get(2).unwrap().poll_event().is_some());
        assert!(!sockets.have_news());
    }
}
