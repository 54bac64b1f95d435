//! A host that is a kernel: its devices, and our applications over its sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use anabranch_host::{Application, Former, Next, WrongBytes};
use anabranch_plan::application::Make;
use anabranch_trace::Rows;
use anabranch_units::{Duration, Instant};
use rustix::io::Errno;
use rustix::net::{SocketFlags, sockopt};

use crate::namespace::within_any;
use crate::poller::Poller;
use crate::socket::{Kind, Socket};

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;
/// Time until somebody who could not be reached is called again.
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

/// An application and its socket.
struct Place {
    application: Box<dyn Application>,
    socket: Option<Socket>,
    /// The connection before, which lasts until this one is answered.
    former: Option<Socket>,
    /// When it is connected, without a socket.
    opens_at: Instant,
}

impl Place {
    fn new(application: Box<dyn Application>, socket: Option<Socket>) -> Self {
        Self { application, socket, former: None, opens_at: Instant::ZERO }
    }

    /// When it is to be driven though nothing happens: without a socket not before one is opened.
    fn wakes_at(&self) -> Option<Instant> {
        match self.socket {
            Some(_) => self.application.poll_timeout(),
            None => Some(self.opens_at),
        }
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
        let places = vec![Place::new(application, None)];
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
        let Some(place) = (token - self.first_token).checked_sub(1) else {
            return self.accept(now, poller);
        };
        // It may be the socket before the one that the place has now.
        if let Some(socket) = self.places.get_mut(place as usize).and_then(|it| it.socket.as_mut())
        {
            socket.handle_ready(now, readable, writable);
        }
        self.drive(now, poller, place as usize)
    }

    fn accept(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        while let Some((listener, make)) = &self.listener {
            match rustix::net::accept_with(listener, flags) {
                Ok(fd) => {
                    let socket = Socket::accepted(fd, now);
                    let place = self.places.len();
                    poller.add_edges(&socket, self.first_token + 1 + place as u64)?;
                    self.places.push(Place::new(make(), Some(socket)));
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
            let Some(socket) = &mut place.socket else {
                return if now < place.opens_at { Ok(()) } else { self.open(now, poller, at) };
            };
            let driven = place.application.drive(now, socket);
            if place.application.is_answered() {
                place.former = None;
            }
            match driven {
                Ok(Next::OnNewConnection(former)) => {
                    let left = place.socket.take();
                    place.former = left.filter(|_| former == Former::KeptUntilAnswer);
                }
                Ok(_) if socket.has_news() => {}
                Ok(_) => return Ok(()),
                Err(fault) => self.fault = Some(fault),
            }
        }
    }

    fn open(&mut self, now: Instant, poller: &Poller, at: usize) -> io::Result<()> {
        let Some((local, remote)) = self.route else { return Ok(()) };
        let kind = self.end.kind();
        match self.end.within(|| Socket::connect(&kind, local, remote)) {
            Ok(socket) => {
                poller.add_edges(&socket, self.first_token + 1 + at as u64)?;
                self.places[at].socket = Some(socket);
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
        self.places.first()?.socket.as_ref()?.congestion()
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
