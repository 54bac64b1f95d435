//! The data at the head of the queue, and the part of it that forms one burst.

use super::{BURST_BYTES, Chunk, Queue};
use crate::sending::flight::Tag;

impl Queue {
    /// Returns the number of bytes that complete a burst of full segments if `waits` bytes are already
    /// queued.
    pub fn whole_burst(&self, waits: u64) -> usize {
        let mss = u64::from(self.mss());
        (BURST_BYTES / mss * mss - waits % mss) as usize
    }

    /// Returns the position in the stream of the layer above at which the next segment begins.
    pub fn next_data(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.data)
    }

    /// Returns the tag of the next segment.
    pub fn next_tag(&self) -> Option<Tag> {
        self.chunks.front().map(|chunk| chunk.tag)
    }

    /// Returns whether the next segment has this tag, or there are no tags.
    pub(crate) fn goes_on_under(&self, tag: Tag) -> bool {
        !self.tagging.separates() || self.chunks.front().is_some_and(|chunk| chunk.tag == tag)
    }

    /// Computes the number of socket buffers that will be added when `segments` of the queue are sent, with
    /// up to `most` in each (`tso_fragment`).
    pub(crate) fn count_future_buffers(&mut self, mut segments: u64, most: u64) {
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
