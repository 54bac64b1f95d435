//! Which segments are believed (`tcp_validate_incoming`; RFC 9293 section 3.10.7.4): those that lie in
//! our window, are no older than what came before (RFC 7323 section 5) and acknowledge nothing that
//! was never sent, nor what was acknowledged a window ago (RFC 5961 section 5). Blind resets and SYNs draw an acknowledgement (RFC 5961), never more than two a
//! second.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};

use super::receive::Arrival;
use super::{State, Subflow};

/// Pure acknowledgements that answer what is not acceptable are so far apart at least
/// (`tcp_invalid_ratelimit`): two sides must not provoke each other for ever.
const ANSWER_INTERVAL: Duration = Duration::from_millis(500);
/// A timestamp may be so much older than the last one (`TCP_PAWS_WINDOW`), ms.
const TIMESTAMP_SLACK: i32 = 1;
/// Subflows of MPTCP share one window, that another one may have told the peer of: so much beyond
/// what this one has told is taken, bytes. The connection drops what lies beyond its own.
const SHARED_WINDOW_SLACK: i64 = 65_536;

impl Subflow {
    /// Whether a segment without RST may be processed; if not, what answer it gets is arranged.
    #[inline(always)]
    pub(crate) fn believes(&mut self, now: Instant, segment: &Segment) -> bool {
        let expected = self.remote_iss.add(self.receive.next() as u32);
        let start = i64::from(segment.seq.offset(expected));
        let end = start + i64::from(segment.sequence_len());
        let told = self.receive.advertised_at() as i64 - self.receive.next() as i64;
        let slack = if self.multipath { SHARED_WINDOW_SLACK } else { 0 };
        let edge = told + self.receive.window() as i64 + slack;
        let in_window =
            end >= told && start <= edge && (start < edge || segment.payload.is_empty());
        if !in_window || self.is_older(segment) {
            self.refuse(now, segment, start);
            return false;
        }
        if segment.flags.contains(Flags::SYN) {
            // Among them a SYN/ACK that comes again: our third packet was lost.
            self.challenge(now);
            return false;
        }
        let behind = self.wire_seq(self.send.next()).offset(segment.ack);
        if !segment.flags.contains(Flags::ACK) || behind < 0 {
            return false;
        }
        behind as u64 <= self.send.oldest_answer() || self.endures_old_answer(now)
    }

    /// An acknowledgement is older than any that may still be under way (RFC 5961 section 5.2).
    #[cold]
    fn endures_old_answer(&mut self, now: Instant) -> bool {
        let opening = self.state == State::SynReceived;
        if !opening {
            self.challenge(now);
        }
        opening
    }

    /// The timestamp is older than the last one that was in its place (`tcp_paws_discard`).
    fn is_older(&self, segment: &Segment) -> bool {
        let Some(timestamps) = segment.timestamps.filter(|_| self.timestamps) else {
            return false;
        };
        (self.timestamp_recent.wrapping_sub(timestamps.value) as i32) > TIMESTAMP_SLACK
            && self.timestamp_recent != 0
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
            self.ack.on_data(now, length, Arrival::Duplicate, false, self.rtt.rto());
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
        let Some(position) = self.peer_position(segment.seq) else {
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
        segment.ack == self.wire_seq(1)
    }
}
