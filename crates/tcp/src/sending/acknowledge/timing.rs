//! The steps of acknowledgement processing that measure the RTT and set the timer.

use crate::config::Moment;
use anabranch_units::Duration;

use super::Walk;
use crate::sending::ack::Ack;
use crate::sending::flight::Delivered;
use crate::sending::recovery::Answer;

impl Walk<'_> {
    /// Handles the RTT sample of an acknowledgement. Returns the sample for the controller.
    #[inline]
    pub(super) fn sample_rtt(&mut self, delivered: &Delivered) -> Option<Duration> {
        let Self { sending, ack, .. } = self;
        let Ack { host, now, .. } = **ack;
        let (rtt, ca_rtt) = delivered.round_trip(now)?;
        let (selective, state) = (sending.flight.is_selective(), sending.cwnd.state());
        if sending.recovery.follows_outage(&delivered.flags, selective, state)
            && sending.recovery.outlasts_timeout(now, rtt)
        {
            // The sample includes the outage and is ignored. A DSACK shows that the path works as before, so
            // the backoff is reset. Otherwise the RTT may have grown, and the backoff is kept until the next
            // valid sample (RFC 6298 section 5.7).
            if delivered.flags.dsack {
                sending.timers.reset_backoff();
            }
            return None;
        }
        let positions = (sending.queue.una(), sending.queue.next());
        sending.timers.sample(Moment { host, now }, rtt, ca_rtt, positions);
        ca_rtt
    }

    /// Sets the timer after an acknowledgement.
    #[inline]
    pub(super) fn set_timer(
        &mut self,
        delivered: &Delivered,
        rtt: Option<Duration>,
        answer: Answer,
    ) {
        let Self { sending, ack, .. } = self;
        let Ack { host, now, .. } = **ack;
        if answer.reneges {
            sending.timers.suspect_reneging(Moment { host, now });
        } else if delivered.flags.set_timer
            || (rtt.is_some() && delivered.answers_before(sending.flight.front()))
        {
            let (state, awaits_fin) = (sending.cwnd.state(), sending.awaits_fin());
            let advanced = delivered.flags.una_advanced;
            sending.timers.set(Moment { host, now }, &sending.flight, state, advanced, awaits_fin);
        }
        sending.timers.wait_for_late(Moment { host, now }, answer.verdict.wait);
    }
}
