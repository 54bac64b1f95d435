//! The round trips that an acknowledgement tells of, and what may have delayed it.

use anabranch_units::{Duration, Instant};

use super::super::flight::Sent;
use super::super::recovery::AckFlags;
use super::super::rtt::timestamp_clock;
use crate::config::HostModel;
use crate::subflow::Subflow;

/// RTT information gathered from one acknowledgement.
#[derive(Default)]
pub(super) struct RttSamples {
    pub(super) first_acked: Option<Instant>,
    pub(super) last_acked: Option<Instant>,
    pub(super) first_sacked: Option<Instant>,
    pub(super) last_sacked: Option<Instant>,
    /// It ends within a segment.
    pub(super) partial: bool,
    /// The timestamp it echoes.
    pub(super) echo: Option<u32>,
}

impl RttSamples {
    /// A segment that was sent again is acknowledged by what answers an earlier transmission of it
    /// (`tcp_skb_spurious_retrans`).
    pub(super) fn answers_earlier(&self, sent: &Sent) -> bool {
        sent.ever_retransmitted()
            && self
                .echo
                .filter(|echo| *echo > 0)
                .is_some_and(|echo| (echo.wrapping_sub(timestamp_clock(sent.sent_at)) as i32) < 0)
    }
}

impl Subflow {
    /// The one segment acknowledged was not full, nothing else was delivered since it was sent, and no
    /// duplicate is reported: the receiver may have waited for more (`FLAG_ACK_MAYBE_DELAYED`).
    #[inline(always)]
    pub(super) fn lone_runt(&self, bytes: u64, flags: &AckFlags, samples: &RttSamples) -> bool {
        let alone = self.rate.prior_delivered() + 1 == self.rate.delivered;
        let runt = bytes < u64::from(self.mss) && !samples.partial;
        alone && runt && samples.first_acked.is_some() && !flags.dsack
    }

    /// `tcp_ack_update_rtt`: feeds the estimator; returns the RTT a controller may use.
    #[inline(always)]
    pub(super) fn take_rtt<const PLAIN: bool>(
        &mut self,
        host: &HostModel,
        now: Instant,
        flags: &AckFlags,
        samples: &RttSamples,
    ) -> Option<Duration> {
        // Of two clocks of whole microseconds (`tcp_stamp_us_delta`), and not of what is whole between them.
        let micros = |at: Instant| at.as_nanos() / 1000;
        let since = |at: Option<Instant>| {
            at.map(|at| Duration::from_micros(micros(now) - micros(at.min(now))))
        };
        let clean = samples.first_acked.filter(|_| !flags.retransmission_acked);
        let mut rtt = since(clean);
        let mut ca_rtt = rtt.and(since(samples.last_acked));
        if samples.first_sacked.is_some() {
            ca_rtt = since(samples.last_sacked);
            rtt = rtt.or(since(samples.first_sacked));
        }
        if rtt.is_none() && flags.una_advanced {
            // Ambiguous: the timestamp tells (RFC 7323 section 4.1).
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
        let rtt = rtt?;
        if !PLAIN && self.follows_outage(flags) && self.recovery.outlasts_timeout(now, rtt) {
            // It measures the outage. A duplicate tells that the path answers as before, so timeouts start from the RTT
            // again. Otherwise the RTT may have grown, and the back-off stays until a sample counts (RFC 6298 section
            // 5.7).
            if flags.dsack {
                self.rtt.reset_backoff();
            }
            return None;
        }
        if let Some(sample) = ca_rtt {
            self.rtt.observe_min(now, sample);
        }
        self.rtt.sample(host, rtt, self.send.una(), self.send.next());
        ca_rtt
    }

    /// What is reported was sent before the head was (again), whose time runs anew: it would otherwise be over while a
    /// long queue drains (`tcp_clean_rtx_queue`: `sack_rtt_us` and the head's time stamp).
    pub(super) fn answers_before_head(&self, samples: &RttSamples) -> bool {
        let micros = |at: Instant| at.as_nanos() / 1000;
        let head = self.board.front();
        samples
            .first_sacked
            .zip(head)
            .is_some_and(|(sacked, head)| micros(sacked) < micros(head.sent_at))
    }
}
