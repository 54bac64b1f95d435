//! The times of acknowledgements: for every second full segment, at once in quick-ack mode, and otherwise
//! after an adaptive delay (`__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_send_delayed_ack`).

use anabranch_units::{Duration, Instant};
use anabranch_wire::{Flags, Segment};

use super::super::Space;
use super::super::sending::rtt::RttEstimator;
use super::{Arrival, Receiver};
use crate::config::HostModel;

/// The shortest delay (`TCP_ATO_MIN`, `TCP_DELACK_MIN`).
const DELAY_MIN: Duration = Duration::from_millis(40);
/// The longest delay (`TCP_DELACK_MAX`).
const DELAY_MAX: Duration = Duration::from_millis(200);
/// The largest assumed size of a full segment before one has arrived (`TCP_MSS_DEFAULT`), bytes.
const GUESS_MAX: u64 = 536;
/// The smallest assumed size of a full segment (`TCP_MIN_MSS`), bytes.
const GUESS_MIN: u32 = 88;
/// The largest number of quick acknowledgements (`TCP_MAX_QUICKACKS`).
const QUICK_MAX: u32 = 16;

/// The state of the acknowledgement policy.
#[derive(Debug)]
pub(super) struct AckPolicy {
    /// The number of remaining acknowledgements that are sent at once.
    quick: u32,
    interactive: bool,
    /// The adaptive delay (`ato`). Zero before the first data.
    delay: Duration,
    received_mss: u32,
    /// The size of the last segment if it was smaller than a full one (`last_seg_size`): payload and options
    /// except timestamps.
    last_smaller: u16,
    /// Whether the last smaller segment was as long as the one before it.
    repeated: bool,
    last_received: Instant,
    now_due: bool,
    scheduled: bool,
    /// The number of small or PSH segments since the last acknowledgement, at most two (`ICSK_ACK_PUSHED`,
    /// `ICSK_ACK_PUSHED2`).
    pushed: u8,
    probe: bool,
    /// The time of the delayed acknowledgement. `FAR_FUTURE` if none is pending.
    deadline: Instant,
}

impl AckPolicy {
    /// Creates the policy of a host that announces `mss` and a first window of `window` bytes.
    pub(crate) fn new(mss: u16, window: u64) -> Self {
        let half = (window / 2).min(GUESS_MAX) as u32;
        Self {
            quick: 0,
            interactive: false,
            delay: Duration::ZERO,
            // `tcp_initialize_rcv_mss`: an estimate until segments arrive.
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

    /// Returns the time of the delayed acknowledgement. `FAR_FUTURE` if none is pending.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Returns whether a delayed acknowledgement is pending (`ICSK_ACK_TIMER`).
    pub(crate) fn is_held_back(&self) -> bool {
        self.deadline != Instant::FAR_FUTURE
    }

    /// Returns whether an acknowledgement or a probe must be sent.
    pub(crate) fn is_due(&self) -> bool {
        self.now_due | self.probe
    }

    /// Requests an acknowledgement now.
    pub(crate) fn demand(&mut self) {
        self.now_due = true;
    }

    /// Requests a window probe now.
    pub(crate) fn demand_probe(&mut self) {
        self.probe = true;
    }

    /// Handles a segment that is smaller than a full one. `header` is the length of its TCP header, of which
    /// `constant` bytes are in every segment. Two consecutive segments of equal length show that full
    /// segments have become smaller; other small segments differ because of SACK blocks
    /// (`tcp_measure_rcv_mss`). Call [`Self::on_data`] afterwards.
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

    /// Handles data that arrived in segments of `length` bytes (`tcp_event_data_recv`).
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
        // `tcp_measure_rcv_mss`: a full segment is counted only if it has PSH, and only once.
        if repeated {
            // Full segments have become smaller, and the data continues.
        } else if length < self.received_mss {
            self.pushed = (self.pushed + 1).min(2);
        } else if push {
            self.pushed = self.pushed.max(1);
        }
        if arrival == Arrival::OutOfOrder {
            return;
        }
        self.update_delay(now, rto);
        if window_grew {
            self.quick = self.quick.max(1);
        }
    }

    /// Handles growth of the connection's own window. An even number of quick acknowledgements is increased
    /// to the next odd one (`tcp_grow_window`). The source of 4.14 also does this for a shared window, but
    /// its acknowledgements do not show it.
    pub(crate) fn on_own_window_grown(&mut self) {
        self.quick |= 1;
    }

    /// Sends at least `least` acknowledgements at once, even in an interactive flow
    /// (`tcp_enter_quickack_mode`).
    pub(crate) fn begin_quick_acks(&mut self, least: u32) {
        self.quick = self.quick.max(least);
        self.interactive = false;
        self.delay = DELAY_MIN;
    }

    /// Ends quick acknowledgements if less than half of the computed window is free (`short`;
    /// `__tcp_select_window`: `icsk_ack.quick = 0`).
    #[inline]
    pub(crate) fn limit_quick_acks(&mut self, short: bool) {
        if short {
            self.quick = 0;
        }
    }

    fn update_delay(&mut self, now: Instant, rto: Duration) {
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
                // The peer restarts after an idle period and needs fast acknowledgements.
                self.quick = QUICK_MAX;
            }
        }
        self.last_received = now;
        self.scheduled = true;
    }

    /// Handles the sending of data. Data within the delay of an acknowledgement makes the flow interactive.
    pub(crate) fn on_data_sent(&mut self, now: Instant) {
        if !self.delay.is_zero() && now.since(self.last_received) < self.delay {
            self.interactive = true;
        }
    }

    /// Handles the sending of an acknowledgement, with or without data.
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

    /// Returns whether the data may have ended, because a small or PSH segment arrived.
    fn came_to_an_end(&self) -> bool {
        self.pushed == 2 || (self.pushed == 1 && !self.interactive)
    }

    /// Updates the size of full segments from one of `length` bytes (`tcp_measure_rcv_mss`:
    /// `skb_shinfo(skb)->gso_size ? : skb->len`). If `timestamps` is set, every segment has that option. Call
    /// [`Self::on_data`] afterwards.
    #[inline]
    pub(super) fn update_rcv_mss(
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

    /// Acknowledges the next segments at once because a duplicate arrived. The number of such
    /// acknowledgements is that of the segments in half of our `window` (`tcp_enter_quickack_mode`,
    /// `tcp_incr_quickack`).
    #[cold]
    pub(super) fn begin_quick_acks_for_duplicate(&mut self, window: u64) {
        let halves = window / (2 * u64::from(self.received_mss));
        let most = u64::from(QUICK_MAX);
        self.begin_quick_acks(if halves == 0 { 2 } else { halves.min(most) as u32 });
    }

    pub(super) fn quick_mode(&self) -> bool {
        self.quick > 0 && !self.interactive
    }
}

