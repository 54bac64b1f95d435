//! Congestion window validation: reduction of a window that the application does not use, and restart after
//! an idle period (RFC 2861; Linux `tcp_cwnd_validate`).

use anabranch_units::{Duration, Instant};

use super::Cwnd;
use crate::config::Moment;
use anabranch_congestion::{CongestionState, INITIAL_WINDOW, Window, WindowChange};

/// The recorded use of the congestion window.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Whether the window was full in the period that ends at `end` (`is_cwnd_limited`).
    limited: bool,
    /// The largest number of outstanding segments in that period.
    max_packets_out: u32,
    /// The position whose acknowledgement ends the period (`cwnd_usage_seq`).
    end: u64,
    /// The largest number of outstanding segments since the window was last full or set.
    used: u32,
    /// The time at which the window was last full or set (`snd_cwnd_stamp`).
    since: Instant,
}

impl Usage {
    /// Restarts the time of unused window, because the window was set.
    pub(super) fn on_window_set(&mut self, now: Instant) {
        self.since = now;
    }

    /// Returns whether the window was full in the current period.
    pub(super) fn was_full(&self) -> bool {
        self.limited
    }

    /// Returns whether the window limits the sender (`tcp_is_cwnd_limited`).
    #[inline]
    pub(super) fn is_limited(&self, window: &Window) -> bool {
        self.was_full() || (window.in_slow_start() && window.cwnd < 2 * self.max_packets_out)
    }

    /// Records `packets_out` outstanding segments, and a full window if `limited`. `una` and `next` are the
    /// sender's positions. With `remembers`, a full window counts until the period ends.
    #[inline]
    fn note(&mut self, (una, next): (u64, u64), packets_out: u32, limited: bool, remembers: bool) {
        if una >= self.end
            || (limited && remembers)
            || (!(self.limited && remembers) && packets_out > self.max_packets_out)
        {
            self.limited = limited;
            self.max_packets_out = packets_out;
            self.end = next;
        }
    }

    /// Restarts the measurement of the used window.
    #[inline]
    fn restart(&mut self, now: Instant) {
        self.used = 0;
        self.since = now;
    }
}

/// The sender's state when the window is validated.
#[derive(Clone, Copy)]
pub(in crate::sending) struct Use {
    /// The first unacknowledged position.
    pub(in crate::sending) una: u64,
    /// The next position to send.
    pub(in crate::sending) next: u64,
    pub(in crate::sending) packets_out: u32,
    /// The retransmission timeout.
    pub(in crate::sending) rto: Duration,
    /// Whether the application waits for send-buffer space.
    pub(in crate::sending) wants_space: bool,
}

impl Cwnd {
    /// Reduces the window if the sender has been idle since `last_sent` (`tcp_slow_start_after_idle_check`,
    /// `tcp_cwnd_restart`). Times are in ticks.
    pub(in crate::sending) fn restart_after_idle(
        &mut self,
        moment: Moment<'_>,
        last_sent: Instant,
        rto: Duration,
    ) {
        let Moment { host, now } = moment;
        if self.controller.owns_recovery() {
            return;
        }
        let mut idle = host.ticks_between(last_sent, now);
        if idle <= rto {
            return;
        }
        self.controller.on_idle_restart(now);
        self.reduce_ssthresh();
        let floor = INITIAL_WINDOW.min(self.window.cwnd);
        while idle > rto && self.window.cwnd > floor {
            idle = idle.saturating_sub(rto);
            self.window.cwnd /= 2;
        }
        self.window.cwnd = self.window.cwnd.max(floor);
        self.usage.restart(now);
        self.controller.on_window_changed(WindowChange::Idle, &mut self.window);
    }

