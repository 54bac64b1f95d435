//! The sender's queue and the decision to transmit (`tcp_write_xmit`): window test, retransmissions
//! first, window validation (`tcp_cwnd_validate`), restart after idleness (RFC 2861 as in Linux).

use std::collections::VecDeque;

use anabranch_units::{DataSeq, Duration, Instant};
use anabranch_wire::{CapableKeys, Flags, Mapping, MappingDsn, MptcpOption, Segment, dss_checksum};
use bytes::{Bytes, BytesMut};

use super::scoreboard::{BurstMapping, Sent};
use super::{INITIAL_WINDOW, Outlook, State, Subflow};
use crate::config::{Config, HostModel};
use crate::congestion::{CongestionState, TransmitStart, WindowChange};

/// Data handed to a subflow and not sent yet: one mapping's worth, or the rest of it.
#[derive(Clone, Debug)]
pub(crate) struct Chunk {
    pub(crate) payload: Bytes,
    /// Stream position of the first byte.
    pub(crate) data: u64,
    mapping: BurstMapping,
}

/// Everything the sending half keeps besides the scoreboard.
#[derive(Debug)]
pub(crate) struct Sender {
    una: u64,
    next: u64,
    /// Position behind the last queued byte.
    write_end: u64,
    /// Right edge of the peer's window, as a position.
    window_end: u64,
    queue: VecDeque<Chunk>,
    queued: u64,
    unacked_bytes: u64,
    mss: u32,
    buffer_max: u64,
    buffer: u64,
    memory_per_segment: u64,
    memory_percent: (u64, u64),
    multipath_mappings: bool,
    /// Retransmit the head whatever the window says: the timer has fired.
    pub(crate) force_retransmit: bool,
    /// A tail loss probe is due.
    pub(crate) probe: bool,
    /// Retransmit lost segments as the window allows.
    pub(crate) retransmit: bool,
    pub(crate) reorder_wait: Option<Duration>,
    pub(crate) newly_lost: u32,
    cwnd_limited: bool,
    max_packets_out: u32,
    usage_seq: u64,
    cwnd_used: u32,
    window_stamp: Instant,
    pub(crate) last_sent: Instant,
    pub(crate) fin_queued: bool,
    fin_sent: bool,
    /// The application waits for buffer space (`SOCK_NOSPACE`).
    pub(crate) blocked_on_buffer: bool,
    /// New data went out although the window was full and no probe was due; never happens.
    pub(crate) overran: bool,
}

impl Sender {
    pub(crate) fn new(config: &Config) -> Self {
        let mut sender = Self {
            una: 0,
            next: 0,
            write_end: 1,
            window_end: 0,
            queue: VecDeque::new(),
            queued: 0,
            unacked_bytes: 0,
            mss: u32::from(config.mss) - 12,
            buffer_max: config.send_buffer_max,
            buffer: 0,
            memory_per_segment: config.host.send_memory_per_segment,
            memory_percent: (
                config.host.unsent_memory_percent,
                config.host.in_flight_memory_percent,
            ),
            multipath_mappings: false,
            force_retransmit: false,
            probe: false,
            retransmit: false,
            reorder_wait: None,
            newly_lost: 0,
            cwnd_limited: false,
            max_packets_out: 0,
            usage_seq: 0,
            cwnd_used: 0,
            window_stamp: Instant::ZERO,
            last_sent: Instant::ZERO,
            fin_queued: false,
            fin_sent: false,
            blocked_on_buffer: false,
            overran: false,
        };
        sender.grow_buffer(INITIAL_WINDOW, 2);
        sender
    }

    /// First position not acknowledged (`snd_una`).
    pub(crate) fn una(&self) -> u64 {
        self.una
    }

    /// Next position to send (`snd_nxt`).
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Position the next queued byte will take.
    pub(crate) fn write_end(&self) -> u64 {
        self.write_end
    }

    pub(crate) fn queued_bytes(&self) -> u64 {
        self.queued
    }

