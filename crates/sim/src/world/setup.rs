//! Building a world from its plan.

use std::io::Write;

use anabranch_host::Host;
use anabranch_plugin::{PluginError, Registry};
use anabranch_trace::Rows;
use anabranch_transport::{Config, Endpoint};
use anabranch_transport::{congestion, path_manager, scheduler};
use anabranch_units::{Duration, Instant, Schedule, Seed};

use super::hosts::Station;
use super::{Node, RunError, World, path_mtu, sampling};
use crate::application;
use crate::capture::Capture;
use crate::fault::PlanError;
use crate::media::Media;
use crate::plan::{Family, Happening, Plan};
use crate::plugins::choice;
use crate::topology::{DATA_PORT, HTTP_PORT, Topology, anywhere};

/// What the clock of TCP timestamps counts (RFC 7323 section 5.4).
const TIMESTAMP_TICK: Duration = Duration::from_millis(1);

/// The clients' configuration, every plug-in checked by building it once.
pub(super) fn config(plan: &Plan, registry: &Registry) -> Result<Config, PlanError> {
    let transport = &plan.transport;
    let below = |error: PlanError| error.at("transport");
    let stack = transport.mechanisms().map_err(below)?;
    let chosen =
        |key: &'static str, text: &str| choice(text).map_err(|error| error.at(key).at("transport"));
    let config = Config {
        multipath: transport.multipath,
        scheduler: stack.scheduler(chosen("scheduler", &transport.scheduler)?),
        congestion: stack.congestion(chosen("congestion", &transport.congestion)?),
        path_manager: chosen("path_manager", &transport.path_manager)?,
        registry: registry.clone(),
        mss: transport.mss,
        receive_buffer_initial: transport.receive_buffer_initial,
        receive_buffer_max: transport.receive_buffer_max,
        send_buffer_max: transport.send_buffer_max,
        checksum: transport.checksum,
        deny_join_initial_address: false,
        pacing: transport.pacing,
        // As nginx asks for (`tcp_nodelay on`).
        nodelay: plan.application.kind.is_http(),
        ecn: transport.ecn.client.mode(),
        host: plan.host.model(),
        stack,
        candidates: Vec::new(),
        announce: Vec::new(),
    };
    let fault = |key: &'static str| {
        move |error: PluginError| PlanError::from(error).at(key).at("transport")
    };
    let random = Seed { seed: 0, run: 0 }.stream("check");
    scheduler::build(&config.scheduler, &config.registry).map_err(fault("scheduler"))?;
    congestion::build(&config.congestion, &config.registry, random).map_err(fault("congestion"))?;
    path_manager::build(&config.path_manager).map_err(fault("path_manager"))?;
    Ok(config)
}

/// What has to be said with the results, of each controller once.
fn notes(plan: &Plan, config: &Config, registry: &Registry) -> Result<Vec<String>, PlanError> {
    let mut choices = vec![config.congestion.clone()];
    for (index, group) in plan.cross_traffic.iter().enumerate() {
        let own = group.controller().map_err(|error| error.at_element("cross_traffic", index))?;
        choices.extend(own.map(|own| config.stack.congestion(own)));
    }
    let mut notes = Vec::new();
    for choice in &choices {
        let said = congestion::note(choice, registry)?;
        notes.extend(said.filter(|said| !notes.contains(said)));
    }
    Ok(notes)
}

/// Every event is of a link or a path that there is.
fn check_events(plan: &Plan, topology: &Topology) -> Result<(), PlanError> {
    for (index, event) in plan.events.iter().enumerate() {
        let (key, found) = match event.happening() {
            Some(Happening::Link(link, _)) => ("link", topology.link(link)),
            Some(Happening::Interface(path, _)) => ("path", topology.path(path)),
            None => continue,
        };
        found.map_err(|error| error.at(key).at_element("events", index))?;
    }
    Ok(())
}

/// The server, which listens at every address.
fn server(plan: &Plan, config: &Config, seed: Seed) -> Endpoint {
    let config = Config { ecn: plan.transport.ecn.server.mode(), ..config.clone() };
    let mut server = Endpoint::new("server", seed);
    for family in [Family::Ipv4, Family::Ipv6] {
        for port in [DATA_PORT, HTTP_PORT] {
            server.listen(anywhere(family, port), config.clone()).expect("ports of its own");
        }
    }
    server
}

/// Where in a tick of the hosts' clocks the world begins: nothing that happens in it knows of them.
///
/// Timers fire on ticks (jiffies) and timestamps count milliseconds, so that a run depends on it; a measured
/// kernel's runs begin anywhere, too.
fn begin(plan: &Plan, seed: Seed) -> Instant {
    if let Some(phase) = plan.host.clock_phase_ns {
        return Instant::from_nanos(phase);
    }
    let phases = plan.host.timer_tick_ns.max(TIMESTAMP_TICK.as_nanos());
    Instant::from_nanos(seed.stream("hosts.clock").below(phases))
}

impl<'a> World<'a> {
    pub(super) fn build(
        plan: &'a Plan,
        registry: Registry,
        capture: Option<Box<dyn Write + Send>>,
    ) -> Result<Self, RunError> {
        let topology = Topology::build(plan)?;
        let config = config(plan, &registry)?;
        let media = Media::new(plan)?;
        let notes = notes(plan, &config, &registry)?;
        let seed = Seed { seed: plan.seed, run: plan.run };
        let names: Vec<String> = topology.paths.iter().map(|p| p.name.clone()).collect();
        check_events(plan, &topology)?;
        let begin = begin(plan, seed);
        let mut world = Self {
            plan,
            registry,
            begin,
            now: begin,
            last_event: begin,
            topology,
            schedule: Schedule::default(),
            nodes: Vec::new(),
            stations: Vec::new(),
            served: Vec::new(),
            numbers: sampling::Numbers::default(),
            flows: Vec::new(),
            arrivals: Vec::new(),
            media,
            next_event: 0,
            mail: path_mtu::Mail::default(),
            unfinished: plan.clients as usize,
            steps: 0,
            digest: 0,
            rows: Rows::default(),
            notes,
            capture: capture.map(|output| Capture::new(output, &names, begin)).transpose()?,
            blank: Box::default(),
            spare: Vec::new(),
        };
        for medium in 0..world.topology.links.media() {
            world.add_node(Node::Medium(medium));
        }
        let mut starts = seed.stream("clients.start");
        for id in 0..plan.clients {
            let offset = if id == 0 { 0.0 } else { starts.uniform() };
            let start = begin + Duration::from_secs_f64(offset);
            let endpoint = Endpoint::new(&format!("client.{id}"), seed);
            let application = application::client(plan, &world.media, id, start)?;
            let node = world.add_node(Node::Station(world.stations.len()));
            world.schedule.set(node, Some(start));
            let host = Host::client(endpoint, application);
            world.stations.push(Station::new(host, node, id, false));
        }
        let serve = application::serve(&plan.application, &world.media);
        let (host, server) =
            (Host::server(server(plan, &config, seed), serve), world.stations.len());
        world.stations.push(Station::new(host, usize::MAX, 0, true));
        let sampler = world.add_node(Node::Sampler);
        world.schedule.set(sampler, Some(begin + sampling::PERIOD));
        let event = world.add_node(Node::Event);
        world.schedule.set(event, world.next_change());
        world.add_flows()?;
        // Behind all others but the mail: of those that wake at the same time it is the last.
        world.stations[server].node = world.add_node(Node::Station(server));
        if plan.bounds_packets() {
            world.mail.node = Some(world.add_node(Node::Mail));
        }
        Ok(world)
    }
}
