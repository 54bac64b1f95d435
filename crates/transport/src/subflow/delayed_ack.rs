//! When to acknowledge (`__tcp_ack_snd_check`, `tcp_event_data_recv`, `tcp_send_delayed_ack`):
//! every second full segment, at once in quick-ack mode, else after the adaptive delay.

use anabranch_units::{Duration, Instant};
use anabranch_wire::Segment;

use super::receive::Arrival;
use super::{Outlook, Space, Subflow};
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
    /// Small segments that came since the last acknowledgement, counted to two (`ICSK_ACK_PUSHED`,
    /// `ICSK_ACK_PUSHED2`).
    small: u8,
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
            small: 0,
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

    /// An acknowledgement or a probe is to go out.
    pub(crate) fn is_due(&self) -> bool {
        self.now_due || self.probe
    }

    /// An acknowledgement must go out now.
    pub(crate) fn demand(&mut self) {
        self.now_due = true;
    }

    /// A window probe must go out now.
    pub(crate) fn demand_probe(&mut self) {
        self.probe = true;
    }

    /// Payload arrived (`tcp_event_data_recv`).
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        length: u32,
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
        if length < self.received_mss {
            self.small = (self.small + 1).min(2);
        }
        self.adapt(now, rto);
        if window_grew {
            self.quick = self.quick.max(1);
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
        self.small = 0;
        self.deadline = None;
    }

    /// What came may have been all there is for now: a small segment was the last.
    fn came_to_an_end(&self) -> bool {
        self.small == 2 || (self.small == 1 && !self.interactive)
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
        let window_holds = self.multipath
            || self.receive.could_offer(space.free)
                >= (self.receive.advertised_at() + self.receive.window())
                    .saturating_sub(self.receive.next());
        if (unacked > mss && window_holds) || self.ack.quick_mode() {
            self.ack.now_due = true;
        }
    }

    /// The application read, everything if `emptied`: acknowledge if more than a segment is owed, if
    /// a small segment ended what came, or if the window can at least double (`tcp_cleanup_rbuf`).
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
        let most = self.receive.could_offer(space.free) + (1 << self.receive_scale);
        if most < 2 * current {
            return;
        }
        let offer = self.receive.offer(space, mss, self.receive_scale);
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
    pub(crate) fn next_pure_ack(&mut self, outlook: &Outlook, segment: &mut Segment) -> bool {
        let probe = std::mem::take(&mut self.ack.probe);
        if !self.ack.now_due && !probe && !self.signal_due() {
            return false;
        }
        self.acknowledging(outlook, segment);
        if probe {
            segment.seq = self.wire_seq(self.send.una().saturating_sub(1));
        }
        if let Some(at) = outlook.data_fin {
            self.attach_data_fin(segment, at, outlook);
        }
        self.fill_options(segment, true);
        true
    }
}
