//! Tests of writes with and without a ring, with sockets and with a scripted kernel.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

use super::ring::Kernel;
use super::*;

/// Returns a non-blocking device that keeps packet boundaries, and the other end, from which the test reads.
pub(crate) fn device() -> (OwnedFd, OwnedFd) {
    let flags = SocketFlags::NONBLOCK;
    socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
}

/// Returns an entrance without a ring, so every packet is a system call.
fn by_calls(device: OwnedFd) -> Entrance {
    Entrance::opened_by(device, || Err(Errno::NOSYS))
}

/// Returns an entrance with a ring and one without. If the kernel does not support rings, a note is written
/// to standard error directly, because the test harness captures normal output.
pub(crate) fn both(device: OwnedFd) -> Vec<Entrance> {
    let other = by_calls(device.try_clone().unwrap());
    let best = Entrance::new(device);
    if let Some(why) = best.obstacle.get() {
        let name = std::thread::current().name().unwrap_or_default().to_owned();
        let _ =
            writeln!(io::stderr(), "{name}: skipped with io_uring, which is not to be had: {why}");
        return vec![other];
    }
    vec![best, other]
}

/// Returns all packets that were written to a device.
pub(crate) fn all_of(read: &OwnedFd) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut room = vec![0; 1 << 17];
    // A length of 0 means that all writers have closed.
    while let Ok((length @ 1.., _)) = recv(read, &mut room[..], RecvFlags::empty()) {
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
        assert_eq!(entrance.obstacle.get().is_none(), had);
        assert!(all_of(&read) == packets);
    }
}

#[test]
fn packets_without_room_are_counted_and_do_not_block() {
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
fn a_device_without_rwf_nowait_is_written_packet_by_packet() {
    let full = File::options().write(true).open("/dev/full").unwrap();
    for mut entrance in both(full.into()) {
        let had = entrance.ring.is_some();
        let error = entrance.put(&[&[IoSlice::new(b"packet")]]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::NOSPC.raw_os_error()));
        assert!(entrance.ring.is_none());
        assert_eq!(entrance.patience, None, "it will not pass");
        let why = if had { Errno::OPNOTSUPP } else { Errno::NOSYS };
        assert_eq!(entrance.obstacle.get(), Some(why));
    }
}

#[test]
fn a_write_to_a_closed_device_returns_an_error() {
    let (written, read) = device();
    drop(read);
    for mut entrance in both(written) {
        let error = entrance.put(&[&[IoSlice::new(b"packet")]]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::PIPE.raw_os_error()));
    }
}

/// The behaviour of the scripted kernel in one system call.
#[derive(Clone, Copy)]
enum Does {
    /// Writes this number of packets. Reports the last packet first.
    Write(usize),
    /// Reports an error for this number of packets.
    Refuse(usize, Errno),
    /// Starts this number of writes and never reports their results.
    Swallow(usize),
    Fail(Errno),
}

/// A kernel that follows a script. After the script, it writes every packet.
struct Scripted {
    script: Arc<Mutex<VecDeque<Does>>>,
    added: VecDeque<(u64, OwnedFd, Vec<u8>)>,
    answers: Vec<(u64, Written)>,
}

impl Kernel for Scripted {
    fn add(&mut self, number: u64, device: BorrowedFd<'_>, packet: Packet<'_>) -> Written {
        let bytes = packet.iter().flat_map(|part| part.iter().copied()).collect();
        self.added.push_back((number, device.try_clone_to_owned().unwrap(), bytes));
        Ok(())
    }

    fn enter(&mut self, answers: usize) -> Written {
        assert!(answers > 0, "there is something to be answered");
        let does = self.script.lock().unwrap().pop_front().unwrap_or(Does::Write(usize::MAX));
        let (Does::Write(count) | Does::Refuse(count, _) | Does::Swallow(count)) = does else {
            let Does::Fail(error) = does else { unreachable!() };
            return Err(error);
        };
        let begun: Vec<_> = self.added.drain(..count.min(self.added.len())).collect();
        let carry_out = |(number, device, bytes): (u64, OwnedFd, Vec<u8>)| {
            let answer = match does {
                Does::Write(_) => write(device.as_fd(), &[IoSlice::new(&bytes)]),
                Does::Refuse(_, error) => Err(error),
                _ => return None,
            };
            Some((number, answer))
        };
        self.answers.extend(begun.into_iter().filter_map(carry_out));
        Ok(())
    }

