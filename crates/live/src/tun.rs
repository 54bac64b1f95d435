//! A TUN device: IP packets from a kernel and to it.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};
use tun_rs::{DeviceBuilder, SyncDevice};

use crate::entrance::{Entrance, taken, write};
use crate::namespace::within_any;
use crate::offload::{HEADER, Offloaded};

/// The longest packet, bytes.
pub(crate) const MOST: usize = 65_535;

/// A device that was made before, by name; whoever made it says who may open it, and nothing else is needed.
pub struct Tun {
    device: SyncDevice,
    /// Packets that the kernel had no room for.
    refused: u64,
    /// It cuts bursts, merges segments and finishes checksums.
    offloads: bool,
}

/// A packet that a kernel sent.
#[derive(Clone, Copy, Debug)]
pub struct Arrived<'a> {
    /// The packet.
    pub bytes: &'a [u8],
    /// What was told of it.
    pub(crate) told: Offloaded,
}

impl Tun {
    /// Opens a device, in a namespace of its own where one is named.
    ///
    /// # Errors
    /// There is no such device, another program has it, or it may not be opened.
    pub fn open(name: &str, namespace: Option<&Path>) -> io::Result<Self> {
        Self::open_as(name, namespace, false)
    }

    /// As [`Self::open`], as a device that cuts bursts, merges segments and finishes checksums (`IFF_VNET_HDR`).
    ///
    /// # Errors
    /// As of [`Self::open`]; or the kernel's devices cannot.
    pub fn open_offloading(name: &str, namespace: Option<&Path>) -> io::Result<Self> {
        Self::open_as(name, namespace, true)
    }

    fn open_as(name: &str, namespace: Option<&Path>, offloads: bool) -> io::Result<Self> {
        let open = || {
            // Without a device of that name opening it would make one, where that is permitted.
            let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
            rustix::net::netdevice::name_to_index(&socket, name)?;
            DeviceBuilder::new().name(name).offload(offloads).inherit_enable_state().build_sync()
        };
        let device = within_any(namespace, open)?;
        device.set_nonblocking(true)?;
        Ok(Self { device, refused: 0, offloads })
    }

    /// The next packet that the kernel sends, or several segments as one where the device offloads; `None` when
    /// there is none now.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read<'a>(&self, buffer: &'a mut [u8]) -> io::Result<Option<Arrived<'a>>> {
        let mut header = [0; HEADER];
        let read = if self.offloads {
            let mut parts = [IoSliceMut::new(&mut header), IoSliceMut::new(&mut *buffer)];
            rustix::io::readv(&self.device, &mut parts).map(|length| length.saturating_sub(HEADER))
        } else {
            rustix::io::read(&self.device, &mut *buffer)
        };
        match read {
            // A header of zeros says nothing.
            Ok(length) => {
                Ok(Some(Arrived { bytes: &buffer[..length], told: Offloaded::parse(&header) }))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Hands the kernel a packet. What it has no room for, or cannot take just now, is lost and counted.
    ///
    /// # Errors
    /// The device is gone.
    pub fn write(&mut self, packet: &[u8]) -> io::Result<()> {
        let parts = [self.before_whole(), packet].map(IoSlice::new);
        let taken = taken(write(self.device.as_fd(), &parts))?;
        self.refused += u64::from(!taken);
        Ok(())
    }

    /// What stands before a packet with no checksum to finish and nothing to cut: nothing without offloads.
    pub(crate) fn before_whole(&self) -> &'static [u8] {
        if self.offloads { &[0; HEADER] } else { &[] }
    }

    /// A second way in, for another thread: what it writes has before it what the device wants to be told.
    pub(crate) fn entrance(&self) -> io::Result<Entrance> {
        Ok(Entrance::new(self.device.as_fd().try_clone_to_owned()?))
    }

    /// It cuts bursts.
    pub fn offloads(&self) -> bool {
        self.offloads
    }

    /// Its MTU, bytes.
    ///
    /// # Errors
    /// The device is gone.
    pub fn mtu(&self) -> io::Result<u16> {
        self.device.mtu()
    }

    /// The most packets that wait in it to be read.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn queue(&self) -> io::Result<u32> {
        self.device.tx_queue_len()
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
