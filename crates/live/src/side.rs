//! The two ends of the network. Each end is a kernel with its devices, or our endpoint.

use std::io;

use anabranch_host::{Host, Session, Viewing, WrongBytes};
use anabranch_mptcp::FourTuple;
use anabranch_trace::Rows;
use anabranch_units::Instant;
use anabranch_wire::parse_packet;
use bytes::Bytes;

use crate::icmp::{self, Heard};
use crate::kernel::{KernelEnd, KernelHost};
use crate::poller::{Poller, Ready};
use crate::tun::Tun;

/// An end of the network.
pub(crate) enum Side {
    /// Our endpoint with its applications.
    Endpoint(Box<Host>),
    /// The devices of a kernel, and the plan's applications that use its sockets, if there are any.
    Kernel { devices: Vec<Tun>, host: Option<Box<KernelHost>> },
}

impl Side {
    /// Opens the devices of a kernel. Their tokens begin at `first_token`.
    pub(crate) fn kernel(end: &KernelEnd, poller: &Poller, first_token: u64) -> io::Result<Self> {
        let open = |name: &String| Tun::open(name, end.namespace.as_deref());
        let devices = end.devices.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        for (device, token) in devices.iter().zip(first_token..) {
            poller.add(device, token)?;
        }
        Ok(Self::Kernel { devices, host: None })
    }

    /// Returns the next packet that a kernel sends on a path. `None` if there is no packet now.
    pub(crate) fn read<'a>(
        &self,
        path: usize,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<&'a [u8]>> {
        let Self::Kernel { devices, .. } = self else { return Ok(None) };
        Ok(devices[path].read(buffer)?.map(|arrived| arrived.bytes))
    }

    /// Delivers a packet that has left a path. Our endpoint may keep a slice of it.
    pub(crate) fn deliver(&mut self, now: Instant, path: usize, bytes: &Bytes) -> io::Result<()> {
        match self {
            Self::Kernel { devices, .. } => devices[path].write(bytes),
            Self::Endpoint(host) => {
                if let Ok(packet) = parse_packet(bytes) {
                    host.handle_segment(now, FourTuple::of_receiver(&packet), &packet.segment);
                } else if let Some(Heard::PathMtu { tuple, mtu, seq }) = icmp::hear(bytes) {
                    host.handle_path_mtu(now, tuple, mtu, seq);
                }
                // Malformed packets and packets for other addresses are dropped.
                Ok(())
            }
        }
    }

    /// Handles a socket that is ready.
    pub(crate) fn handle_ready(
        &mut self,
        now: Instant,
        poller: &Poller,
        ready: Ready,
    ) -> io::Result<()> {
        let Self::Kernel { host: Some(host), .. } = self else { return Ok(()) };
        host.handle_ready(now, poller, ready.token, (ready.readable, ready.writable))
    }

    /// Handles all timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Endpoint(host) => while host.handle_timeout(now) {},
            Self::Kernel { host: Some(host), .. } => host.handle_timeout(now, poller)?,
            Self::Kernel { host: None, .. } => {}
        }
        Ok(())
    }

    /// Returns the time at which [`Self::handle_timeout`] must be called.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        match self {
            Self::Endpoint(host) => host.poll_timeout(),
            Self::Kernel { host, .. } => host.as_ref()?.poll_timeout(),
        }
    }

    /// Returns the measurements of the client's application.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Endpoint(host) => host.session(),
            Self::Kernel { host, .. } => host.as_ref()?.application()?.session(),
        }
    }

    /// Returns the measurements of the client's application, so that the session can be ended.
    pub(crate) fn session_mut(&mut self) -> Option<&mut Session> {
        match self {
            Self::Endpoint(host) => host.session_mut(),
            Self::Kernel { host, .. } => host.as_mut()?.application_mut()?.session_mut(),
        }
    }

    /// Returns the state of a film that the client plays.
    pub(crate) fn viewing(&self, now: Instant) -> Option<Viewing> {
        match self {
            Self::Endpoint(host) => host.viewing(now),
            Self::Kernel { host, .. } => host.as_ref()?.application()?.viewing(now),
        }
    }

    /// Returns the error of an application that has read wrong bytes, if there was one.
    pub(crate) fn fault(&self) -> Option<WrongBytes> {
        match self {
            Self::Endpoint(host) => host.fault(),
            Self::Kernel { host, .. } => host.as_ref()?.fault(),
        }
    }

    /// Returns the congestion control that the kernel actually uses.
    pub(crate) fn congestion(&self) -> Option<String> {
        match self {
            Self::Endpoint(_) => None,
            Self::Kernel { host, .. } => host.as_ref()?.congestion(),
        }
    }

    /// Returns the number of packets that the kernel did not accept.
    pub(crate) fn refused(&self) -> u64 {
        match self {
            Self::Endpoint(_) => 0,
            Self::Kernel { devices, .. } => devices.iter().map(Tun::refused).sum(),
        }
    }

    /// Adds the rows of the applications' events since the last call.
    pub(crate) fn tell(&mut self, rows: &mut Rows) {
        match self {
            Self::Endpoint(host) => host.tell(rows),
            Self::Kernel { host, .. } => {
                if let Some(host) = host {
                    host.tell(rows);
                }
            }
        }
    }

    /// Adds the rows of a sample of the client's application.
    pub(crate) fn sample(&self, now: Instant, rows: &mut Rows) {
        match self {
            Self::Endpoint(host) => host.sample(now, rows),
            Self::Kernel { host, .. } => {
                if let Some(application) = host.as_ref().and_then(|host| host.application()) {
                    application.sample(now, rows);
                }
            }
        }
    }

    /// Adds the rows of the client's application at the end of the run.
    pub(crate) fn report(&self, rows: &mut Rows) {
        match self {
            Self::Endpoint(host) => host.report(rows),
            Self::Kernel { host, .. } => {
                if let Some(application) = host.as_ref().and_then(|host| host.application()) {
                    application.report(rows);
                }
            }
        }
    }
}