    fn waiting(&mut self) -> usize {
        self.added.len()
    }

    fn answer(&mut self) -> Option<(u64, Written)> {
        self.answers.pop()
    }
}

/// Writes ten packets through a scripted kernel. Returns the packets that arrived, the number of refused
/// packets, the error that prevents rings, and the number of rings created.
fn scripted(script: impl IntoIterator<Item = Does>) -> (Vec<u8>, u64, Option<Errno>, u32) {
    let (written, read) = device();
    let script = Arc::new(Mutex::new(script.into_iter().collect::<VecDeque<_>>()));
    let rings = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&rings);
    let mut entrance = Entrance::opened_by(written, move || {
        *counted.lock().unwrap() += 1;
        let script = Arc::clone(&script);
        Ok(Ring(Box::new(Scripted { script, added: VecDeque::new(), answers: Vec::new() })))
    });
    let bytes: Vec<_> = (0..10).map(|at| [at]).collect();
    let parts: Vec<_> = bytes.iter().map(|byte| [IoSlice::new(byte)]).collect();
    let packets: Vec<_> = parts.iter().map(|packet| &packet[..]).collect();
    let refused = entrance.put(&packets).unwrap();
    let arrived = all_of(&read).into_iter().map(|packet| packet[0]).collect();
    let rings = *rings.lock().unwrap();
    (arrived, refused, entrance.obstacle.get(), rings)
}

#[test]
fn temporary_errors_are_retried() {
    let ten: Vec<u8> = (0..10).collect();
    for error in [Errno::INTR, Errno::AGAIN, Errno::NOMEM, Errno::BUSY] {
        let found = scripted([Does::Fail(error), Does::Write(4), Does::Fail(error)]);
        assert_eq!(found, (ten.clone(), 0, None, 1), "{error}");
    }
}

#[test]
fn every_packet_is_written_once_whenever_the_ring_fails() {
    let ten: Vec<u8> = (0..10).collect();
    for written in 0..10 {
        // The first `written` packets are complete, and the others were not started.
        let found = scripted([Does::Write(written), Does::Fail(Errno::BADF)]);
        assert_eq!(found, (ten.clone(), 0, Some(Errno::BADF), 1), "{written}");
    }
    // The three packets whose writes were started may have been written, so these writes are not repeated.
    let found = scripted([Does::Write(2), Does::Swallow(3), Does::Fail(Errno::BADF)]);
    assert_eq!(found, (vec![0, 1, 5, 6, 7, 8, 9], 3, Some(Errno::BADF), 1));
}

#[test]
fn only_packets_that_the_ring_cannot_write_are_repeated() {
    let found = scripted([Does::Write(3), Does::Refuse(2, Errno::OPNOTSUPP)]);
    assert_eq!(found, (vec![0, 1, 2, 5, 6, 7, 8, 9, 3, 4], 0, Some(Errno::OPNOTSUPP), 1));
    // A packet that the device does not accept is lost. The ring stays in use.
    let found = scripted([Does::Write(3), Does::Refuse(2, Errno::NOBUFS)]);
    assert_eq!(found, (vec![0, 1, 2, 5, 6, 7, 8, 9], 2, None, 1));
}

#[test]
fn a_ring_is_created_again_after_a_temporary_failure_only() {
    let (written, read) = device();
    for (why, again) in [(Errno::NOMEM, true), (Errno::PERM, false)] {
        let script = Arc::new(Mutex::new(VecDeque::from([Does::Fail(why); 100])));
        let given = Arc::clone(&script);
        let mut entrance = Entrance::opened_by(written.try_clone().unwrap(), move || {
            let script = Arc::clone(&given);
            Ok(Ring(Box::new(Scripted { script, added: VecDeque::new(), answers: Vec::new() })))
        });
        let mut put = || {
            assert_eq!(entrance.put(&[&[IoSlice::new(b"packet")]]).unwrap(), 0);
            assert_eq!(all_of(&read), [b"packet"]);
            entrance.obstacle.get()
        };
        assert_eq!(put(), Some(why));
        assert!(script.lock().unwrap().len() < 100, "the ring was tried");
        script.lock().unwrap().clear();
        let first = (2..=2 * PATIENCE).find(|_| put().is_none());
        assert_eq!(first, again.then_some(PATIENCE + 2), "{why}");
    }
}
