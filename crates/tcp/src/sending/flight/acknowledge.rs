//! Removes acknowledged segments and marks SACKed ones (`tcp_clean_rtx_queue`, `tcp_sacktag_write_queue`).

use anabranch_units::{Duration, Instant};

use super::{Flight, Sent};
use crate::sending::recovery::AckFlags;
use crate::sending::rtt::timestamp_clock;

/// Returns a time in whole microseconds.
fn micros(at: Instant) -> u64 {
    at.as_nanos() / 1000
}

/// The RTT samples of one acknowledgement.
#[derive(Debug, Default)]
pub(in crate::sending) struct RttSamples {
    /// The send times of the first and the last cumulatively acknowledged segments that were sent only once.
    pub(in crate::sending) acked: Option<(Instant, Instant)>,
    /// The send times of the first and the last newly SACKed segments that were sent only once.
    pub(in crate::sending) reported: Option<(Instant, Instant)>,
    /// Whether the acknowledgement ends within a segment.
    pub(in crate::sending) partial: bool,
    /// The echoed timestamp.
    pub(in crate::sending) echo: Option<u32>,
}

impl RttSamples {
    /// Returns whether the acknowledgement of a retransmitted segment was caused by an earlier transmission
    /// (`tcp_skb_spurious_retrans`).
    fn answers_earlier(&self, sent: &Sent) -> bool {
        sent.ever_retransmitted()
            && self
                .echo
                .filter(|echo| *echo > 0)
                .is_some_and(|echo| (echo.wrapping_sub(timestamp_clock(sent.sent_at)) as i32) < 0)
    }
}

/// An acknowledgement, with the values needed to process it.
#[derive(Debug)]
pub(in crate::sending) struct Acknowledged<'a> {
    pub(in crate::sending) now: Instant,
    /// The first unacknowledged position before the acknowledgement. `una` is the one after it.
    pub(in crate::sending) prior_una: u64,
    pub(in crate::sending) una: u64,
    /// The SACKed ranges above `una`. `None` without SACK blocks.
    pub(in crate::sending) ranges: Option<&'a [(u64, u64)]>,
    /// The echoed timestamp.
    pub(in crate::sending) echo: Option<u32>,
    /// The position at which the current recovery ends.
    pub(in crate::sending) high_seq: u64,
    pub(in crate::sending) min_rtt: Option<Duration>,
    /// The payload of a full segment.
    pub(in crate::sending) mss: u32,
    /// Whether adjacent SACKed socket buffers are merged.
    pub(in crate::sending) merges: bool,
}

/// The result of processing an acknowledgement.
#[derive(Debug, Default)]
pub(in crate::sending) struct Delivered {
    pub(in crate::sending) flags: AckFlags,
    pub(in crate::sending) samples: RttSamples,
    /// Payload bytes cumulatively acknowledged.
    pub(in crate::sending) bytes: u64,
    /// The change in the number of socket buffers.
    pub(in crate::sending) buffers: i64,
    /// The RTT of the segment delivered last, and the highest transmission index of the delivered segments.
    pub(in crate::sending) newest: Option<(Duration, u64)>,
    /// Whether a segment was delivered after one that was sent later.
    pub(in crate::sending) reordered: bool,
    /// Whether the receiver may have delayed the acknowledgement (`FLAG_ACK_MAYBE_DELAYED`).
    pub(in crate::sending) maybe_delayed: bool,
}

impl Delivered {
    /// Returns the RTT sample of the acknowledgement, and the sample for the controller
    /// (`tcp_ack_update_rtt`).
    pub(in crate::sending) fn round_trip(
        &self,
        now: Instant,
    ) -> Option<(Duration, Option<Duration>)> {
        let samples = &self.samples;
        // Both times are rounded to microseconds before they are subtracted (`tcp_stamp_us_delta`).
        let end = micros(now);
        let since = |at: Instant| Duration::from_micros(end - micros(at.min(now)));
        let both = |(first, last): (Instant, Instant)| {
            let oldest = since(first);
            (oldest, if last == first { oldest } else { since(last) })
        };
        let clean = samples.acked.filter(|_| !self.flags.retransmission_acked).map(both);
        let (mut rtt, mut ca_rtt) = (clean.map(|(rtt, _)| rtt), clean.map(|(_, rtt)| rtt));
        if let Some((oldest, newest)) = samples.reported.map(both) {
            ca_rtt = Some(newest);
            rtt = rtt.or(Some(oldest));
        }
        if rtt.is_none() && self.flags.una_advanced {
            // The sample is ambiguous, so the timestamp is used (RFC 7323 section 4.1).
            let elapsed = samples
                .echo
                .filter(|echo| *echo > 0)
                .map(|echo| timestamp_clock(now).wrapping_sub(echo));
            let from_echo = elapsed
                .filter(|ms| *ms < 120_000)
                .map(|ms| Duration::from_millis(u64::from(ms).max(1)));
            rtt = from_echo;
            ca_rtt = ca_rtt.or(from_echo);
        }
        rtt.map(|rtt| (rtt, ca_rtt))
    }

    /// Returns whether a newly SACKed segment was sent before the last transmission of the head. The head's
    /// timeout is then restarted, because it could otherwise expire while a long queue drains
    /// (`tcp_clean_rtx_queue`: `sack_rtt_us` and the head's time stamp).
    pub(in crate::sending) fn answers_before(&self, head: Option<&Sent>) -> bool {
        let reported = self.samples.reported.zip(head);
        reported.is_some_and(|((first, _), head)| micros(first) < micros(head.sent_at))
    }
}

