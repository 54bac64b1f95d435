//! Writes packets to a TUN device, many by one system call (`io_uring`) if the kernel permits it.
//!
//! With one system call per packet, a receiver on the same core would run after every write and wake up for
//! every single packet.

mod ring;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;

use ring::{Ring, may_pass};

/// A packet as a list of parts.
pub(crate) type Packet<'a> = &'a [IoSlice<'a>];
/// The result of writing one packet.
type Written = Result<(), Errno>;

/// The largest number of packets per system call. Other programs wait for the processor during the call.
const AT_ONCE: u32 = 64;
/// After a temporary failure, this number of writes passes before the next attempt to create a ring. A write
/// has up to [`AT_ONCE`] packets.
const PATIENCE: u32 = 1000;

/// A device to which packets are written.
pub(crate) trait Device: Send + 'static {
    /// Writes packets in order. Returns the number of packets that the device did not accept. These packets
    /// are lost.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64>;
}

/// The error because of which every packet needs a system call, if there is one. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obstacle(Arc<AtomicI32>);

impl Obstacle {
    /// Returns the error of the kernel. `None` while one system call writes many packets.
    pub(crate) fn get(&self) -> Option<Errno> {
        let number = Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != 0);
        number.map(Errno::from_raw_os_error)
    }

    fn set(&self, why: Option<Errno>) {
        self.0.store(why.map_or(0, Errno::raw_os_error), Ordering::Relaxed);
    }
}

/// The writing end of a device. Another part of the program reads from the device.
pub(crate) struct Entrance {
    device: OwnedFd,
    /// The ring that writes many packets by one system call. `None` if every packet needs a call.
    ring: Option<Ring>,
    /// The function that creates a ring.
    open: Box<dyn FnMut() -> Result<Ring, Errno> + Send>,
    /// The number of writes before the next attempt to create a ring. `None` if there will be no further
    /// attempt.
    patience: Option<u32>,
    obstacle: Obstacle,
    /// The result of each packet of the current write.
    written: Vec<Option<Written>>,
}

impl Entrance {
    /// Creates the writing end of a device in non-blocking mode.
    pub(crate) fn new(device: OwnedFd) -> Self {
        Self::opened_by(device, Ring::new)
    }

    fn opened_by(
        device: OwnedFd,
        open: impl FnMut() -> Result<Ring, Errno> + Send + 'static,
    ) -> Self {
        let (obstacle, open) = (Obstacle::default(), Box::new(open));
        let mut all =
            Self { device, ring: None, open, patience: Some(0), obstacle, written: Vec::new() };
        all.seek_ring();
        all
    }

    /// Returns a handle to the error because of which every packet needs a system call. The error may change
    /// later.
    pub(crate) fn obstacle(&self) -> Obstacle {
        self.obstacle.clone()
    }

    /// Creates a missing ring if the next attempt is due.
    fn seek_ring(&mut self) {
        match &mut self.patience {
            Some(0) if self.ring.is_none() => {}
            Some(left) => return *left = left.saturating_sub(1),
            None => return,
        }
        let made = (self.open)();
        self.settle(made);
    }

    /// Stores a ring, or the error if it could not be created. Old kernels have no `io_uring`, a host or a
    /// container may forbid it, and some devices do not support it. The kernel may also be short of memory
    /// for a moment.
    fn settle(&mut self, ring: Result<Ring, Errno>) {
        let why = ring.as_ref().err().copied();
        self.patience = match why {
            None => Some(0),
            Some(why) => may_pass(why).then_some(PATIENCE),
        };
        self.obstacle.set(why);
        self.ring = ring.ok();
    }

    /// Writes up to [`AT_ONCE`] packets.
    fn write(&mut self, packets: &[Packet<'_>]) {
        self.written.clear();
        self.written.resize(packets.len(), None);
        self.seek_ring();
        if let Some(ring) = self.ring.take() {
            let ring = ring.write(self.device.as_fd(), packets, &mut self.written);
            self.settle(ring);
        }
        for (packet, written) in packets.iter().zip(&mut self.written) {
            written.get_or_insert_with(|| write(self.device.as_fd(), packet));
        }
    }
}

impl Device for Entrance {
    fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64> {
        let mut refused = 0;
        for some in packets.chunks(AT_ONCE as usize) {
            self.write(some);
            for written in self.written.drain(..).flatten() {
                refused += u64::from(!taken(written)?);
            }
        }
        Ok(refused)
    }
}

/// Writes one packet.
pub(crate) fn write(device: BorrowedFd<'_>, packet: Packet<'_>) -> Result<(), Errno> {
    rustix::io::writev(device, packet).map(|_| ())
}

/// Returns whether the kernel accepted a packet. Returns false if the device is full or cannot accept it now.
pub(crate) fn taken(written: Result<(), Errno>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        // The device is down (EIO) or full, or it does not accept this packet (EINVAL).
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::IO | Errno::INVAL | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
