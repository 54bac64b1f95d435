//! The processing of an acknowledgement by the parts of the sending half (`tcp_ack`).

mod sizing;
mod timing;

use crate::config::Moment;
use anabranch_congestion::{CongestionState, SiblingView};
use anabranch_units::Instant;
use anabranch_wire::Flags;

use super::Sending;
use super::ack::{Ack, SackRanges};
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
    pub(crate) fn accepts_ack(&mut self, now: Instant, position: u64) -> bool {
        if position > self.queue.next() {
            return false;
        }
        self.last_ack_at = now;
        self.timers.review();
        position >= self.queue.una()
    }

    /// Handles an acceptable acknowledgement. `siblings` is empty unless the controller is coupled.
    pub(crate) fn acknowledge(&mut self, ack: &Ack<'_>, siblings: &mut [SiblingView]) {
        let Ack { host, now, segment, position, .. } = *ack;
        let una = self.queue.una();
        let moved = self.queue.update_send_window(ack.peer_position, position, ack.window);
        let queue = &self.queue;
        self.timers.review_window_probe(Moment { host, now }, || queue.shut_out());
        // A segment with a signal of the layer above is not a duplicate acknowledgement (RFC 8684 section 3).
        let carries =
            !segment.payload.is_empty() || segment.flags.contains(Flags::FIN) || ack.carries_signal;
        let flags = AckFlags {
            una_advanced: position > una,
            not_duplicate: carries || moved,
            echo: ack.echo,
            ..AckFlags::default()
        };
        if flags.una_advanced {
            self.recovery.on_progress();
            self.queue.set_una(position);
        }
        if self.flight.is_empty() {
            // The receiver of a transfer has nothing outstanding, except perhaps a probe.
            if self.recovery.awaits_probe() {
                let (recovery, _, mut parts) = self.split(now);
                recovery.answer_probe(&mut parts, &flags);
            }
            return;
        }
        let prior = Prior {
            una,
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
        self.size_window(&delivered, rtt, answer, siblings);
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
}

#[cfg(test)]
mod tests;
