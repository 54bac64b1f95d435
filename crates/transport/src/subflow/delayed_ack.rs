//! When to acknowledge (`__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_send_delayed_ack`):
//! every second full segment, at once in quick-ack mode, else after the adaptive delay.

use anabranch_units::{Duration, Instant};
use anabranch_wire::Segment;

use super::receive::Arrival;
use super::{EmitContext, Space, Subflow};
use crate::config::HostModel;

/// `TCP_ATO_MIN`, `TCP_DELACK_MIN`: 40 ms.
const DELAY_MIN: Duration = Duration::from_millis(40);
/// `TCP_DELACK_MAX`: 200 ms.
const DELAY_MAX: Duration = Duration::from_millis(200);
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
    last_received: Instant,
    now_due: bool,
    scheduled: bool,
    /// Small and pushed segments that came since the last acknowledgement, counted to two
    /// (`ICSK_ACK_PUSHED`, `ICSK_ACK_PUSHED2`).
    pushed: u8,
    probe: bool,
    deadline: Option<Instant>,
}

impl AckPolicy {
    pub(crate) fn new(mss: u16) -> Self {
        Self {
            quick: 0,
            interactive: false,
            delay: Duration::ZERO,
            // `tcp_initialize_rcv_mss`: a guess until segments come.
            received_mss: u32::from(mss).min(536),
            last_received: Instant::ZERO,
            now_due: false,
            scheduled: false,
            pushed: 0,
            probe: false,
            deadline: None,
        }
    }