    /// Validates the window after a transmission (`tcp_cwnd_validate`). `limited` means that the window is
    /// full.
    #[inline]
    pub(in crate::sending) fn update_usage(
        &mut self,
        moment: Moment<'_>,
        limited: bool,
        used: Use,
    ) {
        let Moment { host, now } = moment;
        let Use { una, next, packets_out, rto, wants_space } = used;
        self.usage.note((una, next), packets_out, limited, self.remembers_full);
        if self.usage.is_limited(&self.window) {
            self.usage.restart(now);
            return;
        }
        self.usage.used = self.usage.used.max(packets_out);
        let since = self.usage.since;
        // Fast path without a division: usually the time has not passed.
        let perhaps = now.since(since) + host.timer_tick >= rto;
        let quiet = perhaps && host.ticks_between(since, now) >= rto;
        if quiet && !self.controller.owns_recovery() {
            self.reduce_to_application(now, wants_space);
        }
    }

    /// Reduces a window that the application does not use (`tcp_cwnd_application_limited`).
    fn reduce_to_application(&mut self, now: Instant, wants_space: bool) {
        if self.state == CongestionState::Open && !wants_space {
            let used = self.usage.used.max(INITIAL_WINDOW);
            if used < self.window.cwnd {
                self.reduce_ssthresh();
                self.window.cwnd = u32::midpoint(self.window.cwnd, used);
                self.controller
                    .on_window_changed(WindowChange::ApplicationLimited, &mut self.window);
            }
            self.usage.used = 0;
        }
        self.usage.since = now;
    }

    /// Returns whether the window is full and counts as used although it prevented all sending.
    #[inline]
    pub(in crate::sending) fn notes_full(&self, in_flight: u32) -> bool {
        self.notes_full && self.is_full(in_flight)
    }