    /// Payload bytes written and not acknowledged.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.queued + self.unacked_bytes
    }

    /// Memory charged for them (`sk_wmem_queued`).
    pub(crate) fn memory(&self) -> u64 {
        let (unsent, in_flight) = self.memory_percent;
        (self.queued * unsent + self.unacked_bytes * in_flight) / 100
    }

    pub(crate) fn buffer_limit(&self) -> u64 {
        self.buffer
    }

    pub(crate) fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    pub(crate) fn use_mappings(&mut self) {
        self.multipath_mappings = true;
    }

    /// SYN sent or answered: the next position is 1.
    pub(crate) fn after_syn(&mut self) {
        self.next = 1;
    }

    pub(crate) fn set_una(&mut self, una: u64) {
        self.una = una;
    }

    pub(crate) fn on_bytes_acked(&mut self, bytes: u64) {
        self.unacked_bytes -= bytes.min(self.unacked_bytes);
    }

    /// The peer's window: true when the right edge moved.
    pub(crate) fn update_window(&mut self, ack: u64, window: u64) -> bool {
        let moved = ack + window > self.window_end;
        self.window_end = self.window_end.max(ack + window);
        moved
    }

    /// Bytes the peer admitted in the handshake.
    pub(crate) fn initial_window(&self) -> u64 {
        self.window_end.saturating_sub(1)
    }

    /// Everything queued was sent and the peer's window is shut.
    pub(crate) fn shut_out(&self) -> bool {
        self.next >= self.window_end && self.queued > 0
    }

    /// `tcp_sndbuf_expand`.
    pub(crate) fn grow_buffer(&mut self, cwnd: u32, factor: u32) {
        let segments = u64::from(cwnd.max(INITIAL_WINDOW));
        let wanted = u64::from(factor) * segments * self.memory_per_segment;
        self.buffer = self.buffer.max(wanted.min(self.buffer_max));
    }

    /// The window was set by the core: restart the validation clock (`snd_cwnd_stamp`).
    pub(crate) fn window_touched(&mut self, now: Instant) {
        self.window_stamp = now;
    }

    /// Takes data to send at the end of the queue.
    pub(crate) fn enqueue(&mut self, payload: Bytes, data: u64) {
        let length = payload.len() as u64;
        let mut mapping =
            BurstMapping { data, position: self.write_end, length: length.min(65_535) as u16 };
        // Adjacent data extends the last mapping as long as nothing of it has been sent.
        if let Some(last) = self.queue.back() {
            let grown = u64::from(last.mapping.length) + length;
            let adjacent = last.data + last.payload.len() as u64 == data;
            let unsent = last.mapping.position >= self.next;
            if adjacent && unsent && grown <= 65_000 {
                mapping = BurstMapping { length: grown as u16, ..last.mapping };
                let (data_start, start) = (mapping.data, mapping.position);
                for chunk in self.queue.iter_mut().rev() {
                    if chunk.mapping.data != data_start || chunk.mapping.position != start {
                        break;
                    }
                    chunk.mapping = mapping;
                }
            }
        }
        self.write_end += length;
        self.queued += length;
        self.queue.push_back(Chunk { payload, data, mapping });
    }

    /// Cuts the next segment of at most `limit` bytes off the queue.
    fn cut(&mut self, limit: usize) -> Option<(Bytes, BurstMapping)> {
        let front = self.queue.front_mut()?;
        let mapping = front.mapping;
        if front.payload.len() > limit {
            let payload = front.payload.split_to(limit);
            front.data += limit as u64;
            self.queued -= limit as u64;
            return Some((payload, mapping));
        }
        let chunk = self.queue.pop_front()?;
        let mut payload = chunk.payload;
        // Fill the segment from the next chunk where the mapping (or plain TCP) allows it.
        while payload.len() < limit {
            let joined = self.queue.front().is_some_and(|next| {
                !self.multipath_mappings
                    || (next.mapping.data == mapping.data
                        && next.mapping.position == mapping.position)
            });
            if !joined {
                break;
            }
            let next = self.queue.front_mut().expect("just seen");
            let take = (limit - payload.len()).min(next.payload.len());
            let mut whole = BytesMut::with_capacity(payload.len() + take);
            whole.extend_from_slice(&payload);
            whole.extend_from_slice(&next.payload.split_to(take));
            next.data += take as u64;
            payload = whole.freeze();
            if next.payload.is_empty() {
                self.queue.pop_front();
            }
        }
        self.queued -= payload.len() as u64;
        Some((payload, mapping))
    }

    /// Takes back everything not sent yet (the subflow is going away or is being drained).
    pub(crate) fn drain_unsent(&mut self) {
        self.write_end -= self.queued;
        self.queued = 0;
        self.queue.clear();
    }

    /// A FIN may be sent: everything queued is out.
    fn fin_due(&self) -> bool {
        self.fin_queued && !self.fin_sent && self.queued == 0
    }

    /// Something may go out, given room in the congestion window.
    pub(crate) fn may_send(&self, room: bool) -> bool {
        self.force_retransmit
            || self.probe
            || (room && (self.retransmit || self.queued > 0 || self.fin_due()))
    }

    pub(crate) fn fin_sent(&self) -> bool {
        self.fin_sent
    }
}

