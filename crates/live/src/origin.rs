//! The origin of a run in which other programs open connections to the endpoint. Each connection is relayed
//! over a socket to a server in the endpoint's namespace.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use anabranch_host::{Application, Next, Stream, WrongBytes};
use anabranch_mptcp::{ConnectionHandle, Event};
use anabranch_units::Instant;
use bytes::Bytes;

use crate::namespace::within_any;
use crate::poller::{Poller, Ready};
use crate::pool::Pool;
use crate::relay::Relay;
use crate::socket::{Kind, Socket};

/// The address of the origin and its network namespace.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The file of the network namespace. `None` for the namespace of this program.
    pub namespace: Option<PathBuf>,
    /// The address of the origin in this namespace.
    pub address: SocketAddr,
}

/// A connection of the endpoint, with its socket to the origin.
struct Call {
    handle: ConnectionHandle,
    /// The socket. `None` if it could not be opened, or after the client or the origin is gone.
    socket: Option<Socket>,
    /// The number of bytes passed to the client.
    relayed: u64,
}

/// All sockets to the origin. Clones share the sockets.
#[derive(Clone)]
pub(crate) struct Origins {
    origin: Rc<Origin>,
    calls: Rc<RefCell<Vec<Call>>>,
    /// The index of the first call whose socket is not in the poller.
    new: Rc<Cell<usize>>,
    pool: Pool,
}

impl Origins {
    /// Creates the state without any socket.
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin: Rc::new(origin),
            calls: Rc::default(),
            new: Rc::default(),
            pool: Pool::default(),
        }
    }

    /// Returns the application that relays a connection.
    pub(crate) fn serve(&self, handle: ConnectionHandle) -> Box<dyn Application> {
        let origins = self.clone();
        Box::new(Passed { handle, origins, number: None, relay: Relay::new(Bytes::new()) })
    }

    /// Adds the sockets opened since the last call to the poller. The token of a socket is its number plus
    /// `first_token`.
    pub(crate) fn watch(&self, poller: &Poller, first_token: u64) -> io::Result<()> {
        let calls = self.calls.borrow();
        let new = self.new.replace(calls.len());
        for (call, token) in calls[new..].iter().zip(first_token + new as u64..) {
            if let Some(socket) = &call.socket {
                poller.add_edges(socket, token)?;
            }
        }
        Ok(())
    }

    /// Handles a socket that is ready. Returns its connection.
    pub(crate) fn handle_ready(
        &self,
        now: Instant,
        number: u64,
        ready: Ready,
    ) -> Option<ConnectionHandle> {
        let mut calls = self.calls.borrow_mut();
        let call = calls.get_mut(number as usize)?;
        let socket = call.socket.as_mut()?;
        socket.handle_ready(now, ready.readable, ready.writable);
        if ready.broken {
            socket.handle_error();
        }
        Some(call.handle)
    }

    /// Returns the number of bytes passed to clients.
    pub(crate) fn relayed(&self) -> u64 {
        self.calls.borrow().iter().map(|call| call.relayed).sum()
    }

    /// Connects to the origin for a connection, and returns the number of the call. If this fails, the
    /// connection is closed later.
    fn call(&self, handle: ConnectionHandle) -> usize {
        let Origin { namespace, address } = &*self.origin;
        let open = || Socket::call(&Kind::TO_ORIGIN, *address, self.pool.clone());
        let socket = within_any(namespace.as_deref(), open);
        let mut calls = self.calls.borrow_mut();
        calls.push(Call { handle, socket: socket.ok(), relayed: 0 });
        calls.len() - 1
    }
}

/// The application that relays a connection to the origin.
struct Passed {
    handle: ConnectionHandle,
    origins: Origins,
    /// The number of the call. `None` until the handshake is complete.
    number: Option<usize>,
    relay: Relay,
}

impl Application for Passed {
    fn drive(&mut self, now: Instant, connection: &mut dyn Stream) -> Result<Next, WrongBytes> {
        let mut client_gone = false;
        while let Some(event) = connection.poll_event() {
            self.relay.note_client(event);
            match event {
                Event::Connected => self.number = Some(self.origins.call(self.handle)),
                Event::Closed => client_gone = true,
                _ => {}
            }
        }
        let Some(number) = self.number else { return Ok(Next::AtAnything) };
        let mut calls = self.origins.calls.borrow_mut();
        let Call { socket, relayed, .. } = &mut calls[number];
        let Some(origin) = socket else {
            connection.shutdown(now);
            return Ok(Next::AtNews);
        };
        let mut origin_gone = false;
        loop {
            while let Some(event) = origin.poll_event() {
                origin_gone |= self.relay.note_origin(event);
            }
            let moved = if client_gone {
                self.relay.flush(now, origin).map(|_| false)
            } else {
                self.relay.pump(now, connection, origin, u64::MAX)
            };
            origin_gone |= moved.is_err();
            if origin_gone || moved != Ok(true) && !origin.has_news() {
                break;
            }
        }
        *relayed = self.relay.moved()[1];
        if origin_gone && !client_gone {
            connection.shutdown(now);
        }
        if origin_gone || client_gone || self.relay.is_complete() {
            *socket = None;
        }
        Ok(Next::AtAnything)
    }
}
