//! Writes many packets by one system call (`io_uring`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::{Errno, ReadWriteFlags};

use super::{AT_ONCE, Packet, Written};

/// The largest number of consecutive calls that complete no write.
const TRIES: u32 = 16;

/// The kernel's side of a ring. Tests replace it.
pub(super) trait Kernel: Send {
    /// Adds a write of a packet, which [`Self::enter`] starts. The memory of the packet must stay valid until
    /// the write is complete or `self` is dropped.
    ///
    /// # Errors
    /// Returns an error if the queue is full.
    fn add(&mut self, number: u64, device: BorrowedFd<'_>, packet: Packet<'_>)
    -> Result<(), Errno>;

    /// Starts the added writes in order, and waits until `answers` writes are complete. Some writes may be
    /// complete even if the call fails.
    ///
    /// # Errors
    /// Returns the error of the system call.
    fn enter(&mut self, answers: usize) -> Result<(), Errno>;

    /// Returns the number of added writes that were not started. These are the last ones.
    fn waiting(&mut self) -> usize;

    /// Returns the number and the result of the next completed write.
    fn answer(&mut self) -> Option<(u64, Result<(), Errno>)>;
}

impl Kernel for IoUring {
    fn add(
        &mut self,
        number: u64,
        device: BorrowedFd<'_>,
        packet: Packet<'_>,
    ) -> Result<(), Errno> {
        let (parts, count) = (packet.as_ptr().cast(), packet.len() as u32);
        let entry = opcode::Writev::new(Fd(device.as_raw_fd()), parts, count)
            // RWF_NOWAIT: the write completes or fails within the call, so packets stay in order.
            .rw_flags(ReadWriteFlags::NOWAIT.bits() as i32)
            .build()
            .user_data(number);
        #[expect(unsafe_code, reason = "the kernel gets pointers to the data")]
        // SAFETY: an `IoSlice` is an `iovec`. Its memory outlives `Ring::write`, which is the only caller.
        // The kernel does not read the memory after that: every entry is complete, or the ring is dropped
        // together with the entries that were not started. With `RWF_NOWAIT`, no started write
        // is continued later.
        let added = unsafe { self.submission().push(&entry) };
        added.map_err(|_| Errno::NOBUFS)
    }

    fn enter(&mut self, answers: usize) -> Result<(), Errno> {
        self.submit_and_wait(answers).map(|_| ()).map_err(|error| errno(&error))
    }

    fn waiting(&mut self) -> usize {
        self.submission().len()
    }

    fn answer(&mut self) -> Option<(u64, Result<(), Errno>)> {
        let answer = self.completion().next()?;
        let failed = Some(answer.result()).filter(|result| *result < 0);
        let result = failed.map_or(Ok(()), |code| Err(Errno::from_raw_os_error(-code)));
        Some((answer.user_data(), result))
    }
}

/// Returns the errno of an I/O error. ENOSYS if the error has no errno.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::NOSYS)
}

/// Returns whether an error may be temporary, so that the next call may succeed.
pub(super) fn may_pass(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::AGAIN | Errno::NOMEM | Errno::BUSY)
}

/// A ring of writes. The kernel performs them one after the other.
pub(super) struct Ring(pub(super) Box<dyn Kernel>);

impl Ring {
    /// Creates a ring for [`AT_ONCE`] packets.
    ///
    /// # Errors
    /// Returns an error if the kernel does not support or permit rings, or has no memory for one.
    pub(super) fn new() -> Result<Self, Errno> {
        let ring = IoUring::new(AT_ONCE).map_err(|error| errno(&error))?;
        Ok(Self(Box::new(ring)))
    }

    /// Writes up to [`AT_ONCE`] packets by one system call, and sets the result of each packet in `written`.
    /// If the ring fails, packets whose result is `None` were not written. A call that fails with a temporary
    /// error is repeated.
    ///
    /// # Errors
    /// Returns an error if the ring cannot be used again.
    pub(super) fn write(
        mut self,
        device: BorrowedFd<'_>,
        packets: &[Packet<'_>],
        written: &mut [Option<Written>],
    ) -> Result<Self, Errno> {
        for (number, packet) in (0..).zip(packets) {
            self.0.add(number, device, packet)?;
        }
        let ended = self.carry_out(written);
        // Older kernels do not support RWF_NOWAIT for this device and return EOPNOTSUPP.
        let cannot = Some(Err(Errno::OPNOTSUPP));
        if written.contains(&cannot) {
            written.iter_mut().filter(|it| **it == cannot).for_each(|it| *it = None);
            return Err(Errno::OPNOTSUPP);
        }
        ended.map(|()| self)
    }

    /// Repeats the system call until all added writes are complete.
    fn carry_out(&mut self, written: &mut [Option<Written>]) -> Result<(), Errno> {
        let (mut left, mut tries) = (written.len(), 0);
        while left > 0 {
            let entered = self.0.enter(left);
            let before = left;
            while let Some((number, result)) = self.0.answer() {
                written[number as usize] = Some(result);
                left -= 1;
            }
            tries = if left < before { 0 } else { tries + 1 };
            match entered {
                Ok(()) if tries < TRIES => {}
                Err(error) if may_pass(error) && tries < TRIES => std::thread::yield_now(),
                _ if left == 0 => {}
                fault => {
                    // A write that was started is not repeated, because the packet may have been written.
                    let begun = written.len() - self.0.waiting();
                    written[..begun].iter_mut().for_each(|it| {
                        it.get_or_insert(Err(Errno::AGAIN));
                    });
                    return Err(fault.err().unwrap_or(Errno::AGAIN));
                }
            }
        }
        Ok(())
    }
}
