//! The world and its event loop, which runs until the simulation ends.

mod cross;
mod events;
mod hosts;
mod packets;
mod path_mtu;
mod record;
mod sampling;
mod setup;
mod standstill;

use std::io::Write;

use anabranch_host::rows::Numbers;
use anabranch_network::crossing::{FlowDue, Flows};
use anabranch_network::{Due, Network};
use anabranch_plan::{Media, Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::{Rows, Standstill, Trace};
use anabranch_units::{Duration, Instant, Schedule};
use thiserror::Error;

use crate::capture::{Capture, CaptureFile};
use crate::checks::Violation;
use crate::packet::Packet;

/// If no event occurs for this time, a run counts as stalled. This applies to clients that wait for no timer,
/// and to active background flows. The timers of servers are shorter.
const STALL: Duration = Duration::from_secs(300);

/// Observes the progress of a run.
pub trait Observer {
    /// Called with the progress: `done_s` of at most `total_s` virtual seconds have passed. Returning `false`
    /// stops the run.
    fn progress(&mut self, done_s: f64, total_s: f64) -> bool;
}

/// An observer without effect.
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _done_s: f64, _total_s: f64) -> bool {
        true
    }
}

/// The reason why a run has no trace.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The capture file could not be written.
    #[error("capture: {0}")]
    Capture(#[from] std::io::Error),
    /// The plan is not valid.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plug-in that is not built in (a Python class) has failed.
    #[error("a plug-in failed")]
    Plugin,
    /// The observer stopped the run.
    #[error("the run was stopped")]
    Stopped,
    /// The run failed a check, which means a bug in the simulator.
    #[error(transparent)]
    Violation(#[from] Violation),
}

/// An entry of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    /// A background flow.
    Flow(FlowDue),
    /// A medium, the plan's events, or the routers' messages.
    Network(Due),
    Sampler,
    /// A host.
    Station(usize),
}

/// The state of one run.
pub(crate) struct World<'a> {
    plan: &'a Plan,
    registry: Registry,
    now: Instant,
    /// The time of the last event of the scenario.
    last_change: Instant,
    network: Network<'a, Box<Packet>>,
    schedule: Schedule,
    nodes: Vec<Node>,
    /// All hosts: the clients, the server, and the client and the server of each background flow.
    stations: Vec<hosts::Station>,
    /// The time at which the world begins, on the clocks of the hosts. All these clocks tick at the same
    /// time. The times in a plan and in a trace are relative to it.
    begin: Instant,
    /// The client of each connection of the server.
    served: Vec<u32>,
    numbers: Numbers,
    /// The background flows.
    flows: Flows<'a, cross::Pair>,
    media: Media,
    /// The schedule entry for the routers' messages. `None` if no link has an MTU.
    notices: Option<usize>,
    unfinished: usize,
    steps: u64,
    digest: u64,
    rows: Rows,
    notes: Vec<String>,
    standstills: Vec<Standstill>,
    capture: Option<Capture>,
    record: Option<Box<record::Record>>,
    /// The packet into which the next segment is written.
    blank: Box<Packet>,
    /// Packets that have arrived. Their memory is reused.
    #[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
    spare: Vec<Box<Packet>>,
}

/// Runs a plan until it ends.
///
/// # Errors
/// Returns an error if the plan cannot run, the capture file cannot be written, the observer stops the run,
/// or a check fails.
pub fn run(
    plan: &Plan,
    capture: Option<Box<dyn Write + Send>>,
    observer: &mut dyn Observer,
) -> Result<Trace, RunError> {
    run_with(plan, Registry::TABLES, capture.map(CaptureFile::new), observer)
}

/// Runs a plan that may name plug-ins of a registry.
///
/// # Errors
/// Returns the errors of [`run`], and [`RunError::Plugin`] if a plug-in of the registry failed.
pub fn run_with(
    plan: &Plan,
    registry: Registry,
    capture: Option<CaptureFile>,
    observer: &mut dyn Observer,
) -> Result<Trace, RunError> {
    let mut world = World::build(plan, registry, capture)?;
    world.run(observer)?;
    world.finish()
}

impl World<'_> {
    fn add_node(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.schedule.add()
    }

    fn next_change(&self) -> Option<Instant> {
        self.network.due_at(Due::Event)
    }

    /// Returns the time since the beginning of the world, in seconds.
    fn seconds(&self, at: Instant) -> f64 {
        at.since(self.begin).as_secs_f64()
    }

    fn run(&mut self, observer: &mut dyn Observer) -> Result<(), RunError> {
        let limit = self.begin + Duration::from_nanos(self.plan.time_limit_ns);
        let mut stop_at = self.plan.application.duration_ns.map(Duration::from_nanos);
        if let (Some(span), true) = (stop_at, self.plan.clients > 1) {
            stop_at = Some(span + Duration::from_secs(1));
        }
        let end = stop_at.map_or(limit, |span| (self.begin + span).min(limit));
        let mut report = self.begin;
        while self.unfinished > 0 {
            let (at, node) = self.schedule.first();
            if at >= end {
                self.now = end;
                break;
            }
            self.now = self.now.max(at);
            self.steps += 1;
            if self.now >= report {
                report = self.now + Duration::from_millis(500);
                if !observer.progress(self.seconds(self.now), self.seconds(end)) {
                    return Err(RunError::Stopped);
                }
            }
            self.wake(node)?;
            if self.registry.failed() {
                return Err(RunError::Plugin);
            }
        }
        let clients = self.plan.clients as usize;
        for station in &mut self.stations[..clients] {
            if let Some(session) = station.host.session_mut() {
                session.cut_off(self.now);
            }
        }
        Ok(())
    }

    #[inline]
    fn wake(&mut self, node: usize) -> Result<(), RunError> {
        match self.nodes[node] {
            Node::Network(Due::Medium(medium)) => self.wake_medium(medium),
            what => self.wake_other(node, what),
        }
    }

    // Not part of `wake`, because almost always a medium wakes.
    #[inline(never)]
    fn wake_other(&mut self, node: usize, what: Node) -> Result<(), RunError> {
        match what {
            Node::Network(Due::Medium(_)) => unreachable!("`wake` handles a medium"),
            Node::Network(Due::Notice) => self.wake_notices()?,
            Node::Network(Due::Event) => {
                self.last_change = self.now;
                self.handle_event()?;
                self.schedule.set(node, self.next_change());
            }
            Node::Station(station) => self.wake_station(station)?,
            Node::Flow(due) => {
                self.wake_flow(due)?;
                self.schedule.set(node, self.flows.due_at(due));
            }
            Node::Sampler => {
                self.check_standstill();
                self.check_flows();
                self.sample();
                self.sample_flows();
                self.schedule.set(node, Some(self.now + sampling::PERIOD));
            }
        }
        Ok(())
    }

    /// Ends the run: performs the final checks and returns the trace.
    fn finish(mut self) -> Result<Trace, RunError> {
        if let Some(error) = self.capture.as_mut().and_then(|capture| capture.error.take()) {
            return Err(error.into());
        }
        self.check_conservation()?;
        self.report();
        self.report_flows()?;
        Ok(self.into_trace())
    }

    fn check_conservation(&self) -> Result<(), Violation> {
        for (name, stats, inside) in self.network.totals() {
            let accounted = stats.delivered + stats.dropped() + inside;
            if stats.entered() != accounted {
                return Err(Violation::Conservation {
                    link: name.to_owned(),
                    enqueued: stats.entered(),
                    accounted,
                });
            }
        }
        Ok(())
    }
}