    /// Returns whether the window limits the sender (`tcp_is_cwnd_limited`).
    #[inline]
    pub(in crate::sending) fn limits_sender(&self) -> bool {
        self.usage.is_limited(&self.window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tcp;
    use crate::config::HostModel;
    use crate::fixture::{Recorder, at, exact, send, subflow};

    /// A window of 80 segments after a reduction. The last data was sent at 1 s and acknowledged.
    fn rested() -> (Tcp, Recorder) {
        let (mut subflow, told) = subflow();
        send(&mut subflow, at(1000), 1000);
        subflow.sending.flight.remove_front();
        *subflow.sending.cwnd.window_mut() =
            anabranch_congestion::Window { cwnd: 80, ssthresh: 60 };
        (subflow, told)
    }

    fn changes(told: &Recorder) -> Vec<WindowChange> {
        told.0.lock().expect("one thread").changes.clone()
    }

    #[test]
    fn the_window_halves_for_each_timeout_of_idleness() {
        // tcp_cwnd_restart: `while ((delta -= icsk_rto) > 0 && cwnd > restart_cwnd) cwnd >>= 1`. The timeout
        // is 300 ms, and the restart window is ten.
        for (idle, cwnd) in [(300, 80), (301, 40), (600, 40), (601, 20), (901, 10), (9000, 10)] {
            let (mut subflow, told) = rested();
            subflow.sending.restart_after_idle(Moment { host: &exact(), now: at(1000 + idle) });
            assert_eq!(subflow.sending.cwnd.window().cwnd, cwnd, "{idle} ms");
            // ssthresh is at least three quarters of the old window.
            assert_eq!(subflow.sending.cwnd.window().ssthresh, 60);
            let restarts = if cwnd == 80 { vec![] } else { vec![WindowChange::Idle] };
            assert_eq!(changes(&told), restarts);
            if cwnd < 80 {
                assert_eq!(subflow.sending.cwnd.usage.since, at(1000 + idle));
            }
        }
        let (mut subflow, _) = rested();
        *subflow.sending.cwnd.window_mut() = anabranch_congestion::Window { cwnd: 15, ssthresh: 5 };
        subflow.sending.restart_after_idle(Moment { host: &exact(), now: at(1301) });
        assert_eq!(
            (subflow.sending.cwnd.window().cwnd, subflow.sending.cwnd.window().ssthresh),
            (10, 10),
            "15/2 + 15/4 = 10"
        );
        let (mut subflow, _) = rested();
        subflow.sending.cwnd.window_mut().cwnd = 4;
        subflow.sending.restart_after_idle(Moment { host: &exact(), now: at(5000) });
        assert_eq!(subflow.sending.cwnd.window().cwnd, 4, "never more than it was");
    }

    #[test]
    fn idle_restart_needs_earlier_data_and_an_empty_flight() {
        let (mut subflow, told) = rested();
        send(&mut subflow, at(1000), 1000);
        subflow.sending.restart_after_idle(Moment { host: &exact(), now: at(9000) });
        let (mut fresh, told_fresh) = crate::fixture::subflow();
        fresh.sending.cwnd.window_mut().cwnd = 80;
        fresh.sending.restart_after_idle(Moment { host: &exact(), now: at(9000) });
        assert_eq!(
            (subflow.sending.cwnd.window().cwnd, fresh.sending.cwnd.window().cwnd),
            (80, 80)
        );
        assert!(changes(&told).is_empty() && changes(&told_fresh).is_empty());
    }

    #[test]
    fn unfilled_window_decays_halfway_to_its_usage_after_one_rto() {
        // tcp_cwnd_application_limited: cwnd = (cwnd + max(used, initial)) / 2.
        let (mut subflow, told) = rested();
        subflow.sending.cwnd.usage.on_window_set(at(1000));
        for _ in 0..20 {
            send(&mut subflow, at(1100), 1000);
        }
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1299) }, false);
        assert_eq!((subflow.sending.cwnd.window().cwnd, subflow.sending.cwnd.usage.used), (80, 20));
        for _ in 0..5 {
            subflow.sending.flight.remove_front();
        }
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1300) }, false);
        assert_eq!(subflow.sending.cwnd.window().cwnd, 50, "the most used in the meantime was 20");
        assert_eq!(
            (subflow.sending.cwnd.window().ssthresh, subflow.sending.cwnd.usage.used),
            (60, 0)
        );
        assert_eq!(subflow.sending.cwnd.usage.since, at(1300));
        assert_eq!(changes(&told), [WindowChange::ApplicationLimited]);
        // The used window counts as at least ten, so a window of ten or less stays.
        while !subflow.sending.flight.is_empty() {
            subflow.sending.flight.remove_front();
        }
        send(&mut subflow, at(1300), 1000);
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1600) }, false);
        assert_eq!(subflow.sending.cwnd.window().cwnd, 30);
        subflow.sending.cwnd.window_mut().cwnd = 10;
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1900) }, false);
        assert_eq!(
            (subflow.sending.cwnd.window().cwnd, subflow.sending.cwnd.usage.since),
            (10, at(1900))
        );
        assert_eq!(changes(&told).len(), 2);
    }

    #[test]
    fn blocked_or_disordered_sender_is_not_application_limited() {
        for spoil in 0..3 {
            let (mut subflow, told) = rested();
            subflow.sending.cwnd.usage.on_window_set(at(1000));
            match spoil {
                0 => subflow.sending.buffer.set_blocked(true),
                1 => {
                    subflow.sending.tagging_mut().begin();
                    subflow.sending.rules.always_wants_space = true;
                }
                _ => subflow.sending.cwnd.force_state(CongestionState::Disorder),
            }
            send(&mut subflow, at(1100), 1000);
            subflow.sending.update_usage(Moment { host: &exact(), now: at(1400) }, false);
            assert!(changes(&told).is_empty() && subflow.sending.cwnd.window().cwnd == 80);
            assert_eq!(subflow.sending.cwnd.usage.since, at(1400), "the clock runs anew");
        }
    }

    #[test]
    fn unblocked_subflow_is_app_limited_and_keeps_its_buffer() {
        // Linux 6.12 checks only `SOCK_NOSPACE` of the connection's socket.
        for waits in [true, false] {
            let (mut subflow, _) = rested();
            subflow.sending.tagging_mut().begin();
            subflow.sending.buffer.set_blocked(waits);
            subflow.sending.cwnd.usage.on_window_set(at(1000));
            send(&mut subflow, at(1100), 1000);
            assert_eq!(subflow.sending.grow_buffer_if_needed(at(1100)), waits);
            assert_eq!(
                subflow.sending.cwnd.usage.since,
                at(if waits { 1100 } else { 1000 }),
                "tcp_new_space"
            );
            subflow.sending.cwnd.usage.on_window_set(at(1000));
            subflow.sending.update_usage(Moment { host: &exact(), now: at(1400) }, false);
            assert_eq!(
                subflow.sending.cwnd.window().cwnd,
                if waits { 80 } else { 45 },
                "(80 + 10) / 2"
            );
        }
    }

    #[test]
    fn a_full_window_counts_where_more_waits_though_nothing_leaves() {
        // tcp_write_xmit of 6.1: `if (likely(sent_pkts || is_cwnd_limited)) tcp_cwnd_validate()`.
        for (queued, notes, limited) in [(500, true, true), (0, true, false), (500, false, false)] {
            let (mut subflow, _) = rested();
            *subflow.sending.cwnd.window_mut() =
                anabranch_congestion::Window { cwnd: 1, ssthresh: 1 };
            send(&mut subflow, at(1000), 1000);
            subflow.sending.cwnd.notes_full = notes;
            subflow.sending.queue.set_queued(queued);
            subflow.sending.note_full_window(Moment { host: &exact(), now: at(1000) });
            assert_eq!(
                subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()),
                limited,
                "{queued} {notes}"
            );
        }
    }

    #[test]
    fn time_passes_in_ticks() {
        // tcp_jiffies32, with ticks of 4 ms: 1000 to 1303 ms are 75 ticks, which is not more than the timeout
        // of 300 ms. 1003 to 1304 ms are 76 ticks.
        let host = HostModel::default();
        for (from, to, cwnd) in
            [(1000, 1303, 80), (1003, 1303, 80), (1003, 1304, 40), (1004, 1304, 80)]
        {
            let (mut subflow, _) = rested();
            subflow.sending.queue.set_last_sent(at(from));
            subflow.sending.restart_after_idle(Moment { host: &host, now: at(to) });
            assert_eq!(subflow.sending.cwnd.window().cwnd, cwnd, "{from} to {to}");
        }
        // The time for which the window was not used is also measured in ticks: 300 ms by that clock,
        // although only 297 ms have passed.
        for (to, cwnd) in [(1299, 80), (1300, 45)] {
            let (mut subflow, _) = rested();
            subflow.sending.cwnd.usage.on_window_set(at(1003));
            send(&mut subflow, at(1100), 1000);
            subflow.sending.update_usage(Moment { host: &host, now: at(to) }, false);
            assert_eq!(subflow.sending.cwnd.window().cwnd, cwnd, "to {to}");
        }
    }

    #[test]
    fn a_window_is_limited_when_it_was_full_and_in_slow_start_when_half_was_used() {
        // tcp_is_cwnd_limited: `is_cwnd_limited`, or in slow start cwnd < 2 max_packets_out.
        let (mut subflow, _) = rested();
        for _ in 0..10 {
            send(&mut subflow, at(1000), 1000);
        }
        *subflow.sending.cwnd.window_mut() =
            anabranch_congestion::Window { cwnd: 19, ssthresh: 20 };
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1000) }, false);
        assert!(subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()), "19 < 20");
        subflow.sending.cwnd.window_mut().cwnd = 20;
        assert!(
            !subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()),
            "out of slow start"
        );
        subflow.sending.cwnd.window_mut().ssthresh = 100;
        assert!(
            !subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()),
            "20 is no less than 20"
        );
        subflow.sending.cwnd.window_mut().ssthresh = 20;
        // tcp_cwnd_validate: one full window per round trip is enough. A larger number of outstanding
        // segments replaces a smaller one.
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1000) }, true);
        assert!(subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()));
        send(&mut subflow, at(1001), 1000);
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1001) }, false);
        assert!(
            subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window())
                && subflow.sending.cwnd.usage.max_packets_out == 10,
            "the same round trip"
        );
        subflow.sending.queue.set_una(subflow.sending.cwnd.usage.end);
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1100) }, false);
        assert!(
            !subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window())
                && subflow.sending.cwnd.usage.max_packets_out == 11
        );
        subflow.sending.cwnd.usage.max_packets_out = 5;
        subflow.sending.cwnd.usage.end = u64::MAX;
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1100) }, false);
        assert_eq!(subflow.sending.cwnd.usage.max_packets_out, 11, "more are out");
    }

    #[test]
    fn as_many_out_as_before_begin_no_new_round_trip() {
        // tcp_cwnd_validate: cwnd_usage_seq changes if `packets_out > max_packets_out`, but not if they are
        // equal.
        let (mut subflow, _) = rested();
        send(&mut subflow, at(1000), 1000);
        send(&mut subflow, at(1000), 1000);
        subflow.sending.cwnd.usage.max_packets_out = 2;
        subflow.sending.cwnd.usage.end = u64::MAX;
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1000) }, false);
        assert_eq!(subflow.sending.cwnd.usage.end, u64::MAX);
        send(&mut subflow, at(1000), 1000);
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1000) }, false);
        assert_eq!(
            (subflow.sending.cwnd.usage.end, subflow.sending.cwnd.usage.max_packets_out),
            (subflow.sending.queue.next(), 3)
        );
    }

    #[test]
    fn a_sender_with_less_than_a_segment_and_room_is_limited_by_its_application() {
        // tcp_rate_check_app_limited: "nothing in sending host's qdisc queues"... `write_seq - snd_nxt <
        // mss`, in flight < cwnd, and all lost segments retransmitted.
        let limited = |change: &dyn Fn(&mut Tcp)| {
            let (mut subflow, _) = rested();
            for _ in 0..3 {
                send(&mut subflow, at(1000), 1000);
            }
            subflow.sending.cwnd.window_mut().cwnd = 4;
            change(&mut subflow);
            subflow.sending.check_app_limited();
            subflow.sending.flight.rate().app_limited()
        };
        assert!(limited(&|_| {}));
        assert!(limited(&|s| s.sending.queue.set_queued(999)));
        assert!(!limited(&|s| s.sending.queue.set_queued(1000)));
        assert!(!limited(&|s| s.sending.cwnd.window_mut().cwnd = 3));
        assert!(!limited(&|s| assert!(s.sending.flight.mark_lost(1))));
        assert!(limited(&|s| {
            assert!(s.sending.flight.mark_lost(1));
            s.sending.flight.retransmit(1, at(1001), crate::sending::flight::TxStamp::default());
        }));
        let (mut subflow, _) = rested();
        for _ in 0..3 {
            send(&mut subflow, at(1000), 1000);
        }
        subflow.sending.check_app_limited();
        // The connection is application-limited until these three segments and one more are delivered.
        for delivered in 1..=4 {
            subflow.sending.flight.rate_mut().add_delivered(1);
            subflow.sending.flight.rate_mut().complete(at(1100), None, 1000);
            assert_eq!(subflow.sending.flight.rate().app_limited(), delivered < 4);
        }
    }

    #[test]
    fn before_6_1_a_full_window_is_forgotten_once_more_is_out() {
        // tcp_cwnd_validate of 4.14: if `packets_out > max_packets_out`, the new state replaces the old one.
        let (mut subflow, _) = rested();
        *subflow.sending.cwnd.window_mut() =
            anabranch_congestion::Window { cwnd: 50, ssthresh: 20 };
        subflow.sending.cwnd.usage.end = u64::MAX;
        for (remembers, limited) in [(true, true), (false, false)] {
            subflow.sending.cwnd.remembers_full = remembers;
            subflow.sending.cwnd.usage.max_packets_out = 1;
            subflow.sending.cwnd.usage.limited = true;
            for _ in 0..3 {
                send(&mut subflow, at(1000), 1000);
            }
            subflow.sending.update_usage(Moment { host: &exact(), now: at(1000) }, false);
            assert_eq!(
                subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()),
                limited
            );
        }
        // A full window is recorded only at the start of a round trip, or if more segments are
        // outstanding than at the last record.
        subflow.sending.cwnd.usage.max_packets_out = 50;
        subflow.sending.update_usage(Moment { host: &exact(), now: at(1000) }, true);
        assert!(!subflow.sending.cwnd.usage.is_limited(&subflow.sending.cwnd.window()));
    }
}
