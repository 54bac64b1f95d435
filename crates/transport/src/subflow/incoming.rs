//! Which segments are accepted (`tcp_validate_incoming`; RFC 9293 section 3.10.7.4): those that lie in
//! our window, are no older than what came before (RFC 7323 section 5) and acknowledge nothing that
//! was never sent, nor what was acknowledged a window ago (RFC 5961 section 5). Blind resets and SYNs
//! draw an acknowledgement, never more than two a second.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};

use super::receive::Arrival;
use super::{State, Subflow};

/// The least time between pure acknowledgements that answer what is not acceptable
/// (`tcp_invalid_ratelimit`): two sides must not provoke each other for ever.
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);
/// Bytes that are taken beyond the window that this subflow has told: subflows of MPTCP share one window,
/// and another one may have told the peer of more. The connection drops what lies beyond its own.
const SHARED_WINDOW_SLACK: i64 = 65_536;

impl Subflow {
    /// Whether a segment without RST may be processed; if not, what answer it gets is arranged.
    #[inline(always)]
    pub(crate) fn accepts(&mut self, now: Instant, segment: &Segment) -> bool {
        let expected = self.sequence.remote(self.receive.next());
        let start = i64::from(segment.seq.offset(expected));
        let end = start + i64::from(segment.sequence_len());
        let told = self.receive.advertised_at() as i64 - self.receive.next() as i64;
        let slack = if self.multipath { SHARED_WINDOW_SLACK } else { 0 };
        let edge = told + self.receive.window() as i64 + slack;
        let in_window =
            end >= told && start <= edge && (start < edge || segment.payload.is_empty());
        let stamps = segment.timestamps.filter(|_| self.agreed.timestamps);
        if !in_window || stamps.is_some_and(|stamps| self.sequence.is_older(stamps)) {
            self.refuse(now, segment, start);
            return false;
        }
        if segment.flags.contains(Flags::SYN) {
            // Among them a SYN/ACK that comes again: our third packet was lost.
            self.challenge(now);
            return false;
        }
        let behind = self.sequence.local(self.send.next()).offset(segment.ack);
        if !segment.flags.contains(Flags::ACK) {
            return false;
        }
        let under_way = behind >= 0 && behind as u64 <= self.send.oldest_answer();
        under_way || self.accepts_invalid_ack(now, behind)
    }

    /// Handles an acknowledgement that is too old or acknowledges unsent data. After the handshake it is answered with
    /// an acknowledgement (RFC 5961 section 5.2, RFC 9293 section 3.10.7.4; `tcp_ack`). Returns true for an old one
    /// during the handshake, which the caller handles.
    #[cold]
    fn accepts_invalid_ack(&mut self, now: Instant, behind: i32) -> bool {
        let opening = self.state == State::SynReceived;
        if !opening {
            self.challenge(now);
        }
        opening && behind >= 0
    }

    /// A segment is dropped, `start` bytes from the next one expected: what it repeats is reported,
    /// and what we expect (`tcp_send_dupack`).
    #[cold]
    fn refuse(&mut self, now: Instant, segment: &Segment, start: i64) {
        if segment.sequence_len() == 0 || segment.flags.contains(Flags::SYN) {
            return self.challenge(now);
        }
        if let Some(position) = self.receive.next().checked_add_signed(start)
            && start < 0
        {
            let length = segment.payload.len() as u32;
            let end = position + u64::from(segment.sequence_len());
            self.receive.report_duplicate(position, end);
            self.ack.quicken_for_duplicate(self.receive.window());
            self.ack.on_data(now, length, false, Arrival::Duplicate, false, self.rtt.rto());
        }
        self.ack_now();
    }

    /// Says what we expect, unless it was said lately (`tcp_send_challenge_ack`).
    #[cold]
    pub(crate) fn challenge(&mut self, now: Instant) {
        if self.answered_at.is_none_or(|at| now.since(at) >= ANSWER_INTERVAL) {
            self.answered_at = Some(now);
            self.ack_now();
        }
    }

    /// Whether a RST ends the subflow: in SYN-SENT one that acknowledges the SYN, later one with the
    /// next sequence number, or with the one behind what came out of order, or with that of the
    /// peer's FIN. Others that lie in the window are challenged (RFC 5961 section 3.2).
    pub(crate) fn reset_counts(&mut self, now: Instant, segment: &Segment) -> bool {
        if self.state == State::SynSent {
            return segment.flags.contains(Flags::ACK) && self.acknowledges_syn(segment);
        }
        let Some(position) = self.sequence.peer_position(segment.seq, self.receive.next()) else {
            return false;
        };
        let next = self.receive.next();
        if position == next
            || position == next + self.receive.span()
            || (self.peer_closed && position + 1 == next)
        {
            return true;
        }
        let edge = self.receive.advertised_at() + self.receive.window();
        if (self.receive.advertised_at()..=edge).contains(&position) {
            self.challenge(now);
        }
        false
    }

