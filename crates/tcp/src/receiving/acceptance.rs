//! The validation of segments (`tcp_validate_incoming`; RFC 9293 section 3.10.7.4). An acceptable segment is
//! within our window, and its timestamp is not older than the last one (RFC 7323 section 5). Its
//! acknowledgement number covers no unsent data and is not older than one window (RFC 5961 section 5).
//! Invalid RSTs and SYNs are answered with an acknowledgement, at most twice per second.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};

use super::super::{State, Tcp};
use super::{Arrival, Receiver};

/// The shortest interval between answers to unacceptable segments (`tcp_invalid_ratelimit`). Otherwise two
/// hosts could answer each other forever.
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);
/// The number of bytes accepted beyond the window that this connection has advertised. If several connections
/// share a window, another one may have advertised more. The layer above drops data beyond its own window.
const SHARED_WINDOW_SLACK: i64 = 65_536;

impl Receiver {
    /// Returns whether a segment is within the window. `start` is its distance from the next expected
    /// position.
    #[inline]
    fn has_in_window(&self, segment: &Segment, start: i64, tagged: bool) -> bool {
        let end = start + i64::from(segment.sequence_len());
        let told = self.advertised_at as i64 - self.assembly.next as i64;
        let slack = if tagged { SHARED_WINDOW_SLACK } else { 0 };
        let edge = told + self.window as i64 + slack;
        end >= told && start <= edge && (start < edge || segment.payload.is_empty())
    }

    /// Drops a segment at distance `start` from the next expected position, and records repeated data for a
    /// DSACK (`tcp_send_dupack`). Returns whether an acknowledgement must be sent.
    #[cold]
    fn refuse(&mut self, now: Instant, segment: &Segment, start: i64, rto: Duration) -> bool {
        if segment.sequence_len() == 0 || segment.flags.contains(Flags::SYN) {
            return self.admit_challenge(now);
        }
        if let Some(position) = self.assembly.next.checked_add_signed(start)
            && start < 0
        {
            let length = segment.payload.len() as u32;
            let end = position + u64::from(segment.sequence_len());
            self.assembly.report_duplicate(position, end);
            self.ack.begin_quick_acks_for_duplicate(self.window);
            self.ack.on_data(now, length, false, Arrival::Duplicate, false, rto);
        }
        true
    }

    /// Returns whether a challenge ACK may be sent now, and counts it (`tcp_send_challenge_ack`).
    #[cold]
    fn admit_challenge(&mut self, now: Instant) -> bool {
        let may = self.answered_at.is_none_or(|at| now.since(at) >= ANSWER_INTERVAL);
        if may {
            self.answered_at = Some(now);
        }
        may
    }

    /// Decides whether to accept, challenge or ignore a RST at a position. A RST is accepted at the next
    /// expected position, after the out-of-order data, and at the peer's FIN. Elsewhere in the window, a RST
    /// is challenged (RFC 5961 section 3.2).
    fn judge_reset(&self, position: u64) -> ResetVerdict {
        let edge = self.advertised_at + self.window;
        if position == self.assembly.next
            || position == self.assembly.next + self.assembly.span()
            || (self.assembly.closed && position + 1 == self.assembly.next)
        {
            ResetVerdict::Accept
        } else if (self.advertised_at..=edge).contains(&position) {
            ResetVerdict::Challenge
        } else {
            ResetVerdict::Ignore
        }
    }
}

/// The reaction to a RST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResetVerdict {
    Accept,
    Challenge,
    Ignore,
}

impl Tcp {
    /// Returns whether a segment without RST may be processed. Otherwise, requests an answer if one is
    /// needed.
    // A run of 20 MB calls it 28,212 times.
    #[inline(always)]
    pub fn accept(&mut self, now: Instant, segment: &Segment) -> bool {
        let expected = self.sequence.remote(self.receive.next());
        let start = i64::from(segment.seq.offset(expected));
        let in_window = self.receive.has_in_window(segment, start, self.is_tagged());
        let stamps = segment.timestamps.filter(|_| self.receive.negotiated().timestamps);
        if !in_window || stamps.is_some_and(|stamps| self.sequence.is_older(stamps)) {
            if self.receive.refuse(now, segment, start, self.sending.rtt().rto()) {
                self.demand_ack();
            }
            return false;
        }
        if segment.flags.contains(Flags::SYN) {
            // This may be a repeated SYN/ACK, because our third packet was lost.
            self.demand_challenge_ack(now);
            return false;
        }
        let behind = self.sequence.local(self.sending.queue().next()).offset(segment.ack);
        if !segment.flags.contains(Flags::ACK) {
            return false;
        }
        let under_way = behind >= 0 && behind as u64 <= self.sending.queue().oldest_answer();
        under_way || self.handle_invalid_ack(now, behind)
    }

    /// Handles an acknowledgement that is too old or covers unsent data. After the handshake, it is answered
    /// with an acknowledgement (RFC 5961 section 5.2, RFC 9293 section 3.10.7.4; `tcp_ack`). Returns true for
    /// an old acknowledgement during the handshake, which the caller handles.
    #[cold]
    fn handle_invalid_ack(&mut self, now: Instant, behind: i32) -> bool {
        let opening = self.state == State::SynReceived;
        if !opening {
            self.demand_challenge_ack(now);
        }
        opening && behind >= 0
    }

