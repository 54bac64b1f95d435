//! When to acknowledge (`__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_send_delayed_ack`):
//! every second full segment, at once in quick-ack mode, else after the adaptive delay.

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};
use bytes::Bytes;

use super::receive::Arrival;
use super::{EmitContext, Space, Subflow};
use crate::config::HostModel;

/// `TCP_ATO_MIN`, `TCP_DELACK_MIN`: 40 ms.
const DELAY_MIN: Duration = Duration::from_millis(40);
/// `TCP_DELACK_MAX`: 200 ms.
const DELAY_MAX: Duration = Duration::from_millis(200);
/// The largest assumed size of a full segment before one has arrived (`TCP_MSS_DEFAULT`), bytes.
const GUESS_MAX: u64 = 536;
/// The smallest such size (`TCP_MIN_MSS`), bytes.
const GUESS_MIN: u32 = 88;
/// `TCP_MAX_QUICKACKS`.
const QUICK_MAX: u32 = 16;

/// The acknowledgement policy's state.
#[derive(Debug)]
pub(crate) struct AckPolicy {
    /// Acknowledgements still to be sent at once.
    quick: u32,
    interactive: bool,
    /// The adaptive delay (`ato`); zero before the first data.
    delay: Duration,
    received_mss: u32,
    /// The last segment where that was less (`last_seg_size`): its payload and the options beyond timestamps.
    last_smaller: u16,
    /// It was as long as the one before.
    repeated: bool,
    last_received: Instant,
    now_due: bool,
    scheduled: bool,
    /// Small and pushed segments that came since the last acknowledgement, counted to two
    /// (`ICSK_ACK_PUSHED`, `ICSK_ACK_PUSHED2`).
    pushed: u8,
    probe: bool,
    /// When what is held back goes; far future while nothing is.
    deadline: Instant,
}

impl AckPolicy {
    /// Creates the policy of a host that announces `mss` and first offers `window` bytes.
    pub(crate) fn new(mss: u16, window: u64) -> Self {
        let half = (window / 2).min(GUESS_MAX) as u32;
        Self {
            quick: 0,
            interactive: false,
            delay: Duration::ZERO,
            // `tcp_initialize_rcv_mss`: a guess until segments come.
            received_mss: u32::from(mss).min(half).max(GUESS_MIN),
            last_smaller: 0,
            repeated: false,
            last_received: Instant::ZERO,
            now_due: false,
            scheduled: false,
            pushed: 0,
            probe: false,
            deadline: Instant::FAR_FUTURE,
        }
    }

    pub(crate) fn received_mss(&self) -> u32 {
        self.received_mss
    }

    /// When what is held back goes; far future for never.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// An acknowledgement waits for its timer (`ICSK_ACK_TIMER`).
    pub(crate) fn is_held_back(&self) -> bool {
        self.deadline != Instant::FAR_FUTURE
    }

    /// An acknowledgement or a probe is to go out.
    pub(crate) fn is_due(&self) -> bool {
        self.now_due | self.probe
    }

    /// An acknowledgement must go out now.
    pub(crate) fn demand(&mut self) {
        self.now_due = true;
    }

    /// A window probe must go out now.
    pub(crate) fn demand_probe(&mut self) {
        self.probe = true;
    }

    /// A segment comes that is smaller than a full one, with a TCP header of `header` bytes, some of them for what
    /// each segment has (`constant`). Two alike say that full ones have become smaller, since blocks of SACK make them
    /// differ (`tcp_measure_rcv_mss`). To be told before [`Self::on_data`].
    fn on_smaller(&mut self, length: u32, header: u32, constant: u32, pushed: bool) {
        let last = std::mem::take(&mut self.last_smaller);
        let all = length + header;
        if all >= 536 + 20 || (all >= 88 + 20 && !pushed) {
            self.last_smaller = (all - constant) as u16;
            if self.last_smaller == last {
                self.received_mss = last.into();
                self.repeated = true;
            }
        }
    }