impl Receiver {
    /// Returns the estimated payload of a full received segment (`rcv_mss`).
    pub fn received_mss(&self) -> u32 {
        self.ack.received_mss
    }

    /// Decides whether to acknowledge now or later. `tagged`: data is sent with tags.
    pub(super) fn check_ack(
        &mut self,
        now: Instant,
        space: Space,
        tagged: bool,
        rtt: &RttEstimator,
    ) {
        let unacked = self.assembly.next - self.advertised_at;
        let mss = u64::from(self.ack.received_mss);
        let holds = unacked > mss && self.window_holds(space, mss, tagged);
        self.acknowledge_or_wait(now, holds, rtt);
    }

    /// Makes the decision of [`Self::check_ack`] after the data was delivered. `unread`: the application has
    /// data to read, which `space` already excludes.
    #[inline]
    pub(crate) fn check_ack_filed(
        &mut self,
        now: Instant,
        space: Space,
        unread: bool,
        rtt: &RttEstimator,
    ) {
        let unacked = self.assembly.next - self.advertised_at;
        let mss = u64::from(self.ack.received_mss);
        let mut holds = unacked > mss;
        if holds && unread {
            self.ack.limit_quick_acks(self.is_short(space));
            holds = self.offer(space, mss, self.negotiated.receive_scale) >= self.window;
        }
        self.acknowledge_or_wait(now, holds, rtt);
    }

    #[inline]
    fn acknowledge_or_wait(&mut self, now: Instant, second: bool, rtt: &RttEstimator) {
        if self.assembly.reports.take_answered() {
            return;
        }
        if second || self.ack.quick_mode() {
            self.ack.now_due = true;
        } else if !self.ack.now_due && self.assembly.out_of_order() {
            self.acknowledge_gap(now, rtt);
        }
    }

    fn window_holds(&self, space: Space, mss: u64, tagged: bool) -> bool {
        // Data with tags is delivered at once, so no data is unread in this connection (`rcv_nxt - copied_seq
        // < sk_rcvlowat`). Without tags, the window must be able to advance.
        if self.rules.by_window && tagged {
            self.offer(space, mss, self.negotiated.receive_scale) >= self.window
        } else {
            tagged || self.could_offer(space) >= self.window_left()
        }
    }