    /// Sends a challenge ACK unless one was sent recently (`tcp_send_challenge_ack`).
    #[cold]
    pub fn demand_challenge_ack(&mut self, now: Instant) {
        if self.receive.admit_challenge(now) {
            self.demand_ack();
        }
    }

    /// Returns whether a RST ends the connection. In SYN-SENT, it must acknowledge the SYN. Otherwise its
    /// position decides.
    pub fn check_reset(&mut self, now: Instant, segment: &Segment) -> bool {
        if self.state == State::SynSent {
            return segment.flags.contains(Flags::ACK) && self.sequence.is_acked_syn(segment);
        }
        let Some(position) = self.sequence.peer_position(segment.seq, self.receive.next()) else {
            return false;
        };
        let verdict = self.receive.judge_reset(position);
        if verdict == ResetVerdict::Challenge {
            self.demand_challenge_ack(now);
        }
        verdict == ResetVerdict::Accept
    }
}

#[cfg(test)]
mod tests {
    use anabranch_wire::Timestamps;
    use bytes::Bytes;

    use super::super::super::Space;
    use super::super::super::fixture::{at, send, subflow};
    use super::*;
    use crate::receive_buffer::Load;

    /// The advertised window: 64 segments of 1012 bytes from position 1.
    const WINDOW: u32 = 64 * 1012;

    /// Builds a segment of `length` bytes at a position of the peer's stream. It acknowledges our SYN.
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
        subflow().0.accept(at(1000), segment)
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
        // With tags, another connection may have advertised more.
        let (mut multipath, _) = subflow();
        multipath.sending.tagging_mut().begin();
        assert!(multipath.accept(at(1000), &segment(WINDOW + 65_536, 1)));
        assert!(!multipath.accept(at(1000), &segment(1 + WINDOW + 65_536, 1)));
    }

    #[test]
    fn it_has_to_acknowledge_and_nothing_unsent() {
        let (mut subflow, _) = subflow();
        send(&mut subflow, at(0), 1000);
        let acknowledging =
            |ack: u32| Segment { ack: anabranch_units::SeqNumber(ack), ..segment(1, 10) };
        assert!(subflow.accept(at(1000), &acknowledging(1001)));
        assert!(!subflow.accept(at(1000), &acknowledging(1002)));
        assert!(subflow.receive.is_ack_due(), "RFC 9293 section 3.10.7.4: send an acknowledgement");
        subflow.receive.ack.on_ack_sent();
        assert!(!subflow.accept(at(1499), &acknowledging(1002)) && !subflow.receive.is_ack_due());
        let mute = Segment { flags: Flags::default(), ..segment(1, 10) };
        assert!(!subflow.accept(at(1000), &mute));
        let syn = Segment { flags: Flags::ACK.with(Flags::SYN), ..segment(1, 0) };
        assert!(!subflow.accept(at(1500), &syn) && subflow.receive.is_ack_due());
    }

    #[test]
    fn a_timestamp_may_be_one_older_than_the_last() {
        // tcp_paws_check: `(s32)(ts_recent - rcv_tsval) <= TCP_PAWS_WINDOW`.
        let stamped = |recent: u32, value: u32, used: bool| {
            let (mut subflow, _) = subflow();
            subflow.receive.negotiated.timestamps = used;
            let stamps = Some(Timestamps { value: recent, echo: 0 });
            subflow.sequence.on_peer_syn(&Segment { timestamps: stamps, ..segment(0, 0) });
            let timestamps = Some(Timestamps { value, echo: 1 });
            subflow.accept(at(1000), &Segment { timestamps, ..segment(1, 10) })
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
            subflow.receive.ack.on_ack_sent();
            subflow.accept(at(ms), &segment(0, 0));
            subflow.receive.is_ack_due()
        };
        assert!(told(1000) && !told(1499) && told(1500) && !told(1999) && told(2000));
        // Segments with data are answered each time, because they cannot cause an endless exchange.
        let (mut subflow, _) = super::super::super::fixture::subflow();
        for ms in [1000, 1001, 1002] {
            subflow.receive.ack.on_ack_sent();
            subflow.accept(at(ms), &segment(1 + WINDOW, 10));
            assert!(subflow.receive.is_ack_due());
        }
    }

    #[test]
    fn reset_is_valid_at_the_next_number_or_after_out_of_order_data() {
        let resets = |position: u32, closed: bool| {
            let (mut subflow, _) = subflow();
            // Bytes 101 to 200 have arrived.
            let mut early = segment(101, 100);
            early.timestamps = None;
            let load = Load::of(&early, None);
            subflow.handle_payload(at(0), (&early, 101), load, Space::default(), &mut |_, _, _| {});
            subflow.receive.assembly.closed = closed;
            subflow.receive.ack.on_ack_sent();
            let counts = subflow.check_reset(at(1000), &segment(position, 0));
            (counts, subflow.receive.is_ack_due())
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
