//! The origin behind the endpoint of a run: what programs of others ask of the endpoint is passed on to a server in the
//! endpoint's namespace, over a socket for each connection.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::rc::Rc;

use anabranch_host::{Application, Next, Stream, WrongBytes};
use anabranch_transport::{ConnectionHandle, Event};
use anabranch_units::Instant;
use bytes::Bytes;

use crate::namespace::within_any;
use crate::poller::{Poller, Ready};
use crate::pool::Pool;
use crate::relay::Relay;
use crate::socket::{Kind, Socket};

/// Where an origin is.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The file of its network namespace; the program's own where there is none.
    pub namespace: Option<PathBuf>,
    /// Its address there.
    pub address: SocketAddr,
}

/// A socket to the origin, and the connection that it is for.
struct Call {
    handle: ConnectionHandle,
    /// None once one of the two is over.
    socket: Option<Socket>,
    /// Bytes that the client was given.
    relayed: u64,
}

/// All sockets to the origin; a clone is the same ones.
#[derive(Clone)]
pub(crate) struct Origins {
    origin: Rc<Origin>,
    calls: Rc<RefCell<Vec<Call>>>,
    /// Calls that nobody waits for yet, from this one on.
    new: Rc<Cell<usize>>,
    pool: Pool,
}

impl Origins {
    /// No socket yet.
    pub(crate) fn new(origin: Origin) -> Self {
        Self {
            origin: Rc::new(origin),
            calls: Rc::default(),
            new: Rc::default(),
            pool: Pool::default(),
        }
    }

    /// What the endpoint runs on a connection.
    pub(crate) fn serve(&self, handle: ConnectionHandle) -> Box<dyn Application> {
        let origins = self.clone();
        Box::new(Passed { handle, origins, number: None, relay: Relay::new(Bytes::new()) })
    }

    /// Waits for the sockets that have come since the last time, their numbers from `first_token` on.
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

    /// A socket is ready; returns the connection that it is for.
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

    /// Bytes that clients were given.
    pub(crate) fn relayed(&self) -> u64 {
        self.calls.borrow().iter().map(|call| call.relayed).sum()
    }

    /// Calls the origin for a connection; without a socket the connection is told that it is over.
    fn call(&self, handle: ConnectionHandle) -> usize {
        let Origin { namespace, address } = &*self.origin;
        let open = || Socket::call(&Kind::TO_ORIGIN, *address, self.pool.clone());
        let socket = within_any(namespace.as_deref(), open);
        let mut calls = self.calls.borrow_mut();
        calls.push(Call { handle, socket: socket.ok(), relayed: 0 });
        calls.len() - 1
    }
}

/// A connection whose bytes are the origin's.
struct Passed {
    handle: ConnectionHandle,
    origins: Origins,
    /// Its call, once its handshake is complete.
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
