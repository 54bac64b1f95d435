//! The processing of an acknowledgement by the parts of the sending half (`tcp_ack`).

use crate::config::Moment;
use anabranch_congestion::{AckSample, CongestionState, SiblingView};
use anabranch_units::{Duration, Instant};
use anabranch_wire::Flags;

use super::Sending;
use super::ack::{Ack, AckStart, SackRanges};
use super::flight::{Acknowledged, Delivered};
use super::losses::Losses;
use super::parts::Parts;
use super::recovery::{AckFlags, Answer, Duplicate, Recovery, Repair};

/// The sending half before an acknowledgement.
struct Prior {
    una: u64,
    in_flight: u32,
    delivered: u64,
    /// Whether the state is Open, no outstanding segment is SACKed, lost or retransmitted, and no probe is
    /// outstanding.
    calm: bool,
}

impl Sending {
    /// Returns whether an acknowledgement number is acceptable. Records the time if it does not exceed the
    /// sent data.
    #[inline]
    pub(crate) fn accept_ack(&mut self, now: Instant, position: u64) -> bool {
        if position > self.queue.next() {
            return false;
        }
        self.last_ack_at = now;
        self.timers.reset_probe();
        position >= self.queue.una()
    }

    /// Updates the peer's window and the first unacknowledged position from an acceptable acknowledgement.
    /// Returns `None` if it cannot concern sent data: the receiver of a transfer has nothing outstanding,
    /// except perhaps a probe.
    #[inline]
    pub(crate) fn note_ack(
        &mut self,
        moment: Moment<'_>,
        position: u64,
        peer_position: u64,
        window: u64,
    ) -> Option<AckStart> {
        let prior_una = self.queue.una();
        let window_updated = self.queue.update_send_window(peer_position, position, window);
        let queue = &self.queue;
        self.timers.check_window_probe(moment, || queue.shut_out());
        if position > prior_una {
            self.recovery.on_progress();
            self.queue.set_una(position);
        }
        let outstanding = !self.flight.is_empty() || self.recovery.awaits_probe();
        outstanding.then_some(AckStart { prior_una, window_updated })
    }

    /// Handles an acknowledgement after [`Self::note_ack`]. `siblings` is empty unless the controller is
    /// coupled.
    pub(crate) fn acknowledge(&mut self, ack: &Ack<'_>, siblings: &mut [SiblingView]) {
        let Ack { now, segment, position, noted, .. } = *ack;
        // A segment with a signal of the layer above is not a duplicate acknowledgement (RFC 8684 section 3).
        let carries =
            !segment.payload.is_empty() || segment.flags.contains(Flags::FIN) || ack.carries_signal;
        let flags = AckFlags {
            una_advanced: position > noted.prior_una,
            not_duplicate: carries || noted.window_updated,
            echo: ack.echo,
            ..AckFlags::default()
        };
        if self.flight.is_empty() {
            let (recovery, _, mut parts) = self.split(now);
            recovery.answer_probe(&mut parts, &flags);
            return;
        }
        let prior = Prior {
            una: noted.prior_una,
            in_flight: self.flight.in_flight(),
            delivered: self.flight.rate().delivered(),
            calm: is_calm(self),
        };
        Walk { sending: self, ack, prior }.run(flags, siblings);
    }

    /// Borrows recovery, loss detection, and the parts that they change.
    #[inline]
    pub(super) fn split(&mut self, now: Instant) -> (&mut Recovery, &mut Losses, Parts<'_>) {
        let parts = Parts {
            now,
            una: self.queue.una(),
            next: self.queue.next(),
            queued: self.queue.queued_bytes() > 0,
            flight: &mut self.flight,
            cwnd: &mut self.cwnd,
            rtt: self.timers.rtt(),
        };
        (&mut self.recovery, &mut self.losses, parts)
    }
}

/// Returns whether the state is Open, no outstanding segment is SACKed, lost or retransmitted, and no probe
/// is outstanding.
#[inline]
fn is_calm(sending: &Sending) -> bool {
    sending.cwnd.state() == CongestionState::Open
        && sending.flight.is_in_order()
        && !sending.recovery.awaits_probe()
        && !sending.recovery.repairs_reneging()
}

/// The steps for an acknowledgement while data is outstanding.
pub(super) struct Walk<'a> {
    sending: &'a mut Sending,
    ack: &'a Ack<'a>,
    prior: Prior,
}

