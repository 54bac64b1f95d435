//! Memory that sockets are read into, which serves again once nobody holds what was read: taken from the system each
//! time, every page of it would be cleared and mapped anew.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// The size of each piece, bytes.
pub(crate) const PIECE: usize = 65_536;
/// The least that a piece is lent for, bytes.
const LENT: usize = PIECE / 2;
/// Pieces at most that are kept while nobody needs them: those of 256 connections that each read four at once, 64 MiB.
const MOST: usize = 1024;

/// Pieces that nobody holds; a clone is the same pool.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Arc<Mutex<Idle>>);

#[derive(Debug, Default)]
struct Idle {
    pieces: Vec<Vec<u8>>,
    /// The fewest there were since [`Pool::tidy`].
    fewest: usize,
}

/// Where packets are read one after the other, each to be kept or not.
pub(crate) struct Inlet {
    piece: Vec<u8>,
    pool: Pool,
}

/// What was read into a piece, which comes back when the last that holds of it is gone.
struct Lent {
    memory: Vec<u8>,
    length: usize,
    home: Pool,
}

impl Pool {
    fn with<T>(&self, change: impl FnOnce(&mut Idle) -> T) -> T {
        // Nothing of it panics halfway.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A piece of [`PIECE`] bytes, of whatever was in it before.
    pub(crate) fn take(&self) -> Vec<u8> {
        let idle = self.with(|idle| {
            let piece = idle.pieces.pop();
            idle.fewest = idle.fewest.min(idle.pieces.len());
            piece
        });
        idle.unwrap_or_else(|| vec![0; PIECE])
    }

    /// Takes a piece back.
    pub(crate) fn give(&self, piece: Vec<u8>) {
        self.with(|idle| {
            if idle.pieces.len() < MOST {
                idle.pieces.push(piece);
            }
        });
    }

    /// The first bytes of a piece that was taken. What fills half of it goes on in it, and the piece comes back by
    /// itself; less is copied, so that what waits takes what it says.
    pub(crate) fn keep(&self, memory: Vec<u8>, length: usize) -> Bytes {
        if length >= LENT {
            return Bytes::from_owner(Lent { memory, length, home: self.clone() });
        }
        let copy = Bytes::copy_from_slice(&memory[..length]);
        self.give(memory);
        copy
    }

    /// Gives the system back what was not needed since the last time.
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

    /// Room for a packet: [`PIECE`] bytes, of whatever was in them before.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.piece
    }

    /// The first bytes of what was read last.
    pub(crate) fn read(&self, length: usize) -> &[u8] {
        &self.piece[..length]
    }

    /// The same, to be kept: as of [`Pool::keep`].
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
    fn a_piece_serves_again_once_nobody_holds_of_it() {
        let pool = Pool::default();
        let mut piece = pool.take();
        piece[..PIECE / 2].fill(7);
        let at = piece.as_ptr();
        let whole = pool.keep(piece, PIECE / 2);
        assert_eq!((whole.as_ptr(), whole.len()), (at, PIECE / 2), "nothing is copied");
        let rest = whole.slice(5..);
        drop(whole);
        let other = pool.take();
        assert_ne!(other.as_ptr(), at, "somebody holds of it");
        assert!(rest.iter().all(|byte| *byte == 7));
        drop(rest);
        let again = pool.take();
        assert_eq!(again.as_ptr(), at);
    }

    #[test]
    fn an_inlet_lends_the_memory_of_what_is_long_and_reads_on_elsewhere() {
        let pool = Pool::default();
        let mut inlet = Inlet::new(pool.clone());
        inlet.room()[..LENT].fill(1);
        let at = inlet.room().as_ptr();
        let short = inlet.keep(LENT - 1);
        assert_ne!(short.as_ptr(), at);
        assert_eq!(inlet.room().as_ptr(), at, "it reads on in the same place");
        let long = inlet.keep(LENT);
        assert_eq!(long.as_ptr(), at, "nothing is copied");
        assert_ne!(inlet.room().as_ptr(), at, "somebody holds of it");
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
    fn what_is_not_needed_goes_back_to_the_system() {
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
