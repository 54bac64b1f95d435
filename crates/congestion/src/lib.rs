//! Congestion control: the trait, the values that a controller gets, and the table of names.
//!
//! Linux's division of labour: the subflow finds losses, runs recovery and undo; the controller
//! sizes the window. `Window` belongs to the subflow, callbacks get `&mut Window`.

mod balia;
mod bbr;
mod bbr3;
mod ccp;
mod ccpd;
mod compound;
mod cubic;
mod lia;
mod olia;
mod reno;
mod sibling;
mod wvegas;

use std::fmt;

use anabranch_plugin::{
    Kind, ParameterInfo, Parameters, PluginChoice, PluginError, PluginName, Registry,
};
use anabranch_units::{Duration, Instant, RandomStream, Rate, Seed, SubflowId};

pub use anabranch_units::CongestionState;
pub use balia::Balia;
pub use bbr::Bbr;
pub use bbr3::Bbr3;
pub use ccp::Ccp;
pub use compound::Compound;
pub use cubic::Cubic;
pub use lia::Lia;
pub use olia::Olia;
pub use reno::{Reno, additive_increase, slow_start};
pub use sibling::SiblingView;
pub use wvegas::WVegas;

/// The window that a connection begins with, in segments (RFC 6928).
pub const INITIAL_WINDOW: u32 = 10;

/// The congestion window and the slow-start threshold, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Segments that may be in flight.
    pub cwnd: u32,
    /// Below it the window grows by slow start; `u32::MAX` until the first congestion.
    pub ssthresh: u32,
}

impl Window {
    /// True while the window grows by slow start (`tcp_in_slow_start`).
    pub const fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }
}

/// A delivery-rate sample (draft-ietf-ccwg-bbr section 4.1.2; Linux `tcp_rate.c`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateSample {
    /// Segments delivered over `interval`.
    pub delivered: u32,
    /// The subflow's delivered count when the sampled segment was sent.
    pub prior_delivered: u64,
    /// The longer of the send and the acknowledgement interval; zero when the sample is invalid.
    pub interval: Duration,
    /// The sample was taken while the application had nothing to send.
    pub app_limited: bool,
    /// Segments in flight when the sampled segment was sent, itself not counted.
    pub in_flight_at_send: u32,
    /// Segments marked lost between its transmission and its acknowledgement.
    pub lost: u32,
    /// Segments delivered over `interval` by acknowledgements that reported a mark.
    pub delivered_ce: u32,
}

/// One acknowledgement, as a controller sees it. Counts are in segments unless the name says bytes.
#[derive(Clone, Copy, Debug)]
pub struct AckSample<'a> {
    /// When the acknowledgement arrived.
    pub now: Instant,
    /// `now` as the host's tick clock shows it (jiffies), for algorithms that read that clock.
    pub coarse_now: Instant,
    /// A tick of that clock; zero where it is exact.
    pub tick: Duration,
    /// Segments newly acknowledged, cumulatively or selectively.
    pub acked: u32,
    /// Payload bytes newly acknowledged cumulatively.
    pub acked_bytes: u64,
    /// Segments newly marked lost.
    pub newly_lost: u32,
    /// Segments delivered since the subflow began, that of the handshake among them (`tp->delivered`).
    pub delivered: u64,
    /// The part of `delivered` whose acknowledgements reported a mark (`tp->delivered_ce`).
    pub delivered_ce: u64,
    /// The acknowledgement reports a mark (ECN-Echo, RFC 3168).
    pub echo: bool,
    /// Payload of a full segment, bytes.
    pub mss: u32,
    /// When pacing lets the next segment out; in the past when it does not hold one back.
    pub next_departure: Instant,
    /// Segments in flight before the acknowledgement.
    pub prior_in_flight: u32,
    /// Segments in flight after it.
    pub in_flight: u32,
    /// RTT of the most recently sent segment newly acknowledged, without ambiguity.
    pub rtt: Option<Duration>,
    /// The receiver may have held it back: it is of a lone segment that was not full
    /// (`is_ack_delayed`).
    pub maybe_delayed: bool,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Minimum RTT over the last 300 s.
    pub min_rtt: Option<Duration>,
    /// The delivery-rate sample.
    pub rate: RateSample,
    /// Payload bytes sent so far by position: where the next new byte will stand.
    pub snd_nxt: u64,
    /// Position up to which everything is acknowledged.
    pub snd_una: u64,
    /// The window was in use (`tcp_is_cwnd_limited`): without it no loss-based controller grows.
    pub cwnd_limited: bool,
    /// The core allows growth: the acknowledgement advanced and no reduction is under way.
    pub may_grow: bool,
    /// The subflow's pacing rate is enforced.
    pub paced: bool,
    /// The pacing rate.
    pub pacing_rate: Rate,
    /// The subflow is one of Multipath TCP, and not plain TCP (`mptcp`).
    pub multipath: bool,
    /// The subflow's own identity, to find itself among the siblings.
    pub id: SubflowId,
    /// All subflows of the connection, itself included; empty unless `wants_siblings`.
    pub siblings: &'a [SiblingView],
}

