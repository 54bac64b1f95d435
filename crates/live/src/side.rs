//! The two ends of the network: a kernel behind its devices, or our endpoint.

use std::io;

use anabranch_host::{Host, Session, Viewing, WrongBytes};
use anabranch_trace::Rows;
use anabranch_transport::FourTuple;
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
    /// A kernel's devices, and our applications over its sockets where any run there.
    Kernel { devices: Vec<Tun>, host: Option<Box<KernelHost>> },
}

impl Side {
    /// The devices of a kernel, their numbers from `first_token` on.
    pub(crate) fn kernel(end: &KernelEnd, poller: &Poller, first_token: u64) -> io::Result<Self> {
        let open = |name: &String| Tun::open(name, end.namespace.as_deref());
        let devices = end.devices.iter().map(open).collect::<io::Result<Vec<_>>>()?;
        for (device, token) in devices.iter().zip(first_token..) {
            poller.add(device, token)?;
        }
        Ok(Self::Kernel { devices, host: None })
    }

    /// A kernel is here.
    pub(crate) fn is_kernel(&self) -> bool {
        matches!(self, Self::Kernel { .. })
    }

    /// The next packet that a kernel sends on a path; `None` when there is none now.
    pub(crate) fn read<'a>(
        &self,
        path: usize,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<&'a [u8]>> {
        let Self::Kernel { devices, .. } = self else { return Ok(None) };
        Ok(devices[path].read(buffer)?.map(|arrived| arrived.bytes))
    }

    /// A packet comes out of a path. Our endpoint may keep a slice of it.
    pub(crate) fn deliver(&mut self, now: Instant, path: usize, bytes: &Bytes) -> io::Result<()> {
        match self {
            Self::Kernel { devices, .. } => devices[path].write(bytes),
            Self::Endpoint(host) => {
                if let Ok(packet) = parse_packet(bytes) {
                    host.handle_segment(now, FourTuple::of_receiver(&packet), &packet.segment);
                } else if let Some(Heard::PathMtu { tuple, mtu, seq }) = icmp::hear(bytes) {
                    host.handle_path_mtu(now, tuple, mtu, seq);
                }
                // What is neither, or is spoilt, is dropped, as by any host.
                Ok(())
            }
        }
    }

    /// A socket is ready.
    pub(crate) fn handle_ready(
        &mut self,
        now: Instant,
        poller: &Poller,
        ready: Ready,
    ) -> io::Result<()> {
        let Self::Kernel { host: Some(host), .. } = self else { return Ok(()) };
        host.handle_ready(now, poller, ready.token, (ready.readable, ready.writable))
    }

    /// Time has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant, poller: &Poller) -> io::Result<()> {
        match self {
            Self::Endpoint(host) => while host.handle_timeout(now) {},
            Self::Kernel { host: Some(host), .. } => host.handle_timeout(now, poller)?,
            Self::Kernel { host: None, .. } => {}
        }
        Ok(())
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub(crate) fn poll_timeout(&mut self) -> Option<Instant> {
        match self {
            Self::Endpoint(host) => host.poll_timeout(),
            Self::Kernel { host, .. } => host.as_ref()?.poll_timeout(),
        }
    }

    /// What a client's application has measured.
    pub(crate) fn session(&self) -> Option<&Session> {
        match self {
            Self::Endpoint(host) => host.session(),
            Self::Kernel { host, .. } => host.as_ref()?.application()?.session(),
        }
    }

    /// The same, to close its books.
    pub(crate) fn session_mut(&mut self) -> Option<&mut Session> {
        match self {
            Self::Endpoint(host) => host.session_mut(),
            Self::Kernel { host, .. } => host.as_mut()?.application_mut()?.session_mut(),
        }
    }

    /// What a client's viewer has.
    pub(crate) fn viewing(&self, now: Instant) -> Option<Viewing> {
        match self {
            Self::Endpoint(host) => host.viewing(now),
            Self::Kernel { host, .. } => host.as_ref()?.application()?.viewing(now),
        }
    }

    /// Something was read that nobody sent.
    pub(crate) fn fault(&self) -> Option<WrongBytes> {
        match self {
            Self::Endpoint(host) => host.fault(),
            Self::Kernel { host, .. } => host.as_ref()?.fault(),
        }
    }

    /// The congestion control that its kernel really uses.
    pub(crate) fn congestion(&self) -> Option<String> {
        match self {
            Self::Endpoint(_) => None,
            Self::Kernel { host, .. } => host.as_ref()?.congestion(),
        }
    }

    /// Packets that its kernel did not take.
    pub(crate) fn refused(&self) -> u64 {
        match self {
            Self::Endpoint(_) => 0,
            Self::Kernel { devices, .. } => devices.iter().map(Tun::refused).sum(),
        }
    }

    /// Writes down what happened to its applications since the last time it was asked.
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

    /// Writes down how a client's application stands.
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

    /// Writes down what there is to say of a client's application when all is over.
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