    /// Handles a read of the application. `emptied` means that all data was read. An acknowledgement is sent
    /// in three cases: more than a segment is unacknowledged; a small or PSH segment ended the data; or the
    /// window can at least double (`tcp_cleanup_rbuf`).
    ///
    /// `held` is set if data has tags: the number of in-order bytes that wait in this connection. The last
    /// two reasons then require that the window of the layer above has `opened` to twice the last advertised
    /// one. A small or PSH segment is also acknowledged if nothing is left to read (`mptcp_cleanup_rbuf`).
    /// After that, the connection considers its own data.
    pub fn on_read(&mut self, space: Space, opened: bool, mut emptied: bool, held: Option<u64>) {
        let mss = u64::from(self.ack.received_mss);
        let owes = self.ack.scheduled && self.assembly.next - self.advertised_at > mss;
        if let Some(held) = held.filter(|_| !self.shared) {
            let ended = self.ack.scheduled && self.ack.pushed > 0;
            if !(opened || owes || (ended && emptied)) {
                return;
            }
            emptied = !self.assembly.out_of_order() && held == 0;
        }
        if owes || (self.ack.scheduled && emptied && self.ack.came_to_an_end()) {
            self.ack.now_due = true;
            return;
        }
        let current = self.window_left();
        let scale = self.negotiated.receive_scale;
        // Most reads change little, so the cheap test comes first.
        if self.could_offer(space) + (1 << scale) < 2 * current {
            return;
        }
        self.ack.limit_quick_acks(self.is_short(space));
        let offer = self.offer(space, mss, scale);
        if offer > 0 && offer >= 2 * current {
            self.ack.now_due = true;
        }
    }

    /// Starts the timer of a delayed acknowledgement if one is needed. Called after input was handled.
    pub fn arm_delayed_ack(&mut self, host: &HostModel, now: Instant, srtt: Option<Duration>) {
        let waits = self.ack.is_held_back() || self.assembly.reports.deadline().is_some();
        if !self.ack.scheduled || self.ack.now_due || waits {
            return;
        }
        let mut delay = self.ack.delay;
        if delay > DELAY_MIN {
            let cap = if self.ack.interactive { DELAY_MAX } else { Duration::from_millis(500) };
            let cap = srtt.map_or(cap, |srtt| cap.min(srtt.max(DELAY_MIN)));
            delay = delay.min(cap);
        }
        self.ack.deadline = host.expiry(now, delay.min(DELAY_MAX));
    }

    /// Handles the timers of the delayed and the compressed acknowledgement.
    pub fn handle_timeout(&mut self, now: Instant, rto: Duration) {
        if now >= self.ack.deadline {
            self.handle_delayed_ack_timeout(rto);
        }
        if self.assembly.reports.deadline().is_some_and(|at| now >= at) {
            self.ack.demand();
        }
    }

    /// Handles the timer of the delayed acknowledgement (`tcp_delack_timer_handler`).
    fn handle_delayed_ack_timeout(&mut self, rto: Duration) {
        self.ack.deadline = Instant::FAR_FUTURE;
        if self.assembly.reports.deadline().is_some() {
            return self.ack.demand();
        }
        if self.ack.interactive {
            self.ack.interactive = false;
            self.ack.delay = DELAY_MIN;
        } else {
            self.ack.delay = (self.ack.delay * 2).min(rto);
        }
        self.ack.now_due = true;
    }

    /// Takes the request for an acknowledgement or a window probe. The result is `Some(true)` for a probe.
    /// The result is `None` if there is no request and no acknowledgement is `wanted`.
    #[inline]
    pub(crate) fn take_ack(&mut self, wanted: bool) -> Option<bool> {
        let probe = std::mem::take(&mut self.ack.probe);
        (self.ack.now_due || probe || wanted).then_some(probe)
    }

    /// Takes the acknowledgement that must be sent before any other segment.
    pub(crate) fn take_first_ack(&mut self) -> Option<FirstAck> {
        if let Some((up_to, echoes)) = self.ecn.take_owed() {
            return Some(FirstAck::OfMarks { up_to, echoes, quick: self.ack.quick });
        }
        self.assembly.reports.owes().then_some(FirstAck::OfReports { due: self.ack.now_due })
    }

    /// Restores the requests that remain after the first acknowledgement was sent.
    pub fn on_first_ack_sent(&mut self, sent: FirstAck) {
        match sent {
            // "Special ACK sent by DCTCP to reflect ECN" (`tcp_event_ack_sent`).
            FirstAck::OfMarks { quick, .. } => {
                self.ack.quick = quick;
                self.ack.demand();
            }
            FirstAck::OfReports { due } => (self.ack.now_due, self.ack.scheduled) = (due, true),
        }
    }
}

/// An acknowledgement that must be sent before any other segment.
#[derive(Clone, Copy, Debug)]
pub enum FirstAck {
    /// Acknowledges the data up to `up_to`, before marks began or ended. `quick` is the number of remaining
    /// quick acknowledgements.
    OfMarks { up_to: u64, echoes: bool, quick: u32 },
    /// Carries earlier SACK blocks. `due` means that another acknowledgement was requested.
    OfReports { due: bool },
}

#[cfg(test)]
mod tests;
