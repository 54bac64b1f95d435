//! Changes of the sending half for unit tests of other parts.

use anabranch_units::{Duration, Instant};

use super::Sending;
use super::flight::TxStamp;
use super::losses::Verdict;
use super::parts::lose;
use crate::config::{HostModel, Moment};
use crate::fixture::{exact, fresh};
use anabranch_congestion::CongestionState;

impl Sending {
    /// Completes the handshake, with an RTT of 100 ms.
    pub(crate) fn settle(&mut self) {
        self.queue.on_syn();
        self.queue.set_una(1);
        let rtt = Duration::from_millis(100);
        self.timers.sample(Moment { host: &exact(), now: Instant::ZERO }, rtt, Some(rtt), (0, 1));
    }

    /// Sends a segment of `length` bytes next.
    pub(crate) fn send_zeros(&mut self, now: Instant, length: u64) {
        let in_flight = self.flight.in_flight();
        let stamp = self.flight.rate_mut().on_sent(now, in_flight, in_flight == 0);
        let start = self.queue.next();
        self.queue.set_next(start + length);
        self.queue.set_last_sent(now);
        self.queue.count_new(length, false, 1);
        self.sent.bytes += length;
        self.flight.push(fresh(start, length as usize, now, stamp));
    }

    /// Replaces the RTT estimates with those of one sample.
    pub(crate) fn measure(&mut self, host: &HostModel, rtt: Duration) {
        self.timers.forget_rtt();
        self.timers.sample(Moment { host, now: Instant::ZERO }, rtt, None, (0, 1));
    }

    pub(crate) fn lose(&mut self, now: Instant, number: u64) {
        lose(&mut self.split(now).2, number);
    }

    pub(crate) fn detect(&mut self, now: Instant, una_advanced: bool) -> Verdict {
        let (_, losses, mut parts) = self.split(now);
        losses.detect(&mut parts, una_advanced)
    }

    pub(crate) fn arm_window_probe(&mut self, now: Instant) {
        self.timers.arm_window_probe(Moment { host: &exact(), now }, &self.flight);
    }

    pub(crate) fn schedule_probe(&mut self, now: Instant, advancing: bool) -> bool {
        let state = self.cwnd.state();
        self.timers.arm_probe(Moment { host: &exact(), now }, &self.flight, state, advancing)
    }

    pub(crate) fn set_timer_after_ack(&mut self, now: Instant) {
        let (state, awaits_fin) = (self.cwnd.state(), self.awaits_fin());
        self.timers.set(Moment { host: &exact(), now }, &self.flight, state, true, awaits_fin);
    }

    pub(crate) fn set_timer_behind_data(&mut self, now: Instant, together: bool, probe: bool) {
        let state = self.cwnd.state();
        self.timers.set_behind_data(
            Moment { host: &exact(), now },
            &self.flight,
            state,
            together,
            probe,
        );
    }

    /// Returns the stamp of a segment that is sent now.
    pub(crate) fn stamp(&mut self, now: Instant) -> TxStamp {
        let in_flight = self.flight.in_flight();
        self.flight.rate_mut().on_sent(now, in_flight, false)
    }

    pub(crate) fn acknowledge_bytes(&mut self, bytes: u64) {
        self.flight.acknowledge_bytes(bytes);
    }

    pub(crate) fn enter(&mut self, state: CongestionState) {
        let (recovery, _, mut parts) = self.split(Instant::ZERO);
        recovery.enter(&mut parts, state);
    }

    pub(crate) fn must_hold_recovery(&self) -> bool {
        self.recovery.must_hold(self.flight.is_selective(), self.queue.una())
    }
}
