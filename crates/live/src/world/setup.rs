//! Creates a world from its plan, and opens connections of the client's endpoint.

use anabranch_host::Host;
use anabranch_host::rows::Numbers;
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Announcement, ConnectError, Endpoint};
use anabranch_plan::addresses::{anywhere, client_address, locate, served_at, server_address};
use anabranch_plan::endpoints::{client, config, notes, server};
use anabranch_plan::{Media, Plan, PlanError, application};
use anabranch_plugin::Registry;
use anabranch_trace::Rows;
use anabranch_units::{Instant, Seed};
use anabranch_wire::PcapngWriter;

use super::{
    CLIENT, CLIENT_SOCKETS, Crossing, Ends, LiveError, Observer, SERVER_DEVICES, SERVER_SOCKETS,
    World, tables, tried,
};
use crate::clock::Clock;
use crate::kernel::{KernelEnd, KernelHost};
use crate::lateness::Lateness;
use crate::network::Network;
use crate::origin::Origins;
use crate::poller::Poller;
use crate::secret::secret_seed;
use crate::side::Side;

/// Returns the announcement of the server's address on a path.
fn announcement(plan: &Plan, path: usize) -> Announcement {
    let address = server_address(plan.paths[path].family, path, 0).ip();
    Announcement { address_id: path as u8 + 1, address, port: None }
}

/// Returns the client's end. If the client is a kernel, `opened` contains its devices.
fn client_side(
    plan: &Plan,
    media: &Media,
    ends: &Ends,
    opened: Option<Side>,
    begin: Instant,
    secret: Seed,
    registry: &Registry,
) -> Result<Side, LiveError> {
    let (Some(end), Some(mut side)) = (&ends.client, opened) else {
        let application = application::client(plan, media, 0, begin, registry)?;
        let host = client(plan, Endpoint::new("client", secret), application)?;
        return Ok(Side::Endpoint(Box::new(host)));
    };
    if let Side::Kernel { host, .. } = &mut side
        && ends.application
    {
        let application = application::client(plan, media, 0, begin, registry)?;
        let family = plan.paths[0].family;
        let remote = server_address(family, 0, served_at(plan.application.kind));
        let route = (client_address(family, 0, 0, 0), remote);
        let over = KernelHost::client(end.clone(), application, route, CLIENT_SOCKETS);
        *host = Some(Box::new(over));
    }
    Ok(side)
}

/// Returns the server's end. If the server is a kernel, `opened` contains its devices.
fn server_side(
    plan: &Plan,
    media: &Media,
    ends: &Ends,
    (opened, poller): (Option<Side>, &Poller),
    endpoint: Endpoint,
    origins: Option<&Origins>,
) -> Result<Side, LiveError> {
    let make = application::serve(&plan.application, media);
    let (Some(end), Some(mut side)) = (&ends.server, opened) else {
        let host = match origins.cloned() {
            Some(origins) => {
                Host::server(endpoint, Box::new(move |handle, _| origins.serve(handle)))
            }
            None => Host::server(endpoint, Box::new(move |_, _| make())),
        };
        return Ok(Side::Endpoint(Box::new(host)));
    };
    if let Side::Kernel { host, .. } = &mut side
        && ends.application
    {
        let address = anywhere(plan.paths[0].family, served_at(plan.application.kind));
        let over = KernelHost::server(end.clone(), make, address, poller, SERVER_SOCKETS);
        *host = Some(Box::new(over.map_err(tried("opening the server's socket"))?));
    }
    Ok(side)
}

impl<'a> World<'a> {
    pub(super) fn build(
        plan: &'a Plan,
        registry: Registry,
        ends: Ends,
        observer: &mut dyn Observer,
    ) -> Result<Self, LiveError> {
        let invalid = |what| LiveError::from(PlanError::Invalid(what));
        if plan.clients != 1 {
            return Err(invalid("only one client can run over real packets"));
        }
        let mut endpoints = config(plan, &registry)?;
        endpoints.announce = ends.announced.iter().map(|path| announcement(plan, *path)).collect();
        let (media, notes) = (Media::new(plan)?, notes(plan, &endpoints, &registry)?);
        let poller = Poller::new().map_err(tried("waiting for events"))?;
        let open = |end: &Option<KernelEnd>, first_token| {
            end.as_ref().map(|end| Side::kernel(end, &poller, first_token)).transpose()
        };
        let clients = open(&ends.client, 0).map_err(tried("opening the client's devices"))?;
        let servers =
            open(&ends.server, SERVER_DEVICES).map_err(tried("opening the server's devices"))?;
        observer.ready().map_err(tried("preparing the devices"))?;
        let clock = Clock::start();
        let begin = clock.now();
        let network = Network::new(plan, begin)?;
        let network = match &ends.client {
            Some(_) => network.with_kernel_client(),
            None => network,
        };
        let crossing = Crossing::new(plan, &registry, begin)?;
        let secret = secret_seed().map_err(tried("reading random numbers"))?;
        let client = client_side(plan, &media, &ends, clients, begin, secret, &registry)?;
        let endpoint = server(plan, &endpoints, secret);
        let origins = ends.origin.clone().map(Origins::new);
        let origins_of = origins.as_ref();
        let server = server_side(plan, &media, &ends, (servers, &poller), endpoint, origins_of)?;
        let names: Vec<String> = plan.paths.iter().map(|path| path.name.clone()).collect();
        let capture = ends.capture.map(|output| PcapngWriter::new(output, &names)).transpose()?;
        Ok(Self {
            plan,
            registry,
            media,
            clock,
            begin,
            poller,
            network,
            announced: ends.announced,
            client,
            server,
            crossing,
            origins,
            rows: Rows::default(),
            numbers: Numbers::default(),
            lateness: Lateness::default(),
            capture,
            next_sample: begin + tables::PERIOD,
            next_look: begin,
            ports: 0,
            refused: 0,
            notes,
            delivered: 0,
            carried: vec![0; plan.paths.len()],
        })
    }

    /// Opens a connection of the client's endpoint, over all paths on which the client knows the server's
    /// address.
    pub(super) fn connect(&mut self, now: Instant) -> Result<(), LiveError> {
        let mut config = config(self.plan, &self.registry)?;
        let number = self.ports;
        self.ports += 1;
        let port = served_at(self.plan.application.kind);
        config.candidates = self.network.interfaces().candidates(CLIENT, number, port);
        let known = |it: &Candidate| !self.announced.contains(&usize::from(locate(it.local).0));
        config.candidates.retain(known);
        let Side::Endpoint(host) = &mut self.client else { return Ok(()) };
        match host.connect(now, config) {
            Ok(_) => Ok(()),
            Err(ConnectError::Plugin(error)) => Err(PlanError::from(error).into()),
            Err(error) => unreachable!("every connection has a port of its own: {error}"),
        }
    }
}
