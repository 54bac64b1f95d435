//! Transmission (`tcp_write_xmit`): retransmissions first, then new data within both windows.

use bytes::Bytes;

use super::deferral::Deferred;
use super::flight::{Sent, Tag};
use super::intent::Urgent;
use super::rtt::timestamp_clock;
use super::{Sending, deferral};
use crate::config::Moment;
use crate::stack::Deferral;
use anabranch_congestion::TransmitStart;

/// A data segment to send.
#[derive(Debug)]
pub(crate) struct Departure {
    /// The position of the first byte.
    pub(crate) start: u64,
    pub(crate) payload: Bytes,
    pub(crate) tag: Option<Tag>,
    pub(crate) fin: bool,
    pub(crate) push: bool,
    /// Whether this is the first transmission of the data.
    pub(crate) new: bool,
}

/// A further segment of a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Follower {
    pub(crate) length: usize,
    pub(crate) fin: bool,
    pub(crate) push: bool,
}

/// The transmission of data at one point in time.
pub(crate) struct Transmission<'a> {
    sending: &'a mut Sending,
    moment: Moment<'a>,
    /// The bytes that SACK blocks use of a segment.
    sack_bytes: u32,
}

impl Sending {
    /// Begins a transmission. SACK blocks use `sack_bytes` of a segment.
    #[inline]
    pub(crate) fn begin_transmission<'a>(
        &'a mut self,
        moment: Moment<'a>,
        sack_bytes: u32,
    ) -> Transmission<'a> {
        Transmission { sending: self, moment, sack_bytes }
    }
}

