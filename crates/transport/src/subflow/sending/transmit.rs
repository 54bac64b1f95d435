//! The decision to transmit (`tcp_write_xmit`): retransmissions first, then new data within both
//! windows; and the segment that carries it.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use super::flight::{BurstMapping, Sent};
use super::intent::{Intent, Urgent};
use super::queue::{BURST_BYTES, Sender};
use super::rtt::timestamp_clock;
use crate::config::HostModel;
use crate::profile::Deferral;
use crate::subflow::{EmitContext, State, Subflow};
use anabranch_congestion::{CongestionState, TransmitStart};

/// Round trips, in microseconds, that halve what one socket buffer takes beyond a millisecond's worth: two to this
/// power (`tcp_tso_rtt_log`).
const NEAR_SHIFT: u32 = 9;
/// The round trip from which a buffer takes no more than a millisecond's worth.
const NEAR: Duration = Duration::from_micros(16 << NEAR_SHIFT);
/// The share of a window that is worth sending at once (`tcp_tso_win_divisor`).
const TSO_WINDOW_DIVISOR: u64 = 3;
/// The longest wait for an acknowledgement that lets a whole socket buffer out.
const LATELY: Duration = Duration::from_millis(1);

/// What a socket buffer waits for that `tcp_tso_should_defer` holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::subflow) enum Deferred {
    /// More room in the congestion window, which counts as filled then (`is_cwnd_limited`).
    ForCongestionWindow,
    /// More of the peer's window, or more data.
    ForOther,
}

impl Sender {
    pub(crate) fn fin_sent(&self) -> bool {
        self.fin_sent
    }

    /// Something is to go out whatever the congestion window says.
    pub(crate) fn is_urged(&self) -> bool {
        self.intent.is_urgent()
    }
}

impl Subflow {
    /// Writes the next data segment to send, retransmissions first; false when there is none.
    #[inline(always)]
    pub(crate) fn next_data_segment(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        if self.state != State::Established {
            return false;
        }
        if self.send.intent != Intent::New {
            if self.send.intent.take(Urgent::Head)
                && let Some(number) = self.board.next_lost()
            {
                return self.retransmit(host, number, context, segment);
            }
            if self.send.intent.take(Urgent::Probe) {
                return self.send_probe(host, context, segment);
            }
            let now = context.now;
            let room = self.board.in_flight() < self.window.cwnd && !self.pacer.blocked(now);
            if self.send.intent.repairs() && room {
                if let Some(number) = self.next_admitted_loss() {
                    let sent = self.retransmit(host, number, context, segment);
                    self.note_full_window(host, now);
                    return sent;
                }
                self.send.intent.set_repairs(false);
            }
        }
        self.send_new(host, context, false, segment)
    }

