//! A TUN device, which exchanges IP packets with a kernel.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::entrance::{Entrance, taken, write};
use crate::namespace::within_any;
use crate::offload::{HEADER, Offloaded};

/// The length of the longest packet, bytes.
pub(crate) const MOST: usize = 65_535;

/// A TUN device that existed before it was opened. Its creator sets the user who may open it. Opening needs
/// no other privilege.
pub struct Tun {
    device: SyncDevice,
    /// The number of packets that the kernel did not accept.
    refused: u64,
    /// Whether the device segments bursts, merges segments and computes checksums.
    offloads: bool,
}

/// A packet sent by a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The packet.
    pub bytes: &'a [u8],
    /// The offload header of the packet.
    pub(crate) offload: Offloaded,
}

impl Tun {
    /// Opens a device by name, in the given network namespace or the current one.
    ///
    /// # Errors
    /// Returns an error if the device does not exist, is in use by another program, or may not be opened by
    /// this process.
    pub fn open(name: &str, namespace: Option<&Path>) -> io::Result<Self> {
        Self::open_as(name, namespace, false)
    }

    /// Opens a device like [`Self::open`], with offload (`IFF_VNET_HDR`): it segments bursts, merges
    /// segments, and computes checksums.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::open`], and an error if the kernel does not support offload.
    pub fn open_offloading(name: &str, namespace: Option<&Path>) -> io::Result<Self> {
        Self::open_as(name, namespace, true)
    }

    fn open_as(name: &str, namespace: Option<&Path>, offloads: bool) -> io::Result<Self> {
        let open = || {
            // Checks that the device exists. With the necessary privilege, the call below would create a
            // missing device.
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            rustix::net::netdevice::name_to_index(&socket, name)?;
            DeviceBuilder::new().name(name).offload(offloads).inherit_enable_state().build_sync()
        };
        let device = within_any(namespace, open)?;
        device.set_nonblocking(true)?;
        Ok(Self { device, refused: 0, offloads })
    }

    /// Reads the next packet that the kernel sends. If the device offloads, the packet may consist of several
    /// merged segments. Returns `None` if there is no packet now.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Arrived<'a>>> {
        let mut header = [0; HEADER];
        let read = if self.offloads {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut *buffer)];
            rustix::io::readv(&self.device, &mut parts).map(|length| length.saturating_sub(HEADER))
        } else {
            rustix::io::read(&self.device, &mut *buffer)
        };
        match read {
            // If the device does not offload, the header is all zeros: a single segment whose checksum was
            // not verified.
            Ok(length) => {
                Ok(Some(Arrived { bytes: &buffer[..length], offload: Offloaded::parse(&header) }))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Passes a packet to the kernel. If the kernel is full or cannot accept it now, the packet is lost and
    /// counted.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let parts = [self.before_whole(), packet].map(IoSlice::new);
        let taken = taken(write(self.device.as_fd(), &parts))?;
        self.refused += u64::from(!taken);
        Ok(())
    }

    /// Returns the offload header of a single packet with a complete checksum. Empty if the device does not
    /// offload.
    pub(crate) fn before_whole(&self) -> &'static [u8] {
        if self.offloads { &[0; HEADER] } else { &[] }
    }

    /// Returns another writing end, for another thread. The offload header must precede each packet that is
    /// written to it.
    pub(crate) fn entrance(&self) -> io::Result<Entrance> {
        Ok(Entrance::new(self.device.as_fd().try_clone_to_owned()?))
    }

    /// Returns whether the device offloads.
    pub fn offloads(&self) -> bool {
        self.offloads
    }

    /// Returns the MTU, bytes.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub fn mtu(&self) -> io::Result<u16> {
        self.device.mtu()
    }

    /// Returns the length of the device's queue, which is the largest number of packets that wait to be read.
    ///
    /// # Errors
    /// Returns an error if the device is gone.
    pub(crate) fn queue(&self) -> io::Result<u32> {
        self.device.tx_queue_len()
    }

    /// Returns the number of packets that the kernel did not accept.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

impl AsFd for Tun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }
}
