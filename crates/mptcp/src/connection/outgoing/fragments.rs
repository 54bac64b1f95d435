//! The fragments that hold written data. A mapping does not cross a fragment (`mptcp_data_frag`).
//!
//! A fragment is part of a page and follows its header. Written data is appended to the last fragment while
//! that fragment is not completely sent and its page has space (`mptcp_pending_tail`,
//! `mptcp_frag_can_collapse_to`). Otherwise a new fragment begins in the rest of the page
//! (`mptcp_carve_data_frag`). If the rest is too small, the fragment begins in a new page. If all data of the
//! old page is acknowledged, its start is used again (`skb_page_frag_refill`).

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes of a fragment's header (`struct mptcp_data_frag`). The header is aligned to 8 bytes.
const HEADER: u64 = 40;
/// The smallest rest of a page, without the header, in which a fragment may begin (`mptcp_page_frag_refill`),
/// bytes.
const LEAST: u64 = 32;

/// The end positions of all unacknowledged fragments.
#[derive(Debug)]
pub(super) struct Fragments {
    /// The size of a page, bytes.
    page: u64,
    /// Bytes of a fragment's header; 0 if each fragment has a socket buffer.
    header: u64,
    /// The used bytes of the current page.
    used: u64,
    /// End positions of the fragments, ascending.
    ends: VecDeque<u64>,
    /// The range of the fragment that was last looked up. Consecutive look-ups usually have the same
    /// result.
    last: Range<u64>,
}

impl Fragments {
    /// Creates fragments of at most `largest` bytes in pages.
    pub(super) fn new(largest: u64) -> Self {
        Self { page: largest + HEADER, header: HEADER, used: 0, ends: VecDeque::new(), last: 0..0 }
    }

    /// Creates fragments of at most `largest` bytes, each in its own socket buffer. Written data is appended
    /// to the last one while it is not completely sent. Otherwise a new one begins (`tcp_sendmsg`).
    pub(super) fn buffers(largest: u64) -> Self {
        Self { page: largest, header: 0, used: 0, ends: VecDeque::new(), last: 0..0 }
    }

    /// Adds bytes written at position `at` to one fragment. Returns how many it took. `waits`: the last
    /// fragment is not completely sent. `needed`: some written data is unacknowledged.
    pub(super) fn take(&mut self, at: u64, bytes: u64, waits: bool, needed: bool) -> u64 {
        let joins = waits && self.used < self.page && self.ends.back() == Some(&at);
        if !joins {
            if self.header == 0 || !needed || self.used + LEAST + HEADER > self.page {
                self.used = 0;
            }
            self.used = self.used.next_multiple_of(8) + self.header;
        }
        let taken = bytes.min(self.page - self.used);
        self.used += taken;
        match self.ends.back_mut().filter(|_| joins) {
            Some(end) => {
                *end += taken;
                self.last = 0..0;
            }
            None => self.ends.push_back(at + taken),
        }
        taken
    }

    /// Returns the memory charged for the fragments' headers (`dfrag->overhead`), bytes.
    #[inline]
    pub(super) fn memory(&self) -> u64 {
        self.ends.len() as u64 * self.header
    }

    /// Returns the end of the fragment that contains `position`, or `u64::MAX` if no fragment does.
    #[inline]
    pub(super) fn end(&mut self, position: u64) -> u64 {
        if self.last.contains(&position) { self.last.end } else { self.find(position) }
    }

    /// The slow path of [`Self::end`]: a binary search.
    #[inline(never)]
    fn find(&mut self, position: u64) -> u64 {
        let index = self.ends.partition_point(|end| *end <= position);
        let Some(&end) = self.ends.get(index) else { return u64::MAX };
        let start = index.checked_sub(1).map_or(position, |before| self.ends[before]);
        self.last = start..end;
        end
    }