    /// Sends new data within the window; `probe` may exceed the congestion window by one segment.
    #[inline(always)]
    pub(in crate::subflow) fn send_new(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        probe: bool,
        segment: &mut Segment,
    ) -> bool {
        let now = context.now;
        let in_flight = self.board.in_flight();
        let together = self.send.last_sent == now && !self.board.is_empty();
        if !self.may_send_new(host, now, in_flight, together, probe) {
            return false;
        }
        self.rest_after_idle(host, now);
        let cut = self.send.cut(self.most_payload());
        let payload = cut.as_ref().map_or_else(Bytes::new, |(payload, _)| payload.clone());
        let sent = self.take_new(host, now, in_flight, together, cut);
        self.data_segment(sent.start, payload, sent.mapping(), sent.fin, context, segment);
        self.ecn.mark_capable(segment);
        let more = self.has_more(in_flight);
        if !more && self.ends_push(&sent) {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        self.file_new(host, now, sent, more, together, probe);
        true
    }

    /// Counts the next segment, which was `cut` off the queue: what the scoreboard will know of it.
    // Its payload is cloned before, by who needs it: what is lent stays in memory, and is moved from there.
    #[inline(always)]
    pub(in crate::subflow) fn take_new(
        &mut self,
        host: &HostModel,
        now: Instant,
        in_flight: u32,
        together: bool,
        cut: Option<(Bytes, BurstMapping)>,
    ) -> Sent {
        let (payload, mapping) = match cut {
            Some((payload, mapping)) => {
                (payload, Some(mapping).filter(|_| self.context.is_multipath()))
            }
            None => (Bytes::new(), None),
        };
        let fin = self.send.fin_due();
        let idle = self.board.is_empty();
        if idle && in_flight == 0 {
            self.announce_start(host, now);
        }
        let (start, length) = (self.send.next, payload.len() as u64);
        self.send.next = start + length + u64::from(fin);
        self.send.fin_sent |= fin;
        // How much a buffer takes matters where one is opened.
        let opens = !together || !self.send.buffer_has_room();
        let most = if opens { self.burst_segments() } else { 0 };
        let opens_buffer = self.send.count_new(length, together, most);
        self.send.last_sent = now;
        if length < u64::from(self.send.mss) {
            self.send.small_end = self.send.next;
        }
        Sent {
            start,
            mapping: mapping.into(),
            sent_at: now,
            serial: 0,
            stamp: self.rate.stamp(now, in_flight, idle),
            transmission: 1,
            fin,
            opens_buffer,
            sacked: false,
            leap: 0,
            lost: false,
            retransmitted: false,
            payload,
        }
    }

    /// What the next segment may carry, bytes.
    #[inline(always)]
    pub(in crate::subflow) fn most_payload(&self) -> usize {
        let room = self.send.window_end.saturating_sub(self.send.next);
        u64::from(self.send.mss - self.receive.sack_bytes(self.mss.saturating_sub(self.send.mss)))
            .min(room) as usize
    }

    /// The last segment of a socket buffer has PSH where the buffer has several (`__tcp_transmit_skb`), or where it is
    /// small: nothing was added to it because a push had ended it (`tcp_mark_push` in `mptcp_sendmsg_frag`).
    #[inline(always)]
    pub(in crate::subflow) fn ends_push(&self, sent: &Sent) -> bool {
        let small =
            self.context.is_multipath() && (sent.payload.len() as u64) < u64::from(self.send.mss);
        self.stack.tcp.pushes_buffers && (!sent.opens_buffer || small)
    }

    /// Another segment of the same socket buffer follows one that was sent beside `in_flight` others.
    #[inline(always)]
    pub(in crate::subflow) fn has_more(&self, in_flight: u32) -> bool {
        self.send.buffer_has_room()
            && self.send.queued > 0
            && in_flight + 1 < self.window.cwnd
            && !self.send.shut_out()
            && !self.send.must_wait_for_more()
    }

    /// Counts a segment that was taken off the queue as sent, perhaps `together` with the one before; `more` of the
    /// same socket buffer follows.
    #[inline(always)]
    pub(in crate::subflow) fn file_new(
        &mut self,
        host: &HostModel,
        now: Instant,
        sent: Sent,
        more: bool,
        together: bool,
        probe: bool,
    ) {
        self.count_sent(sent.payload.len() as u64, true, now, !sent.opens_buffer);
        self.board.push(sent);
        self.set_timer_behind_data(host, now, together, probe);
        self.after_new(host, now, more);
    }

    /// New data has left; `more` of the same socket buffer follows.
    #[inline(always)]
    fn after_new(&mut self, host: &HostModel, now: Instant, more: bool) {
        let full = self.board.in_flight() >= self.window.cwnd
            || (!more && self.next_waits_for_cwnd(host, now));
        self.validate_window(host, now, full);
        if !more {
            self.send.end_buffer();
            self.send.grew |= self.expand_buffer(now);
        }
    }

    /// The next socket buffer is held back for want of congestion window, and neither pacing nor the peer's
    /// window has stopped the loop before that is asked (`tcp_write_xmit`).
    fn next_waits_for_cwnd(&self, host: &HostModel, now: Instant) -> bool {
        !self.pacer.holds_back(now)
            && !self.send.shut_out()
            && self.defers(host, now) == Some(Deferred::ForCongestionWindow)
    }

    /// There is something, and no window, rate or rule holds it back; `together` says that a segment has
    /// just gone out.
    #[inline(always)]
    pub(in crate::subflow) fn may_send_new(
        &mut self,
        host: &HostModel,
        now: Instant,
        in_flight: u32,
        together: bool,
        probe: bool,
    ) -> bool {
        if self.send.queued == 0 && !self.send.fin_due() {
            return false;
        }
        if in_flight >= self.window.cwnd && !probe {
            return false;
        }
        if !self.window_admits(host, now) {
            return false;
        }
        if probe {
            return true;
        }
        let opens = !(together && self.send.buffer_has_room());
        let held = opens && self.pacer.blocked(now) || self.send.must_wait_for_more();
        if held || !opens {
            return !held;
        }
        if !self.send.deferred
            && let Some(deferred) = self.defers(host, now)
        {
            self.send.deferred = true;
            let full = deferred == Deferred::ForCongestionWindow;
            if full && self.stack.tcp.deferral == Deferral::NextMillisecond {
                self.validate_window(host, now, true);
            }
        }
        !self.send.deferred
    }

    /// The peer's window has room for a segment, or for some of one and that was waited for in vain.
    #[inline(always)]
    fn window_admits(&mut self, host: &HostModel, now: Instant) -> bool {
        let fill = self.send.intent.take(Urgent::SmallWindow);
        let some = fill && self.send.window_end > self.send.next;
        let admits = some || !self.send.shut_out();
        if !admits && self.board.is_empty() {
            self.arm_window_probe(host, now);
        }
        admits
    }

    /// Segments that one socket buffer takes on its way out: a millisecond's worth, more over a short way, and as
    /// many as the controller wants at least (`tcp_tso_segs`, `tcp_tso_autosize`).
    #[inline(always)]
    pub(in crate::subflow) fn burst_segments(&self) -> u32 {
        let millisecond = self.pacer.rate().bytes_per_second() >> 10;
        let near = match self.rtt.min_rtt() {
            Some(rtt) if rtt < NEAR && self.stack.tcp.bursts_by_rtt => {
                BURST_BYTES >> ((rtt.as_nanos() / 1000) >> NEAR_SHIFT)
            }
            _ => 0,
        };
        let bytes = (millisecond + near).min(65_536);
        // By what a segment carries beside MPTCP's options (`tcp_current_mss`), unlike the rate.
        (bytes as u32 / self.send.mss).max(self.controller.least_burst())
    }

    /// `tcp_tso_should_defer`: what the next socket buffer waits for, if it waits for more room in the windows.
    #[inline(always)]
    pub(in crate::subflow) fn defers(&self, host: &HostModel, now: Instant) -> Option<Deferred> {
        if self.ca_state >= CongestionState::Recovery || !self.has_just_sent(host, now) {
            return None;
        }
        // Counted without MPTCP's options (`mss_cache`).
        let mss = u64::from(self.mss);
        let buffer = self.send.next_buffer();
        let free = u64::from(self.window.cwnd.saturating_sub(self.board.in_flight())) * mss;
        let edge = self.send.una + self.send.window();
        let offered = edge.saturating_sub(self.send.next);
        let limit = free.min(offered);
        let several = buffer > mss && free > 0;
        let whole = limit >= buffer && self.send.queued > buffer;
        if !several || whole || limit >= u64::from(self.burst_segments()) * mss {
            return None;
        }
        let window = u64::from(self.window.cwnd) * mss;
        if limit >= window.min(self.send.window()) / TSO_WINDOW_DIVISOR {
            return None;
        }
        let for_cwnd = free < offered && free <= buffer;
        let why = if for_cwnd { Deferred::ForCongestionWindow } else { Deferred::ForOther };
        self.is_head_due(now).then_some(why)
    }

    /// The acknowledgement of the oldest segment in flight is not expected to come too late to wait for.
    pub(in crate::subflow) fn is_head_due(&self, now: Instant) -> bool {
        let Some(head) = self.board.front() else { return false };
        let srtt = self.rtt.srtt().unwrap_or_default();
        match self.stack.tcp.deferral {
            Deferral::HalfRoundTrip => now.since(head.sent_at) >= srtt / 2,
            Deferral::NextMillisecond => now + (srtt / 2).min(LATELY) >= head.sent_at + srtt,
        }
    }

    /// So little time has passed since the last segment left that more may come. A whole millisecond is past
    /// already, which Linux counts in: only clocks that tick in milliseconds can tell.
    fn has_just_sent(&self, host: &HostModel, now: Instant) -> bool {
        let last = self.send.last_sent;
        match self.stack.tcp.deferral {
            Deferral::HalfRoundTrip => host.coarse(now) <= host.coarse(last),
            Deferral::NextMillisecond if self.pacer.enforced() => {
                now < self.pacer.next_departure() + LATELY
            }
            Deferral::NextMillisecond => now < last + LATELY,
        }
    }

    /// TCP's header with the options that go with data, bytes.
    fn header_bytes(&self) -> u64 {
        u64::from(20 + u32::from(self.peer_mss).saturating_sub(self.send.mss))
    }

    /// Nothing was in flight: the controller hears that data flows again. A rate of its own may change with it
    /// (`bbr_cwnd_event_tx_start`); the estimate is made anew by acknowledgements alone (`tcp_update_pacing_rate` in
    /// `tcp_cong_control`), however small the window has become meanwhile.
    fn announce_start(&mut self, host: &HostModel, now: Instant) {
        let start = TransmitStart {
            now,
            coarse_now: host.coarse(now),
            last_sent: host.coarse(self.send.last_sent),
            app_limited: self.rate.app_limited(),
            min_rtt: self.rtt.min_rtt(),
        };
        self.controller.on_transmit_start(&start, &mut self.window);
        if self.controller.pacing_rate().is_some() {
            self.refresh_pacing();
        }
    }

    /// A tail loss probe: new data if there is any, else the last segment again. The timeout counts
    /// from it on (`tcp_send_loss_probe`).
    fn send_probe(
        &mut self,
        host: &HostModel,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        if self.send_new(host, context, true, segment) {
            self.recovery.probe_high = Some(self.send.next);
            self.rearm_timeout(host, context.now);
            return true;
        }
        let Some(number) = self.board.last() else {
            return false;
        };
        self.recovery.probe_retransmitted = true;
        let sent = self.retransmit(host, number, context, segment);
        self.rearm_timeout(host, context.now);
        sent
    }

    fn retransmit(
        &mut self,
        host: &HostModel,
        number: u64,
        context: &EmitContext,
        segment: &mut Segment,
    ) -> bool {
        let now = context.now;
        let in_flight = self.board.in_flight();
        let stamp = self.rate.stamp(now, in_flight, in_flight == 0 && self.board.is_empty());
        let Some(sent) = self.board.retransmit(number, now, stamp).cloned() else {
            return false;
        };
        let more = self.board.in_flight() < self.window.cwnd;
        self.send.on_buffers_changed(self.board.cut_out(number, now, more));
        let length = sent.payload.len() as u64;
        if self.reducing() {
            self.recovery.prr_out += 1;
        }
        self.recovery.on_retransmit(timestamp_clock(now));
        self.timer.review();
        self.totals.retransmissions += 1;
        self.totals.bytes_retransmitted += length;
        self.send.last_sent = now;
        self.send.end_buffer();
        self.count_sent(length, false, now, false);
        let head = self.board.numbers().start == number;
        if head && self.timer.pending() != Some(super::timers::Pending::Reordering) {
            let rto = self.rtt.rto();
            self.timer.arm(host, now, super::timers::Pending::Timeout, rto);
        }
        let mapping = sent.mapping();
        self.data_segment(sent.start, sent.payload, mapping, sent.fin, context, segment);
        true
    }

    #[inline(always)]
    fn count_sent(&mut self, bytes: u64, first: bool, now: Instant, continues: bool) {
        self.totals.bytes_sent += bytes;
        self.totals.data_segments += u64::from(bytes > 0);
        self.pacer.on_sent(now, bytes, self.header_bytes(), continues);
        if self.reducing() && first {
            self.recovery.prr_out += 1;
        }
        self.receive.on_data_sent(now);
    }

    /// Writes the segment, with its DSS (the burst's mapping) or the `MP_CAPABLE` that stands for it.
    #[inline(always)]
    fn data_segment(
        &mut self,
        start: u64,
        payload: Bytes,
        mapping: Option<BurstMapping>,
        fin: bool,
        context: &EmitContext,
        segment: &mut Segment,
    ) {
        self.acknowledging(context, payload, segment);
        segment.seq = self.sequence.local(start);
        if fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if self.send.queued == 0 && !segment.payload.is_empty() {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        let Some(mapping) = mapping.filter(|_| self.context.is_multipath()) else {
            return self.add_final_mapping(start, context, segment);
        };
        let short = self.stack.mptcp.short_data_numbers;
        self.context.add_mapping(segment, start, mapping, context, short);
    }
}

#[cfg(test)]
mod tests;
