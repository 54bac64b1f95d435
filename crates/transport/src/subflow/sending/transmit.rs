//! The decision to transmit (`tcp_write_xmit`): retransmissions first, then new data within both windows.

use anabranch_units::Instant;
use bytes::Bytes;

use super::Sending;
use super::deferral::Deferred;
use super::flight::{BurstMapping, Sent};
use super::intent::Urgent;
use super::rtt::timestamp_clock;
use crate::config::HostModel;
use crate::profile::Deferral;
use anabranch_congestion::TransmitStart;

/// A data segment that leaves.
#[derive(Debug)]
pub(in crate::subflow) struct Departure {
    /// Position of its first byte.
    pub(in crate::subflow) start: u64,
    pub(in crate::subflow) payload: Bytes,
    pub(in crate::subflow) mapping: Option<BurstMapping>,
    pub(in crate::subflow) fin: bool,
    pub(in crate::subflow) push: bool,
    /// It has never been sent before.
    pub(in crate::subflow) new: bool,
}

/// A segment that leaves as part of a burst.
#[derive(Clone, Copy, Debug)]
pub(in crate::subflow) struct Follower {
    pub(in crate::subflow) length: usize,
    pub(in crate::subflow) fin: bool,
    pub(in crate::subflow) push: bool,
}

impl Sending {
    /// Takes the next data segment to send, retransmissions first. SACK blocks take `sack_bytes` of a segment.
    #[inline(always)]
    pub(in crate::subflow) fn poll_departure(
        &mut self,
        host: &HostModel,
        now: Instant,
        sack_bytes: u32,
    ) -> Option<Departure> {
        if !self.queue.sends_only_new() {
            if self.queue.take_urgent(Urgent::Head)
                && let Some(number) = self.flight.next_lost()
            {
                return self.retransmit(host, number, now);
            }
            if self.queue.take_urgent(Urgent::Probe) {
                return self.send_probe(host, now, sack_bytes);
            }
            if self.queue.repairs()
                && !self.cwnd.is_full(self.flight.in_flight())
                && !self.cwnd.poll_pacing(now)
            {
                if let Some(number) = self.next_admitted_loss() {
                    let departure = self.retransmit(host, number, now);
                    self.note_full_window(host, now);
                    return departure;
                }
                self.queue.repair(false);
            }
        }
        self.poll_new(host, now, sack_bytes, false)
    }

    /// Takes new data within the windows. A `probe` may exceed the congestion window by one segment.
    #[inline(always)]
    pub(in crate::subflow) fn poll_new(
        &mut self,
        host: &HostModel,
        now: Instant,
        sack_bytes: u32,
        probe: bool,
    ) -> Option<Departure> {
        let in_flight = self.flight.in_flight();
        let together = self.queue.last_sent() == now && !self.flight.is_empty();
        if !self.may_send_new(host, now, in_flight, together, probe) {
            return None;
        }
        self.rest_after_idle(host, now);
        let cut = self.queue.cut(self.most_payload(sack_bytes));
        let payload = cut.as_ref().map_or_else(Bytes::new, |(payload, _)| payload.clone());
        let sent = self.take_new(host, now, in_flight, together, cut);
        self.end_mappings();
        let more = self.has_more(in_flight);
        let departure = Departure {
            start: sent.start,
            mapping: sent.mapping(),
            fin: sent.fin,
            push: self.pushes(payload.len()) || (!more && self.ends_push(&sent)),
            new: true,
            payload,
        };
        self.file_new(host, now, sent, more, together, probe);
        Some(departure)
    }