    /// Removes the fragments that end at or before `una`.
    #[inline]
    pub(super) fn acknowledge(&mut self, una: u64) {
        while self.ends.front().is_some_and(|end| *end <= una) {
            self.ends.pop_front();
        }
        if self.last.end <= una {
            self.last = 0..0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `bytes` at `at`. Returns the number of bytes that each fragment took.
    fn write(
        pieces: &mut Fragments,
        mut at: u64,
        bytes: u64,
        waits: bool,
        needed: bool,
    ) -> Vec<u64> {
        let (end, mut lengths) = (at + bytes, Vec::new());
        let (mut waits, mut needed) = (waits, needed);
        while at < end {
            lengths.push(pieces.take(at, end - at, waits, needed));
            at += lengths[lengths.len() - 1];
            (waits, needed) = (true, true);
        }
        lengths
    }

    #[test]
    fn fragment_takes_the_rest_of_its_page_minus_the_header() {
        // mptcp_sendmsg, mptcp_carve_data_frag: a page of 32,768 bytes, a header of 40 at a multiple of 8.
        let mut pieces = Fragments::new(32_728);
        assert_eq!(write(&mut pieces, 0, 65_536, false, false), [32_728, 32_728, 80]);
        // All data was sent. The page has 40 + 80 used bytes and a new header, so 32,608 bytes are left.
        assert_eq!(write(&mut pieces, 65_536, 65_536, false, true), [32_608, 32_728, 200]);
        // 40 + 200 + 40 + 1 = 281 used bytes are rounded up to 288 for the next header. With it, 32,440 bytes
        // are left.
        assert_eq!(write(&mut pieces, 131_072, 1, false, true), [1]);
        assert_eq!(write(&mut pieces, 131_073, 40_000, false, true), [32_440, 7_560]);
        let ends: Vec<u64> =
            [0, 32_727, 32_728, 65_536, 98_143, 131_072].map(|p| pieces.end(p)).into();
        assert_eq!(ends, [32_728, 32_728, 65_456, 98_144, 98_144, 131_073]);
        // Each header is charged until its whole fragment is acknowledged (`dfrag_clear`).
        assert_eq!(pieces.memory(), 9 * 40);
        pieces.acknowledge(32_727);
        assert_eq!(pieces.memory(), 9 * 40);
        pieces.acknowledge(32_728);
        assert_eq!(pieces.memory(), 8 * 40);
    }

    #[test]
    fn pending_fragment_is_filled_to_the_end_of_its_page() {
        // mptcp_frag_can_collapse_to: data is appended up to the last byte of the page.
        let mut pieces = Fragments::new(32_728);
        assert_eq!(write(&mut pieces, 0, 32_700, false, false), [32_700]);
        assert_eq!(write(&mut pieces, 32_700, 100, true, true), [28, 72]);
        assert_eq!((pieces.end(32_727), pieces.end(32_728)), (32_728, 32_800));
    }

    #[test]
    fn a_page_with_no_room_or_no_use_is_left() {
        // mptcp_page_frag_refill requires 32 bytes and the header. skb_page_frag_refill reuses a page that
        // has no other user.
        let mut pieces = Fragments::new(32_728);
        write(&mut pieces, 0, 32_728 - 72, false, false);
        assert_eq!(
            write(&mut pieces, 32_656, 100, false, true),
            [32, 68],
            "72 are left: a piece of 32"
        );
        let mut pieces = Fragments::new(32_728);
        write(&mut pieces, 0, 32_728 - 71, false, false);
        assert_eq!(write(&mut pieces, 32_657, 100, false, true), [100], "71 are not enough");
        pieces.acknowledge(32_757);
        assert_eq!(write(&mut pieces, 32_757, 40_000, false, false), [32_728, 7_272]);
        assert_eq!(pieces.end(0), 65_485, "the first are forgotten");
    }

    #[test]
    fn in_buffers_of_their_own_a_piece_is_full_wherever_it_begins() {
        // tcp_sendmsg: data is appended to the last unsent buffer up to its size goal.
        let mut pieces = Fragments::buffers(64_260);
        assert_eq!(pieces.memory(), 0);
        assert_eq!(write(&mut pieces, 0, 65_536, false, false), [64_260, 1276]);
        assert_eq!(write(&mut pieces, 65_536, 65_536, true, true), [62_984, 2552]);
        // The last buffer has been sent.
        assert_eq!(write(&mut pieces, 131_072, 65_536, false, true), [64_260, 1276]);
        assert_eq!((pieces.end(0), pieces.end(64_260)), (64_260, 128_520));
    }
}
