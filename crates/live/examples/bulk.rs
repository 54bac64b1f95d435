//! Transfers bytes as fast as possible over the MPTCP or TCP of the host.
//!
//! Usage: `bulk serve|fetch NAMESPACE ADDRESS:PORT mptcp|tcp down|up CONNECTIONS BYTES`
//!
//! `serve` listens in the network namespace NAMESPACE, prints `ready`, and serves CONNECTIONS connections.
//! `fetch` opens all connections before it sends the first byte. It prints the time until every connection
//! has transferred BYTES bytes, in seconds. With `down`, the client requests the bytes with one byte, and the
//! server sends them. With `up`, the client sends the bytes, and the server confirms them with one byte. Each
//! connection has a thread.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread::{JoinHandle, spawn};

use anabranch_live::Clock;
use anabranch_live::namespace::within;
use anabranch_units::Instant;
use rustix::net::{
    AddressFamily, Protocol, SocketFlags, SocketType, bind, connect, ipproto, listen, socket_with,
    sockopt,
};

/// The largest number of bytes per read or write.
const PIECE: usize = 256 << 10;

/// The arguments of the program.
#[derive(Clone)]
struct Asked {
    address: SocketAddr,
    protocol: Protocol,
    /// Whether the client sends and the server receives.
    up: bool,
    connections: usize,
    /// The number of bytes to transfer on each connection.
    bytes: usize,
}

impl Asked {
    fn socket(&self) -> io::Result<OwnedFd> {
        let family = match self.address {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let protocol = Some(self.protocol);
        Ok(socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, protocol)?)
    }

    fn listen(&self) -> io::Result<TcpListener> {
        let socket = self.socket()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        bind(&socket, &self.address)?;
        listen(&socket, self.connections as i32)?;
        Ok(socket.into())
    }

    fn connect(&self) -> io::Result<TcpStream> {
        let socket = self.socket()?;
        connect(&socket, &self.address)?;
        Ok(socket.into())
    }

    fn send(&self, stream: &mut TcpStream) -> io::Result<()> {
        let piece = vec![0; PIECE];
        let mut left = self.bytes;
        while left > 0 {
            left -= stream.write(&piece[..left.min(PIECE)])?;
        }
        Ok(())
    }

    fn receive(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut room = vec![0; PIECE];
        let mut heard = 0;
        while heard < self.bytes {
            match stream.read(&mut room)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => heard += count,
            }
        }
        Ok(())
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        if self.up {
            self.receive(&mut stream)?;
            stream.write_all(b"!")?;
        } else {
            stream.read_exact(&mut [0])?;
            self.send(&mut stream)?;
        }
        stream.shutdown(Shutdown::Write)?;
        // Waits until the client has closed. If the server closed earlier, bytes in flight could be lost.
        stream.read_to_end(&mut Vec::new()).map(|_| ())
    }

    fn fetch(&self, mut stream: TcpStream) -> io::Result<()> {
        if !self.up {
            stream.write_all(b"?")?;
            return self.receive(&mut stream);
        }
        self.send(&mut stream)?;
        stream.read_exact(&mut [0])
    }
}

/// Waits for all threads. Returns the error of the first thread in the list that has failed.
fn joined(threads: Vec<JoinHandle<io::Result<()>>>) -> Result<(), Box<dyn Error>> {
    for thread in threads {
        thread.join().map_err(|_| "a thread failed")??;
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a program of the real world has threads")]
fn serve(asked: &Asked, namespace: &Path) -> Result<(), Box<dyn Error>> {
    let listener = within(namespace, || asked.listen())?;
    println!("ready");
    let mut threads = Vec::new();
    for _ in 0..asked.connections {
        let (stream, _) = listener.accept()?;
        let asked = asked.clone();
        threads.push(spawn(move || asked.serve(stream)));
    }
    joined(threads)
}

#[expect(clippy::disallowed_methods, reason = "a program of the real world has threads")]
fn fetch(asked: &Asked, namespace: &Path) -> Result<(), Box<dyn Error>> {
    let streams: io::Result<Vec<_>> =
        (0..asked.connections).map(|_| within(namespace, || asked.connect())).collect();
    let start = Arc::new(Barrier::new(asked.connections + 1));
    let mut threads = Vec::new();
    for stream in streams? {
        let (asked, start) = (asked.clone(), Arc::clone(&start));
        threads.push(spawn(move || {
            start.wait();
            asked.fetch(stream)
        }));
    }
    // The clock starts before the barrier, because other threads may run first when the barrier opens.
    let clock = Clock::start();
    start.wait();
    joined(threads)?;
    println!("{:.6}", clock.now().since(Instant::ZERO).as_secs_f64());
    Ok(())
}

fn run(words: &[String]) -> Result<(), Box<dyn Error>> {
    let [role, namespace, address, protocol, direction, connections, bytes] = words else {
        return Err(
            "usage: bulk serve|fetch NAMESPACE ADDRESS:PORT mptcp|tcp down|up CONNECTIONS BYTES"
                .into(),
        );
    };
    let asked = Asked {
        address: address.parse()?,
        protocol: match protocol.as_str() {
            "mptcp" => ipproto::MPTCP,
            "tcp" => ipproto::TCP,
            other => return Err(format!("{other}: mptcp or tcp").into()),
        },
        up: match direction.as_str() {
            "up" => true,
            "down" => false,
            other => return Err(format!("{other}: down or up").into()),
        },
        connections: connections.parse()?,
        bytes: bytes.parse()?,
    };
    let namespace = PathBuf::from("/run/netns").join(namespace);
    match role.as_str() {
        "serve" => serve(&asked, &namespace),
        "fetch" => fetch(&asked, &namespace),
        other => Err(format!("{other}: serve or fetch").into()),
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bulk: {error}");
            ExitCode::FAILURE
        }
    }
}
