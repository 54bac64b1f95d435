//! A thread that writes packets to the device, in order. Each write passes its packet through the host's
//! whole network stack to the client's socket before it returns. With a separate thread, the gateway can
//! continue in the meantime.
//!
//! The gateway's thread collects packets in a batch. The batch is passed to the writing thread when it is
//! full, or by [`Writer::flush`]. There are at most [`BATCHES`] batches. If the writing thread has all of
//! them, the gateway waits for an empty one. `writers.rs` runs several such threads.

use std::io::{self, IoSlice};
use std::mem::replace;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use bytes::Bytes;

use crate::entrance::Device;
use crate::tun::MOST;

/// The largest size of a batch in bytes. A longer packet has a separate batch.
const BATCH: usize = 384 << 10;
/// The largest number of batches per thread. Packets written at the same time often belong to one or two
/// subflows. With fewer batches, a thread would have nothing to write while the gateway waits for another
/// thread.
pub(super) const BATCHES: usize = 12;

/// A piece of payload below this length is copied, bytes.
const ALONE: usize = 256;
/// The largest number of parts of a write (`IOV_MAX`). The kernel refuses more.
const PARTS: usize = 1024;

// Each piece that is not copied has at most one copied part before it and one after it.
const _: () = assert!(2 * (MOST / ALONE) < PARTS);

/// A part of a packet.
#[derive(Debug)]
enum Part {
    /// Bytes of [`Batch::copied`] up to this index. They begin at the end of the previous `Copied` part.
    Copied(usize),
    /// A piece of payload, shared with the send queue of the endpoint.
    Shared(Bytes),
}

/// A sequence of packets.
#[derive(Debug, Default)]
struct Batch {
    /// The headers and the copied pieces of all packets.
    copied: Vec<u8>,
    parts: Vec<Part>,
    /// The index after the last part of each packet.
    ends: Vec<usize>,
    /// The total length of the packets, bytes.
    size: usize,
}

impl Batch {
    fn push<'a>(&mut self, head: &[&[u8]], payload: impl Iterator<Item = &'a Bytes>) {
        for part in head {
            self.copied.extend_from_slice(part);
        }
        self.parts.push(Part::Copied(self.copied.len()));
        for piece in payload {
            if piece.len() >= ALONE {
                self.parts.push(Part::Shared(piece.clone()));
            } else if !piece.is_empty() {
                self.copied.extend_from_slice(piece);
                match self.parts.last_mut() {
                    Some(Part::Copied(end)) => *end = self.copied.len(),
                    _ => self.parts.push(Part::Copied(self.copied.len())),
                }
            }
        }
        self.ends.push(self.parts.len());
    }

    fn has_room(&self, length: usize) -> bool {
        self.ends.is_empty() || self.size + length <= BATCH
    }

    /// Writes the packets in order, and counts those that the device did not accept. Clears the batch.
    fn write(&mut self, device: &mut impl Device, refused: &AtomicU64) -> io::Result<()> {
        let mut before = 0;
        let parts = self.parts.iter().map(|part| match part {
            Part::Copied(end) => IoSlice::new(&self.copied[replace(&mut before, *end)..*end]),
            Part::Shared(piece) => IoSlice::new(piece),
        });
        let parts: Vec<_> = parts.collect();
        let mut before = 0;
        let packets = self.ends.iter().map(|end| &parts[replace(&mut before, *end)..*end]);
        let packets: Vec<_> = packets.collect();
        refused.fetch_add(device.put(&packets)?, Ordering::Relaxed);
        self.copied.clear();
        self.parts.clear();
        self.ends.clear();
        self.size = 0;
        Ok(())
    }
}