    /// Payload arrived (`tcp_event_data_recv`), in segments of `length` bytes.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        length: u32,
        push: bool,
        arrival: Arrival,
        window_grew: bool,
        rto: Duration,
    ) {
        if arrival != Arrival::Duplicate && length >= self.received_mss {
            self.received_mss = length;
        }
        let repeated = std::mem::take(&mut self.repeated);
        match arrival {
            Arrival::InOrder => {}
            Arrival::FilledGap => self.now_due = true,
            Arrival::Duplicate => {
                self.now_due = true;
                return;
            }
            Arrival::OutOfOrder => self.scheduled = true,
        }
        // `tcp_measure_rcv_mss`: a full segment says so only where it is pushed, and only once.
        if repeated {
            // Segments have become smaller: nothing has ended.
        } else if length < self.received_mss {
            self.pushed = (self.pushed + 1).min(2);
        } else if push {
            self.pushed = self.pushed.max(1);
        }
        if arrival == Arrival::OutOfOrder {
            return;
        }
        self.adapt(now, rto);
        if window_grew {
            self.quick = self.quick.max(1);
        }
    }

    /// The subflow's own window has grown: an even number of quick acknowledgements becomes the next odd one
    /// (`tcp_grow_window`). Where subflows share a window 4.14's source says so too, and its acknowledgements
    /// do not.
    pub(crate) fn on_own_window_grown(&mut self) {
        self.quick |= 1;
    }

    /// At least `least` acknowledgements are to go out at once, whatever the flow was like
    /// (`tcp_enter_quickack_mode`).
    pub(crate) fn quicken(&mut self, least: u32) {
        self.quick = self.quick.max(least);
        self.interactive = false;
        self.delay = DELAY_MIN;
    }

    /// A window has been computed, with less than half of it free if `short`: what comes is no longer acknowledged at
    /// once (`__tcp_select_window`: `icsk_ack.quick = 0`).
    #[inline(always)]
    pub(crate) fn heed_room(&mut self, short: bool) {
        if short {
            self.quick = 0;
        }
    }

    fn adapt(&mut self, now: Instant, rto: Duration) {
        if self.delay.is_zero() {
            self.quick = QUICK_MAX;
            self.delay = DELAY_MIN;
        } else {
            let gap = now.since(self.last_received);
            if gap <= DELAY_MIN / 2 {
                self.delay = self.delay / 2 + DELAY_MIN / 2;
            } else if gap < self.delay {
                self.delay = (self.delay / 2 + gap).min(rto);
            } else if gap > rto {
                // The peer restarted after idleness: it wants its acknowledgements fast.
                self.quick = QUICK_MAX;
            }
        }
        self.last_received = now;
        self.scheduled = true;
    }

    /// Data was sent: a request answered within the delay makes the flow interactive.
    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        if !self.delay.is_zero() && now.since(self.last_received) < self.delay {
            self.interactive = true;
        }
    }

    /// An acknowledgement went out, alone or with data.
    pub(crate) fn on_ack_sent(&mut self) {
        self.quick = self.quick.saturating_sub(1);
        if self.quick == 0 && self.delay > DELAY_MIN {
            self.delay = DELAY_MIN;
        }
        self.now_due = false;
        self.scheduled = false;
        self.pushed = 0;
        self.deadline = Instant::FAR_FUTURE;
    }

    /// What came may have been all there is for now: a small or a pushed segment was among it.
    fn came_to_an_end(&self) -> bool {
        self.pushed == 2 || (self.pushed == 1 && !self.interactive)
    }

    /// Updates the size of full segments from one of `length` bytes (`tcp_measure_rcv_mss`: `skb_shinfo(skb)->gso_size
    /// ? : skb->len`); [`Self::on_data`] follows. Each segment has the option of timestamps if they are in use.
    #[inline(always)]
    pub(super) fn measure(
        &mut self,
        segment: &Segment,
        length: u32,
        arrival: Arrival,
        timestamps: bool,
    ) {
        if arrival == Arrival::Duplicate {
            return;
        }
        if length >= self.received_mss {
            self.last_smaller = 0;
            return;
        }
        let constant = if timestamps { 32 } else { 20 };
        let pushed = segment.flags.contains(Flags::PSH);
        self.on_smaller(length, segment.header_len() as u32, constant, pushed);
    }

    /// Acknowledges the next segments at once because a duplicate came: as many as half of our `window` holds
    /// (`tcp_enter_quickack_mode`, `tcp_incr_quickack`).
    #[cold]
    pub(super) fn quicken_for_duplicate(&mut self, window: u64) {
        let halves = window / (2 * u64::from(self.received_mss));
        let most = u64::from(QUICK_MAX);
        self.quicken(if halves == 0 { 2 } else { halves.min(most) as u32 });
    }

    pub(super) fn quick_mode(&self) -> bool {
        self.quick > 0 && !self.interactive
    }
}