/// One segment newly marked lost. Counts are in segments.
#[derive(Clone, Copy, Debug)]
pub struct LostSegment {
    /// When it was marked.
    pub now: Instant,
    /// Its first payload byte, as a position in the subflow, and the position behind its last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// Segments in flight when it was sent last, itself not counted.
    pub in_flight_at_send: u32,
    /// Segments marked lost since then, itself included.
    pub lost_since_send: u32,
    /// It was sent while the application had nothing more to send.
    pub app_limited: bool,
    /// Segments delivered since the subflow began, those of the acknowledgement under way included.
    pub delivered: u64,
    /// The peer reports what it has received beyond a hole (SACK).
    pub selective_acks: bool,
}

/// Why the window is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionKind {
    /// Loss found by RACK: fast recovery begins.
    Loss,
    /// A tail loss repaired by a loss probe.
    TailLoss,
    /// The retransmission timer expired.
    Timeout,
    /// The peer reported a mark of congestion (ECN-Echo, RFC 3168): nothing was lost.
    Ecn,
}

/// A congestion event.
#[derive(Clone, Copy, Debug)]
pub struct CongestionEvent {
    /// When.
    pub now: Instant,
    /// Why.
    pub kind: CongestionKind,
    /// Segments in flight.
    pub in_flight: u32,
}

/// Data is about to be sent and nothing is in flight (`CA_EVENT_TX_START`).
#[derive(Clone, Copy, Debug)]
pub struct TransmitStart {
    /// When.
    pub now: Instant,
    /// `now` as the host's tick clock shows it (jiffies).
    pub coarse_now: Instant,
    /// The last transmission before, as that clock showed it (`lsndtime`).
    pub last_sent: Instant,
    /// The application, not the window, had held the subflow back.
    pub app_limited: bool,
    /// The minimum RTT so far; at first that of the handshake.
    pub min_rtt: Option<Duration>,
}

/// A subflow's handshake is complete (`init` of `tcp_congestion_ops`, in `tcp_init_transfer`).
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// When, as the host's tick clock shows it.
    pub coarse_now: Instant,
    /// The RTT that the handshake measured.
    pub rtt: Option<Duration>,
    /// Payload of a full segment, bytes.
    pub mss: u32,
}

/// Why the core changed the window itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowChange {
    /// Proportional rate reduction, or its end.
    Reduction,
    /// The retransmission timer.
    Timeout,
    /// Nothing was sent for longer than the RTO.
    Idle,
    /// The application did not fill the window.
    ApplicationLimited,
    /// A reduction proved spurious and was undone.
    Undo,
    /// A scheduler's penalty.
    Penalty,
}

/// A congestion controller: one per subflow.
///
/// `on_ack` and `on_congestion` are all that is needed; every other callback does nothing visible.
pub trait CongestionController: fmt::Debug + Send {
    /// The name in the table.
    fn name(&self) -> &'static str;