    /// Takes new data that may follow at once in the same burst: as long as its first segment, under its `mapping` and
    /// in its socket buffer. Returns nothing to copy: the payload lies behind that of the first segment.
    pub(in crate::subflow) fn poll_follower(
        &mut self,
        host: &HostModel,
        now: Instant,
        sack_bytes: u32,
        mapping: BurstMapping,
    ) -> Option<Follower> {
        let follows = self.queue.queued_bytes() > 0
            && self.queue.buffer_has_room()
            && self.queue.goes_on_under(mapping);
        let in_flight = self.flight.in_flight();
        if !follows || !self.may_send_new(host, now, in_flight, true, false) {
            return None;
        }
        self.rest_after_idle(host, now);
        let cut = self.queue.cut(self.most_payload(sack_bytes));
        let sent = self.take_new(host, now, in_flight, true, cut);
        let more = self.has_more(in_flight);
        let follower = Follower {
            length: sent.payload.len(),
            fin: sent.fin,
            push: self.queue.queued_bytes() == 0 || (!more && self.ends_push(&sent)),
        };
        self.file_new(host, now, sent, more, true, false);
        Some(follower)
    }

    /// The segment has the last data of the queue.
    fn pushes(&self, length: usize) -> bool {
        self.queue.queued_bytes() == 0 && length > 0
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
            Some((payload, mapping)) => (payload, Some(mapping).filter(|_| self.multipath)),
            None => (Bytes::new(), None),
        };
        let fin = self.queue.fin_due();
        let idle = self.flight.is_empty();
        if idle && in_flight == 0 {
            self.announce_start(host, now);
        }
        let length = payload.len() as u64;
        // How much a buffer takes matters where one is opened.
        let opens = !together || !self.queue.buffer_has_room();
        let most = if opens { self.burst_segments() } else { 0 };
        let opens_buffer = self.queue.count_new(length, together, most);
        let start = self.queue.depart(now, length, fin);
        Sent {
            start,
            mapping: mapping.into(),
            sent_at: now,
            serial: 0,
            stamp: self.flight.rate_mut().stamp(now, in_flight, idle),
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
    fn most_payload(&self, sack_bytes: u32) -> usize {
        u64::from(self.queue.mss() - sack_bytes).min(self.queue.window_bytes()) as usize
    }

    /// The last segment of a socket buffer has PSH where the buffer has several (`__tcp_transmit_skb`), or where it is
    /// small: nothing was added to it because a push had ended it (`tcp_mark_push` in `mptcp_sendmsg_frag`).
    #[inline(always)]
    pub(in crate::subflow) fn ends_push(&self, sent: &Sent) -> bool {
        let small = self.multipath && (sent.payload.len() as u64) < u64::from(self.queue.mss());
        self.rules.pushes_buffers && (!sent.opens_buffer || small)
    }

    /// Another segment of the same socket buffer follows one that was sent beside `in_flight` others.
    #[inline(always)]
    pub(in crate::subflow) fn has_more(&self, in_flight: u32) -> bool {
        self.queue.buffer_has_room()
            && self.queue.queued_bytes() > 0
            && !self.cwnd.is_full(in_flight + 1)
            && !self.queue.shut_out()
            && !self.queue.must_wait_for_more()
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
        self.flight.push(sent);
        let state = self.cwnd.state();
        self.timers.set_behind_data(host, now, &self.flight, state, together, probe);
        self.after_new(host, now, more);
    }

    /// New data has left; `more` of the same socket buffer follows.
    #[inline(always)]
    fn after_new(&mut self, host: &HostModel, now: Instant, more: bool) {
        let full = self.cwnd.is_full(self.flight.in_flight())
            || (!more && self.next_waits_for_cwnd(host, now));
        self.validate_window(host, now, full);
        if !more {
            self.queue.end_buffer();
            self.grow_buffer(now);
        }
    }

    /// Returns the next lost segment within the peer's window.
    fn next_admitted_loss(&mut self) -> Option<u64> {
        let number = self.flight.next_lost()?;
        let sent = self.flight.get(number)?;
        self.queue.admits_again(sent.start).then_some(number)
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
        if self.queue.queued_bytes() == 0 && !self.queue.fin_due() {
            return false;
        }
        if self.cwnd.is_full(in_flight) && !probe {
            return false;
        }
        if !self.window_admits(host, now) {
            return false;
        }
        if probe {
            return true;
        }
        let opens = !(together && self.queue.buffer_has_room());
        let held = opens && self.cwnd.poll_pacing(now) || self.queue.must_wait_for_more();
        if held || !opens {
            return !held;
        }
        if !self.queue.is_deferred()
            && let Some(deferred) = self.defers(host, now)
        {
            self.queue.defer();
            let full = deferred == Deferred::ForCongestionWindow;
            if full && self.rules.deferral == Deferral::NextMillisecond {
                self.validate_window(host, now, true);
            }
        }
        !self.queue.is_deferred()
    }

    /// The peer's window has room for a segment, or for some of one and that was waited for in vain.
    #[inline(always)]
    fn window_admits(&mut self, host: &HostModel, now: Instant) -> bool {
        let fill = self.queue.take_urgent(Urgent::SmallWindow);
        let some = fill && self.queue.has_window();
        let admits = some || !self.queue.shut_out();
        if !admits && self.flight.is_empty() {
            self.timers.arm_window_probe(host, now, &self.flight);
        }
        admits
    }

    /// TCP's header with the options that go with data, bytes.
    fn header_bytes(&self) -> u64 {
        u64::from(20 + u32::from(self.peer_mss).saturating_sub(self.queue.mss()))
    }

    /// Nothing was in flight: the controller hears that data flows again. A rate of its own may change with it
    /// (`bbr_cwnd_event_tx_start`); the estimate is made anew by acknowledgements alone (`tcp_update_pacing_rate` in
    /// `tcp_cong_control`), however small the window has become meanwhile.
    fn announce_start(&mut self, host: &HostModel, now: Instant) {
        let start = TransmitStart {
            now,
            coarse_now: host.coarse(now),
            last_sent: host.coarse(self.queue.last_sent()),
            app_limited: self.flight.rate().app_limited(),
            min_rtt: self.rtt().min_rtt(),
        };
        if self.cwnd.on_start(&start) {
            self.refresh_pacing();
        }
    }

    /// A tail loss probe: new data if there is any, else the last segment again. The timeout counts
    /// from it on (`tcp_send_loss_probe`).
    fn send_probe(&mut self, host: &HostModel, now: Instant, sack_bytes: u32) -> Option<Departure> {
        if let Some(departure) = self.poll_new(host, now, sack_bytes, true) {
            self.recovery.on_new_probe(self.queue.next());
            self.rearm_timeout(host, now);
            return Some(departure);
        }
        let number = self.flight.last()?;
        self.recovery.on_repeated_probe();
        let departure = self.retransmit(host, number, now);
        self.rearm_timeout(host, now);
        departure
    }

    fn retransmit(&mut self, host: &HostModel, number: u64, now: Instant) -> Option<Departure> {
        let in_flight = self.flight.in_flight();
        let idle = in_flight == 0 && self.flight.is_empty();
        let stamp = self.flight.rate_mut().stamp(now, in_flight, idle);
        let sent = self.flight.retransmit(number, now, stamp)?.clone();
        let more = !self.cwnd.is_full(self.flight.in_flight());
        self.queue.on_buffers_changed(self.flight.cut_out(number, now, more));
        let length = sent.payload.len() as u64;
        if self.cwnd.is_reducing() {
            self.recovery.count_sent();
        }
        self.recovery.on_retransmit(timestamp_clock(now));
        self.timers.review();
        self.sent.retransmissions += 1;
        self.sent.bytes_retransmitted += length;
        self.queue.on_retransmit(now);
        self.count_sent(length, false, now, false);
        if self.flight.numbers().start == number {
            self.timers.set_behind_head(host, now);
        }
        self.end_mappings();
        Some(Departure {
            start: sent.start,
            mapping: sent.mapping(),
            fin: sent.fin,
            push: self.pushes(sent.payload.len()),
            new: false,
            payload: sent.payload,
        })
    }

    #[inline(always)]
    fn count_sent(&mut self, bytes: u64, first: bool, now: Instant, continues: bool) {
        self.sent.bytes += bytes;
        self.sent.data_segments += u64::from(bytes > 0);
        self.cwnd.on_sent(now, bytes, self.header_bytes(), continues);
        if self.cwnd.is_reducing() && first {
            self.recovery.count_sent();
        }
    }
}

#[cfg(test)]
mod tests;
