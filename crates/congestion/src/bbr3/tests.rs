//! Compares each rule with values computed by hand from the draft.

mod cycle;
mod formulas;
mod losses;
mod marks;
mod model;
mod startup;

use anabranch_units::{Duration, Seed, SubflowId};

use super::cycle::Growth;
use super::loss::{exceeds_threshold, inflight_at_loss, with_headroom};
use super::*;
use crate::RateSample;

const RTT: Duration = Duration::from_millis(100);
const MSS: u32 = 1448;

/// A controller with its window, and the path that its model describes.
struct Bench {
    cc: Bbr3,
    window: Window,
    now: Instant,
    delivered: u64,
    delivered_ce: u64,
}

/// The contents of one acknowledgement.
#[derive(Clone, Copy)]
struct Said {
    acked: u32,
    /// Segments delivered over one RTT.
    rate: u32,
    /// Whether the acknowledgement begins a round: it is for data sent after the last acknowledgement.
    round: bool,
    in_flight: u32,
    prior_in_flight: u32,
    in_flight_at_send: u32,
    lost: u32,
    app_limited: bool,
    cwnd_limited: bool,
    rtt: Duration,
    /// Whether the receiver may have delayed the acknowledgement.
    delayed: bool,
    /// Whether the acknowledgement reports a mark, and how many of the delivered segments were marked.
    echo: bool,
    marked: u32,
}

/// Delivers 100 segments per RTT and begins a round.
const FULL: Said = Said {
    acked: 2,
    rate: 100,
    round: true,
    in_flight: 150,
    prior_in_flight: 152,
    in_flight_at_send: 149,
    lost: 0,
    app_limited: false,
    cwnd_limited: false,
    rtt: RTT,
    delayed: false,
    echo: false,
    marked: 0,
};
/// Delivers at the same rate within a round.
const WITHIN: Said = Said { round: false, ..FULL };

/// Builds an acknowledgement. `delivered` and `before` are the delivered counts now and before.
fn acknowledgement(now: Instant, delivered: u64, before: u64, said: &Said) -> AckSample<'static> {
    AckSample {
        now,
        multipath: false,
        coarse_now: now,
        tick: Duration::ZERO,
        acked: said.acked,
        acked_bytes: u64::from(said.acked * MSS),
        newly_lost: 0,
        delivered,
        delivered_ce: 0,
        echo: said.echo,
        mss: MSS,
        next_departure: now,
        prior_in_flight: said.prior_in_flight,
        in_flight: said.in_flight,
        rtt: Some(said.rtt),
        maybe_delayed: said.delayed,
        srtt: Some(said.rtt),
        min_rtt: Some(RTT),
        rate: RateSample {
            delivered: said.rate,
            prior_delivered: if said.round { before } else { 0 },
            interval: RTT,
            app_limited: said.app_limited,
            in_flight_at_send: said.in_flight_at_send,
            lost: said.lost,
            delivered_ce: said.marked,
        },
        snd_nxt: 1 << 40,
        snd_una: 0,
        cwnd_limited: said.cwnd_limited,
        may_grow: true,
        paced: true,
        pacing_rate: Rate::ZERO,
        id: SubflowId(0),
        siblings: &[],
    }
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            cc: Bbr3::new(Seed { seed: 1, run: 0 }.stream("test"), None),
            window: Window { cwnd: 10, ssthresh: u32::MAX },
            now: Instant::ZERO + Duration::from_secs(100),
            delivered: 0,
            delivered_ce: 0,
        };
        let start = TransmitStart {
            now: bench.now,
            coarse_now: bench.now,
            last_sent: Instant::ZERO,
            app_limited: false,
            min_rtt: Some(RTT),
        };
        bench.cc.on_transmit_start(&start, &mut bench.window);
        bench
    }

    /// Creates a flow in this state. The path has 1000 segments per second and 100 ms, that is, a
    /// bandwidth-delay product of 100 segments.
    fn in_state(state: State) -> Self {
        let mut bench = Self::new();
        for _ in 0..4 {
            bench.hear(FULL);
        }
        bench.hear(Said { in_flight: 90, ..FULL });
        assert_eq!(bench.cc.state, State::Cruise, "nothing to drain");
        bench.cc.state = state;
        bench.cc.probe.stopping = false;
        bench.cc.pipe.restart(bench.cc.bw);
        bench.window.cwnd = 200;
        bench
    }

    fn hear(&mut self, said: Said) {
        self.now += Duration::from_millis(1);
        let prior = self.delivered;
        self.delivered += u64::from(said.acked);
        self.delivered_ce += if said.echo { u64::from(said.acked) } else { 0 };
        let ack = AckSample {
            delivered_ce: self.delivered_ce,
            ..acknowledgement(self.now, self.delivered, prior, &said)
        };
        self.cc.on_ack(&ack, &mut self.window);
    }

    /// Marks the segment at `place` as lost. `lost` of the `in_flight` segments up to it are lost, including
    /// itself.
    fn lose(&mut self, place: u64, in_flight: u32, lost: u32) {
        self.lose_as(place, in_flight, lost, |_| {});
    }

    fn lose_as(
        &mut self,
        place: u64,
        in_flight: u32,
        lost: u32,
        other: impl FnOnce(&mut LostSegment),
    ) {
        let mut segment = LostSegment {
            now: self.now,
            start: 1 + place * u64::from(MSS),
            end: 1 + (place + 1) * u64::from(MSS),
            in_flight_at_send: in_flight,
            lost_since_send: lost,
            app_limited: false,
            delivered: self.delivered,
            selective_acks: true,
        };
        other(&mut segment);
        self.cc.on_lost(&segment, &self.window);
    }

    fn enter(&mut self, state: CongestionState) {
        let kind = match state {
            CongestionState::Loss => CongestionKind::Timeout,
            _ => CongestionKind::Loss,
        };
        let event = CongestionEvent { now: self.now, kind, in_flight: 0 };
        self.cc.on_congestion(&event, &mut self.window);
        self.cc.on_state(self.now, state, &mut self.window);
    }

    /// Returns the pacing rate as a multiple of 1000 segments per second minus the margin of 1 %.
    fn pace(&self) -> f64 {
        let rate = self.cc.pacing_rate().expect("paced").bytes_per_second();
        (rate as f64 / (1000.0 * f64::from(MSS) * 0.99) * 1000.0).round() / 1000.0
    }
}

/// Returns a bandwidth in segments per second.
fn per_second(segments: u32) -> Bandwidth {
    Bandwidth::of(segments, Duration::from_secs(1))
}