impl Subflow {
    /// The largest payload received (`rcv_mss`).
    pub(crate) fn received_mss(&self) -> u32 {
        self.ack.received_mss
    }

    /// Decides between acknowledging now and later.
    pub(crate) fn check_ack(&mut self, now: Instant, space: Space) {
        let unacked = self.receive.next() - self.receive.advertised_at();
        let mss = u64::from(self.ack.received_mss);
        let holds = unacked > mss && self.window_holds(space, mss);
        self.acknowledge_or_wait(now, holds);
    }

    /// As [`Self::check_ack`], once what came is filed: `unread` says that the application has something to read, and
    /// `space` knows of it.
    #[inline(always)]
    pub(crate) fn check_ack_filed(&mut self, now: Instant, space: Space, unread: bool) {
        let unacked = self.receive.next() - self.receive.advertised_at();
        let mss = u64::from(self.ack.received_mss);
        let mut holds = unacked > mss;
        if holds && unread {
            self.ack.heed_room(self.receive.is_short(space));
            let offer = self.receive.offer(space, mss, self.agreed.receive_scale);
            holds = offer >= self.receive.window();
        }
        self.acknowledge_or_wait(now, holds);
    }

    #[inline(always)]
    fn acknowledge_or_wait(&mut self, now: Instant, second: bool) {
        if self.receive.reports.take_answered() {
            return;
        }
        if second || self.ack.quick_mode() {
            self.ack.now_due = true;
        } else if !self.ack.now_due && self.receive.out_of_order() {
            self.acknowledge_gap(now);
        }
    }

    fn window_holds(&self, space: Space, mss: u64) -> bool {
        // A connection takes its subflows' data at once, so that nothing is ever left to read there
        // (`rcv_nxt - copied_seq < sk_rcvlowat`); plain TCP asks whether the window can advance.
        let by_window = self.stack.shared.acknowledges_by_window && self.multipath;
        if by_window {
            self.receive.offer(space, mss, self.agreed.receive_scale) >= self.receive.window()
        } else {
            self.multipath
                || self.receive.could_offer(space)
                    >= (self.receive.advertised_at() + self.receive.window())
                        .saturating_sub(self.receive.next())
        }
    }

    /// The application read, everything if `emptied`: acknowledge if more than a segment is owed, if
    /// a small or a pushed segment ended what came, or if the window can at least double (`tcp_cleanup_rbuf`).
    /// Subflows of a connection are asked for the last two only where its window has `opened` to twice what was told last
    /// on any of them, or, for a small or a pushed segment, where nothing is left to read (`mptcp_cleanup_rbuf`); and
    /// what is left is their own then.
    pub(crate) fn after_read(&mut self, space: Space, opened: bool, mut emptied: bool) {
        if self.state != super::State::Established || !self.fully_established {
            return;
        }
        let mss = u64::from(self.ack.received_mss);
        let unacked = self.receive.next() - self.receive.advertised_at();
        let owes = self.ack.scheduled && unacked > mss;
        let each = !self.multipath || self.receive.shares_window();
        if !each {
            let ended = self.ack.scheduled && self.ack.pushed > 0;
            if !(opened || owes || (ended && emptied)) {
                return;
            }
            emptied = !self.receive.out_of_order() && self.receive.held_bytes() == 0;
        }
        if owes || (self.ack.scheduled && emptied && self.ack.came_to_an_end()) {
            self.ack.now_due = true;
            return;
        }
        let current = (self.receive.advertised_at() + self.receive.window())
            .saturating_sub(self.receive.next());
        // Most reads change little: a look that costs nothing goes first.
        let most = self.receive.could_offer(space) + (1 << self.agreed.receive_scale);
        if most < 2 * current {
            return;
        }
        self.ack.heed_room(self.receive.is_short(space));
        let offer = self.receive.offer(space, mss, self.agreed.receive_scale);
        if offer > 0 && offer >= 2 * current {
            self.ack.now_due = true;
        }
    }