/// Updates the first and last send times with a later one.
fn extend(times: &mut Option<(Instant, Instant)>, at: Instant) {
    *times = Some((times.map_or(at, |(first, _)| first), at));
}

/// Records a delivered segment for loss detection (`tcp_rack_advance`).
pub(super) fn advance(delivered: &mut Delivered, ack: &Acknowledged<'_>, sent: &Sent) {
    let rtt = ack.now.since(sent.sent_at);
    // A sample below the minimum RTT belongs to the original, not to the retransmission.
    if sent.ever_retransmitted() && ack.min_rtt.is_some_and(|min| rtt < min) {
        return;
    }
    let newest = delivered.newest.map_or(0, |(_, newest)| newest);
    delivered.newest = Some((rtt, newest.max(sent.serial)));
}

impl Flight {
    /// Removes acknowledged segments and marks SACKed ones. Returns the delivered segments.
    #[inline]
    pub(in crate::sending) fn acknowledge(
        &mut self,
        ack: &Acknowledged<'_>,
        flags: AckFlags,
    ) -> Delivered {
        let prior_highest = match self.sacked_out {
            0 => ack.prior_una,
            _ => self.highest_sacked_start,
        };
        let samples = RttSamples { echo: ack.echo, ..RttSamples::default() };
        let mut delivered = Delivered { flags, samples, ..Delivered::default() };
        if let Some(ranges) = ack.ranges {
            self.mark_reported(ack, ranges, &mut delivered);
        }
        let flags = &mut delivered.flags;
        flags.duplicate = !flags.una_advanced && !flags.not_duplicate && !flags.dsack;
        let packets_out = self.packets_out();
        self.remove_acked(ack, prior_highest, &mut delivered);
        let removed = packets_out - self.packets_out();
        delivered.maybe_delayed = removed == 1 && self.is_lone_runt(ack, &delivered);
        self.remove_duplicates(removed, &mut delivered.flags);
        delivered
    }

    /// Marks the segments covered by SACK blocks (`tcp_sacktag_write_queue`).
    #[inline(never)]
    fn mark_reported(
        &mut self,
        ack: &Acknowledged<'_>,
        ranges: &[(u64, u64)],
        delivered: &mut Delivered,
    ) {
        for &(left, right) in ranges {
            let first = self.first_reported(left);
            let mut number = first;
            while let Some(next) = self.next_reported(number, right) {
                self.mark_one(ack, next, delivered);
                number = next + 1;
            }
            if number > first {
                delivered.buffers += self.end_report(number - 1);
            }
        }
        self.note_report(ranges);
    }

    fn mark_one(&mut self, ack: &Acknowledged<'_>, number: u64, delivered: &mut Delivered) {
        let highest = self.highest_sacked_start;
        let Some(sent) = self.mark_sacked(number) else {
            return;
        };
        delivered.buffers += self.on_sacked(number, &sent, ack.merges);
        delivered.flags.data_sacked = true;
        if !sent.ever_retransmitted() {
            delivered.reordered |= sent.start < highest && self.sacked_out > 1;
            delivered.flags.original_acked |= sent.end() <= ack.high_seq;
            extend(&mut delivered.samples.reported, sent.sent_at);
        }
        self.rate.on_delivered(ack.now, &sent);
        advance(delivered, ack, &sent);
    }

    /// Removes the segments that are cumulatively acknowledged (`tcp_clean_rtx_queue`).
    #[inline]
    fn remove_acked(
        &mut self,
        ack: &Acknowledged<'_>,
        prior_highest: u64,
        delivered: &mut Delivered,
    ) {
        while let Some(sent) = self.entries.front().filter(|sent| sent.end() <= ack.una) {
            delivered.bytes += sent.payload.len() as u64;
            let first = !sent.ever_retransmitted();
            if !first {
                delivered.flags.retransmission_acked = true;
            } else if !sent.sacked {
                extend(&mut delivered.samples.acked, sent.sent_at);
                delivered.flags.original_acked |= sent.end() <= ack.high_seq;
            }
            if !sent.sacked {
                // A segment that was sent once filled a hole below the highest earlier SACK: reordering
                // (`prior_fack`).
                delivered.reordered |= first && sent.start < prior_highest;
                self.rate.on_delivered(ack.now, sent);
                if !delivered.samples.answers_earlier(sent) {
                    advance(delivered, ack, sent);
                }
            }
            self.remove_front();
            // A socket buffer is freed with its last segment.
            delivered.buffers -= i64::from(self.front().is_none_or(|next| next.opens_buffer));
        }
        if let Some(front) = self.front().filter(|front| front.start < ack.una) {
            delivered.bytes += ack.una - front.start;
            delivered.samples.partial = true;
            self.cut_front(ack.una);
        }
        delivered.flags.set_timer = delivered.flags.una_advanced;
        self.bytes_acked += delivered.bytes;
    }

    /// Returns whether exactly one segment was acknowledged, and it was smaller than a full one. No other data
    /// may have been delivered since it was sent, and the ACK must report no duplicate.
    #[inline]
    fn is_lone_runt(&self, ack: &Acknowledged<'_>, delivered: &Delivered) -> bool {
        let alone = self.rate.prior_delivered() + 1 == self.rate.delivered();
        let runt = ack.una - ack.prior_una < u64::from(ack.mss) && !delivered.samples.partial;
        alone && runt && delivered.samples.acked.is_some() && !delivered.flags.dsack
    }
}
