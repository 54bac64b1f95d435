//! What an acknowledgement does to the sender (`tcp_ack`): SACK, removal from the scoreboard, RTT,
//! losses, window, timers.

mod plain;

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, SackBlock, Segment};

use super::Subflow;
use super::recovery::{AckFlags, Repair};
use super::rto::Pending;
use super::rtt::timestamp_clock;
use super::scoreboard::Sent;
use crate::config::HostModel;
use crate::congestion::{AckSample, CongestionState, SiblingView};

/// RTT information gathered from one acknowledgement.
#[derive(Default)]
struct RttSamples {
    first_acked: Option<Instant>,
    last_acked: Option<Instant>,
    first_sacked: Option<Instant>,
    last_sacked: Option<Instant>,
    /// It ends within a segment.
    partial: bool,
    /// The timestamp it echoes.
    echo: Option<u32>,
}

impl RttSamples {
    /// A segment that was sent again is acknowledged by what answers an earlier transmission of it
    /// (`tcp_skb_spurious_retrans`).
    fn answers_earlier(&self, sent: &Sent) -> bool {
        sent.ever_retransmitted()
            && self
                .echo
                .filter(|echo| *echo > 0)
                .is_some_and(|echo| (echo.wrapping_sub(timestamp_clock(sent.sent_at)) as i32) < 0)
    }
}

/// Where the subflow stood before an acknowledgement.
struct Prior {
    una: u64,
    in_flight: u32,
    delivered: u64,
}

