//! The Internet checksum (RFC 1071).

/// A 16-bit ones' complement sum over several slices of bytes (RFC 1071).
///
/// A slice may have an odd length: the first byte of the next slice then completes the word. The
/// sum therefore does not depend on how the data of a mapping was split into segments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnesComplement {
    sum: u64,
    half: Option<u8>,
}

impl OnesComplement {
    /// Adds the next bytes.
    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        if let (Some(high), [low, rest @ ..]) = (self.half, bytes) {
            self.sum += u64::from(u16::from_be_bytes([high, *low]));
            self.half = None;
            bytes = rest;
        }
        let mut words = bytes.chunks_exact(2);
        for word in &mut words {
            self.sum += u64::from(u16::from_be_bytes([word[0], word[1]]));
        }
        if let [high] = words.remainder() {
            self.half = Some(*high);
        }
    }

    /// Adds a word, even if the bytes so far have an odd length.
    pub(crate) fn add_word(&mut self, word: u16) {
        self.sum += u64::from(word);
    }

    /// Returns the sum. An odd last byte is padded with a zero byte.
    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.sum + self.half.map_or(0, |high| u64::from(high) << 8);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}

/// Returns the Internet checksum of several slices. The result is zero if the bytes include a
/// correct checksum.
pub fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut sum = OnesComplement::default();
    for piece in pieces {
        sum.add(piece);
    }
    !sum.fold()
}
