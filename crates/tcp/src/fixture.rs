//! A connection for unit tests: established, with segments of a thousand bytes and a controller that records
//! its calls.

use std::sync::{Arc, Mutex};

use anabranch_units::{Duration, Instant, SeqNumber, SubflowId};
use bytes::Bytes;

use super::sending::flight::{Sent, SentTag, TxStamp};
use super::{EmitContext, Space, State, Tcp};
use crate::config::{FourTuple, HostModel, TcpConfig};
use anabranch_congestion::{
    AckSample, CongestionController, CongestionEvent, LostSegment, Window, WindowChange,
};

/// The fields of an `AckSample` that the controller received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) acked: u32,
    pub(super) bytes: u64,
    pub(super) may_grow: bool,
    pub(super) lost: u32,
    pub(super) prior: u32,
    pub(super) left: u32,
    pub(super) rtt: Option<Duration>,
}

/// The recorded calls of a controller.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) lost: Vec<LostSegment>,
    pub(super) heard: Vec<Heard>,
    pub(super) changes: Vec<WindowChange>,
}

/// A controller that records its calls. At congestion it halves the threshold.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorder(pub(super) Arc<Mutex<Told>>);

impl CongestionController for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn on_ack(&mut self, ack: &AckSample<'_>, _window: &mut Window) {
        self.0.lock().expect("one thread").heard.push(Heard {
            acked: ack.acked,
            bytes: ack.acked_bytes,
            may_grow: ack.may_grow,
            lost: ack.newly_lost,
            prior: ack.prior_in_flight,
            left: ack.in_flight,
            rtt: ack.rtt,
        });
    }

    fn on_congestion(&mut self, _event: &CongestionEvent, window: &mut Window) {
        window.ssthresh = window.cwnd / 2;
    }

    fn on_lost(&mut self, segment: &LostSegment, _window: &Window) {
        self.0.lock().expect("one thread").lost.push(*segment);
    }

    fn on_window_changed(&mut self, cause: WindowChange, _window: &mut Window) {
        self.0.lock().expect("one thread").changes.push(cause);
    }
}

pub(super) fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// Returns a host whose timers are not rounded to ticks.
pub(super) fn exact() -> HostModel {
    HostModel { timer_tick: Duration::ZERO, ..HostModel::default() }
}

/// Returns the values for a segment without a layer above.
pub(super) fn context(now: Instant) -> EmitContext {
    EmitContext { now, space: Space::default(), promised: None }
}

/// Returns an established connection with an RTT of 100 ms and a timeout of 300 ms.
pub(super) fn subflow() -> (Tcp, Recorder) {
    let end = |host: u8| ([10, 0, 0, host], 80).into();
    let tuple = FourTuple { local: end(1), remote: end(2) };
    let recorder = Recorder::default();
    let controller = Box::new(recorder.clone());
    let config = TcpConfig { mss: 1012, host: exact(), ..TcpConfig::default() };
    let mut subflow = Tcp::new(SubflowId(0), tuple, true, SeqNumber(0), controller, &config);
    subflow.state = State::Established;
    subflow.receive.on_syn();
    subflow.sending.settle();
    (subflow, recorder)
}

/// Sends the next `length` bytes as one segment.
pub(super) fn send(subflow: &mut Tcp, now: Instant, length: u64) {
    subflow.sending.send_zeros(now, length);
}

/// A segment of zeros that was sent once, and of which nothing is known yet.
pub(super) fn fresh(start: u64, length: usize, sent_at: Instant, stamp: TxStamp) -> Sent {
    Sent {
        start,
        payload: Bytes::from(vec![0; length]),
        tag: SentTag::default(),
        sent_at,
        stamp,
        serial: 0,
        transmission: 1,
        fin: false,
        opens_buffer: true,
        sacked: false,
        leap: 0,
        lost: false,
        retransmitted: false,
    }
}