impl Subflow {
    /// Writes the next data segment to send, retransmissions first; false when there is none.
    pub(crate) fn next_data_segment(
        &mut self,
        host: &HostModel,
        outlook: &Outlook,
        segment: &mut Segment,
    ) -> bool {
        if self.state != State::Established {
            return false;
        }
        let now = outlook.now;
        if std::mem::take(&mut self.send.force_retransmit)
            && let Some(number) = self.board.next_lost()
        {
            return self.retransmit(host, number, outlook, segment);
        }
        if self.send.probe {
            self.send.probe = false;
            return self.send_probe(host, outlook, segment);
        }
        if self.send.retransmit {
            let room = self.board.in_flight() < self.window.cwnd && !self.pacer.blocked(now);
            if room {
                if let Some(number) = self.board.next_lost() {
                    return self.retransmit(host, number, outlook, segment);
                }
                self.send.retransmit = false;
            }
        }
        self.send_new(host, outlook, false, segment)
    }

    /// Sends new data within the window; `probe` may exceed the congestion window by one segment.
    fn send_new(
        &mut self,
        host: &HostModel,
        outlook: &Outlook,
        probe: bool,
        segment: &mut Segment,
    ) -> bool {
        let now = outlook.now;
        if self.send.queued == 0 && !self.send.fin_due() {
            return false;
        }
        let in_flight = self.board.in_flight();
        if in_flight >= self.window.cwnd && !probe {
            return false;
        }
        let room = self.send.window_end.saturating_sub(self.send.next) as usize;
        if room < (self.mss as usize).min(self.send.queued as usize) {
            if self.board.is_empty() {
                self.arm_window_probe(host, now);
            }
            return false;
        }
        if !probe && self.pacer.blocked(now) {
            return false;
        }
        self.restart_after_idle(now);
        let (payload, mapping) = match self.send.cut(self.mss as usize) {
            Some((payload, mapping)) => (payload, Some(mapping).filter(|_| self.multipath)),
            None => (Bytes::new(), None),
        };
        let fin = self.send.fin_due();
        let idle = self.board.is_empty();
        if idle && in_flight == 0 {
            let start = TransmitStart {
                now,
                last_sent: self.send.last_sent,
                app_limited: self.rate.app_limited(),
            };
            self.controller.on_transmit_start(&start, &mut self.window);
            self.refresh_pacing();
        }
        let (start, length) = (self.send.next, payload.len() as u64);
        self.send.next = start + length + u64::from(fin);
        self.send.fin_sent |= fin;
        self.send.unacked_bytes += length;
        self.send.last_sent = now;
        let stamp = self.rate.stamp(now, in_flight, idle);
        self.data_segment(start, payload.clone(), mapping, fin, outlook, segment);
        self.count_sent(length, true, now);
        self.board.push(Sent {
            start,
            mapping,
            sent_at: now,
            stamp,
            transmission: 1,
            fin,
            sacked: false,
            lost: false,
            retransmitted: false,
            payload,
        });
        let was_probe = self.timer.pending() == Some(super::rto::Pending::LossProbe);
        // A probe scheduled replaces whatever the timer waits for.
        let scheduled = !probe && self.schedule_probe(host, now, false);
        if !scheduled && (idle || was_probe) {
            self.rearm_timeout(host, now);
        }
        self.send.overran |= !probe && self.board.in_flight() > self.window.cwnd;
        self.validate_window(now, self.board.in_flight() >= self.window.cwnd);
        true
    }

