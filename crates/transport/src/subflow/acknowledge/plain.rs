//! The plain acknowledgement: more is acknowledged, in order, and nothing is missing or being repaired. Most are
//! plain while data flows; what one cannot tell of is not looked for.

use anabranch_units::Instant;
use anabranch_wire::Segment;

use super::{Prior, Progress, RttSamples, Subflow};
use crate::config::HostModel;
use crate::congestion::{CongestionState, SiblingView};
use crate::subflow::recovery::{AckFlags, Repair};

impl Subflow {
    /// Nothing outstanding was reported, lost or sent again, and no probe waits for its answer.
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "one branch for all of it instead of one for each"
    )]
    #[inline(always)]
    pub(super) fn is_calm(&self) -> bool {
        (self.ca_state == CongestionState::Open)
            & (self.board.sacked_out == 0)
            & (self.board.lost_out == 0)
            & (self.board.retrans_out == 0)
            & self.recovery.probe_high.is_none()
            & !self.recovery.reneged
    }

    /// As [`Self::absorb`], of an acknowledgement of more without SACK blocks or an echo, while the subflow [is
    /// calm](Self::is_calm).
    #[inline(always)]
    pub(super) fn absorb_plain(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        ack: u64,
        prior: &Prior,
        siblings: &mut [SiblingView],
    ) {
        let echo = segment.timestamps.map(|timestamps| self.echoed(timestamps));
        let mut samples = RttSamples { echo, ..RttSamples::default() };
        let mut flags = AckFlags { una_advanced: true, set_timer: true, ..AckFlags::default() };
        self.send.newly_lost = 0;
        let packets_out = self.board.packets_out();
        let acked_bytes = self.remove_plain(now, ack, &mut flags, &mut samples);
        let removed = packets_out - self.board.packets_out();
        let maybe_delayed = removed == 1 && self.lone_runt(ack - prior.una, &flags, &samples);
        let rtt = self.take_rtt(host, now, &flags, &samples);
        let progress = Progress {
            una_advanced: true,
            prior_in_flight: prior.in_flight,
            delivered: (self.rate.delivered - prior.delivered) as u32,
            acked_bytes,
            rtt,
            maybe_delayed,
        };
        self.size_window(host, now, &progress, &flags, siblings);
        self.after_ack(host, now, &flags, Repair::None);
    }

    /// As [`Self::remove_acked`], of segments none of which was reported.
    #[inline(always)]
    fn remove_plain(
        &mut self,
        now: Instant,
        ack: u64,
        flags: &mut AckFlags,
        samples: &mut RttSamples,
    ) -> u64 {
        let (mut bytes, mut buffers) = (0, 0);
        while let Some(sent) = self.board.front_acked(ack) {
            bytes += sent.payload.len() as u64;
            if sent.ever_retransmitted() {
                flags.retransmission_acked = true;
            } else {
                samples.first_acked.get_or_insert(sent.sent_at);
                samples.last_acked = Some(sent.sent_at);
            }
            self.rate.on_delivered(now, sent);
            if !samples.answers_earlier(sent) {
                self.rack.on_delivered(now, sent, self.rtt.min_rtt());
            }
            self.board.drop_front();
            // A socket buffer is freed with the last of its segments.
            buffers += u64::from(self.board.front().is_none_or(|next| next.opens_buffer));
        }
        if let Some(front) = self.board.front().filter(|front| front.start < ack) {
            bytes += ack - front.start;
            samples.partial = true;
            self.board.trim_front(ack);
        }
        self.send.on_bytes_acked(bytes, buffers);
        self.totals.bytes_acked += bytes;
        bytes
    }
}