/// The gateway's side of a writing thread.
pub(super) struct Writer {
    /// The batch that is being filled.
    batch: Option<Batch>,
    /// The number of batches that exist, including `batch`.
    made: usize,
    /// The largest number of batches.
    most: usize,
    /// The queue of batches to write. `None` if the thread must end.
    full: Option<Sender<Batch>>,
    /// The queue of empty batches.
    empty: Receiver<Batch>,
    /// The thread. It ends with the first write that fails.
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Writer {
    /// Starts a thread that writes to a device. It has at most `most` batches. Packets that the device did
    /// not accept are added to `refused`.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    pub(super) fn start(
        mut device: impl Device,
        most: usize,
        refused: Arc<AtomicU64>,
    ) -> io::Result<Self> {
        let (full, to_write) = channel::<Batch>();
        let (written, empty) = channel();
        let thread = Builder::new().name("device".into()).spawn(move || {
            for mut batch in to_write {
                batch.write(&mut device, &refused)?;
                // Sending fails only if the writer was dropped.
                let _ = written.send(batch);
            }
            Ok(())
        })?;
        let (full, thread) = (Some(full), Some(thread));
        Ok(Self { batch: None, made: 0, most, full, empty, thread })
    }

    /// Adds a packet, after all earlier ones. It is written when the batch is full or [`Self::flush`] is
    /// called. The parts of its head are copied. Waits if the thread has all batches.
    ///
    /// # Errors
    /// Returns an error if an earlier write failed because the device is gone.
    pub(super) fn push<'a>(
        &mut self,
        head: &[&[u8]],
        payload: impl IntoIterator<Item = &'a Bytes> + Clone,
    ) -> io::Result<()> {
        let pieces = payload.clone().into_iter().map(Bytes::len);
        let length = head.iter().map(|part| part.len()).chain(pieces).sum::<usize>();
        if self.batch.as_ref().is_some_and(|batch| !batch.has_room(length)) {
            self.flush()?;
        }
        let mut batch = match self.batch.take() {
            Some(batch) => batch,
            None => self.next_batch()?,
        };
        batch.push(head, payload.into_iter());
        batch.size += length;
        self.batch = Some(batch);
        Ok(())
    }

    /// Passes the current batch to the thread. Does not wait.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::push`].
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let sent = match (self.batch.take(), &self.full) {
            (None, _) => return self.fault(),
            (Some(batch), Some(full)) => full.send(batch).is_ok(),
            (Some(_), None) => false,
        };
        if sent { Ok(()) } else { self.end() }
    }

    /// Returns an empty batch. Waits if all batches are in use.
    fn next_batch(&mut self) -> io::Result<Batch> {
        if let Ok(batch) = self.empty.try_recv() {
            return Ok(batch);
        }
        if self.made < self.most {
            self.made += 1;
            return Ok(Batch::default());
        }
        match self.empty.recv() {
            Ok(batch) => Ok(batch),
            // The thread has ended because a write failed.
            Err(_) => self.end().and(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Returns the error that ended the thread, if it has ended.
    fn fault(&mut self) -> io::Result<()> {
        match &self.thread {
            Some(thread) if !thread.is_finished() => Ok(()),
            _ => self.end(),
        }
    }

    /// Closes the queue and waits until the thread has written all batches. Returns the thread's result.
    fn end(&mut self) -> io::Result<()> {
        self.full = None;
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panicked)) => resume_unwind(panicked),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Drop for Writer {
    /// Writes all remaining packets.
    fn drop(&mut self) {
        if self.thread.is_some() {
            // The error that the device is gone cannot be returned from here.
            let _ = self.flush().and_then(|()| self.end());
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::SyncSender;

    use rustix::io::Errno;

    use crate::entrance::{self, Packet};

    use super::*;

    /// The packets that were written to a device.
    pub(crate) type Given = Arc<Mutex<Vec<Vec<u8>>>>;

    /// A device that accepts every packet.
    struct Open(Given);

    impl Device for Open {
        fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64> {
            self.0.lock().unwrap().extend(packets.iter().map(whole_of));
            Ok(0)
        }
    }

    /// A device that waits for the result of each packet: accepted, refused, or an error.
    pub(crate) struct Gated(Given, Receiver<io::Result<bool>>);

    impl Device for Gated {
        fn put(&mut self, packets: &[Packet<'_>]) -> io::Result<u64> {
            let mut refused = 0;
            for packet in packets {
                if self.1.recv().expect("the test sends a result")? {
                    self.0.lock().unwrap().push(whole_of(packet));
                } else {
                    refused += 1;
                }
            }
            Ok(refused)
        }
    }

    fn whole_of(packet: &Packet<'_>) -> Vec<u8> {
        packet.iter().flat_map(|part| part.iter().copied()).collect()
    }

    /// Returns a device, the list of its packets, and the sender of its results.
    pub(crate) fn gated_device() -> (Gated, Given, Sender<io::Result<bool>>) {
        let (given, (gate, decided)) = (Given::default(), channel());
        (Gated(Arc::clone(&given), decided), given, gate)
    }

    /// Returns a writer, the list of written packets, the sender of results, and the number of refused
    /// packets.
    fn gated() -> (Writer, Given, Sender<io::Result<bool>>, Arc<AtomicU64>) {
        let (device, given, gate) = gated_device();
        let refused = Arc::default();
        let writer = Writer::start(device, BATCHES, Arc::clone(&refused)).unwrap();
        (writer, given, gate, refused)
    }

    /// Pushes a packet in four parts.
    fn put(writer: &mut Writer, packet: &[u8]) -> io::Result<()> {
        let (head, payload) = packet.split_at(packet.len() / 2);
        let (first, second) = head.split_at(head.len() / 2);
        let (third, fourth) = payload.split_at(payload.len() / 3);
        writer.push(&[first, second], &[third, fourth].map(Bytes::copy_from_slice))
    }

    /// Returns a packet that fills a batch.
    fn whole(mark: u8) -> Vec<u8> {
        vec![mark; BATCH]
    }

    #[test]
    fn a_dropped_writer_has_written_everything_in_order() {
        let given = Given::default();
        let mut writer = Writer::start(Open(Arc::clone(&given)), BATCHES, Arc::default()).unwrap();
        // The packets fill several batches. Some of them are followed by a flush, some flushes are empty, and
        // no flush follows the last packet.
        let packets: Vec<_> =
            (0..2000_usize).map(|at| vec![at as u8; 40 + at * 7 % 1461]).collect();
        for (at, packet) in packets.iter().enumerate() {
            put(&mut writer, packet).unwrap();
            if at > 1000 && at % 64 == 0 {
                writer.flush().unwrap();
                writer.flush().unwrap();
            }
        }
        drop(writer);
        assert!(*given.lock().unwrap() == packets);
    }

    #[test]
    fn a_packet_with_more_pieces_than_iov_max_is_written() {
        let (written, read) = entrance::tests::device();
        let short: Vec<Bytes> = (0..1100_u32).map(|at| vec![at as u8; 50].into()).collect();
        // The largest number of parts: one copied piece between any two shared ones.
        let by_turns = (0..MOST / (ALONE + 1)).flat_map(|at| {
            let piece = |length| Bytes::from(vec![at as u8; length]);
            [piece(1), piece(ALONE)]
        });
        let by_turns: Vec<Bytes> = by_turns.collect();
        assert!(by_turns.len() > 500, "{}", by_turns.len());
        for entrance in entrance::tests::both(written) {
            let refused = Arc::<AtomicU64>::default();
            let mut writer = Writer::start(entrance, BATCHES, Arc::clone(&refused)).unwrap();
            for pieces in [&short, &by_turns] {
                writer.push(&[b"he", b"ad"], pieces).unwrap();
            }
            writer.flush().unwrap();
            writer.end().unwrap();
            assert_eq!(refused.load(Ordering::Relaxed), 0);
            let whole = |pieces: &[Bytes]| [b"head", &pieces.concat()[..]].concat();
            assert!(entrance::tests::all_of(&read) == [whole(&short), whole(&by_turns)]);
        }
    }

    #[test]
    fn a_long_piece_is_not_copied_and_short_ones_are_one_part() {
        let long = Bytes::from(vec![7; ALONE]);
        let short = Bytes::from_static(b"short");
        let mut batch = Batch::default();
        batch.push(&[b"head"], [&short, &long, &Bytes::new(), &short, &short].into_iter());
        batch.push(&[b"next"], [&short].into_iter());
        let [Part::Copied(9), Part::Shared(piece), Part::Copied(19), Part::Copied(28)] =
            &batch.parts[..]
        else {
            panic!("{:?}", batch.parts)
        };
        assert_eq!(piece.as_ptr(), long.as_ptr());
        assert_eq!(
            (&batch.copied[..], &batch.ends[..]),
            (&b"headshortshortshortnextshort"[..], &[3, 4][..])
        );
    }

    #[test]
    fn a_packet_longer_than_a_batch_has_one_to_itself() {
        let given = Given::default();
        let mut writer = Writer::start(Open(Arc::clone(&given)), BATCHES, Arc::default()).unwrap();
        let packets = [vec![1; 40], vec![2; BATCH + 1], vec![3; 40]];
        for packet in &packets {
            put(&mut writer, packet).unwrap();
        }
        drop(writer);
        assert!(*given.lock().unwrap() == packets);
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the real world has threads")]
    fn a_flush_does_not_wait_and_a_push_waits_for_a_free_batch() {
        let (mut writer, given, gate, _) = gated();
        for mark in 0..BATCHES as u8 {
            put(&mut writer, &whole(mark)).unwrap();
        }
        writer.flush().unwrap();
        assert_eq!((writer.made, given.lock().unwrap().len()), (BATCHES, 0));
        let (wants, wanted): (SyncSender<()>, _) = std::sync::mpsc::sync_channel(0);
        let opener = Builder::new().spawn(move || {
            wanted.recv().unwrap();
            for _ in 0..=BATCHES {
                gate.send(Ok(true)).unwrap();
            }
        });
        wants.send(()).unwrap();
        put(&mut writer, &whole(99)).unwrap();
        assert!(!given.lock().unwrap().is_empty(), "it has waited for a batch that was written");
        assert_eq!(writer.made, BATCHES);
        drop(writer);
        opener.unwrap().join().unwrap();
        let marks: Vec<_> = given.lock().unwrap().iter().map(|packet| packet[0]).collect();
        assert!(marks.into_iter().eq((0..BATCHES as u8).chain([99])));
    }

    #[test]
    fn refused_packets_are_counted_and_later_ones_are_written() {
        let (mut writer, given, gate, refused) = gated();
        for (mark, taken) in [true, false, false, true].into_iter().enumerate() {
            put(&mut writer, &[mark as u8]).unwrap();
            gate.send(Ok(taken)).unwrap();
        }
        writer.flush().unwrap();
        writer.end().unwrap();
        assert_eq!(
            (refused.load(Ordering::Relaxed), &**given.lock().unwrap()),
            (2, &[vec![0], vec![3]][..])
        );
    }

    #[test]
    fn an_empty_flush_reports_that_the_device_is_gone() {
        let (mut writer, given, gate, _) = gated();
        for mark in 0..3 {
            put(&mut writer, &[mark]).unwrap();
        }
        writer.flush().unwrap();
        gate.send(Ok(true)).unwrap();
        gate.send(Err(Errno::BADFD.into())).unwrap();
        let error = loop {
            if let Err(error) = writer.flush() {
                break error;
            }
            std::thread::yield_now();
        };
        assert_eq!(error.raw_os_error(), Some(Errno::BADFD.raw_os_error()));
        assert_eq!(**given.lock().unwrap(), [vec![0]], "nothing is written behind it");
        assert!(put(&mut writer, &[3]).and_then(|()| writer.flush()).is_err());
    }

    #[test]
    fn a_push_that_waits_reports_that_the_device_is_gone() {
        let (mut writer, _, gate, _) = gated();
        for mark in 0..BATCHES as u8 {
            put(&mut writer, &whole(mark)).unwrap();
        }
        gate.send(Err(Errno::BADFD.into())).unwrap();
        let error = put(&mut writer, &whole(9)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADFD.raw_os_error()));
    }
}
