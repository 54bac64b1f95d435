//! The data at the head of the queue, and how much of it leaves as one burst.

use super::{BURST_BYTES, Chunk, Queue};
use crate::subflow::sending::flight::BurstMapping;

impl Queue {
    /// Returns the bytes that complete a burst of full segments if `waits` bytes are queued already.
    pub(crate) fn whole_burst(&self, waits: u64) -> usize {
        let mss = u64::from(self.mss());
        (BURST_BYTES / mss * mss - waits % mss) as usize
    }

    /// Returns the position in the data stream at which the next segment begins.
    pub(crate) fn next_data(&self) -> Option<u64> {
        self.chunks.front().map(|chunk| chunk.data)
    }

    /// The mapping that the next segment has.
    pub(in crate::subflow) fn next_mapping(&self) -> Option<BurstMapping> {
        self.chunks.front().map(|chunk| chunk.mapping)
    }

    /// The next segment has this mapping; on plain TCP none has any.
    pub(in crate::subflow) fn goes_on_under(&self, mapping: BurstMapping) -> bool {
        !self.multipath_mappings
            || self.chunks.front().is_some_and(|chunk| chunk.mapping == mapping)
    }

    /// `segments` of the queue will leave next, up to `most` in a socket buffer: into how many more than there are
    /// those of the queue will have been cut then (`tso_fragment`).
    pub(in crate::subflow) fn foresee(&mut self, mut segments: u64, most: u64) {
        let mss = u64::from(self.mss);
        let mut more = 0;
        let mut chunks = self.chunks.iter().peekable();
        while let Some(first) = chunks.next().filter(|_| segments > 0) {
            let mut bytes = first.payload.len() as u64;
            let shares = |chunk: &&Chunk| chunk.mapping.position == first.mapping.position;
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