    /// A tail loss probe: new data if there is any, else the last segment again.
    fn send_probe(&mut self, host: &HostModel, outlook: &Outlook, segment: &mut Segment) -> bool {
        if self.send_new(host, outlook, true, segment) {
            self.recovery.probe_high = Some(self.send.next);
            self.rearm_timeout(host, outlook.now);
            return true;
        }
        let Some(number) = self.board.last() else {
            return false;
        };
        self.recovery.probe_retransmitted = true;
        self.retransmit(host, number, outlook, segment)
    }

    fn retransmit(
        &mut self,
        host: &HostModel,
        number: u64,
        outlook: &Outlook,
        segment: &mut Segment,
    ) -> bool {
        let now = outlook.now;
        let in_flight = self.board.in_flight();
        let stamp = self.rate.stamp(now, in_flight, in_flight == 0 && self.board.is_empty());
        let Some(sent) = self.board.retransmit(number, now, stamp).cloned() else {
            return false;
        };
        let length = sent.payload.len() as u64;
        if self.reducing() {
            self.recovery.prr_out += 1;
        }
        self.recovery.on_retransmit(timestamp_clock(now));
        self.totals.retransmissions += 1;
        self.totals.bytes_retransmitted += length;
        self.send.last_sent = now;
        self.count_sent(length, false, now);
        let head = self.board.numbers().start == number;
        if head && self.timer.pending() != Some(super::rto::Pending::Reordering) {
            let rto = self.rtt.rto();
            self.timer.arm(host, now, super::rto::Pending::Timeout, rto);
        }
        self.data_segment(sent.start, sent.payload, sent.mapping, sent.fin, outlook, segment);
        true
    }

    fn count_sent(&mut self, bytes: u64, first: bool, now: Instant) {
        self.totals.bytes_sent += bytes;
        self.totals.data_segments += u64::from(bytes > 0);
        self.pacer.on_sent(now, bytes);
        if self.reducing() && first {
            self.recovery.prr_out += 1;
        }
        self.ack.on_data_sent(now);
    }

    /// Writes the segment, with its DSS (the burst's mapping) or the `MP_CAPABLE` that stands for it.
    fn data_segment(
        &mut self,
        start: u64,
        payload: Bytes,
        mapping: Option<BurstMapping>,
        fin: bool,
        outlook: &Outlook,
        segment: &mut Segment,
    ) {
        self.acknowledging(outlook, segment);
        segment.seq = self.wire_seq(start);
        segment.payload = payload;
        if fin {
            segment.flags = segment.flags.with(Flags::FIN);
        }
        if self.send.queued == 0 && !segment.payload.is_empty() {
            segment.flags = segment.flags.with(Flags::PSH);
        }
        let Some(mapping) = mapping else { return };
        let dsn = DataSeq(outlook.dsn_base.wrapping_add(mapping.data));
        if let Some(MptcpOption::Capable(mut capable)) = self.hello.third {
            // The first data repeats the keys and tells its length (RFC 8684 section 3.1).
            if let CapableKeys::Both { initiator, responder } = capable.keys {
                let length = segment.payload.len() as u16;
                let checksum = outlook
                    .checksum
                    .then(|| dss_checksum(dsn, 1, length, [segment.payload.as_ref()]));
                if mapping.data == 0 && start == 1 {
                    capable.keys = CapableKeys::WithData { initiator, responder, length, checksum };
                    segment.dss = None;
                    segment.mptcp.push(MptcpOption::Capable(capable));
                    return;
                }
            }
        }
        // A checksum covers the whole mapping, so with checksums every segment has its own.
        let (dsn, ssn, length, checksum) = if outlook.checksum {
            let offset = start - mapping.position;
            let (dsn, ssn) = (dsn.add(offset), start as u32);
            let length = segment.payload.len() as u16;
            (dsn, ssn, length, Some(dss_checksum(dsn, ssn, length, [segment.payload.as_ref()])))
        } else {
            (dsn, mapping.position as u32, mapping.length, None)
        };
        let data_end = mapping.data + u64::from(mapping.length);
        let fin = outlook.data_fin == Some(data_end) && !outlook.checksum;
        let dss = segment.dss.get_or_insert_default();
        dss.mapping = Some(Mapping {
            dsn: MappingDsn::Long(dsn),
            ssn,
            length: length + u16::from(fin),
            checksum,
        });
        dss.data_fin = fin;
    }

