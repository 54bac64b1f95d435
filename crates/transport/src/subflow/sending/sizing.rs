//! The step of an acknowledgement's walk that sizes the window.

use anabranch_congestion::{AckSample, SiblingView};
use anabranch_units::Duration;

use super::Sending;
use super::ack::Ack;
use super::acknowledge::Prior;
use super::flight::Delivered;
use super::recovery::Answer;

impl Sending {
    /// Sizes the window (`tcp_cong_control`): PRR during a reduction, else the controller; then the pacing rate.
    #[inline]
    pub(super) fn size_window(
        &mut self,
        ack: &Ack<'_>,
        prior: &Prior,
        delivered: &Delivered,
        rtt: Option<Duration>,
        answer: Answer,
        siblings: &mut [SiblingView],
    ) {
        let Ack { host, now, .. } = *ack;
        let flags = &delivered.flags;
        let acked = (self.flight.rate().delivered() - prior.delivered) as u32;
        let in_flight = self.flight.in_flight();
        let reducing = self.cwnd.reduces_proportionally();
        if reducing {
            self.recovery.reduce(&mut self.cwnd, in_flight, acked, answer.verdict, flags);
        }
        if self.recovery.repairs_reneging() {
            self.flight.rate_mut().discard();
        }
        let min_rtt = self.rtt().min_rtt();
        let rate = self.flight.rate_mut().finish(now, min_rtt, self.mss);
        // The views of the others are current. Its own was made before the acknowledgement.
        if let Some(own) = siblings.iter_mut().find(|view| view.id == ack.id) {
            *own = self.sibling_view(own.id, own.usable, own.stale);
        }
        let sample = AckSample {
            now,
            coarse_now: host.coarse(now),
            tick: host.timer_tick,
            acked,
            acked_bytes: delivered.bytes,
            newly_lost: answer.verdict.lost,
            delivered: self.flight.rate().delivered(),
            delivered_ce: self.flight.rate().delivered_ce(),
            echo: flags.echo,
            mss: self.mss,
            next_departure: self.cwnd.pacer().next_departure(),
            prior_in_flight: prior.in_flight,
            in_flight,
            rtt,
            maybe_delayed: delivered.maybe_delayed,
            srtt: self.rtt().srtt(),
            min_rtt,
            rate,
            snd_nxt: self.queue.next(),
            snd_una: self.queue.una(),
            cwnd_limited: self.cwnd.limits_sender(),
            may_grow: !reducing && flags.una_advanced && acked > 0,
            paced: self.cwnd.pacer().enforced(),
            pacing_rate: self.cwnd.pacing_rate(),
            multipath: self.multipath,
            id: ack.id,
            siblings,
        };
        self.cwnd.on_ack(&sample);
        if self.cwnd.controller().marks_application_limited() {
            self.flight.rate_mut().mark_app_limited(in_flight);
        }
        self.refresh_pacing();
    }
}