/// What the acknowledgement brought, for the window.
struct Progress {
    una_advanced: bool,
    prior_in_flight: u32,
    /// Segments.
    delivered: u32,
    acked_bytes: u64,
    rtt: Option<Duration>,
    maybe_delayed: bool,
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
        let ack = self.our_position(segment.ack);
        if ack > self.send.next() {
            return;
        }
        self.last_ack_at = now;
        self.timer.review();
        let prior_una = self.send.una();
        if ack < prior_una {
            return;
        }
        let echo = self.hear_echo(segment);
        let window = self.peer_window(segment);
        self.send.window_max = self.send.window_max.max(window);
        let position = self.peer_position(segment.seq).unwrap_or_default();
        self.send.hear_window(position, ack, window);
        let moved = self.send.update_window(ack, window);
        self.review_window_probe(host, now);
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
        if flags.una_advanced && !echo && segment.sack.is_empty() && self.is_calm() {
            self.absorb_plain(host, now, segment, ack, &prior, siblings);
        } else {
            self.absorb(host, now, segment, ack, &prior, flags, siblings);
        }
    }

    /// The acknowledgement concerns outstanding data: takes it off the scoreboard, judges it,
    /// sizes the window.
    // Apart: most are plain.
    #[inline(never)]
    #[expect(
        clippy::too_many_arguments,
        reason = "one acknowledgement, as its only caller found it"
    )]
    fn absorb(
        &mut self,
        host: &HostModel,
        now: Instant,
        segment: &Segment,
        ack: u64,
        prior: &Prior,
        mut flags: AckFlags,
        siblings: &mut [SiblingView],
    ) {
        let echo = segment.timestamps.map(|timestamps| self.echoed(timestamps));
        let mut samples = RttSamples { echo, ..RttSamples::default() };
        let prior_highest = match self.board.sacked_out {
            0 => prior.una,
            _ => self.board.highest_sacked_start,
        };
        self.send.newly_lost = 0;
        // Blocks that were not agreed on say nothing (`tcp_parse_options`).
        if !segment.sack.is_empty() && self.agreed.sack_permitted {
            self.tag_sacked(now, ack, segment.sack.as_slice(), &mut flags, &mut samples);
        }
        flags.duplicate = !flags.una_advanced && !flags.not_duplicate && !flags.dsack;
        let packets_out = self.board.packets_out();
        let acked_bytes = self.remove_acked(now, ack, prior_highest, &mut flags, &mut samples);
        let removed = packets_out - self.board.packets_out();
        let maybe_delayed = removed == 1 && self.lone_runt(ack - prior.una, &flags, &samples);
        self.settle_duplicates(removed, &mut flags);
        let rtt = self.take_rtt(host, now, &flags, &samples);
        flags.set_timer |= !flags.una_advanced && self.answers_before_head(&samples);
        if flags.dsack {
            self.rack.on_dsack(self.rate.delivered, self.rate.prior_delivered());
        }
        self.answer_probe(now, ack, &flags);
        if flags.echo {
            let newly = self.rate.delivered - prior.delivered;
            self.totals.delivered_ce += newly;
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(newly as u32);
            self.forbid_undo();
        }
        let calm = flags.una_advanced && !flags.data_sacked && !flags.dsack && !flags.echo;
        let open = self.ca_state == CongestionState::Open;
        let repair = if calm && open && self.board.sacked_out == 0 {
            Repair::None
        } else if flags.una_advanced && self.board.front().is_some_and(|head| head.sacked) {
            self.suspect_reneging(host, now, &mut flags)
        } else {
            self.answer_ack(now, &mut flags, echo)
        };
        let progress = Progress {
            una_advanced: flags.una_advanced,
            prior_in_flight: prior.in_flight,
            delivered: (self.rate.delivered - prior.delivered) as u32,
            acked_bytes,
            rtt,
            maybe_delayed,
        };
        self.size_window(host, now, &progress, &flags, siblings);
        self.after_ack(host, now, &flags, repair);
    }

    /// `tcp_sacktag_write_queue`.
    fn tag_sacked(
        &mut self,
        now: Instant,
        ack: u64,
        blocks: &[SackBlock],
        flags: &mut AckFlags,
        samples: &mut RttSamples,
    ) {
        let mut ranges = [(0u64, 0u64); 4];
        let mut count = 0;
        for (index, block) in blocks.iter().enumerate() {
            let (left, right) = (self.our_position(block.left), self.our_position(block.right));
            if left >= right || right > self.send.next() {
                continue;
            }
            let inside_second = index == 0
                && blocks.get(1).is_some_and(|outer| {
                    self.our_position(outer.left) <= left && right <= self.our_position(outer.right)
                });
            if index == 0 && (right <= ack || inside_second) {
                flags.dsack = true;
                self.recovery.on_dsack(right);
                continue;
            }
            ranges[count] = (left.max(ack), right);
            count += 1;
        }
        for &(left, right) in &ranges[..count] {
            let first = self.board.first_reported(left);
            let mut number = first;
            while let Some(next) = self.board.next_reported(number, right) {
                self.tag_one(now, next, flags, samples);
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
        let merged = !self.multipath || self.stack.merges_reported;
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

    /// `tcp_clean_rtx_queue`: returns the payload bytes cumulatively acknowledged.
    fn remove_acked(
        &mut self,
        now: Instant,
        ack: u64,
        prior_highest: u64,
        flags: &mut AckFlags,
        samples: &mut RttSamples,
    ) -> u64 {
        let (mut bytes, mut buffers) = (0, 0);
        while let Some(sent) = self.board.front_acked(ack) {
            bytes += sent.payload.len() as u64;
            if sent.ever_retransmitted() {
                flags.retransmission_acked = true;
            } else if !sent.sacked {
                samples.first_acked.get_or_insert(sent.sent_at);
                samples.last_acked = Some(sent.sent_at);
                if sent.end() <= self.recovery.high_seq {
                    flags.original_acked = true;
                }
            }
            if !sent.sacked {
                // A hole that was never retransmitted got filled behind what earlier
                // acknowledgements had reported: reordering (`prior_fack`).
                if !sent.ever_retransmitted() && sent.start < prior_highest {
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

    /// The one segment acknowledged was not full, nothing else was delivered since it was sent, and no
    /// duplicate is reported: the receiver may have waited for more (`FLAG_ACK_MAYBE_DELAYED`).
    #[inline(always)]
    fn lone_runt(&self, bytes: u64, flags: &AckFlags, samples: &RttSamples) -> bool {
        let alone = self.rate.prior_delivered() + 1 == self.rate.delivered;
        let runt = bytes < u64::from(self.mss) && !samples.partial;
        alone && runt && samples.first_acked.is_some() && !flags.dsack
    }

    /// `tcp_ack_update_rtt`: feeds the estimator; returns the RTT a controller may use.
    #[inline(always)]
    fn take_rtt(
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
        if let Some(sample) = ca_rtt {
            self.rtt.observe_min(now, sample);
        }
        self.rtt.sample(host, rtt, self.send.una(), self.send.next());
        ca_rtt
    }

    /// What is reported was sent before the head was (again), whose time runs anew: it would otherwise be over while a
    /// long queue drains (`tcp_clean_rtx_queue`: `sack_rtt_us` and the head's time stamp).
    fn answers_before_head(&self, samples: &RttSamples) -> bool {
        let micros = |at: Instant| at.as_nanos() / 1000;
        let head = self.board.front();
        samples
            .first_sacked
            .zip(head)
            .is_some_and(|(sacked, head)| micros(sacked) < micros(head.sent_at))
    }

    /// `tcp_cong_control`: PRR during a reduction, else the controller; then the pacing rate.
    #[inline(always)]
    fn size_window(
        &mut self,
        host: &HostModel,
        now: Instant,
        progress: &Progress,
        flags: &AckFlags,
        siblings: &mut [SiblingView],
    ) {
        let newly_lost = self.send.newly_lost;
        let reducing = self.reducing() && !self.controller.owns_recovery();
        if reducing {
            self.reduce(progress.delivered, newly_lost, flags);
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
            acked: progress.delivered,
            acked_bytes: progress.acked_bytes,
            newly_lost,
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
            cwnd_limited: self.cwnd_limited(),
            may_grow: !reducing && progress.una_advanced && progress.delivered > 0,
            paced: self.pacer.enforced(),
            pacing_rate: self.pacer.rate(),
            multipath: self.multipath,
            id: self.id,
            siblings,
        };
        self.controller.on_ack(&sample, &mut self.window);
        if self.controller.marks_application_limited() {
            self.rate.mark_app_limited(self.board.in_flight());
        }
        self.refresh_pacing();
    }

    /// An application that waits for room gets a larger buffer unless the window is full (`tcp_new_space`,
    /// `tcp_should_expand_sndbuf`); true when it grew. It is checked behind every socket buffer of new data
    /// (`tcp_event_new_data_sent`).
    #[inline(always)]
    pub(crate) fn expand_buffer(&mut self) -> bool {
        self.wants_space()
            && (self.stack.grows_while_full || self.board.in_flight() < self.window.cwnd)
            && self.send.grow_buffer(self.window.cwnd, self.controller.send_buffer_factor())
    }

    /// As [`Self::expand_buffer`], after an acknowledgement (`tcp_data_snd_check`): where it lets data out,
    /// what is left of the window behind that data decides, except in stacks that grow a buffer while the
    /// window is full.
    #[inline(always)]
    pub(crate) fn expand_buffer_after_ack(&mut self, now: Instant) -> bool {
        self.send.space_unchecked = !self.stack.grows_while_full && self.lets_out(now);
        !self.send.space_unchecked && self.expand_buffer()
    }

    /// The check that an acknowledgement left until nothing more goes out.
    pub(crate) fn expand_buffer_behind_data(&mut self) {
        if std::mem::take(&mut self.send.space_unchecked) {
            self.send.grew |= self.expand_buffer();
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
    fn after_ack(&mut self, host: &HostModel, now: Instant, flags: &AckFlags, repair: Repair) {
        if flags.set_timer {
            if flags.una_advanced && self.board.is_empty() {
                self.rearm_timeout(host, now);
            } else if self.timer.pending() != Some(Pending::Reordering) || flags.una_advanced {
                self.set_timer(host, now);
            }
        }
        self.arm_reordering_timer(host, now);
        match repair {
            Repair::None => {}
            Repair::Lost => self.send.retransmit = true,
            Repair::New => self.send.retransmit = false,
        }
    }
}

#[cfg(test)]
mod tests;