    /// `tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`.
    fn restart_after_idle(&mut self, now: Instant) {
        if !self.board.is_empty() || self.controller.owns_recovery() || self.totals.bytes_sent == 0
        {
            return;
        }
        let rto = self.rtt.rto();
        let mut idle = now.since(self.send.last_sent);
        if idle <= rto {
            return;
        }
        self.controller.on_idle_restart(now);
        self.window.ssthresh = self.current_ssthresh();
        let floor = INITIAL_WINDOW.min(self.window.cwnd);
        while idle > rto && self.window.cwnd > floor {
            idle = idle.saturating_sub(rto);
            self.window.cwnd /= 2;
        }
        self.window.cwnd = self.window.cwnd.max(floor);
        self.send.window_stamp = now;
        self.send.cwnd_used = 0;
        self.controller.on_window_changed(WindowChange::Idle, &mut self.window);
    }

    /// `tcp_cwnd_validate`.
    pub(crate) fn validate_window(&mut self, now: Instant, limited: bool) {
        let packets_out = self.board.packets_out();
        let send = &mut self.send;
        if send.una >= send.usage_seq
            || limited
            || (!send.cwnd_limited && packets_out > send.max_packets_out)
        {
            send.cwnd_limited = limited;
            send.max_packets_out = packets_out;
            send.usage_seq = send.next;
        }
        if self.cwnd_limited() {
            self.send.cwnd_used = 0;
            self.send.window_stamp = now;
            return;
        }
        self.send.cwnd_used = self.send.cwnd_used.max(packets_out);
        let quiet = now.since(self.send.window_stamp) >= self.rtt.rto();
        if quiet && !self.controller.owns_recovery() {
            self.limit_to_application(now);
        }
    }

    /// `tcp_cwnd_application_limited`.
    fn limit_to_application(&mut self, now: Instant) {
        if self.ca_state == CongestionState::Open && !self.send.blocked_on_buffer {
            let used = self.send.cwnd_used.max(INITIAL_WINDOW);
            if used < self.window.cwnd {
                self.window.ssthresh = self.current_ssthresh();
                self.window.cwnd = u32::midpoint(self.window.cwnd, used);
                self.controller
                    .on_window_changed(WindowChange::ApplicationLimited, &mut self.window);
            }
            self.send.cwnd_used = 0;
        }
        self.send.window_stamp = now;
    }

    /// `tcp_is_cwnd_limited`.
    pub(crate) fn cwnd_limited(&self) -> bool {
        self.send.cwnd_limited
            || (self.window.in_slow_start() && self.window.cwnd < 2 * self.send.max_packets_out)
    }

    /// The application has nothing more for this subflow (`tcp_rate_check_app_limited`).
    pub(crate) fn check_app_limited(&mut self) {
        let repaired = self.board.lost_out <= self.board.retrans_out;
        if self.send.queued < u64::from(self.mss)
            && self.board.in_flight() < self.window.cwnd
            && repaired
        {
            self.rate.mark_app_limited(self.board.in_flight());
        }
    }
}

/// The TCP timestamp clock: milliseconds (RFC 7323 section 5.4), never 0, which means "no echo".
pub(crate) fn timestamp_clock(now: Instant) -> u32 {
    (now.as_nanos() / 1_000_000) as u32 + 1
}