impl Transmission<'_> {
    /// Returns the next data segment to send. Retransmissions come first.
    #[inline]
    pub(crate) fn poll_departure(&mut self) -> Option<Departure> {
        let Moment { now, .. } = self.moment;
        if !self.sending.queue.intent().is_new() {
            if self.sending.queue.intent_mut().take(Urgent::Head)
                && let Some(number) = self.sending.flight.next_lost()
            {
                return self.retransmit(number);
            }
            if self.sending.queue.intent_mut().take(Urgent::Probe) {
                return self.send_probe();
            }
            if self.sending.queue.intent().repairs()
                && !self.sending.cwnd.is_full(self.sending.flight.in_flight())
                && !self.sending.cwnd.poll_pacing(now)
            {
                if let Some(number) = self.next_admitted_loss() {
                    let departure = self.retransmit(number);
                    self.sending.note_full_window(self.moment);
                    return departure;
                }
                self.sending.queue.intent_mut().set_repairs(false);
            }
        }
        self.poll_new(false)
    }

    /// Returns new data within the windows. A `probe` may exceed the congestion window by one segment.
    #[inline]
    pub(crate) fn poll_new(&mut self, probe: bool) -> Option<Departure> {
        let Moment { now, .. } = self.moment;
        let in_flight = self.sending.flight.in_flight();
        let together = self.sending.queue.last_sent() == now && !self.sending.flight.is_empty();
        if !self.admit_new(in_flight, together, probe) {
            return None;
        }
        self.sending.restart_before_data(self.moment);
        let cut = self.sending.queue.cut(self.most_payload());
        let payload = cut.as_ref().map_or_else(Bytes::new, |(payload, _)| payload.clone());
        let sent = self.take_new(in_flight, together, cut);
        self.sending.end_reserve();
        let more = self.has_more(in_flight);
        let departure = Departure {
            start: sent.start,
            tag: sent.tag(),
            fin: sent.fin,
            push: self.pushes(payload.len()) || (!more && self.ends_push(&sent)),
            new: true,
            payload,
        };
        self.insert_new(sent, more, together, probe);
        Some(departure)
    }

    /// Returns the next segment of the same burst, if one may follow at once. Such a segment has the size of
    /// the first one, its `tag`, and its socket buffer. The payload is not returned, because it follows that
    /// of the first segment.
    pub(crate) fn poll_follower(&mut self, tag: Tag) -> Option<Follower> {
        let follows = self.sending.queue.queued_bytes() > 0
            && self.sending.queue.buffer_has_room()
            && self.sending.queue.goes_on_under(tag);
        let in_flight = self.sending.flight.in_flight();
        if !follows || !self.admit_new(in_flight, true, false) {
            return None;
        }
        self.sending.restart_before_data(self.moment);
        let cut = self.sending.queue.cut(self.most_payload());
        let sent = self.take_new(in_flight, true, cut);
        let more = self.has_more(in_flight);
        let follower = Follower {
            length: sent.payload.len(),
            fin: sent.fin,
            push: self.sending.queue.queued_bytes() == 0 || (!more && self.ends_push(&sent)),
        };
        self.insert_new(sent, more, true, false);
        Some(follower)
    }

    /// Returns whether a segment of `length` bytes contains the last data of the queue.
    fn pushes(&self, length: usize) -> bool {
        self.sending.queue.queued_bytes() == 0 && length > 0
    }

    /// Creates the scoreboard entry of the next segment, which was `cut` off the queue, and updates the
    /// counts.
    // The caller clones the payload before this call if it needs it, which is faster than a clone here.
    #[inline]
    pub(crate) fn take_new(
        &mut self,
        in_flight: u32,
        together: bool,
        cut: Option<(Bytes, Tag)>,
    ) -> Sent {
        let Moment { now, .. } = self.moment;
        let (payload, tag) = match cut {
            Some((payload, tag)) => (payload, Some(tag).filter(|_| self.sending.queue.is_tagged())),
            None => (Bytes::new(), None),
        };
        let fin = self.sending.queue.fin_due();
        let idle = self.sending.flight.is_empty();
        if idle {
            self.report_start();
        }
        let length = payload.len() as u64;
        // The capacity of a socket buffer matters only when one begins.
        let opens = !together || !self.sending.queue.buffer_has_room();
        let most = if opens { deferral::burst_segments(self.sending) } else { 0 };
        let opens_buffer = self.sending.queue.count_new(length, together, most);
        let start = self.sending.queue.on_sent(now, length, fin);
        Sent {
            start,
            tag: tag.into(),
            sent_at: now,
            serial: 0,
            stamp: self.sending.flight.rate_mut().on_sent(now, in_flight, idle),
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

    /// Returns the largest payload of the next segment, in bytes.
    #[inline]
    fn most_payload(&self) -> usize {
        u64::from(self.sending.queue.mss() - self.sack_bytes).min(self.sending.queue.window_bytes())
            as usize
    }

    /// Returns whether a segment that ends its socket buffer has PSH: if the buffer has several segments
    /// (`__tcp_transmit_skb`), or if it is small. A small buffer was ended by a push (`tcp_mark_push` in
    /// `mptcp_sendmsg_frag`).
    #[inline]
    pub(crate) fn ends_push(&self, sent: &Sent) -> bool {
        let small = self.sending.queue.is_tagged()
            && (sent.payload.len() as u64) < u64::from(self.sending.queue.mss());
        self.sending.rules.pushes_buffers && (!sent.opens_buffer || small)
    }

    /// Returns whether another segment of the same socket buffer follows. `in_flight` does not include the
    /// segment just sent.
    #[inline]
    pub(crate) fn has_more(&self, in_flight: u32) -> bool {
        self.sending.queue.buffer_has_room()
            && self.sending.queue.queued_bytes() > 0
            && !self.sending.cwnd.is_full(in_flight + 1)
            && !self.sending.queue.shut_out()
            && !self.sending.queue.must_wait_for_more()
    }

    /// Adds a sent segment to the scoreboard and sets the timer. `together`: it was sent at the same time as
    /// the previous one. `more`: another segment of the same socket buffer follows.
    #[inline]
    pub(crate) fn insert_new(&mut self, sent: Sent, more: bool, together: bool, probe: bool) {
        self.count_sent(sent.payload.len() as u64, !sent.opens_buffer);
        self.sending.flight.push(sent);
        let state = self.sending.cwnd.state();
        self.sending.timers.set_behind_data(
            self.moment,
            &self.sending.flight,
            state,
            together,
            probe,
        );
        self.on_new_sent(more);
    }

    /// Updates window and buffer after new data was sent. `more`: another segment of the same socket buffer
    /// follows.
    #[inline]
    fn on_new_sent(&mut self, more: bool) {
        let Moment { now, .. } = self.moment;
        let full = self.sending.cwnd.is_full(self.sending.flight.in_flight())
            || (!more && deferral::next_waits_for_cwnd(self.sending, self.moment));
        self.sending.update_usage(self.moment, full);
        if !more {
            self.sending.queue.end_buffer();
            self.sending.grow_buffer(now);
        }
    }

    /// Returns the next lost segment within the peer's window.
    fn next_admitted_loss(&mut self) -> Option<u64> {
        let number = self.sending.flight.next_lost()?;
        let sent = self.sending.flight.get(number)?;
        self.sending.queue.admits_again(sent.start).then_some(number)
    }

    /// Returns whether new data may be sent now: data is queued, and no window, pacing or other rule prevents
    /// it. `together` means that a segment was sent at the same time.
    #[inline]
    pub(crate) fn admit_new(&mut self, in_flight: u32, together: bool, probe: bool) -> bool {
        let Moment { now, .. } = self.moment;
        if self.sending.queue.queued_bytes() == 0 && !self.sending.queue.fin_due() {
            return false;
        }
        if self.sending.cwnd.is_full(in_flight) && !probe {
            return false;
        }
        if !self.admit_segment() {
            return false;
        }
        if probe {
            return true;
        }
        let opens = !(together && self.sending.queue.buffer_has_room());
        let held =
            opens && self.sending.cwnd.poll_pacing(now) || self.sending.queue.must_wait_for_more();
        if held || !opens {
            return !held;
        }
        if !self.sending.queue.is_deferred()
            && let Some(deferred) = deferral::defers(self.sending, self.moment)
        {
            self.sending.queue.set_deferred(true);
            let full = deferred == Deferred::ForCongestionWindow;
            if full && self.sending.rules.deferral == Deferral::NextMillisecond {
                self.sending.update_usage(self.moment, true);
            }
        }
        !self.sending.queue.is_deferred()
    }

    /// Returns whether the peer's window has space for a whole segment. After a wait, space for a part of a
    /// segment is enough.
    #[inline]
    fn admit_segment(&mut self) -> bool {
        let fill = self.sending.queue.intent_mut().take(Urgent::SmallWindow);
        let some = fill && self.sending.queue.window_bytes() > 0;
        let admits = some || !self.sending.queue.shut_out();
        if !admits && self.sending.flight.is_empty() {
            self.sending.timers.arm_window_probe(self.moment, &self.sending.flight);
        }
        admits
    }

    /// Returns the length of the TCP header with the options of a data segment, in bytes.
    fn header_bytes(&self) -> u64 {
        u64::from(20 + u32::from(self.sending.peer_mss).saturating_sub(self.sending.queue.mss()))
    }

    /// Notifies the controller of the first segment sent when nothing is in flight. The controller's pacing
    /// rate may then change (`bbr_cwnd_event_tx_start`). The estimated rate changes only with
    /// acknowledgements, even if the window was reduced in the meantime (`tcp_update_pacing_rate` in
    /// `tcp_cong_control`).
    fn report_start(&mut self) {
        let Moment { host, now } = self.moment;
        let start = TransmitStart {
            now,
            coarse_now: host.coarse(now),
            last_sent: host.coarse(self.sending.queue.last_sent()),
            app_limited: self.sending.flight.rate().app_limited(),
            min_rtt: self.sending.rtt().min_rtt(),
        };
        if self.sending.cwnd.on_start(&start) {
            self.sending.update_pacing();
        }
    }

    /// Sends a tail loss probe: new data if there is any, otherwise the last segment again. The
    /// retransmission timeout restarts (`tcp_send_loss_probe`).
    fn send_probe(&mut self) -> Option<Departure> {
        if let Some(departure) = self.poll_new(true) {
            self.sending.recovery.on_new_probe(self.sending.queue.next());
            self.sending.restart_timeout(self.moment);
            return Some(departure);
        }
        let number = self.sending.flight.last()?;
        self.sending.recovery.on_repeated_probe();
        let departure = self.retransmit(number);
        self.sending.restart_timeout(self.moment);
        departure
    }

    fn retransmit(&mut self, number: u64) -> Option<Departure> {
        let Moment { now, .. } = self.moment;
        let in_flight = self.sending.flight.in_flight();
        let stamp = self.sending.flight.rate_mut().on_sent(now, in_flight, false);
        let sent = self.sending.flight.retransmit(number, now, stamp)?.clone();
        let more = !self.sending.cwnd.is_full(self.sending.flight.in_flight());
        self.sending.queue.on_buffers_changed(self.sending.flight.cut_out(number, now, more));
        let length = sent.payload.len() as u64;
        self.sending.recovery.on_retransmit(timestamp_clock(now));
        self.sending.timers.reset_probe();
        self.sending.sent.retransmissions += 1;
        self.sending.sent.bytes_retransmitted += length;
        self.sending.queue.on_retransmit(now);
        self.count_sent(length, false);
        if self.sending.flight.numbers().start == number {
            self.sending.timers.set_behind_head(self.moment);
        }
        self.sending.end_reserve();
        Some(Departure {
            start: sent.start,
            tag: sent.tag(),
            fin: sent.fin,
            push: self.pushes(sent.payload.len()),
            new: false,
            payload: sent.payload,
        })
    }

    #[inline]
    fn count_sent(&mut self, bytes: u64, continues: bool) {
        let Moment { now, .. } = self.moment;
        self.sending.sent.bytes += bytes;
        self.sending.sent.data_segments += u64::from(bytes > 0);
        self.sending.cwnd.on_sent(now, bytes, self.header_bytes(), continues);
        if self.sending.cwnd.is_reducing() {
            self.sending.recovery.count_sent();
        }
    }
}

#[cfg(test)]
mod tests;