    pub(crate) fn received_mss(&self) -> u32 {
        self.received_mss
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// An acknowledgement waits for its timer (`ICSK_ACK_TIMER`).
    pub(crate) fn is_held_back(&self) -> bool {
        self.deadline.is_some()
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
        match arrival {
            Arrival::InOrder => {}
            Arrival::FilledGap => self.now_due = true,
            Arrival::OutOfOrder | Arrival::Duplicate => {
                self.now_due = true;
                self.quick = self.quick.max(2);
            }
        }
        if arrival == Arrival::OutOfOrder || arrival == Arrival::Duplicate {
            return;
        }
        // `tcp_measure_rcv_mss`: a full segment says so only where it is pushed, and only once.
        if length < self.received_mss {
            self.pushed = (self.pushed + 1).min(2);
        } else if push {
            self.pushed = self.pushed.max(1);
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
        self.deadline = None;
    }

    /// What came may have been all there is for now: a small or a pushed segment was among it.
    fn came_to_an_end(&self) -> bool {
        self.pushed == 2 || (self.pushed == 1 && !self.interactive)
    }

    fn quick_mode(&self) -> bool {
        self.quick > 0 && !self.interactive
    }
}

impl Subflow {
    /// The largest payload received (`rcv_mss`).
    pub(crate) fn received_mss(&self) -> u32 {
        self.ack.received_mss
    }

    /// Decides between acknowledging now and later.
    pub(crate) fn check_ack(&mut self, space: Space) {
        let unacked = self.receive.next() - self.receive.advertised_at();
        let mss = u64::from(self.ack.received_mss);
        // A connection takes its subflows' data at once, so that nothing is ever left to read there
        // (`rcv_nxt - copied_seq < sk_rcvlowat`); plain TCP asks whether the window can advance.
        let by_window = self.stack.acknowledges_by_window && self.multipath;
        let window_holds = if by_window {
            self.receive.offer(space, mss, self.agreed.receive_scale) >= self.receive.window()
        } else {
            self.multipath
                || self.receive.could_offer(space)
                    >= (self.receive.advertised_at() + self.receive.window())
                        .saturating_sub(self.receive.next())
        };
        if (unacked > mss && window_holds) || self.ack.quick_mode() {
            self.ack.now_due = true;
        }
    }

    /// The application read, everything if `emptied`: acknowledge if more than a segment is owed, if
    /// a small or a pushed segment ended what came, or if the window can at least double (`tcp_cleanup_rbuf`).
    pub(crate) fn after_read(&mut self, space: Space, emptied: bool) {
        if self.state != super::State::Established || !self.fully_established {
            return;
        }
        let mss = u64::from(self.ack.received_mss);
        let unacked = self.receive.next() - self.receive.advertised_at();
        if self.ack.scheduled && (unacked > mss || (emptied && self.ack.came_to_an_end())) {
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
        let offer = self.receive.offer(space, mss, self.agreed.receive_scale);
        if offer > 0 && offer >= 2 * current {
            self.ack.now_due = true;
        }
    }

    /// Arms the delayed acknowledgement where one is owed; called when input is finished.
    pub(crate) fn schedule_delayed_ack(&mut self, host: &HostModel, now: Instant) {
        if !self.ack.scheduled || self.ack.now_due || self.ack.deadline.is_some() {
            return;
        }
        let mut delay = self.ack.delay;
        if delay > DELAY_MIN {
            let cap = if self.ack.interactive { DELAY_MAX } else { Duration::from_millis(500) };
            let cap = self.rtt.srtt().map_or(cap, |srtt| cap.min(srtt.max(DELAY_MIN)));
            delay = delay.min(cap);
        }
        self.ack.deadline = Some(host.expiry(now, delay.min(DELAY_MAX)));
    }

    /// Fires the delayed acknowledgement if it is due (`tcp_delack_timer_handler`).
    pub(crate) fn fire_delayed_ack(&mut self, now: Instant) {
        if self.ack.deadline.is_none_or(|at| now < at) {
            return;
        }
        self.ack.deadline = None;
        if self.ack.interactive {
            self.ack.interactive = false;
            self.ack.delay = DELAY_MIN;
        } else {
            self.ack.delay = (self.ack.delay * 2).min(self.rtt.rto());
        }
        self.ack.now_due = true;
    }

    /// Writes the pure acknowledgement (or window probe) that is due; false when none is.
    pub(crate) fn next_pure_ack(&mut self, context: &EmitContext, segment: &mut Segment) -> bool {
        if let Some(owed) = self.ecn.take_owed() {
            self.acknowledge_first(context, segment, owed);
            return true;
        }
        let probe = std::mem::take(&mut self.ack.probe);
        if !self.ack.now_due && !probe && !self.signal_due() {
            return false;
        }
        self.acknowledging(context, segment);
        if probe {
            segment.seq = self.wire_seq(self.send.una().saturating_sub(1));
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
        owed: (u64, bool),
    ) {
        let quick = self.ack.quick;
        self.acknowledging(context, segment);
        self.acknowledge_before(owed, segment);
        self.fill_options(segment, true);
        // "Special ACK sent by DCTCP to reflect ECN" (`tcp_event_ack_sent`).
        self.ack.quick = quick;
        self.ack.demand();
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{at, exact, subflow};
    use super::*;

    const RTO: Duration = Duration::from_millis(300);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A policy that the first segment, of 1000 bytes at 1 s, has woken.
    fn begun() -> AckPolicy {
        let mut policy = AckPolicy::new(1012);
        assert_eq!(policy.received_mss(), 536, "a guess (`TCP_MSS_DEFAULT`)");
        policy.on_data(at(1000), 1000, false, Arrival::InOrder, false, RTO);
        policy
    }

    #[test]
    fn the_first_data_is_acknowledged_sixteen_times_at_once() {
        // tcp_event_data_recv: no ATO yet: `TCP_MAX_QUICKACKS`, `TCP_ATO_MIN`.
        let mut policy = begun();
        assert_eq!((policy.quick, policy.delay, policy.received_mss()), (16, ms(40), 1000));
        assert!(policy.scheduled);
        for left in (0..16).rev() {
            assert!(policy.quick_mode());
            policy.on_ack_sent();
            assert_eq!((policy.quick, policy.scheduled, policy.is_due()), (left, false, false));
        }
        assert!(!policy.quick_mode());
        policy.on_ack_sent();
        assert_eq!(policy.quick, 0);
    }

    #[test]
    fn the_delay_follows_the_gaps_between_segments() {
        // tcp_event_data_recv: `m <= TCP_ATO_MIN / 2`: ato / 2 + 20; `m < ato`: ato / 2 + m, no more than
        // the RTO; `m > rto`: quick acknowledgements; else nothing.
        let after = |delay: u64, gap: u64| {
            let mut policy = AckPolicy { delay: ms(delay), quick: 0, ..begun() };
            policy.on_data(at(1000 + gap), 1000, false, Arrival::InOrder, false, RTO);
            (policy.delay.as_millis(), policy.quick)
        };
        assert_eq!(after(40, 5), (40, 0));
        assert_eq!(after(160, 5), (100, 0), "it falls by half of what is above 40 ms");
        assert_eq!(after(100, 20), (70, 0));
        assert_eq!(after(100, 21), (71, 0));
        assert_eq!(after(40, 30), (50, 0));
        assert_eq!(after(100, 99), (149, 0));
        assert_eq!(after(100, 100), (100, 0), "as long as the delay itself: it is left");
        assert_eq!(after(500, 299), (300, 0), "549, but the RTO");
        assert_eq!(after(100, 300), (100, 0));
        assert_eq!(after(100, 301), (100, 16), "the peer restarts");
        // The gap is between data, whatever else happened.
        let mut policy = AckPolicy { delay: ms(100), ..begun() };
        policy.on_data(at(1010), 1000, false, Arrival::InOrder, false, RTO);
        policy.on_data(at(1035), 1000, false, Arrival::InOrder, false, RTO);
        assert_eq!(policy.delay, ms(60), "100 -> 70 -> 35 + 25");
    }

    #[test]
    fn what_comes_out_of_order_or_twice_is_acknowledged_at_once_and_measures_nothing() {
        for arrival in [Arrival::OutOfOrder, Arrival::Duplicate] {
            let mut policy = AckPolicy { quick: 0, pushed: 0, ..begun() };
            policy.scheduled = false;
            policy.on_data(at(1005), 10, false, arrival, true, RTO);
            assert!(policy.is_due() && policy.quick == 2, "tcp_enter_quickack_mode(sk, 2)");
            assert!(!policy.scheduled && policy.pushed == 0);
            assert_eq!(policy.last_received, at(1000));
        }
        let mut policy = AckPolicy { quick: 7, ..begun() };
        policy.on_data(at(1005), 1200, false, Arrival::Duplicate, false, RTO);
        assert_eq!((policy.quick, policy.received_mss()), (7, 1000));
        let mut policy = begun();
        policy.on_data(at(1005), 1000, false, Arrival::FilledGap, false, RTO);
        assert!(policy.is_due());
        let mut policy = AckPolicy { quick: 0, ..begun() };
        policy.on_data(at(1005), 1000, false, Arrival::InOrder, true, RTO);
        assert!(!policy.is_due() && policy.quick == 1, "tcp_grow_window");
        policy.quick = 16;
        policy.on_own_window_grown();
        assert_eq!(policy.quick, 17);
        policy.on_data(at(1006), 1100, false, Arrival::OutOfOrder, false, RTO);
        assert_eq!(policy.received_mss(), 1100, "it counts for the size of segments");
    }

    #[test]
    fn an_answer_within_the_delay_makes_the_flow_interactive() {
        // inet_csk_enter_pingpong_mode: data sent less than an ATO after data came.
        for (gap, interactive) in [(39, true), (40, false)] {
            let mut policy = begun();
            policy.on_data_sent(at(1000 + gap));
            assert_eq!((policy.interactive, policy.quick_mode()), (interactive, !interactive));
        }
        let mut silent = AckPolicy::new(1012);
        silent.on_data_sent(at(0));
        assert!(!silent.interactive, "nothing has come");
    }

    #[test]
    fn small_segments_end_what_comes() {
        // tcp_measure_rcv_mss, tcp_cleanup_rbuf: ICSK_ACK_PUSHED2, or PUSHED and not interactive.
        let mut policy = begun();
        assert!(!policy.came_to_an_end());
        policy.on_data(at(1001), 999, false, Arrival::InOrder, false, RTO);
        assert!(policy.came_to_an_end());
        policy.interactive = true;
        assert!(!policy.came_to_an_end());
        policy.on_data(at(1002), 999, false, Arrival::InOrder, false, RTO);
        assert!(policy.came_to_an_end());
        policy.on_data(at(1003), 999, false, Arrival::InOrder, false, RTO);
        assert!(policy.came_to_an_end());
        policy.on_ack_sent();
        assert!(!policy.came_to_an_end());
    }

    #[test]
    fn a_full_segment_that_is_pushed_may_end_what_comes_and_two_are_no_more_than_one() {
        // tcp_measure_rcv_mss: PSH on a segment of `rcv_mss` sets ICSK_ACK_PUSHED; ICSK_ACK_PUSHED2 is
        // set by a smaller one alone, where PUSHED is set.
        let mut policy = begun();
        policy.on_data(at(1001), 1000, true, Arrival::InOrder, false, RTO);
        assert!(policy.came_to_an_end());
        policy.interactive = true;
        policy.on_data(at(1002), 1000, true, Arrival::InOrder, false, RTO);
        assert!(!policy.came_to_an_end());
        policy.on_data(at(1003), 999, true, Arrival::InOrder, false, RTO);
        assert!(policy.came_to_an_end());
    }

    #[test]
    fn the_timer_waits_for_the_delay_within_its_bounds() {
        // tcp_send_delayed_ack: above 40 ms no more than half a second, or 200 ms if interactive, or an
        // RTT; `TCP_DELACK_MAX` at last.
        let waits = |delay: u64, interactive: bool, srtt: u64| {
            let (mut subflow, _) = subflow();
            subflow.rtt.sample(&exact(), ms(100), 0, 1);
            subflow.rtt = super::super::rtt::RttEstimator::default();
            subflow.rtt.sample(&exact(), ms(srtt), 0, 1);
            subflow.ack = AckPolicy { delay: ms(delay), interactive, ..begun() };
            subflow.schedule_delayed_ack(&exact(), at(1000));
            subflow.ack.deadline().expect("a timer").since(at(1000)).as_millis()
        };
        assert_eq!(waits(40, false, 10), 40);
        assert_eq!(waits(100, false, 400), 100);
        assert_eq!(waits(100, false, 60), 60);
        assert_eq!(waits(100, false, 10), 40, "no less than the least");
        assert_eq!(waits(190, false, 400), 190);
        assert_eq!(waits(450, false, 400), 200);
        assert_eq!(waits(450, true, 400), 200);
    }

    #[test]
    fn one_timer_is_armed_where_an_acknowledgement_is_owed() {
        let (mut subflow, _) = subflow();
        subflow.schedule_delayed_ack(&exact(), at(1000));
        assert_eq!(subflow.ack.deadline(), None, "nothing is owed");
        subflow.ack = begun();
        subflow.ack.now_due = true;
        subflow.schedule_delayed_ack(&exact(), at(1000));
        assert_eq!(subflow.ack.deadline(), None, "it goes at once");
        subflow.ack.now_due = false;
        subflow.schedule_delayed_ack(&exact(), at(1000));
        subflow.schedule_delayed_ack(&exact(), at(1010));
        assert_eq!(subflow.ack.deadline(), Some(at(1040)), "the first stands");
        subflow.fire_delayed_ack(at(1039));
        assert!(!subflow.ack.is_due() && subflow.ack.deadline().is_some());
        // tcp_delack_timer_handler: "Delayed ACK missed: inflate ATO", up to the RTO.
        subflow.fire_delayed_ack(at(1040));
        assert!(subflow.ack.is_due() && subflow.ack.deadline().is_none());
        assert_eq!(subflow.ack.delay, ms(80));
        subflow.ack.delay = ms(200);
        subflow.ack.deadline = Some(at(1100));
        subflow.fire_delayed_ack(at(1100));
        assert_eq!(subflow.ack.delay, ms(300));
        // Interactive no more, and the least delay again.
        subflow.ack.interactive = true;
        subflow.ack.deadline = Some(at(1200));
        subflow.fire_delayed_ack(at(1200));
        assert_eq!((subflow.ack.interactive, subflow.ack.delay), (false, ms(40)));
        // Leaving quick mode deflates it (tcp_dec_quickack_mode).
        subflow.ack = AckPolicy { delay: ms(80), quick: 2, ..begun() };
        subflow.ack.on_ack_sent();
        assert_eq!(subflow.ack.delay, ms(80));
        subflow.ack.on_ack_sent();
        assert_eq!(subflow.ack.delay, ms(40));
    }
}
