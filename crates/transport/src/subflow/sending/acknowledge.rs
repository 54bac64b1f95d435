//! What an acknowledgement does to the sender (`tcp_ack`): SACK, removal from the scoreboard, RTT,
//! losses, window, timers.

mod round_trips;

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};

use super::losses::Verdict;
use super::recovery::{AckFlags, Answer, Repair};
use super::timers::Pending;
use crate::config::HostModel;
use crate::subflow::Subflow;
use anabranch_congestion::{AckSample, CongestionState, SiblingView};

use round_trips::RttSamples;

/// Where the subflow stood before an acknowledgement.
struct Prior {
    una: u64,
    in_flight: u32,
    delivered: u64,
}

/// An acknowledgement of outstanding data.
struct Ack<'a> {
    host: &'a HostModel,
    now: Instant,
    segment: &'a Segment,
    /// Our position that it acknowledges up to.
    position: u64,
    prior: Prior,
}

/// The progress that an acknowledgement made, for the window.
struct Progress {
    una_advanced: bool,
    prior_in_flight: u32,
    /// Segments.
    delivered: u32,
    acked_bytes: u64,
    rtt: Option<Duration>,
    maybe_delayed: bool,
    verdict: Verdict,
}

impl Subflow {
    /// Processes the acknowledgement of a segment. `siblings` is asked only by coupled controllers.
    #[inline(always)]
    pub(crate) fn handle_ack(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        siblings: &mut [SiblingView],
    ) {
        let ack = self.sequence.our_position(segment.ack, self.send.una());
        if ack > self.send.next() {
            return;
        }
        self.last_ack_at = now;
        self.timer.review();
        let prior_una = self.send.una();
        if ack < prior_una {
            return;
        }
        self.receive.on_cwr(segment);
        let echo = self.ecn.is_echoed_by(segment);
        let window = self.peer_window(segment);
        if window > self.send.window_max {
            self.raise_largest_window(window);
        }
        let position =
            self.sequence.peer_position(segment.seq, self.receive.next()).unwrap_or_default();
        let moved = self.send.update_send_window(position, ack, window);
        let send = &self.send;
        self.timer.review_window_probe(host, now, || send.shut_out(), &mut self.rtt);
        let one_way = ack == prior_una && self.board.is_empty();
        if one_way && self.recovery.probe_high.is_none() {
            // The receiver's end of a transfer: there is nothing this could tell us.
            return;
        }
        let prior_in_flight = self.board.in_flight();
        let prior_delivered = self.rate.delivered;
        // A signal is no duplicate either (RFC 8684 section 3); the DSS, on every segment, is not a signal.
        let carries = !segment.payload.is_empty()
            || segment.flags.contains(Flags::FIN)
            || !segment.mptcp.is_empty();
        let flags = AckFlags {
            una_advanced: ack > prior_una,
            not_duplicate: carries || moved,
            echo,
            ..AckFlags::default()
        };
        if flags.una_advanced {
            self.recovery.consecutive_timeouts = 0;
            self.send.set_una(ack);
        }
        let had_data = !self.board.is_empty();
        if !had_data {
            self.answer_probe(now, ack, &flags);
            return;
        }
        let prior =
            Prior { una: prior_una, in_flight: prior_in_flight, delivered: prior_delivered };
        let position = ack;
        let ack = Ack { host, now, segment, position, prior };
        if flags.una_advanced && !echo && segment.sack.is_empty() && self.is_calm() {
            // Written out: the compiler knows them then.
            let flags = AckFlags { una_advanced: true, ..AckFlags::default() };
            self.absorb::<true>(&ack, flags, siblings);
        } else {
            self.absorb_any(&ack, flags, siblings);
        }
    }

