//! The socket buffers of outstanding segments, which SACK and retransmissions split and merge. Each buffer is
//! charged to the send buffer in addition to its payload.
//!
//! A buffer consists of an entry with `opens_buffer` and the following entries without it. The functions
//! return the change in the number of buffers.

use anabranch_units::Instant;

use super::{Flight, Sent};

impl Flight {
    fn index(&self, number: u64) -> Option<usize> {
        let index = number.checked_sub(self.base)? as usize;
        (index < self.entries.len()).then_some(index)
    }

    /// Returns whether the entry is the first remaining one of a buffer.
    fn starts(&self, index: usize) -> bool {
        index == 0 || self.entries[index].opens_buffer
    }

    /// Makes a buffer begin with the entry. If the entry was in the middle of one, that buffer is split.
    fn begin(&mut self, index: usize) -> i64 {
        let more = !self.starts(index);
        self.entries[index].opens_buffer = true;
        i64::from(more)
    }

    /// Returns whether the entry at `index` and the one before it are segments of equal size with the same
    /// tag. Their buffers may then be merged (`tcp_skb_can_collapse`, `tcp_skb_seglen`).
    fn alike(&self, index: usize) -> bool {
        let (one, other) = (&self.entries[index - 1], &self.entries[index]);
        one.tag == other.tag && one.payload.len() == other.payload.len()
    }

    /// Handles a newly SACKed entry. `was` is its previous state. If buffers are `merged` and the previous
    /// entry is also SACKed, the bytes move into that entry's buffer. SACKed bytes after them follow
    /// (`tcp_shift_skb_data`). Otherwise, entries before it that are not SACKed are split off its buffer
    /// (`tcp_match_skb_to_sack`).
    pub(crate) fn on_sacked(&mut self, number: u64, was: &Sent, merged: bool) -> i64 {
        let Some(index) = self.index(number) else { return 0 };
        let behind_reported = index > 0 && self.entries[index - 1].sacked;
        if !self.starts(index) {
            return if behind_reported { 0 } else { self.begin(index) };
        }
        // A segment that a probe retransmitted, and that is not lost, is not moved.
        let moves = was.lost || !was.retransmitted;
        if !(merged && moves && behind_reported && self.alike(index)) {
            return 0;
        }
        self.entries[index].opens_buffer = false;
        let next = index + 1;
        if next < self.entries.len() && !self.entries[next].opens_buffer {
            self.entries[next].opens_buffer = true;
            return 0;
        }
        if next < self.entries.len() && self.entries[next].sacked && self.alike(next) {
            self.entries[next].opens_buffer = false;
            return -2;
        }
        -1
    }

    /// Handles the last entry of a SACK block: entries after it that are not SACKed are split off its buffer
    /// (`tcp_match_skb_to_sack`).
    pub(crate) fn end_report(&mut self, number: u64) -> i64 {
        match self.index(number + 1) {
            Some(next) if !self.entries[next].sacked => self.begin(next),
            _ => 0,
        }
    }

    /// Handles an entry that was retransmitted at `now`, alone or together with the entry before it. If there
    /// is space for `more` and the next entry is lost too, that entry stays in the buffer. Other neighbours
    /// are split off (`tcp_fragment` in `__tcp_retransmit_skb`).
    pub(crate) fn cut_out(&mut self, number: u64, now: Instant, more: bool) -> i64 {
        let Some(index) = self.index(number) else { return 0 };
        let mut buffers = 0;
        let follows = |before: &Sent| before.retransmitted && before.sent_at == now;
        if index > 0 && !follows(&self.entries[index - 1]) {
            buffers += self.begin(index);
        }
        let next = self.entries.get(index + 1);
        if next.is_some_and(|next| !(more && next.lost && !next.retransmitted)) {
            buffers += self.begin(index + 1);
        }
        buffers
    }
}

#[cfg(test)]
mod tests {
    use super::super::TxStamp;
    use super::super::tests::board_of;
    use super::*;

    /// Returns the numbers of the entries that begin a buffer.
    fn opening(board: &Flight) -> Vec<u64> {
        let entries = board.entries.iter().zip(board.base..);
        entries.filter(|(sent, _)| sent.opens_buffer).map(|(_, number)| number).collect()
    }