    /// The segment acknowledges our SYN.
    pub(crate) fn acknowledges_syn(&self, segment: &Segment) -> bool {
        segment.ack == self.sequence.local(1)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Timestamps;
    use bytes::Bytes;

    use super::super::fixture::{at, send, subflow};
    use super::*;
    use crate::receive_buffer::Load;

    /// The window that was told: 64 segments of 1012 bytes from position 1.
    const WINDOW: u32 = 64 * 1012;

    /// A segment of `bytes` at a position of the peer's that acknowledges the SYN.
    fn segment(position: u32, length: usize) -> Segment {
        Segment {
            seq: anabranch_units::SeqNumber(position),
            ack: anabranch_units::SeqNumber(1),
            flags: Flags::ACK,
            payload: Bytes::from(vec![0; length]),
            ..Segment::default()
        }
    }

    fn accepted(segment: &Segment) -> bool {
        subflow().0.accepts(at(1000), segment)
    }

    #[test]
    fn a_segment_is_acceptable_from_where_we_acknowledged_to_the_windows_edge() {
        // tcp_sequence: `!before(end_seq, rcv_wup) && !after(seq, rcv_nxt + window)`, and data begins
        // before the edge.
        assert!(accepted(&segment(1, 0)) && accepted(&segment(1, 1000)));
        assert!(accepted(&segment(0, 1)), "it ends where we expect");
        assert!(!accepted(&segment(0, 0)));
        assert!(accepted(&segment(WINDOW, 10)) && accepted(&segment(1 + WINDOW, 0)));
        assert!(!accepted(&segment(1 + WINDOW, 1)) && !accepted(&segment(2 + WINDOW, 0)));
        // What was told on another subflow counts for MPTCP.
        let (mut multipath, _) = subflow();
        multipath.multipath = true;
        assert!(multipath.accepts(at(1000), &segment(WINDOW + 65_536, 1)));
        assert!(!multipath.accepts(at(1000), &segment(1 + WINDOW + 65_536, 1)));
    }

    #[test]
    fn it_has_to_acknowledge_and_nothing_unsent() {
        let (mut subflow, _) = subflow();
        send(&mut subflow, at(0), 1000);
        let acknowledging =
            |ack: u32| Segment { ack: anabranch_units::SeqNumber(ack), ..segment(1, 10) };
        assert!(subflow.accepts(at(1000), &acknowledging(1001)));
        assert!(!subflow.accepts(at(1000), &acknowledging(1002)));
        assert!(subflow.ack.is_due(), "RFC 9293 section 3.10.7.4: send an acknowledgement");
        subflow.ack.on_ack_sent();
        assert!(!subflow.accepts(at(1499), &acknowledging(1002)) && !subflow.ack.is_due());
        let mute = Segment { flags: Flags::default(), ..segment(1, 10) };
        assert!(!subflow.accepts(at(1000), &mute));
        let syn = Segment { flags: Flags::ACK.with(Flags::SYN), ..segment(1, 0) };
        assert!(!subflow.accepts(at(1500), &syn) && subflow.ack.is_due());
    }

    #[test]
    fn a_timestamp_may_be_one_older_than_the_last() {
        // tcp_paws_check: `(s32)(ts_recent - rcv_tsval) <= TCP_PAWS_WINDOW`.
        let stamped = |recent: u32, value: u32, used: bool| {
            let (mut subflow, _) = subflow();
            subflow.agreed.timestamps = used;
            let stamps = Some(Timestamps { value: recent, echo: 0 });
            subflow.sequence.learn_peer(&Segment { timestamps: stamps, ..segment(0, 0) });
            let timestamps = Some(Timestamps { value, echo: 1 });
            subflow.accepts(at(1000), &Segment { timestamps, ..segment(1, 10) })
        };
        assert!(stamped(100, 100, true) && stamped(100, 99, true) && !stamped(100, 98, true));
        assert!(!stamped(5, u32::MAX, true), "older across the wrap");
        assert!(stamped(u32::MAX, 5, true), "newer across the wrap");
        assert!(stamped(100, 50, false), "they are not in use");
        assert!(stamped(0, u32::MAX, true), "none has been seen");
    }

    #[test]
    fn answers_to_the_unacceptable_are_half_a_second_apart() {
        let (mut subflow, _) = subflow();
        let mut told = |ms: u64| {
            subflow.ack.on_ack_sent();
            subflow.accepts(at(ms), &segment(0, 0));
            subflow.ack.is_due()
        };
        assert!(told(1000) && !told(1499) && told(1500) && !told(1999) && told(2000));
        // Data draws one each time: it is no part of a loop.
        let (mut subflow, _) = super::super::fixture::subflow();
        for ms in [1000, 1001, 1002] {
            subflow.ack.on_ack_sent();
            subflow.accepts(at(ms), &segment(1 + WINDOW, 10));
            assert!(subflow.ack.is_due());
        }
    }

    #[test]
    fn a_reset_counts_at_the_next_number_or_behind_what_came_out_of_order() {
        let resets = |position: u32, closed: bool| {
            let (mut subflow, _) = subflow();
            // 101 to 201 has come.
            let mut early = segment(101, 100);
            early.timestamps = None;
            subflow.handle_payload(
                at(0),
                &early,
                Load::of(&early, None),
                super::super::deliver::Terms { near: 0, checksum: false, whole: false },
                super::super::Space::default(),
                &mut |_, _, _| {},
            );
            subflow.peer_closed = closed;
            subflow.ack.on_ack_sent();
            let counts = subflow.reset_counts(at(1000), &segment(position, 0));
            (counts, subflow.ack.is_due())
        };
        assert_eq!(resets(1, false), (true, false));
        assert_eq!(resets(201, false), (true, false));
        assert_eq!(resets(0, false), (false, false), "before the window");
        assert_eq!(resets(0, true), (true, false), "that of the FIN");
        for inside in [2, 200, 202, 1 + WINDOW] {
            assert_eq!(resets(inside, false), (false, true), "{inside}: a challenge");
        }
        assert_eq!(resets(2 + WINDOW, false), (false, false));
    }
}