    /// Nothing outstanding was reported, lost or sent again, and no probe waits for its answer.
    #[expect(
        clippy::needless_bitwise_bool,
        reason = "one branch for all of it instead of one for each"
    )]
    #[inline(always)]
    fn is_calm(&self) -> bool {
        (self.ca_state == CongestionState::Open)
            & (self.board.sacked_out == 0)
            & (self.board.lost_out == 0)
            & (self.board.retrans_out == 0)
            & self.recovery.probe_high.is_none()
            & !self.recovery.reneged
    }

    // Apart: most acknowledgements are plain.
    #[inline(never)]
    fn absorb_any(&mut self, ack: &Ack<'_>, flags: AckFlags, siblings: &mut [SiblingView]) {
        self.absorb::<false>(ack, flags, siblings);
    }

    /// The acknowledgement concerns outstanding data: takes it off the scoreboard, judges it,
    /// sizes the window. It is `PLAIN` if it is of more, without SACK blocks or an echo, and the subflow [is
    /// calm](Self::is_calm): what it cannot tell of is not looked for.
    #[inline(always)]
    fn absorb<const PLAIN: bool>(
        &mut self,
        ack: &Ack<'_>,
        mut flags: AckFlags,
        siblings: &mut [SiblingView],
    ) {
        let Ack { host, now, segment, ref prior, .. } = *ack;
        let echo = segment.timestamps.map(|timestamps| self.sequence.echoed(timestamps));
        let mut samples = RttSamples { echo, ..RttSamples::default() };
        let prior_highest = match self.board.sacked_out {
            0 => prior.una,
            _ => self.board.highest_sacked_start,
        };
        // Blocks that were not agreed on say nothing (`tcp_parse_options`).
        if !PLAIN && !segment.sack.is_empty() && self.agreed.sack_permitted {
            self.tag_sacked(ack, &mut flags, &mut samples);
        }
        flags.duplicate = !flags.una_advanced && !flags.not_duplicate && !flags.dsack;
        let packets_out = self.board.packets_out();
        let acked_bytes = self.remove_acked::<PLAIN>(ack, prior_highest, &mut flags, &mut samples);
        let removed = packets_out - self.board.packets_out();
        let maybe_delayed =
            removed == 1 && self.lone_runt(ack.position - prior.una, &flags, &samples);
        if !PLAIN {
            self.settle_duplicates(removed, &mut flags);
        }
        let rtt = self.take_rtt::<PLAIN>(host, now, &flags, &samples);
        let answer = if PLAIN {
            Answer::default()
        } else {
            flags.set_timer |=
                !flags.una_advanced && rtt.is_some() && self.answers_before_head(&samples);
            self.repair_for(ack, &mut flags, echo)
        };
        let progress = Progress {
            una_advanced: flags.una_advanced,
            prior_in_flight: prior.in_flight,
            delivered: (self.rate.delivered - prior.delivered) as u32,
            acked_bytes,
            rtt,
            maybe_delayed,
            verdict: answer.verdict,
        };
        self.size_window(ack, &progress, &flags, siblings);
        self.after_ack(host, now, &flags, answer);
        if !PLAIN {
            self.note_full_window(host, now);
        }
    }

    /// Marks the segments that SACK blocks report (`tcp_sacktag_write_queue`).
    fn tag_sacked(&mut self, ack: &Ack<'_>, flags: &mut AckFlags, samples: &mut RttSamples) {
        let blocks = ack.segment.sack.as_slice();
        let una = self.send.una();
        let mut ranges = [(0u64, 0u64); 4];
        let mut count = 0;
        for (index, block) in blocks.iter().enumerate() {
            let position = |number| self.sequence.our_position(number, una);
            let (left, right) = (position(block.left), position(block.right));
            if left >= right || right > self.send.next() {
                continue;
            }
            let inside_second = index == 0
                && blocks.get(1).is_some_and(|outer| {
                    position(outer.left) <= left && right <= position(outer.right)
                });
            if index == 0 && (right <= ack.position || inside_second) {
                self.hear_duplicate(left, right, ack.prior.una, flags);
                continue;
            }
            ranges[count] = (left.max(ack.position), right);
            count += 1;
        }
        for &(left, right) in &ranges[..count] {
            let first = self.board.first_reported(left);
            let mut number = first;
            while let Some(next) = self.board.next_reported(number, right) {
                self.tag_one(ack.now, next, flags, samples);
                number = next + 1;
            }
            if number > first {
                self.send.on_buffers_changed(self.board.end_report(number - 1));
            }
        }
        self.board.remember_report(&ranges[..count]);
    }

    fn tag_one(
        &mut self,
        now: Instant,
        number: u64,
        flags: &mut AckFlags,
        samples: &mut RttSamples,
    ) {
        let highest = self.board.highest_sacked_start;
        let Some(sent) = self.board.mark_sacked(number) else {
            return;
        };
        let merged = !self.context.is_multipath() || self.stack.tcp.merges_reported;
        self.send.on_buffers_changed(self.board.gather(number, &sent, merged));
        flags.data_sacked = true;
        if !sent.ever_retransmitted() {
            if sent.start < highest && self.board.sacked_out > 1 {
                self.rack.on_reordering();
            }
            if sent.end() <= self.recovery.high_seq {
                flags.original_acked = true;
            }
            samples.first_sacked.get_or_insert(sent.sent_at);
            samples.last_sacked = Some(sent.sent_at);
        }
        self.rate.on_delivered(now, &sent);
        self.rack.on_delivered(now, &sent, self.rtt.min_rtt());
    }

    /// What an acknowledgement says of duplicates, of a probe, of marks and of losses (`tcp_process_tlp_ack`,
    /// `tcp_fastretrans_alert`): what is to be sent for it.
    fn repair_for(&mut self, ack: &Ack<'_>, flags: &mut AckFlags, echo: Option<u32>) -> Answer {
        let Ack { host, now, position, ref prior, .. } = *ack;
        if flags.dsack && !flags.probe_duplicated {
            self.rack.on_dsack(self.rate.delivered, self.rate.prior_delivered());
        }
        self.answer_probe(now, position, flags);
        if flags.echo {
            let newly = self.rate.delivered - prior.delivered;
            self.totals.delivered_ce += newly;
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(newly as u32);
            self.forbid_undo();
        }
        let calm = flags.una_advanced && !flags.data_sacked && !flags.dsack && !flags.echo;
        let open = self.ca_state == CongestionState::Open;
        if calm && open && self.board.sacked_out == 0 {
            Answer::default()
        } else if flags.una_advanced && self.board.front().is_some_and(|head| head.sacked) {
            self.timer.suspect_reneging(host, now, self.rtt.srtt());
            flags.set_timer = false;
            Answer::default()
        } else {
            self.answer_ack(now, flags, echo)
        }
    }

    /// `tcp_clean_rtx_queue`: returns the payload bytes cumulatively acknowledged. Of a `PLAIN` acknowledgement none
    /// of them was reported before.
    #[inline(always)]
    fn remove_acked<const PLAIN: bool>(
        &mut self,
        ack: &Ack<'_>,
        prior_highest: u64,
        flags: &mut AckFlags,
        samples: &mut RttSamples,
    ) -> u64 {
        let (now, ack) = (ack.now, ack.position);
        let (mut bytes, mut buffers) = (0, 0);
        while let Some(sent) = self.board.front_acked(ack) {
            bytes += sent.payload.len() as u64;
            if sent.ever_retransmitted() {
                flags.retransmission_acked = true;
            } else if PLAIN || !sent.sacked {
                samples.first_acked.get_or_insert(sent.sent_at);
                samples.last_acked = Some(sent.sent_at);
                if !PLAIN && sent.end() <= self.recovery.high_seq {
                    flags.original_acked = true;
                }
            }
            if PLAIN || !sent.sacked {
                // A hole that was never retransmitted got filled behind what earlier
                // acknowledgements had reported: reordering (`prior_fack`).
                if !PLAIN && !sent.ever_retransmitted() && sent.start < prior_highest {
                    self.rack.on_reordering();
                }
                self.rate.on_delivered(now, sent);
                if !samples.answers_earlier(sent) {
                    self.rack.on_delivered(now, sent, self.rtt.min_rtt());
                }
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
        flags.set_timer = flags.una_advanced;
        self.send.on_bytes_acked(bytes, buffers);
        self.totals.bytes_acked += bytes;
        bytes
    }

    /// `tcp_cong_control`: PRR during a reduction, else the controller; then the pacing rate.
    #[inline(always)]
    fn size_window(
        &mut self,
        ack: &Ack<'_>,
        progress: &Progress,
        flags: &AckFlags,
        siblings: &mut [SiblingView],
    ) {
        let Ack { host, now, .. } = *ack;
        let reducing = self.reducing() && !self.controller.owns_recovery();
        if reducing {
            self.reduce(progress.delivered, progress.verdict, flags);
        }
        if self.recovery.reneged {
            self.rate.discard();
        }
        let rate = self.rate.finish(now, self.rtt.min_rtt(), self.mss);
        // The others' views are as good as ever; its own was made before the acknowledgement.
        if let Some(own) = siblings.iter_mut().find(|view| view.id == self.id) {
            *own = self.sibling_view();
        }
        let sample = AckSample {
            now,
            coarse_now: host.coarse(now),
            tick: host.timer_tick,
            acked: progress.delivered,
            acked_bytes: progress.acked_bytes,
            newly_lost: progress.verdict.lost,
            delivered: self.rate.delivered,
            delivered_ce: self.totals.delivered_ce,
            echo: flags.echo,
            mss: self.mss,
            next_departure: self.pacer.next_departure(),
            prior_in_flight: progress.prior_in_flight,
            in_flight: self.board.in_flight(),
            rtt: progress.rtt,
            maybe_delayed: progress.maybe_delayed,
            srtt: self.rtt.srtt(),
            min_rtt: self.rtt.min_rtt(),
            rate,
            snd_nxt: self.send.next(),
            snd_una: self.send.una(),
            cwnd_limited: self.usage.is_limited(&self.window),
            may_grow: !reducing && progress.una_advanced && progress.delivered > 0,
            paced: self.pacer.enforced(),
            pacing_rate: self.pacer.rate(),
            multipath: self.context.is_multipath(),
            id: self.id,
            siblings,
        };
        let grows = sample.may_grow;
        self.controller.on_ack(&sample, &mut self.window);
        if grows && !self.controller.owns_recovery() {
            // `tcp_cong_avoid`, whether it grew or not.
            self.usage.on_window_set(now);
        }
        if self.controller.marks_application_limited() {
            self.rate.mark_app_limited(self.board.in_flight());
        }
        self.refresh_pacing();
    }

    /// An application that waits for room gets a larger buffer unless the window is full (`tcp_new_space`,
    /// `tcp_should_expand_sndbuf`); true when it grew. It is checked behind every socket buffer of new data
    /// (`tcp_event_new_data_sent`).
    #[inline(always)]
    pub(crate) fn expand_buffer(&mut self, now: Instant) -> bool {
        if !self.wants_space()
            || (!self.stack.tcp.grows_while_full && self.board.in_flight() >= self.window.cwnd)
        {
            return false;
        }
        self.usage.on_window_set(now);
        self.send.grow_buffer(self.window.cwnd, self.controller.send_buffer_factor())
    }

    /// As [`Self::expand_buffer`], after an acknowledgement (`tcp_data_snd_check`): where it lets data out,
    /// what is left of the window behind that data decides, except in stacks that grow a buffer while the
    /// window is full.
    #[inline(always)]
    pub(crate) fn expand_buffer_after_ack(&mut self, now: Instant) -> bool {
        self.send.space_unchecked = !self.stack.tcp.grows_while_full && self.lets_out(now);
        !self.send.space_unchecked && self.expand_buffer(now)
    }

    /// The check that an acknowledgement left until nothing more goes out.
    pub(crate) fn expand_buffer_behind_data(&mut self, now: Instant) {
        if std::mem::take(&mut self.send.space_unchecked) {
            self.send.grew |= self.expand_buffer(now);
        }
    }

    /// An acknowledgement lets data out: what was lost, or what waits and is not paced.
    pub(crate) fn lets_out(&self, now: Instant) -> bool {
        let lost = self.board.lost_out > self.board.retrans_out;
        let waits = self.send.queued_bytes() > 0 && !self.send.must_wait_for_more();
        let paced = self.pacer.enforced() && self.pacer.next_departure() > now;
        lost || (waits && !paced && !self.send.shut_out())
    }

    /// Recomputes the pacing rate from the window and the RTT.
    #[inline(always)]
    pub(crate) fn refresh_pacing(&mut self) {
        let packets_out = self.board.packets_out();
        let own = self.controller.pacing_rate();
        self.pacer.update(own, &self.window, packets_out, self.mss, self.rtt.srtt8_micros());
    }

    /// Timers and repair after an acknowledgement (`tcp_xmit_recovery`).
    #[inline(always)]
    fn after_ack(&mut self, host: &HostModel, now: Instant, flags: &AckFlags, answer: Answer) {
        if flags.set_timer {
            if flags.una_advanced && self.board.is_empty() {
                self.rearm_timeout(host, now);
            } else if self.timer.pending() != Some(Pending::Reordering) || flags.una_advanced {
                self.set_timer(host, now);
            }
        }
        self.timer.wait_for_late(host, now, answer.verdict.wait, self.rtt.rto());
        match answer.repair {
            Repair::None => {}
            Repair::Lost => self.send.intent.set_repairs(true),
            Repair::New => self.send.intent.set_repairs(false),
        }
    }
}

#[cfg(test)]
mod tests;
