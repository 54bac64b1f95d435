//! The configuration of a plan's endpoints, and the server endpoint.

use anabranch_congestion as congestion;
use anabranch_host::{Application, Host};
use anabranch_mptcp::path_manager;
use anabranch_mptcp::{Config, Endpoint};
use anabranch_plugin::{PluginError, Registry};
use anabranch_scheduler as scheduler;
use anabranch_units::Seed;

use crate::addresses::{DATA_PORT, HTTP_PORT, anywhere};
use crate::fault::PlanError;
use crate::plan::{Family, Plan};
use crate::plugins::choice;

/// Returns the clients' configuration. It builds every plug-in once, to check it.
///
/// # Errors
/// Returns an error for an unknown profile, part of a profile, plug-in or parameter.
pub fn config(plan: &Plan, registry: &Registry) -> Result<Config, PlanError> {
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
        // nginx sets `tcp_nodelay on`.
        nodelay: plan.application.kind.is_http(),
        ecn: transport.ecn.client.mode(),
        host: plan.host.model(),
        send_fragment: plan.host.fragment(),
        one_processor: plan.host.one_processor,
        stack,
        rto_max: transport.rto_max().map_err(below)?,
        retries: transport.retries().map_err(below)?,
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

/// Creates a client with its application. It opens its connections as the plan requires.
///
/// # Errors
/// Returns an error for a time between connection attempts that is out of range.
pub fn client(
    plan: &Plan,
    endpoint: Endpoint,
    application: Box<dyn Application>,
) -> Result<Host, PlanError> {
    let host = Host::client(endpoint, application);
    let delay = plan.transport.attempt_delay().map_err(|error| error.at("transport"))?;
    Ok(match delay {
        Some(delay) => host.racing(delay),
        None => host,
    })
}

/// Returns the notes of congestion controllers that are printed with the results, without duplicates.
///
/// # Errors
/// Returns an error for plug-ins that cannot be built.
pub fn notes(plan: &Plan, config: &Config, registry: &Registry) -> Result<Vec<String>, PlanError> {
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

/// Creates the server, which listens at every address.
#[expect(clippy::missing_panics_doc, reason = "a new endpoint has every port free")]
pub fn server(plan: &Plan, config: &Config, seed: Seed) -> Endpoint {
    let config = Config { ecn: plan.transport.ecn.server.mode(), ..config.clone() };
    let mut server = Endpoint::new("server", seed);
    for family in [Family::Ipv4, Family::Ipv6] {
        for port in [DATA_PORT, HTTP_PORT] {
            server.listen(anywhere(family, port), config.clone()).expect("ports of its own");
        }
    }
    server
}
