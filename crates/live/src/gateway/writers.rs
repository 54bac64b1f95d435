//! Several threads that write to the device. Each thread writes the packets of some of the subflows, so that
//! packets of a subflow stay in order. A write includes the work of the host's network stack up to the
//! client's socket. The threads distribute this work over several processors.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_mptcp::FourTuple;
use bytes::Bytes;
use rustix::io::Errno;

use super::writer::{BATCHES, Writer};
use crate::entrance::{Device, Obstacle};
use crate::threads;
use crate::tun::Tun;

/// The length of the device's queue at which each thread gets [`BATCHES`] batches. With a shorter queue, a
/// thread gets fewer batches, but at least [`FEWEST`]. The clients' acknowledgements of all these packets
/// return through this queue, and are lost if it is full.
const QUEUE: usize = 2000;
const FEWEST: usize = 3;

/// The writing threads.
pub(super) struct Writers {
    each: Vec<Writer>,
    /// The error because of which every packet needs a system call, for each thread.
    obstacles: Vec<Obstacle>,
    /// The number of packets that the device did not accept.
    refused: Arc<AtomicU64>,
}

impl Writers {
    /// Starts one thread per processor, at most four.
    ///
    /// # Errors
    /// Returns an error if the system has no thread or descriptor left.
    pub(super) fn start(tun: &Tun) -> io::Result<Self> {
        let batches = (BATCHES * tun.queue()? as usize / QUEUE).clamp(FEWEST, BATCHES);
        let mut obstacles = Vec::new();
        let mut entrances = Vec::new();
        for _ in 0..threads::count() {
            let entrance = tun.entrance()?;
            obstacles.push(entrance.obstacle());
            entrances.push(entrance);
        }
        Ok(Self { obstacles, ..Self::over(entrances, batches)? })
    }

    /// Starts a thread for each device. Each has at most `batches` batches.
    fn over(devices: Vec<impl Device>, batches: usize) -> io::Result<Self> {
        let refused = Arc::default();
        let start = |device| Writer::start(device, batches, Arc::clone(&refused));
        let each = devices.into_iter().map(start).collect::<io::Result<_>>()?;
        Ok(Self { each, obstacles: Vec::new(), refused })
    }

    /// Adds a packet of a subflow, like [`Writer::push`].
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::push`].
    pub(super) fn push<'a>(
        &mut self,
        tuple: &FourTuple,
        head: &[&[u8]],
        payload: impl IntoIterator<Item = &'a Bytes> + Clone,
    ) -> io::Result<()> {
        let place = place_of(tuple, self.each.len());
        self.each[place].push(head, payload)
    }

    /// Adds a packet that belongs to no subflow.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::push`].
    pub(super) fn push_other(&mut self, head: &[&[u8]]) -> io::Result<()> {
        self.each[0].push(head, [])
    }

    /// Passes the current batches to the threads. Does not wait.
    ///
    /// # Errors
    /// Returns the same errors as [`Writer::push`].
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.each.iter_mut().try_for_each(Writer::flush)
    }

    /// Returns the number of packets that the device did not accept.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the error because of which every packet needs a system call. `None` while one call writes many
    /// packets.
    pub(super) fn obstacle(&self) -> Option<Errno> {
        self.obstacles.iter().find_map(Obstacle::get)
    }
}

/// Returns the index of the thread that writes the packets of a subflow. It never changes for a subflow.
fn place_of(tuple: &FourTuple, threads: usize) -> usize {
    let remote = tuple.remote;
    let address = match remote.ip() {
        IpAddr::V4(address) => address.to_bits(),
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            (bits ^ bits >> 32 ^ bits >> 64 ^ bits >> 96) as u32
        }
    };
    // Fibonacci hashing (Knuth, TAOCP 6.4). It distributes ports evenly even if a client uses only even or
    // only odd ports.
    let mixed =
        address.rotate_left(16).wrapping_add(remote.port().into()).wrapping_mul(0x9E37_79B1);
    ((u64::from(mixed) * threads as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use std::thread::yield_now;

    use crate::gateway::writer::tests::gated_device;

    use super::*;

    fn tuple(address: &str, port: u16) -> FourTuple {
        FourTuple {
            local: "10.77.9.1:443".parse().unwrap(),
            remote: (address.parse::<IpAddr>().unwrap(), port).into(),
        }
    }

    #[test]
    fn a_blocked_device_delays_only_its_own_subflows() {
        let ends: [_; 2] = std::array::from_fn(|_| gated_device());
        let [(slow, _, gate), (quick, given, open)] = ends;
        for _ in 0..100 {
            open.send(Ok(true)).unwrap();
        }
        let mut writers = Writers::over(vec![slow, quick], FEWEST).unwrap();
        let ports =
            |place| (1..).filter(move |port| place_of(&tuple("192.0.2.7", *port), 2) == place);
        let (held_up, free) = (ports(0).next().unwrap(), ports(1).next().unwrap());
        writers.push(&tuple("192.0.2.7", held_up), &[b"slow"], []).unwrap();
        for mark in 0..100_u8 {
            writers.push(&tuple("192.0.2.7", free), &[&[mark]], []).unwrap();
            writers.flush().unwrap();
        }
        let wanted: Vec<_> = (0..100_u8).map(|mark| vec![mark]).collect();
        assert!(writers.obstacle().is_none());
        while given.lock().unwrap().len() < wanted.len() {
            yield_now();
        }
        assert_eq!(*given.lock().unwrap(), wanted);
        gate.send(Ok(false)).unwrap();
        let refused = Arc::clone(&writers.refused);
        drop(writers);
        assert_eq!(refused.load(Ordering::Relaxed), 1, "of either device");
    }

    #[test]
    fn subflows_of_one_client_and_of_many_are_spread() {
        for many in 1..=threads::MOST {
            let mut counts = [[0; threads::MOST]; 3];
            for at in 0..100 {
                let all = [
                    tuple("192.0.2.7", 40_000 + 2 * at),
                    tuple("2001:db8::7", 40_001 + 2 * at),
                    tuple(&format!("198.51.100.{at}"), 50_000),
                ];
                for (count, of) in counts.iter_mut().zip(all) {
                    count[place_of(&of, many)] += 1;
                }
            }
            for count in counts {
                let (used, left) = count.split_at(many);
                assert!(used.iter().all(|it| *it >= 50 / many), "{many}: {count:?}");
                assert!(left.iter().all(|it| *it == 0));
            }
        }
    }
}