    /// SACKs the entries with numbers in `[from, to)`.
    fn report(board: &mut Flight, from: u64, to: u64, merged: bool) -> i64 {
        let mut buffers = 0;
        for number in from..to {
            if let Some(was) = board.mark_sacked(number) {
                buffers += board.on_sacked(number, &was, merged);
            }
        }
        buffers + board.end_report(to - 1)
    }

    #[test]
    fn sacked_ranges_are_split_off_and_merged_into_one_buffer() {
        let mut board = board_of(12, &[0, 3, 6, 7, 8]);
        // The report covers the middle of the second buffer, which is split at both ends of the
        // range.
        assert_eq!(report(&mut board, 4, 5, true), 2);
        assert_eq!(opening(&board), [0, 3, 4, 5, 6, 7, 8]);
        // The entries after it move into that buffer, one by one.
        assert_eq!(report(&mut board, 5, 6, true), -1);
        assert_eq!(report(&mut board, 6, 8, true), -2);
        assert_eq!(opening(&board), [0, 3, 4, 8]);
        // A part of a larger buffer is moved.
        assert_eq!(report(&mut board, 8, 10, true), 0);
        assert_eq!(opening(&board), [0, 3, 4, 10]);
        // The hole before it is filled. The entry already begins a buffer.
        assert_eq!(report(&mut board, 3, 4, true), 0);
        assert_eq!(opening(&board), [0, 3, 4, 10]);
        // The entry between two SACKed ones moves into the buffer of the first, and the second one follows.
        assert_eq!(report(&mut board, 2, 3, true), 1);
        assert_eq!(opening(&board), [0, 2, 3, 4, 10]);
        assert_eq!(report(&mut board, 11, 12, true), 1);
        assert_eq!(report(&mut board, 10, 11, true), -2);
        assert_eq!(opening(&board), [0, 2, 3, 4]);
    }

    #[test]
    fn buffers_of_two_tags_or_lengths_stay_apart_and_where_none_are_merged_all() {
        let mut board = board_of(4, &[0, 1, 2, 3]);
        assert_eq!(report(&mut board, 1, 4, false), 0);
        assert_eq!(opening(&board), [0, 1, 2, 3]);
        let mut board = board_of(4, &[0, 1, 2, 3]);
        board.entries[3].payload.truncate(60);
        assert_eq!(report(&mut board, 1, 4, true), -1);
        assert_eq!(opening(&board), [0, 1, 3]);
        let mut board = board_of(4, &[0, 1, 2, 3]);
        let tag = super::super::Tag { data: 0, position: 1, length: 200 };
        for sent in board.entries.range_mut(..2) {
            sent.tag = Some(tag).into();
        }
        assert_eq!(report(&mut board, 1, 4, true), -1);
        assert_eq!(opening(&board), [0, 1, 2]);
    }

    #[test]
    fn sacked_probe_retransmission_stays_in_its_own_buffer() {
        let mut board = board_of(3, &[0, 1, 2]);
        board.retransmit(2, Instant::from_nanos(9), TxStamp::default());
        assert_eq!(report(&mut board, 1, 3, true), 0);
        let mut board = board_of(3, &[0, 1, 2]);
        board.mark_lost(2);
        board.retransmit(2, Instant::from_nanos(9), TxStamp::default());
        assert_eq!(report(&mut board, 1, 3, true), -1, "the same one, lost before");
    }

    #[test]
    fn segment_retransmitted_alone_gets_its_own_buffer() {
        let mut board = board_of(8, &[0, 6]);
        for number in 1..5 {
            board.mark_lost(number);
        }
        let mut again = |number: u64, ns: u64, more: bool| {
            let now = Instant::from_nanos(ns);
            board.retransmit(number, now, TxStamp::default());
            (board.cut_out(number, now, more), opening(&board))
        };
        assert_eq!(again(1, 100, false), (2, vec![0, 1, 2, 6]));
        // Two segments retransmitted together share a buffer.
        assert_eq!(again(2, 200, true), (0, vec![0, 1, 2, 6]));
        assert_eq!(again(3, 200, false), (1, vec![0, 1, 2, 4, 6]));
        // The last lost segment: although there is space for more, the next one is split off.
        assert_eq!(again(4, 300, true), (1, vec![0, 1, 2, 4, 5, 6]));
        // A tail loss probe: the last segment of its buffer.
        assert_eq!(again(7, 400, true), (1, vec![0, 1, 2, 4, 5, 6, 7]));
    }
}
