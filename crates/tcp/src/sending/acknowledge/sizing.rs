//! The step of acknowledgement processing that computes the window.

use anabranch_congestion::{AckSample, SiblingView};
use anabranch_units::Duration;

use super::Walk;
use crate::sending::ack::Ack;
use crate::sending::flight::Delivered;
use crate::sending::recovery::Answer;

impl Walk<'_> {
    /// Computes the window (`tcp_cong_control`): with PRR during a reduction, otherwise with the controller.
    /// Then updates the pacing rate.
    #[inline]
    pub(super) fn size_window(
        &mut self,
        delivered: &Delivered,
        rtt: Option<Duration>,
        answer: Answer,
        siblings: &mut [SiblingView],
    ) {
        let Self { sending, ack, prior } = self;
        let Ack { host, now, .. } = **ack;
        let flags = &delivered.flags;
        let acked = (sending.flight.rate().delivered() - prior.delivered) as u32;
        let in_flight = sending.flight.in_flight();
        let reducing = sending.cwnd.reduces_proportionally();
        if reducing {
            sending.recovery.reduce(&mut sending.cwnd, in_flight, acked, answer.verdict, flags);
        }
        if sending.recovery.repairs_reneging() {
            sending.flight.rate_mut().discard();
        }
        let min_rtt = sending.rtt().min_rtt();
        let rate = sending.flight.rate_mut().finish(now, min_rtt, sending.mss);
        // The views of the other connections are current. The own view was created before the
        // acknowledgement.
        if let Some(own) = siblings.iter_mut().find(|view| view.id == ack.id) {
            *own = sending.sibling_view(own.id, own.usable, own.stale);
        }
        let sample = AckSample {
            now,
            coarse_now: host.coarse(now),
            tick: host.timer_tick,
            acked,
            acked_bytes: delivered.bytes,
            newly_lost: answer.verdict.lost,
            delivered: sending.flight.rate().delivered(),
            delivered_ce: sending.flight.rate().delivered_ce(),
            echo: flags.echo,
            mss: sending.mss,
            next_departure: sending.cwnd.pacer().next_departure(),
            prior_in_flight: prior.in_flight,
            in_flight,
            rtt,
            maybe_delayed: delivered.maybe_delayed,
            srtt: sending.rtt().srtt(),
            min_rtt,
            rate,
            snd_nxt: sending.queue.next(),
            snd_una: sending.queue.una(),
            cwnd_limited: sending.cwnd.limits_sender(),
            may_grow: !reducing && flags.una_advanced && acked > 0,
            paced: sending.cwnd.pacer().enforced(),
            pacing_rate: sending.cwnd.pacing_rate(),
            multipath: sending.queue.is_tagged(),
            id: ack.id,
            siblings,
        };
        sending.cwnd.on_ack(&sample);
        if sending.cwnd.controller().marks_application_limited() {
            sending.flight.rate_mut().mark_app_limited(in_flight);
        }
        sending.refresh_pacing();
    }
}