impl Walk<'_> {
    fn run(mut self, flags: AckFlags, siblings: &mut [SiblingView]) {
        let Ack { host, now, segment, .. } = *self.ack;
        let delivered = self.remove_delivered(flags);
        self.sending.queue.on_acked(delivered.bytes, delivered.buffers);
        self.sending.losses.on_delivered(&delivered);
        let rtt = self.sample_rtt(&delivered);
        let answer = self.answer(&delivered);
        self.update_window(&delivered, rtt, answer, siblings);
        self.set_timer(&delivered, rtt, answer);
        match answer.repair {
            Repair::None => {}
            Repair::Lost => self.sending.queue.intent_mut().set_repairs(true),
            Repair::New => self.sending.queue.intent_mut().set_repairs(false),
        }
        let calm = self.prior.calm && flags.una_advanced && !flags.echo;
        if !calm || !segment.sack.is_empty() {
            self.sending.note_full_window(Moment { host, now });
        }
    }

    /// Removes the acknowledged segments from the flight. A duplicate in the first SACK block is handled
    /// before.
    #[inline]
    fn remove_delivered(&mut self, mut flags: AckFlags) -> Delivered {
        let Self { sending, ack, prior } = self;
        let mut reports = SackRanges::default();
        // SACK blocks are ignored unless SACK was negotiated (`tcp_parse_options`).
        let reported = !ack.segment.sack.is_empty() && sending.flight.is_selective();
        if reported {
            reports = ack.reports(sending.queue.una(), sending.queue.next());
            if let Some((left, right)) = reports.duplicate {
                let duplicate = Duplicate {
                    left,
                    right,
                    prior_una: prior.una,
                    mss: sending.mss,
                    window_max: sending.queue.window().largest(),
                    retransmissions: sending.sent.retransmissions,
                };
                sending.recovery.on_duplicate(&mut sending.flight, &duplicate, &mut flags);
            }
        }
        let acknowledged = Acknowledged {
            now: ack.now,
            prior_una: prior.una,
            una: ack.position,
            ranges: reported.then(|| &reports.ranges[..reports.count]),
            echo: ack.segment.timestamps.map(|timestamps| ack.sequence.echoed(timestamps)),
            high_seq: sending.recovery.high_seq(),
            min_rtt: sending.rtt().min_rtt(),
            mss: sending.mss,
            merges: !sending.queue.is_tagged() || sending.rules.merges_reported,
        };
        sending.flight.acknowledge(&acknowledged, flags)
    }

    /// Reacts to duplicates, a probe, ECN marks and losses (`tcp_process_tlp_ack`, `tcp_fastretrans_alert`).
    #[inline]
    fn answer(&mut self, delivered: &Delivered) -> Answer {
        let Self { sending, ack, prior } = self;
        let flags = &delivered.flags;
        if prior.calm && flags.una_advanced && !flags.data_sacked && !flags.dsack && !flags.echo {
            return Answer::default();
        }
        if flags.echo {
            let newly = sending.flight.rate().delivered() - prior.delivered;
            sending.flight.rate_mut().on_marked(newly);
        }
        let (recovery, losses, mut parts) = sending.split(ack.now);
        recovery.answer(&mut parts, losses, flags, delivered.samples.echo)
    }

    /// Handles the RTT sample of an acknowledgement. Returns the sample for the controller.
    #[inline]
    fn sample_rtt(&mut self, delivered: &Delivered) -> Option<Duration> {
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
    fn set_timer(&mut self, delivered: &Delivered, rtt: Option<Duration>, answer: Answer) {
        let Self { sending, ack, .. } = self;
        let Ack { host, now, .. } = **ack;
        if answer.reneges {
            sending.timers.arm_reneging(Moment { host, now });
        } else if delivered.flags.set_timer
            || (rtt.is_some() && delivered.answers_before(sending.flight.front()))
        {
            let (state, awaits_fin) = (sending.cwnd.state(), sending.awaits_fin());
            let advanced = delivered.flags.una_advanced;
            sending.timers.set(Moment { host, now }, &sending.flight, state, advanced, awaits_fin);
        }
        sending.timers.arm_reordering(Moment { host, now }, answer.verdict.wait);
    }

    /// Computes the window (`tcp_cong_control`): with PRR during a reduction, otherwise with the controller.
    /// Then updates the pacing rate.
    #[inline]
    fn update_window(
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
        let rate = sending.flight.rate_mut().complete(now, min_rtt, sending.mss);
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
        sending.update_pacing();
    }
}

#[cfg(test)]
mod tests;
