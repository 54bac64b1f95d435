//! Data that was handed over and pushed (`tcp_push`) before it is sent. Pushed data is sent when the layer
//! above polls for segments, but its memory is already accounted as if it had been sent.

use super::{Sending, deferral};
use crate::config::Moment;
use anabranch_congestion::CongestionState;

impl Sending {
    /// Pushes the data that was handed over, because the next data is sent on another connection
    /// (`mptcp_push_release` in `__mptcp_push_pending`). The memory charge then includes the socket buffers
    /// in which the data will be sent. Returns the number of segments that the windows permit.
    pub(crate) fn push_handed_over(&mut self, moment: Moment<'_>) -> u64 {
        let Moment { now, .. } = moment;
        self.restart_before_data(moment);
        if self.cwnd.pacer().holds_back(now) || self.queue.is_deferred() {
            return 0;
        }
        let room = self.cwnd.room(self.flight.in_flight());
        let mut segments =
            u64::from(room).min(self.queue.window_bytes() / u64::from(self.queue.mss()));
        let most = u64::from(deferral::burst_segments(self));
        // The last segments may wait for the acknowledgement that permits a full burst
        // (`tcp_tso_should_defer`).
        if self.rest_waits(moment, segments, most) {
            segments -= segments % most;
        }
        self.queue.count_future_buffers(segments, most);
        segments
    }

    /// Returns whether the part of `segments` beyond whole bursts of `most` segments is deferred.
    fn rest_waits(&self, moment: Moment<'_>, segments: u64, most: u64) -> bool {
        let Moment { now, .. } = moment;
        if segments < most {
            return deferral::defers(self, moment).is_some();
        }
        let goes_on = segments * u64::from(self.queue.mss()) < self.queue.queued_bytes();
        goes_on && self.cwnd.state() < CongestionState::Recovery && deferral::is_head_due(self, now)
    }

