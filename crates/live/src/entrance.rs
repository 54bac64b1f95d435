//! A way into a TUN device for who only writes: many packets by one system call (`io_uring`), where the kernel lets us.
//!
//! Where each packet is a call of its own, whoever receives it on the same core runs before the next one is written,
//! and so wakes for every single packet.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::{Errno, ReadWriteFlags};

/// A packet in its parts.
pub(crate) type Packet<'a> = &'a [IoSlice<'a>];

/// The most packets that one call writes: others wait for the core as long.
const AT_ONCE: u32 = 64;

/// Where packets go.
pub(crate) trait Device: Send + 'static {
    /// Hands over packets in order; returns how many were not taken, and are lost.
    ///
    /// # Errors
    /// The device is gone.
    fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64>;
}

/// What writes packets to a device that somebody else reads.
pub(crate) struct Entrance {
    device: OwnedFd,
    /// Without it each packet is a call.
    ring: Option<Ring>,
    /// What became of packets.
    written: Vec<Result<(), Errno>>,
}

impl Entrance {
    /// A way into a device that does not block.
    pub(crate) fn new(device: OwnedFd) -> Self {
        // A host or a container may forbid it, and an old kernel has none.
        Self { device, ring: Ring::new().ok(), written: Vec::new() }
    }
}

impl Device for Entrance {
    fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64> {
        let mut refused = 0;
        for some in packets.chunks(AT_ONCE as usize) {
            let device = self.device.as_fd();
            let ring = self.ring.take();
            self.ring = ring.and_then(|ring| ring.write(device, some, &mut self.written).ok());
            if self.ring.is_none() {
                self.written.clear();
                self.written.extend(some.iter().map(|packet| write(device, packet)));
            }
            for written in self.written.drain(..) {
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

/// Calls for the kernel to carry out one after the other, and what became of them.
struct Ring(IoUring);

impl Ring {
    fn new() -> io::Result<Self> {
        IoUring::new(AT_ONCE).map(Self)
    }

    /// Writes up to [`AT_ONCE`] packets by one call, and says of each what became of it.
    ///
    /// # Errors
    /// The kernel cannot write them so.
    fn write(
        mut self,
        device: BorrowedFd<'_>,
        packets: &[Packet<'_>],
        written: &mut Vec<Result<(), Errno>>,
    ) -> io::Result<Self> {
        for packet in packets {
            let parts = (packet.as_ptr().cast(), packet.len() as u32);
            let entry = opcode::Writev::new(Fd(device.as_raw_fd()), parts.0, parts.1)
                // Written within the call, and in order, or not at all.
                .rw_flags(ReadWriteFlags::NOWAIT.bits() as i32)
                .build();
            #[expect(unsafe_code, reason = "the kernel is told by pointers what to write")]
            // SAFETY: an `IoSlice` is an `iovec`. What it names outlives this call, and nothing of it is looked at
            // afterwards: either every entry has been answered, or the ring is gone with those that were not begun,
            // and by `RWF_NOWAIT` none is left half done.
            let pushed = unsafe { self.0.submission().push(&entry) };
            pushed.map_err(|_| Errno::NOBUFS)?;
        }
        while written.len() < packets.len() {
            match self.0.submit_and_wait(packets.len() - written.len()) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            for answer in self.0.completion() {
                let failed = Some(answer.result()).filter(|result| *result < 0);
                written.push(failed.map_or(Ok(()), |code| Err(Errno::from_raw_os_error(-code))));
            }
        }
        // This kernel's devices may wait: then they do not know how to be asked not to.
        if written.contains(&Err(Errno::OPNOTSUPP)) {
            return Err(Errno::OPNOTSUPP.into());
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

    use super::*;

    /// A device that keeps packets apart and does not block, and what is read of it.
    fn device() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::NONBLOCK;
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
    }

    /// The two ways of writing: the kernel's best, and a call for each packet.
    fn both(device: OwnedFd) -> [Entrance; 2] {
        let other = Entrance::new(device.try_clone().unwrap());
        [Entrance::new(device), Entrance { ring: None, ..other }]
    }

    fn all_of(read: &OwnedFd) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut room = [0; 100];
        while let Ok((length, _)) = recv(read, &mut room, RecvFlags::empty()) {
            found.push(room[..length].to_vec());
        }
        found
    }

    #[test]
    fn packets_arrive_whole_and_in_order_either_way() {
        let (written, read) = device();
        let packets: Vec<_> = (0..150).map(|at| vec![at; 1 + usize::from(at) % 40]).collect();
        let cut = |packet| <[u8]>::chunks(packet, 13).map(IoSlice::new).collect::<Vec<_>>();
        let cut: Vec<_> = packets.iter().map(|packet| cut(packet)).collect();
        let parts: Vec<_> = cut.iter().map(|packet| &packet[..]).collect();
        for mut entrance in both(written) {
            let had = entrance.ring.is_some();
            assert_eq!(entrance.put(&parts).unwrap(), 0);
            assert_eq!(entrance.ring.is_some(), had, "a socket may be written so");
            assert!(all_of(&read) == packets);
        }
    }

    #[test]
    fn what_there_is_no_room_for_is_counted_and_not_waited_for() {
        let (written, read) = device();
        let packet = [IoSlice::new(b"packet")];
        for mut entrance in both(written) {
            let refused = entrance.put(&vec![&packet[..]; 5000]).unwrap();
            let arrived = all_of(&read).len() as u64;
            assert!(refused > 0 && arrived > 0, "{refused} refused, {arrived} arrived");
            assert_eq!(refused + arrived, 5000);
        }
    }

    #[test]
    fn a_device_that_cannot_be_asked_not_to_wait_is_written_to_packet_by_packet() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        for mut entrance in both(full.into()) {
            let error = entrance.put(&[&[IoSlice::new(b"packet")]]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
            assert!(entrance.ring.is_none());
        }
    }

    #[test]
    fn a_device_that_is_gone_is_told_of() {
        let (written, read) = device();
        drop(read);
        for mut entrance in both(written) {
            let error = entrance.put(&[&[IoSlice::new(b"packet")]]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(Errno::PIPE.raw_os_error()));
        }
    }
}
