//! A TUN device: IP packets from a kernel and to it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::namespace::within;

/// The largest packet of a device.
pub(crate) const MOST: usize = 65_535;

/// A device that was made before, by name; whoever made it says who may open it, and nothing else is needed.
pub struct Tun {
    device: SyncDevice,
    /// Packets that the kernel had no room for.
    refused: u64,
}

impl Tun {
    /// Opens a device, in a namespace of its own where one is named.
    ///
    /// # Errors
    /// There is no such device, another program has it, or it may not be opened.
    pub fn open(name: &str, namespace: Option<&Path>) -> io::Result<Self> {
        let open = || {
            // Without a device of that name opening it would make one, where that is permitted.
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            rustix::net::netdevice::name_to_index(&socket, name)?;
            DeviceBuilder::new().name(name).inherit_enable_state().build_sync()
        };
        let device = namespace.map_or_else(open, |namespace| within(namespace, open))?;
        device.set_nonblocking(true)?;
        Ok(Self { device, refused: 0 })
    }

    /// The next packet that the kernel sends, its length in `buffer`; `None` when there is none now.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(self.device.as_fd(), buffer) {
            Ok(length) => Ok(Some(length)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the kernel a packet. One that it has no room for, or cannot take just now, is lost and counted.
    ///
    /// # Errors
    /// The device is gone.
    pub fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        match rustix::io::write(self.device.as_fd(), packet) {
            Ok(_) => Ok(()),
            // The device is down, has no room, or the packet is none that it takes.
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::IO | Errno::INVAL | Errno::INTR) => {
                self.refused += 1;
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Its MTU, bytes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn mtu(&self) -> io::Result<u16> {
        self.device.mtu()
    }

    /// Packets that the kernel did not take.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