    /// Arms the delayed acknowledgement where one is owed; called when input is finished.
    pub(crate) fn schedule_delayed_ack(&mut self, host: &HostModel, now: Instant) {
        let waits = self.ack.is_held_back() || self.receive.reports.deadline().is_some();
        if !self.ack.scheduled || self.ack.now_due || waits {
            return;
        }
        let mut delay = self.ack.delay;
        if delay > DELAY_MIN {
            let cap = if self.ack.interactive { DELAY_MAX } else { Duration::from_millis(500) };
            let cap = self.rtt.srtt().map_or(cap, |srtt| cap.min(srtt.max(DELAY_MIN)));
            delay = delay.min(cap);
        }
        self.ack.deadline = host.expiry(now, delay.min(DELAY_MAX));
    }

    /// Fires the delayed acknowledgement if it is due (`tcp_delack_timer_handler`).
    pub(crate) fn fire_delayed_ack(&mut self, now: Instant) {
        if now < self.ack.deadline {
            return;
        }
        self.ack.deadline = Instant::FAR_FUTURE;
        if self.receive.reports.deadline().is_some() {
            return self.ack.demand();
        }
        if self.ack.interactive {
            self.ack.interactive = false;
            self.ack.delay = DELAY_MIN;
        } else {
            self.ack.delay = (self.ack.delay * 2).min(self.rtt.rto());
        }
        self.ack.now_due = true;
    }

    /// Writes the acknowledgement (or window probe) that is due, or that goes because of `signals`, with no option but
    /// its own; false when there is no reason for one.
    #[inline(always)]
    pub(super) fn next_bare_ack(
        &mut self,
        context: &EmitContext,
        signals: bool,
        segment: &mut Segment,
    ) -> bool {
        let probe = std::mem::take(&mut self.ack.probe);
        if !self.ack.now_due && !probe && !signals {
            return false;
        }
        self.acknowledging(context, Bytes::new(), segment);
        if probe {
            segment.seq = self.sequence.local(self.send.una().saturating_sub(1));
        }
        true
    }

    /// Writes the pure acknowledgement (or window probe) that is due; false when none is.
    pub(crate) fn next_pure_ack(&mut self, context: &EmitContext, segment: &mut Segment) -> bool {
        if let Some(owed) = self.ecn.take_owed() {
            self.acknowledge_first(context, segment, owed);
            return true;
        }
        if self.receive.reports.owes() {
            let due = self.ack.now_due;
            self.acknowledging(context, Bytes::new(), segment);
            self.fill_options(segment, true);
            (self.ack.now_due, self.ack.scheduled) = (due, true);
            return true;
        }
        if !self.next_bare_ack(context, self.signal_due(), segment) {
            return false;
        }
        if let Some(at) = context.data_fin {
            self.attach_data_fin(segment, at, context);
        }
        self.fill_options(segment, true);
        true
    }

    /// Writes the acknowledgement of what came before marks began or ended; the one that is due remains so.
    fn acknowledge_first(
        &mut self,
        context: &EmitContext,
        segment: &mut Segment,
        (up_to, echoes): (u64, bool),
    ) {
        let quick = self.ack.quick;
        self.acknowledging(context, Bytes::new(), segment);
        segment.ack = self.sequence.remote(up_to);
        let flags = segment.flags.without(Flags::ECE);
        segment.flags = if echoes { flags.with(Flags::ECE) } else { flags };
        self.fill_options(segment, true);
        // "Special ACK sent by DCTCP to reflect ECN" (`tcp_event_ack_sent`).
        self.ack.quick = quick;
        self.ack.demand();
    }
}

#[cfg(test)]
mod tests;