    /// The plug-in has failed. Its actions are ignored, and the caller must close the connection.
    fn failed(&self) -> bool {
        false
    }

    /// The handshake is complete. The first data is paced by the handshake's measurements.
    fn on_open(&mut self, _opened: &Opened, _window: &mut Window) {}

    /// An acknowledgement arrived. Grow only when `ack.may_grow` and `ack.cwnd_limited`.
    fn on_ack(&mut self, ack: &AckSample<'_>, window: &mut Window);

    /// Congestion was found: set `window.ssthresh`; the core takes `cwnd` there (PRR, RFC 6937).
    fn on_congestion(&mut self, event: &CongestionEvent, window: &mut Window);

    /// The retransmission timer expired: set `window.ssthresh`; the core sets `cwnd` (RFC 5681 section 3.1).
    fn on_rto(&mut self, event: &CongestionEvent, window: &mut Window) {
        self.on_congestion(event, window);
    }

    /// A segment was marked lost: called for each, before `on_congestion` or `on_rto` where they
    /// follow from it and before the acknowledgement's `on_ack`.
    fn on_lost(&mut self, _segment: &LostSegment, _window: &Window) {}

    /// The congestion state changed.
    fn on_state(&mut self, _now: Instant, _state: CongestionState, _window: &mut Window) {}

    /// Data is sent and nothing was in flight.
    fn on_transmit_start(&mut self, _start: &TransmitStart, _window: &mut Window) {}

    /// The window was restarted after idleness (`CA_EVENT_CWND_RESTART`).
    fn on_idle_restart(&mut self, _now: Instant) {}

    /// The core set the window itself.
    fn on_window_changed(&mut self, _cause: WindowChange, _window: &mut Window) {}

    /// A reduction was spurious: the window to return to (`undo_cwnd`), given the one before it.
    fn undo_cwnd(&mut self, window: &Window, prior_cwnd: u32) -> u32 {
        window.cwnd.max(prior_cwnd)
    }

    /// The rate to pace at; `None` leaves the subflow unpaced with Linux's default estimate.
    fn pacing_rate(&self) -> Option<Rate> {
        None
    }

    /// The controller replaces PRR and the window after idleness (`cong_control`).
    fn owns_recovery(&self) -> bool {
        false
    }

    /// How many windows the send buffer holds (`sndbuf_expand`).
    fn send_buffer_factor(&self) -> u32 {
        2
    }

    /// The least number of segments that leave together, if the window has room (`min_tso_segs`).
    fn least_burst(&self) -> u32 {
        2
    }

    /// The controller itself holds the subflow back: its rate samples do not tell the path's rate.
    fn marks_application_limited(&self) -> bool {
        false
    }

    /// The controller reads `AckSample::siblings`.
    fn wants_siblings(&self) -> bool {
        false
    }

    /// Both ends report each mark separately, for a controller that counts marks (DCTCP's echo, RFC 8257 section
    /// 3.2). Each acknowledgement then echoes only the marks of the data that it acknowledges.
    fn counts_marks(&self) -> bool {
        false
    }

    /// The rate it makes known to its siblings (`SiblingView::published_rate`).
    fn published_rate(&self) -> Option<Rate> {
        None
    }
}

/// Congestion controllers, as a kind of plug-in.
#[derive(Debug)]
pub struct Controllers;

type Build = fn(&mut Parameters<'_>, RandomStream) -> Box<dyn CongestionController>;

impl Kind for Controllers {
    const KEY: &'static str = "congestion";
    const NOUN: &'static str = "congestion control";
    const TABLE: &'static [(PluginName, Build)] = TABLE;
    type Plugin = Box<dyn CongestionController>;
    type Input = RandomStream;
    type Maker = Build;

    fn make(
        build: Build,
        parameters: &mut Parameters<'_>,
        random: RandomStream,
    ) -> Box<dyn CongestionController> {
        build(parameters, random)
    }

    fn trial() -> RandomStream {
        Seed { seed: 0, run: 0 }.stream("check")
    }
}

/// The table of names: a controller is one file and one line here.
const TABLE: &[(PluginName, Build)] = &[
    (
        PluginName::new(
            "reno",
            "NewReno as in Linux: additive increase, halving (RFC 5681, RFC 6582).",
        ),
        Reno::build,
    ),
    (
        PluginName::new(
            "cubic",
            "CUBIC as in Linux with HyStart, its default since 2.6.19 (RFC 9438).",
        ),
        Cubic::build,
    ),
    (
        PluginName::new(
            "bbr",
            "BBR version 1 as in Linux: paced by a model of bandwidth and minimum RTT.",
        ),
        Bbr::build,
    ),
    (
        PluginName::new(
            "bbr3",
            "BBR version 3 (draft-ietf-ccwg-bbr): its model bounded by the losses of its probes.",
        ),
        Bbr3::build,
    ),
    (
        PluginName::new(
            "compound",
            "Compound TCP: a loss window and a delay window (Tan et al. 2006, draft-sridharan-tcpm-ctcp).",
        ),
        Compound::build,
    ),
    (
        PluginName::new(
            "ccp",
            "Capacity and Congestion Probing, a reconstruction: proportional control of the backlog (SD18).",
        )
        .with_note(RECONSTRUCTED),
        Ccp::build,
    ),
    (
        PluginName::new(
            "ccpd",
            "CCP with a derivative term, a reconstruction: proportional plus derivative control.",
        )
        .with_note(
            "Only its name and kind were found: results hang on the parameters declared, kd among them.",
        ),
        ccpd::build,
    ),
    (
        PluginName::new(
            "lia",
            "LIA, coupled: all subflows together grow like one TCP on the best path (RFC 6356).",
        ),
        Lia::build,
    ),
    (
        PluginName::new(
            "olia",
            "OLIA, coupled: LIA's aim, with growth moved to paths that are good and little used.",
        ),
        Olia::build,
    ),
    (
        PluginName::new(
            "balia",
            "BALIA, coupled: between LIA and OLIA, friendly to TCP yet quick to follow changes.",
        ),
        Balia::build,
    ),
    (
        PluginName::new(
            "wvegas",
            "Weighted Vegas, coupled: each subflow queues a share of packets by its share of rate.",
        ),
        WVegas::build,
    ),
];

const RECONSTRUCTED: &str = "Its law is printed, its gains and estimators were not found: results hang on the parameters declared.";

/// Every controller's name with the first sentence of its documentation.
pub fn names() -> impl Iterator<Item = PluginName> {
    anabranch_plugin::names::<Controllers>()
}

/// Builds a controller from its name and its own parameters.
///
/// # Errors
/// Unknown names, and every parameter that is unknown or out of range.
pub fn build(
    choice: &PluginChoice,
    registry: &Registry,
    random: RandomStream,
) -> Result<Box<dyn CongestionController>, PluginError> {
    anabranch_plugin::build::<Controllers>(choice, registry, random)
}

/// The parameters of the controller called `name`.
///
/// # Errors
/// Unknown names.
pub fn parameters(name: &str) -> Result<Vec<ParameterInfo>, PluginError> {
    anabranch_plugin::parameters::<Controllers>(name)
}

/// The note that belongs to a result of the controller `choice`, if there is one: that it is a
/// reconstruction, and with which parameters it ran.
///
/// # Errors
/// Unknown names, and every parameter that is unknown or out of range.
pub fn note(choice: &PluginChoice, registry: &Registry) -> Result<Option<String>, PluginError> {
    let Some(known) = names().find(|known| known.name == choice.name) else { return Ok(None) };
    let Some(note) = known.note else { return Ok(None) };
    let (_, parameters) =
        anabranch_plugin::construct::<Controllers>(choice, registry, Controllers::trial())?;
    let declared: Vec<_> = parameters.iter().map(|info| info.declared(choice)).collect();
    let (summary, declared) = (known.summary, declared.join(", "));
    Ok(Some(format!("Congestion control {}: {summary} {note} Here: {declared}.", known.name)))
}