    /// Handles an acknowledgement before data is scheduled on another connection. The data that was handed
    /// over counts as sent. The send buffer grows if the window has space after that data
    /// (`tcp_data_snd_check`).
    pub(crate) fn push_answered(&mut self, moment: Moment<'_>) {
        let Moment { now, .. } = moment;
        // Lost segments are sent first.
        if self.flight.needs_repair() {
            return;
        }
        let leaving = self
            .push_handed_over(moment)
            .min(self.queue.queued_bytes().div_ceil(u64::from(self.queue.mss())));
        let room = u64::from(self.cwnd.room(self.flight.in_flight()));
        // Linux checks after each socket buffer (`tcp_event_new_data_sent`).
        if leaving < room || leaving > u64::from(deferral::burst_segments(self)) {
            self.grow_buffer(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Moment;
    use bytes::Bytes;

    use crate::Tcp;
    use crate::fixture::{at, context, exact, send, subflow};
    use anabranch_congestion::Window;
    use anabranch_wire::Segment;

    /// A connection with `segments` handed over in two tags. The window has space for `room` of them, and a
    /// hundred are in flight.
    fn handed_over(segments: usize, room: u32, head_due: bool) -> Tcp {
        let (mut subflow, _) = subflow();
        subflow.sending.queue.set_window(10_000_000);
        subflow.sending.queue.tagging_mut().begin();
        let now = if head_due { at(0) } else { at(50) };
        for _ in 0..100 {
            send(&mut subflow, now, 1000);
        }
        *subflow.sending.cwnd.window_mut() = Window { cwnd: 100 + room, ssthresh: 1000 };
        subflow.sending.queue.queue_behind_sent();
        let first = segments / 2;
        subflow.sending.queue.push(Bytes::from(vec![0; 1000 * first]), 0);
        subflow.sending.queue.begin_handover();
        subflow.sending.queue.push(Bytes::from(vec![0; 1000 * (segments - first)]), 1 << 20);
        subflow
    }

    #[test]
    fn pushed_data_is_charged_for_each_transmitted_buffer() {
        // tso_fragment: two segments per buffer (`tcp_min_tso_segs`), and one more buffer for the rest.
        let charged = |segments: usize, room: u32, head_due: bool| {
            let mut subflow = handed_over(segments, room, head_due);
            let moment = at(100);
            let before = subflow.sending.queue.memory();
            subflow.sending.push_handed_over(Moment { host: &exact(), now: moment });
            let foreseen = subflow.sending.queue.memory();
            let mut segment = Segment::default();
            let mut sent = 0;
            while subflow.next_data_segment(&exact(), &context(moment), &mut segment).is_some() {
                sent += 1;
            }
            assert_eq!(subflow.sending.queue.memory(), foreseen, "{segments} {room} {head_due}");
            (sent, (foreseen - before) / exact().send_memory_per_buffer)
        };
        // Four segments and four: each buffer is split into two.
        assert_eq!(charged(8, 20, true), (8, 2));
        assert_eq!(charged(8, 20, false), (8, 2));
        // The windows permit the first four segments and half of the others: the first buffer is split into
        // two, and the second one is split once.
        assert_eq!(charged(8, 6, false), (6, 2));
        assert_eq!(charged(8, 7, false), (7, 3));
        // The seventh segment waits for the acknowledgement that is expected soon.
        assert_eq!(charged(8, 7, true), (6, 2));
        assert_eq!(charged(8, 0, true), (0, 0));
    }

    #[test]
    fn deferred_data_keeps_its_memory_charge_on_push() {
        let mut subflow = handed_over(8, 20, true);
        let before = subflow.sending.queue.memory();
        subflow.sending.queue.set_deferred(true);
        subflow.sending.push_handed_over(Moment { host: &exact(), now: at(100) });
        assert_eq!(subflow.sending.queue.memory(), before);
    }

    #[test]
    fn send_buffer_grows_after_ack_unless_the_window_is_filled() {
        // tcp_check_space is called after the acknowledgement, and in tcp_event_new_data_sent after each
        // socket buffer.
        let grows = |segments: usize, room: u32, lost: bool| {
            let mut subflow = handed_over(segments, room, false);
            subflow.sending.buffer.set_blocked(true);
            subflow.sending.buffer.take_growth();
            if lost {
                assert!(subflow.sending.flight.mark_lost(0));
            }
            let before = subflow.sending.buffer.limit();
            subflow.sending.push_answered(Moment { host: &exact(), now: at(100) });
            let grew = subflow.sending.buffer.take_growth();
            assert_eq!(grew, subflow.sending.buffer.limit() > before);
            grew
        };
        assert!(grows(8, 20, false), "twelve are left");
        assert!(grows(8, 8, false), "four buffers, and three leave room behind them");
        assert!(!grows(2, 1, false), "one that fills it");
        assert!(!grows(8, 0, false), "it is full");
        assert!(!grows(8, 20, true), "what is lost goes first");
    }

    #[test]
    fn an_idle_window_rests_before_it_is_counted_on() {
        // tcp_slow_start_after_idle_check in tcp_skb_entail comes before the push: after one RTO, a window of
        // eighty becomes forty.
        let pushed = |idle: u64| {
            let (mut subflow, _) = subflow();
            subflow.sending.queue.tagging_mut().begin();
            subflow.sending.queue.set_window(10_000_000);
            send(&mut subflow, at(0), 1000);
            subflow.sending.flight.remove_front();
            subflow.sending.queue.forget_sent();
            *subflow.sending.cwnd.window_mut() = Window { cwnd: 80, ssthresh: 60 };
            subflow.sending.queue.queue_behind_sent();
            subflow.sending.queue.push(Bytes::from(vec![0; 60_000]), 0);
            subflow.sending.push_handed_over(Moment { host: &exact(), now: at(idle) })
        };
        assert_eq!((pushed(300), pushed(301)), (80, 40));
    }
}
