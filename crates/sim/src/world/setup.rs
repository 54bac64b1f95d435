//! Creates a world from its plan.

use anabranch_host::Host;
use anabranch_host::rows::Numbers;
use anabranch_mptcp::Endpoint;
use anabranch_network::crossing::Flows;
use anabranch_network::{Due, Network};
use anabranch_plan::endpoints::{client, config, notes, server};
use anabranch_plan::{Media, Plan, application};
use anabranch_plugin::Registry;
use anabranch_trace::Rows;
use anabranch_units::{Duration, Instant, Schedule, Seed};

use super::hosts::Station;
use super::{Node, RunError, World, record, sampling};
use crate::capture::{Capture, CaptureFile};

/// The tick of the clock for TCP timestamps (RFC 7323 section 5.4).
const TIMESTAMP_TICK: Duration = Duration::from_millis(1);

/// The granularity of the fourth level of the timer wheel, in ticks of the hosts' clocks. Timers of up to two
/// minutes have no coarser granularity.
const WHEEL_TICKS: u64 = 512;

/// Returns the time on the hosts' clocks at which the world begins.
///
/// Timers fire on ticks (jiffies), long timers on multiples of ticks, and TCP timestamps count milliseconds.
/// A run therefore depends on this time. It is random, because the runs of a measured kernel also begin at
/// any time.
fn begin(plan: &Plan, seed: Seed) -> Instant {
    if let Some(phase) = plan.host.clock_phase_ns {
        return Instant::from_nanos(phase);
    }
    let phases = (plan.host.timer_tick_ns * WHEEL_TICKS).max(TIMESTAMP_TICK.as_nanos());
    Instant::from_nanos(seed.stream("hosts.clock").below(phases))
}

impl<'a> World<'a> {
    pub(super) fn build(
        plan: &'a Plan,
        registry: Registry,
        capture: Option<CaptureFile>,
    ) -> Result<Self, RunError> {
        let seed = Seed { seed: plan.seed, run: plan.run };
        let begin = begin(plan, seed);
        let network = Network::new(plan, begin)?;
        let config = config(plan, &registry)?;
        let media = Media::new(plan)?;
        let notes = notes(plan, &config, &registry)?;
        let names: Vec<String> = plan.paths.iter().map(|path| path.name.clone()).collect();
        let flows = Flows::new(plan, &registry, begin);
        let mut world = Self {
            plan,
            registry,
            begin,
            now: begin,
            last_change: begin,
            network,
            schedule: Schedule::default(),
            nodes: Vec::new(),
            stations: Vec::new(),
            served: Vec::new(),
            numbers: Numbers::default(),
            flows,
            media,
            notices: None,
            unfinished: plan.clients as usize,
            steps: 0,
            digest: 0,
            rows: Rows::default(),
            notes,
            standstills: Vec::new(),
            record: record::Record::of(plan),
            capture: capture.map(|file| Capture::new(file, &names, begin)).transpose()?,
            blank: Box::default(),
            spare: Vec::new(),
        };
        for medium in 0..world.network.media() {
            world.add_node(Node::Network(Due::Medium(medium)));
        }
        let mut starts = seed.stream("clients.start");
        for id in 0..plan.clients {
            let offset = if id == 0 { 0.0 } else { starts.uniform() };
            let start = begin + Duration::from_secs_f64(offset);
            let application = application::client(plan, &world.media, id, start, &world.registry)?;
            let node = world.add_node(Node::Station(world.stations.len()));
            world.schedule.set(node, Some(start));
            let host = client(plan, Endpoint::new(&format!("client.{id}"), seed), application)?;
            world.stations.push(Station::new(host, node, id, false));
        }
        let serve = application::serve(&plan.application, &world.media);
        let host = Host::server(server(plan, &config, seed), Box::new(move |_, _| serve()));
        let server = world.stations.len();
        world.stations.push(Station::new(host, usize::MAX, 0, true));
        let sampler = world.add_node(Node::Sampler);
        world.schedule.set(sampler, Some(begin + sampling::PERIOD));
        let event = world.add_node(Node::Network(Due::Event));
        world.schedule.set(event, world.next_change());
        world.add_flows()?;
        // If several entries of the schedule are due at the same time, the server is last. Only the routers'
        // messages come later.
        world.stations[server].node = world.add_node(Node::Station(server));
        if plan.bounds_packets() {
            world.notices = Some(world.add_node(Node::Network(Due::Notice)));
        }
        Ok(world)
    }
}
