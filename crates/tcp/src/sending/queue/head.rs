//! The data at the head of the queue, and how much of it leaves as one burst.

use super::{BURST_BYTES, Chunk, Queue};
use crate::sending::flight::Tag;

impl Queue {
    /// Returns the bytes that complete a burst of full segments if `waits` bytes are queued already.
    pub fn whole_burst(&self, waits: u64) -> usize {
        let mss = u64::from(self.mss());
        (BURST_BYTES / mss * mss - waits % mss) as usize
    }

    /// Returns the position in the data stream at which the next segment begins.
    pub fn next_data(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.data)
    }

    /// The tag that the next segment has.
    pub fn next_tag(&self) -> Option<Tag> {
        self.chunks.front().map(|chunk| chunk.tag)
    }

    /// The next segment has this tag; on plain TCP none has any.
    pub(crate) fn goes_on_under(&self, tag: Tag) -> bool {
        !self.tagging.separates() || self.chunks.front().is_some_and(|chunk| chunk.tag == tag)
    }

    /// `segments` of the queue will leave next, up to `most` in a socket buffer: into how many more than there are
    /// those of the queue will have been cut then (`tso_fragment`).
    pub(crate) fn foresee(&mut self, mut segments: u64, most: u64) {
        let mss = u64::from(self.mss);
        let mut more = 0;
        let mut chunks = self.chunks.iter().peekable();
        while let Some(first) = chunks.next().filter(|_| segments > 0) {
            let mut bytes = first.payload.len() as u64;
            let shares = |chunk: &&Chunk| chunk.tag.position == first.tag.position;
            while let Some(chunk) = chunks.next_if(|chunk| shares(chunk)) {
                bytes += chunk.payload.len() as u64;
            }
            let whole = bytes.div_ceil(mss);
            let leaving = whole.min(segments);
            more += leaving.div_ceil(most) - u64::from(leaving == whole);
            segments -= leaving;
        }
        self.buffers_to_come = more as u32;
    }
}
