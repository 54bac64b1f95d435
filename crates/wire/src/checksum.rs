//! The Internet checksum (RFC 1071).

/// A 16-bit ones' complement sum over bytes that come in pieces (RFC 1071).
///
/// A piece may end on half a word, which the next one completes: a mapping is checksummed as one
/// run of bytes, whatever segments it was cut into.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OnesComplement {
    sum: u64,
    half: Option<u8>,
}

impl OnesComplement {
    /// The bytes that come next.
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

    /// A word besides, wherever the bytes stand.
    pub(crate) fn add_word(&mut self, word: u16) {
        self.sum += u64::from(word);
    }

    /// The sum so far, half a word filled up with zeros.
    pub(crate) fn fold(self) -> u16 {
        let mut sum = self.sum + self.half.map_or(0, |high| u64::from(high) << 8);
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }
}

/// The Internet checksum of bytes in pieces: zero over bytes that have a right one among them.
pub fn checksum<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u16 {
    let mut sum = OnesComplement::default();
    for piece in pieces {
        sum.add(piece);
    }
    !sum.fold()
}
