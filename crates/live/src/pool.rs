//! Memory for reads. A buffer is reused when its data is no longer referenced. With new memory for each read,
//! the system would have to clear and map every page.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// The length of a buffer, bytes.
pub(crate) const PIECE: usize = 65_536;
/// Data of at least this length stays in its buffer, and shorter data is copied, bytes.
const LENT: usize = PIECE / 2;
/// The largest number of free buffers. 64 MiB are enough for 256 connections that read four buffers each at a
/// time.
const MOST: usize = 1024;

/// The free buffers. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Idle>>);

#[derive(Debug, Default)]
struct Idle {
    pieces: Vec<Vec<u8>>,
    /// The smallest number of free buffers since the last [`Pool::tidy`].
    fewest: usize,
}

/// A buffer into which packets are read one after the other. A packet can stay in its buffer.
pub(crate) struct Inlet {
    piece: Vec<u8>,
    pool: Pool,
}

/// Data in a buffer. The buffer returns to its pool when the last reference to the data is dropped.
struct Lent {
    memory: Vec<u8>,
    length: usize,
    home: Pool,
}

impl Pool {
    fn with<T>(&self, change: impl FnOnce(&mut Idle) -> T) -> T {
        // `change` does not panic, so the state is valid even if the lock is poisoned.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns a buffer of [`PIECE`] bytes with arbitrary content.
    pub(crate) fn take(&self) -> Vec<u8> {
        let idle = self.with(|idle| {
            let piece = idle.pieces.pop();
            idle.fewest = idle.fewest.min(idle.pieces.len());
            piece
        });
        idle.unwrap_or_else(|| vec![0; PIECE])
    }

    /// Returns a buffer to the pool.
    pub(crate) fn give(&self, piece: Vec<u8>) {
        self.with(|idle| {
            if idle.pieces.len() < MOST {
                idle.pieces.push(piece);
            }
        });
    }

    /// Returns the first `length` bytes of a buffer from this pool. If they are at least half of the buffer,
    /// they stay there, and the buffer returns to the pool later. Shorter data is copied, so that it does not
    /// occupy a whole buffer.
    pub(crate) fn keep(&self, memory: Vec<u8>, length: usize) -> Bytes {
        if length >= LENT {
            return Bytes::from_owner(Lent { memory, length, home: self.clone() });
        }
        let copy = Bytes::copy_from_slice(&memory[..length]);
        self.give(memory);
        copy
    }

    /// Frees the buffers that were not used since the last call.
    pub(crate) fn tidy(&self) {
        self.with(|idle| {
            let left = idle.pieces.len() - idle.fewest.min(idle.pieces.len());
            idle.pieces.truncate(left);
            idle.fewest = left;
        });
    }
}

impl Inlet {
    pub(crate) fn new(pool: Pool) -> Self {
        Self { piece: pool.take(), pool }
    }

    /// Returns a slice of [`PIECE`] bytes for the next packet. Its content is arbitrary.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.piece
    }

    /// Returns the first `length` bytes of the packet that was read last.
    pub(crate) fn read(&self, length: usize) -> &[u8] {
        &self.piece[..length]
    }

    /// Returns these bytes for longer use, like [`Pool::keep`].
    pub(crate) fn keep(&mut self, length: usize) -> Bytes {
        if length < LENT {
            return Bytes::copy_from_slice(self.read(length));
        }
        let piece = std::mem::replace(&mut self.piece, self.pool.take());
        self.pool.keep(piece, length)
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.memory[..self.length]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.home.give(std::mem::take(&mut self.memory));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_returns_when_its_last_reference_is_dropped() {
        let pool = Pool::default();
        let mut piece = pool.take();
        piece[..PIECE / 2].fill(7);
        let at = piece.as_ptr();
        let whole = pool.keep(piece, PIECE / 2);
        assert_eq!((whole.as_ptr(), whole.len()), (at, PIECE / 2), "nothing is copied");
        let rest = whole.slice(5..);
        drop(whole);
        let other = pool.take();
        assert_ne!(other.as_ptr(), at, "it is still in use");
        assert!(rest.iter().all(|byte| *byte == 7));
        drop(rest);
        let again = pool.take();
        assert_eq!(again.as_ptr(), at);
    }

    #[test]
    fn an_inlet_does_not_copy_a_long_packet() {
        let pool = Pool::default();
        let mut inlet = Inlet::new(pool.clone());
        inlet.room()[..LENT].fill(1);
        let at = inlet.room().as_ptr();
        let short = inlet.keep(LENT - 1);
        assert_ne!(short.as_ptr(), at);
        assert_eq!(inlet.room().as_ptr(), at, "it reads on in the same place");
        let long = inlet.keep(LENT);
        assert_eq!(long.as_ptr(), at, "nothing is copied");
        assert_ne!(inlet.room().as_ptr(), at, "it is still in use");
        inlet.room()[..LENT].fill(2);
        assert!(short.iter().chain(&long).all(|byte| *byte == 1));
        drop(long);
        inlet.keep(LENT);
        assert_eq!(inlet.room().as_ptr(), at, "it has come back");
    }

    #[test]
    fn little_is_copied() {
        let pool = Pool::default();
        let piece = pool.take();
        let at = piece.as_ptr();
        let little = pool.keep(piece, PIECE / 2 - 1);
        assert_eq!(little.len(), PIECE / 2 - 1);
        let again = pool.take();
        assert_eq!(again.as_ptr(), at, "it is back at once");
    }

    #[test]
    fn unused_pieces_are_freed() {
        let pool = Pool::default();
        let taken: Vec<_> = (0..2 * MOST).map(|_| pool.take()).collect();
        for piece in taken {
            pool.give(piece);
        }
        assert_eq!(pool.with(|idle| idle.pieces.len()), MOST);
        pool.tidy();
        let two = [pool.take(), pool.take()];
        for piece in two {
            pool.give(piece);
        }
        pool.tidy();
        assert_eq!(pool.with(|idle| idle.pieces.len()), 2, "two were needed");
    }
}
