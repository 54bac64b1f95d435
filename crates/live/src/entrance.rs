//! A way into a TUN device for who only writes: many packets by one system call (`io_uring`), where the kernel lets us.
//!
//! Where each packet is a call of its own, whoever receives it on the same core runs before the next one is written,
//! and so wakes for every single packet.

mod ring;

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;

use ring::{Ring, may_pass};

/// A packet in its parts.
pub(crate) type Packet<'a> = &'a [IoSlice<'a>];
/// What became of a packet.
type Written = Result<(), Errno>;

/// The most packets of one call; other programs wait for the processor meanwhile.
const AT_ONCE: u32 = 64;
/// Writes of up to [`AT_ONCE`] packets before a ring is asked for again that could not be had for the moment.
const PATIENCE: u32 = 1000;

/// Where packets go.
pub(crate) trait Device: Send + 'static {
    /// Hands over packets in order; returns how many were not taken, and are lost.
    ///
    /// # Errors
    /// The device is gone.
    fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64>;
}

/// Why each packet is a call of its own, if it is; a clone tells of the same way in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Obstacle(Arc<AtomicI32>);

impl Obstacle {
    /// What the kernel said; `None` while many packets are one call.
    pub(crate) fn get(&self) -> Option<Errno> {
        let number = Some(self.0.load(Ordering::Relaxed)).filter(|number| *number != 0);
        number.map(Errno::from_raw_os_error)
    }

    fn set(&self, why: Option<Errno>) {
        self.0.store(why.map_or(0, Errno::raw_os_error), Ordering::Relaxed);
    }
}

/// What writes packets to a device that somebody else reads.
pub(crate) struct Entrance {
    device: OwnedFd,
    /// Without it each packet is a call.
    ring: Option<Ring>,
    /// What makes one.
    open: Box<dyn FnMut() -> Result<Ring, Errno> + Send>,
    /// Writes until another one is asked for; `None` never.
    patience: Option<u32>,
    obstacle: Obstacle,
    /// What became of packets.
    written: Vec<Option<Written>>,
}

impl Entrance {
    /// A way into a device that does not block.
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

    /// Why each packet is a call of its own, now and later.
    pub(crate) fn obstacle(&self) -> Obstacle {
        self.obstacle.clone()
    }

    /// Makes a ring where there is none and it is time.
    fn seek_ring(&mut self) {
        match &mut self.patience {
            Some(0) if self.ring.is_none() => {}
            Some(left) => return *left = left.saturating_sub(1),
            None => return,
        }
        let made = (self.open)();
        self.settle(made);
    }

    /// Keeps a ring, or what stands against one: an old kernel has none, a host or a container may forbid it, the
    /// device may not be written so, and memory may be short for the moment.
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

/// Hands the kernel one packet.
pub(crate) fn write(device: BorrowedFd<'_>, packet: Packet<'_>) -> Result<(), Errno> {
    rustix::io::writev(device, packet).map(|_| ())
}

/// Whether the kernel took a packet; false where it has no room for it or cannot take it just now.
pub(crate) fn taken(written: Result<(), Errno>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        // The device is down, has no room, or the packet is none that it takes.
        Err(Errno::AGAIN | Errno::NOBUFS | Errno::IO | Errno::INVAL | Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
