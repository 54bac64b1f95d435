//! Tests of each scheduler on hand-made views and requests.

mod composition;
mod linger;
mod oracle;
mod relief;
mod rules;
mod views;

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_scheduler as scheduler;
use anabranch_scheduler::{
    Ask, Carried, Decision, Hint, PathScheduler, SendRequest, SubflowSet, SubflowView,
};
use anabranch_units::{Duration, Instant, Rate, SubflowId};

fn named(name: &str) -> PluginChoice {
    PluginChoice::parse(name).expect("a plug-in's short form")
}

fn build(name: &str) -> Box<dyn PathScheduler> {
    scheduler::build(&named(name), &Registry::TABLES).expect("a known name")
}

fn view(id: u8, srtt_ms: u64, cwnd: u32, in_flight: u32) -> SubflowView {
    SubflowView {
        id: SubflowId(id),
        srtt: Duration::from_millis(srtt_ms),
        rttvar: Duration::from_millis(5),
        min_rtt: Duration::from_millis(srtt_ms),
        cwnd,
        ssthresh: u32::MAX,
        in_flight,
        queued_memory: u64::from(in_flight) * 1424,
        send_buffer: 1 << 20,
        mss: 1424,
        pacing_rate: Rate::from_bps(5_000_000),
        delivery_rate: Rate::from_bps(5_000_000),
        established: true,
        ..SubflowView::default()
    }
}

/// Returns one request of each kind.
fn questions() -> [Ask; 5] {
    let head = Carried { from: 0, to: 1, by: SubflowSet::EMPTY };
    [
        Ask::NewData,
        Ask::Reinject(head),
        Ask::WindowBlocked { head },
        Ask::BufferFull { head, left: 0 },
        Ask::Idle,
    ]
}

fn request() -> SendRequest {
    SendRequest {
        now: Instant::ZERO,
        ask: Ask::NewData,
        data_una: 0,
        data_next: 0,
        data_end: 1 << 20,
        window_end: 1 << 20,
        fragment: 32_728,
        piece_end: 32_728,
        hint: Hint::default(),
    }
}

/// Returns the subflow that a new scheduler of that name sends on.
fn choice(name: &str, views: &[SubflowView]) -> Option<u8> {
    chosen(&build(name).schedule(&request(), views))
}

fn chosen(decision: &Decision) -> Option<u8> {
    match decision {
        Decision::Wait { .. } | Decision::Penalise(_) => None,
        Decision::Send { on, .. } => on.iter().next().map(|id| id.0),
    }
}

/// Returns the subflow that a new scheduler of that name chooses for this request.
fn choice_of(name: &str, request: &SendRequest, views: &[SubflowView]) -> Option<u8> {
    chosen(&build(name).schedule(request, views))
}
