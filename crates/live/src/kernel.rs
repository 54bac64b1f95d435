//! A host that is a kernel: its devices, and the applications of a plan that use its sockets.

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

/// The largest number of connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// The time between two attempts to connect.
const AGAIN: Duration = Duration::from_millis(100);

/// A kernel in a network namespace.
#[derive(Clone, Debug)]
pub struct KernelEnd {
    /// The file of the network namespace. `None` for the namespace of this program.
    pub namespace: Option<PathBuf>,
    /// The name of the kernel's device on each path, in the order of the plan's paths.
    pub devices: Vec<String>,
    /// Whether sockets use MPTCP. If false, they use plain TCP.
    pub multipath: bool,
    /// The congestion control of the sockets. `None` for the default of the namespace.
    pub congestion: Option<String>,
}

impl KernelEnd {
    /// Runs a function inside the kernel's network namespace.
    pub(crate) fn within<T>(&self, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        within_any(self.namespace.as_deref(), what)
    }

    fn kind(&self) -> Kind {
        Kind { multipath: self.multipath, congestion: self.congestion.clone() }
    }
}

/// Returns whether the remote address cannot be reached now, or the local address does not exist.
fn is_unreachable(error: &io::Error) -> bool {
    use io::ErrorKind::{AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable};
    let kinds = [AddrNotAvailable, HostUnreachable, NetworkDown, NetworkUnreachable];
    kinds.contains(&error.kind())
}

/// The sockets of an application, one per lane.
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

/// An application with its sockets. The application of a server has one socket, in lane 0.
struct Place {
    application: Box<dyn Application>,
    sockets: Sockets,
    /// The lanes that need a new socket.
    wanted: Vec<usize>,
    /// The previous connection. It is kept until the newest connection has received a response.
    former: Option<Socket>,
    /// The earliest time at which a socket is opened in one of the lanes in `wanted`.
    opens_at: Instant,
}

impl Place {
    fn new(application: Box<dyn Application>, sockets: Sockets, wanted: Vec<usize>) -> Self {
        Self { application, sockets, wanted, former: None, opens_at: Instant::ZERO }
    }

    /// Returns the time at which the application must run without an event. If it has no socket, this is the
    /// time to open one.
    fn wakes_at(&self) -> Option<Instant> {
        let opens = (!self.wanted.is_empty()).then_some(self.opens_at);
        let wakes = self.application.poll_timeout().filter(|_| !self.sockets.are_none());
        [opens, wakes].into_iter().flatten().min()
    }

    /// Runs the application with all its sockets.
    fn drive(&mut self, now: Instant) -> Result<Next, WrongBytes> {
        self.application.drive_all(now, &mut self.sockets)
    }
}

/// The applications that use the sockets of a kernel.
pub(crate) struct KernelHost {
    end: KernelEnd,
    places: Vec<Place>,
    listener: Option<(OwnedFd, Box<Make>)>,
    /// The local and the remote address of a client.
    route: Option<(SocketAddr, SocketAddr)>,
    /// The first token of the poller, which is that of the listener. The following tokens belong to
    /// applications, or to the connections of a client.
    first_token: u64,
    fault: Option<WrongBytes>,
}

impl KernelHost {
    /// Creates a client whose application connects from `route.0` to `route.1`.
    pub(crate) fn client(
        end: KernelEnd,
        application: Box<dyn Application>,
        route: (SocketAddr, SocketAddr),
        first_token: u64,
    ) -> Self {
        let places = vec![Place::new(application, Sockets::default(), vec![0])];
        Self { end, places, listener: None, route: Some(route), first_token, fault: None }
    }

    /// Creates a server that listens on an address. `make` creates the application for each connection.
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

    /// Handles a descriptor that is ready, given by its token.
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
        // The number means an application on a server, and a lane on a client.
        let number = number as usize;
        let (at, lane) = if self.listener.is_some() { (number, 0) } else { (0, number) };
        let place = self.places.get_mut(at);
        // The event may be for the previous socket of the lane. It has no effect then, because nothing can be
        // read.
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
                // The connection ended before it could be accepted.
                Err(Errno::CONNABORTED | Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Runs every application whose timer has expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        for place in 0..self.places.len() {
            if self.places[place].wakes_at().is_some_and(|at| at <= now) {
                self.drive(now, poller, place)?;
            }
        }
        Ok(())
    }

    /// Returns the time at which [`Self::handle_timeout`] must be called.
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
                // The kernel sends the written data without a further call, so the application can run again
                // now.
                Ok(Next::BehindOutput) => {}
                Ok(_) if place.sockets.have_news() => {}
                Ok(_) => return Ok(()),
                Err(fault) => self.fault = Some(fault),
            }
        }
    }

    /// Opens a socket in the first lane that needs a socket.
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
            // The interface is down. Another attempt follows.
            Err(error) if is_unreachable(&error) => {
                self.places[at].opens_at = now + AGAIN;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the congestion control that the kernel uses for the first open socket.
    pub(crate) fn congestion(&self) -> Option<String> {
        self.places.first()?.sockets.0.iter().flatten().next()?.congestion()
    }

    /// Returns the error of an application that has read wrong bytes, if there was one.
    pub(crate) fn fault(&self) -> Option<WrongBytes> {
        self.fault
    }

    /// Returns the application of a client.
    pub(crate) fn application(&self) -> Option<&dyn Application> {
        Some(&*self.places.first()?.application)
    }

    /// Returns the application of a client, so that its session can be ended.
    pub(crate) fn application_mut(&mut self) -> Option<&mut dyn Application> {
        Some(&mut *self.places.first_mut()?.application)
    }

    /// Adds the rows of all events since the last call.
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
    fn only_unreachable_addresses_are_tried_again() {
        let unreachable = |errno: Errno| is_unreachable(&errno.into());
        for errno in [Errno::ADDRNOTAVAIL, Errno::HOSTUNREACH, Errno::NETDOWN, Errno::NETUNREACH] {
            assert!(unreachable(errno), "{errno:?}");
        }
        for errno in [Errno::CONNREFUSED, Errno::MFILE, Errno::ACCESS, Errno::TIMEDOUT] {
            assert!(!unreachable(errno), "{errno:?}");
        }
    }

    #[test]
    fn sockets_are_stored_by_lane() {
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
