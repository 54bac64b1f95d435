//! Many packets by one system call (`io_uring`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use io_uring::types::Fd;
use io_uring::{IoUring, opcode};
use rustix::io::{Errno, ReadWriteFlags};

use super::{AT_ONCE, Packet, Written};

/// The most tries of a call that brings nothing.
const TRIES: u32 = 16;

/// What carries writes out.
pub(super) trait Kernel: Send {
    /// Puts a packet where [`Self::enter`] finds it. What it names has to outlive its answer or this value.
    ///
    /// # Errors
    /// There is no room.
    fn add(&mut self, number: u64, device: BorrowedFd<'_>, packet: Packet<'_>)
    -> Result<(), Errno>;

    /// Carries out what was added, in order, until so many have been answered. There may be answers on an error, too.
    ///
    /// # Errors
    /// It did not come to that.
    fn enter(&mut self, answers: usize) -> Result<(), Errno>;

    /// Those of what was added that have not been begun: the last ones.
    fn waiting(&mut self) -> usize;

    /// The next answer: to which packet, and what became of it.
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
            // Written within the call, and in order, or not at all.
            .rw_flags(ReadWriteFlags::NOWAIT.bits() as i32)
            .build()
            .user_data(number);
        #[expect(unsafe_code, reason = "the kernel is told by pointers what to write")]
        // SAFETY: an `IoSlice` is an `iovec`. What it names outlives `Ring::write`, the only caller, and nothing of it
        // is looked at afterwards: either every entry has been answered, or the ring is gone with those that were not
        // begun, and by `RWF_NOWAIT` none is left half done.
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

/// The number of an error of the system's.
fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::NOSYS)
}

/// Whether the next call may do what this one did not.
pub(super) fn may_pass(error: Errno) -> bool {
    matches!(error, Errno::INTR | Errno::AGAIN | Errno::NOMEM | Errno::BUSY)
}

/// Calls for the kernel to carry out one after the other, and what became of them.
pub(super) struct Ring(pub(super) Box<dyn Kernel>);

impl Ring {
    /// # Errors
    /// The kernel has none, permits none, or has no memory for one.
    pub(super) fn new() -> Result<Self, Errno> {
        let ring = IoUring::new(AT_ONCE).map_err(|error| errno(&error))?;
        Ok(Self(Box::new(ring)))
    }

    /// Writes up to [`AT_ONCE`] packets by one call, and says of each what became of it; on an error `None` of those
    /// that are still to be written.
    ///
    /// # Errors
    /// The kernel cannot write them so. A call that may pass was repeated.
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
        // This kernel's devices may wait: then they do not know how to be asked not to.
        let cannot = Some(Err(Errno::OPNOTSUPP));
        if written.contains(&cannot) {
            written.iter_mut().filter(|it| **it == cannot).for_each(|it| *it = None);
            return Err(Errno::OPNOTSUPP);
        }
        ended.map(|()| self)
    }

    /// Has everything carried out that was added.
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
                    // What was begun is not written again: nobody knows how far it came.
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
