//! The steps of an acknowledgement's walk that measure the RTT and set the timer.

use anabranch_units::{Duration, Instant};

use super::Sending;
use super::flight::Delivered;
use super::recovery::Answer;
use crate::config::HostModel;

impl Sending {
    /// Takes the RTT sample of an acknowledgement. Returns the RTT that the controller may use.
    #[inline]
    pub(super) fn sample_rtt(
        &mut self,
        host: &HostModel,
        now: Instant,
        delivered: &Delivered,
    ) -> Option<Duration> {
        let (rtt, ca_rtt) = delivered.round_trip(now)?;
        let (selective, state) = (self.flight.is_selective(), self.cwnd.state());
        if self.recovery.follows_outage(&delivered.flags, selective, state)
            && self.recovery.outlasts_timeout(now, rtt)
        {
            // It measures the outage. A duplicate shows that the path answers as before, so timeouts start from the RTT
            // again. Otherwise the RTT may have grown, and the back-off stays until a sample counts (RFC 6298 section
            // 5.7).
            if delivered.flags.dsack {
                self.timers.reset_backoff();
            }
            return None;
        }
        let positions = (self.queue.una(), self.queue.next());
        self.timers.sample(host, now, rtt, ca_rtt, positions);
        ca_rtt
    }

    /// Sets the timer after an acknowledgement.
    #[inline]
    pub(super) fn set_timer(
        &mut self,
        host: &HostModel,
        now: Instant,
        delivered: &Delivered,
        rtt: Option<Duration>,
        answer: Answer,
    ) {
        if answer.reneges {
            self.timers.suspect_reneging(host, now);
        } else if delivered.flags.set_timer
            || (rtt.is_some() && delivered.answers_before(self.flight.front()))
        {
            let (state, awaits_fin) = (self.cwnd.state(), self.awaits_fin());
            let advanced = delivered.flags.una_advanced;
            self.timers.set(host, now, &self.flight, state, advanced, awaits_fin);
        }
        self.timers.wait_for_late(host, now, answer.verdict.wait);
    }
}
