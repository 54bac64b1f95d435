//! Background flows: their hosts or sources of datagrams, their start and end, and their rows in the trace.
//! The caller transports their packets and fires their timers.
//!
//! Each TCP flow has its own two endpoints. Its keys and sequence numbers therefore come from other random
//! streams than those of the clients' connections.

mod datagrams;
mod flows;

use anabranch_host::{Host, Reader, Session, rows};
use anabranch_mptcp::path_manager::Candidate;
use anabranch_mptcp::{Config, ConnectError, Connection, Endpoint};
use anabranch_plan::addresses::{DATA_PORT, anywhere, cross_addresses};
use anabranch_plan::application::serve_across;
use anabranch_plan::{CrossKind, CrossPlan, Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::{CrossRow, CrossSampleRow, Rows};
use anabranch_units::{Duration, Instant, RandomStream, Seed};

pub use datagrams::Source;
pub use flows::{Aborts, FlowDue, Flows, Sent};

/// One background flow.
#[derive(Debug)]
pub struct CrossFlow {
    /// The flow's group in the plan.
    pub group: usize,
    /// The start of the flow.
    pub start: Instant,
    /// The time at which the flow is cut off; `None` for no limit.
    pub stop: Option<Instant>,
    /// The time of the flow's last event; `None` before the first one.
    pub last_event: Option<Instant>,
    /// The time at which the connection ended, if not all bytes were read.
    broken_at: Option<Instant>,
}

/// The state of a flow: its client, its server's connection, or the source of its datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Witnesses<'a> {
    /// The client's measurements.
    pub session: Option<&'a Session>,
    /// The connection at the server, after the server has received a segment.
    pub connection: Option<&'a Connection>,
    /// The source of the datagrams.
    pub source: Option<&'a Source>,
}

impl<'a> Witnesses<'a> {
    /// Returns the state of the two hosts of a TCP flow.
    pub fn of(client: &'a Host, server: &'a Host) -> Self {
        let connection = server.endpoint().connections().next();
        Self {
            session: client.session(),
            connection: connection.map(|(_, connection)| connection),
            source: None,
        }
    }
}

impl CrossFlow {
    /// Creates a flow of a group. It starts at `start`, and is cut off after `duration`.
    pub fn new(group: usize, start: Instant, duration: Option<Duration>) -> Self {
        let stop = duration.map(|span| start + span);
        Self { group, start, stop, last_event: None, broken_at: None }
    }

    /// Returns whether the flow's time is over.
    pub fn is_cut_off(&self, now: Instant) -> bool {
        self.stop.is_some_and(|stop| now >= stop)
    }

    /// Records an event, and whether the connection ended early.
    pub fn note(&mut self, now: Instant, witnesses: Witnesses<'_>) {
        self.last_event = Some(now);
        let server_gone = witnesses.connection.is_some_and(Connection::is_closed);
        let Some(session) = witnesses.session else { return };
        let over = session.over || server_gone;
        if over && !session.finished && !self.is_cut_off(now) {
            self.broken_at.get_or_insert(now);
        }
    }

    /// Returns the flow's state in a word, and the time at which it ended.
    pub fn end(&self, session: Option<&Session>, now: Instant) -> (&'static str, Option<Instant>) {
        let finished = session.filter(|session| session.finished);
        if self.last_event.is_none() {
            ("unstarted", None)
        } else if let Some(session) = finished {
            ("finished", session.finished_at)
        } else if self.broken_at.is_some() {
            ("broken", self.broken_at)
        } else if self.is_cut_off(now) {
            ("stopped", self.stop)
        } else {
            ("running", Some(now))
        }
    }

    /// Adds a row for each subflow of the flow's connection at the server, `t_s` seconds after the start of
    /// the plan. `index` is the flow's number.
    pub fn sample<'a>(
        &self,
        plan: &'a Plan,
        t_s: f64,
        index: usize,
        witnesses: Witnesses<'_>,
        rows: &mut Rows,
    ) {
        let Some(connection) = witnesses.connection else { return };
        let name: &'a str = &plan.cross_traffic[self.group].name;
        for sample in connection.view().samples() {
            rows.cross_samples.push(CrossSampleRow {
                t_s,
                flow: index as i64,
                name,
                cwnd_segments: i64::from(sample.cwnd_segments),
                ssthresh_segments: rows::threshold(sample.ssthresh_segments),
                in_flight_segments: i64::from(sample.in_flight_segments),
                srtt_ms: rows::ms(sample.srtt),
                delivery_rate_mbps: sample.delivery_rate.bps() as f64 / 1e6,
                bytes_acked: sample.totals.bytes_acked as i64,
                retransmissions: sample.totals.retransmissions as i64,
                state: sample.state.name(),
            });
        }
    }

    /// Adds the flow's row at the end of the run. The run started at `begin`.
    ///
    /// # Errors
    /// Returns an error if the group's controller is not the name of a plug-in.
    pub fn report(
        &self,
        plan: &Plan,
        (begin, now): (Instant, Instant),
        index: usize,
        witnesses: Witnesses<'_>,
        rows: &mut Rows,
    ) -> Result<(), PlanError> {
        let Witnesses { session, connection, source } = witnesses;
        let group = &plan.cross_traffic[self.group];
        let (fate, end) = self.end(session, now);
        let seconds = |at: Instant| at.since(begin).as_secs_f64();
        let lasted = end.map_or(f64::NAN, |end| end.since(self.start).as_secs_f64());
        let since = |at: Instant| at.since(self.start).as_secs_f64();
        let connected = session.and_then(|session| session.connected_at);
        let totals = connection.and_then(|it| it.view().summaries().next()).map(|it| it.totals);
        let totals = totals.unwrap_or_default();
        let bytes = source.map(Source::bytes).or(session.map(|session| session.bytes_read));
        let bytes = bytes.unwrap_or(0);
        let controller = group.controller()?.map_or("none".to_owned(), |own| own.to_string());
        let count = |of: fn(&Source) -> u64| source.map_or(0, |source| of(source) as i64);
        rows.cross_traffic.push(CrossRow {
            flow: index as i64,
            name: &group.name,
            congestion: &controller,
            start_s: seconds(self.start),
            connect_s: connected.map_or(f64::NAN, since),
            end_s: end.map_or(f64::NAN, seconds),
            fate,
            bytes_read: bytes as i64,
            goodput_mbps: if lasted > 0.0 { bytes as f64 * 8e-6 / lasted } else { f64::NAN },
            data_segments: totals.data_segments as i64,
            retransmissions: totals.retransmissions as i64,
            timeouts: totals.timeouts as i64,
            datagrams_sent: count(|source| source.sent),
            datagrams_delivered: count(|source| source.delivered),
            datagrams_lost: count(|source| source.lost),
            datagram_delay_ms: source.map_or(f64::NAN, Source::delay_ms),
        });
        Ok(())
    }
}

/// Creates the client and the server of the TCP flow with this number and name. The name selects the random
/// streams. The client sends nothing until the flow starts.
///
/// # Errors
/// Returns an error for an unknown profile, part of a profile or plug-in.
fn hosts(
    plan: &Plan,
    registry: &Registry,
    flow: &CrossFlow,
    (number, name): (u32, &str),
) -> Result<[Host; 2], PlanError> {
    let group = &plan.cross_traffic[flow.group];
    let below = |error: PlanError| error.at_element("cross_traffic", flow.group);
    let seed = Seed { seed: plan.seed, run: plan.run };
    let mut config = group.config(plan, registry).map_err(below)?;
    let mut server = Endpoint::new(&format!("{name}.server"), seed);
    let ecn = plan.transport.ecn.server.mode();
    let listening = Config { ecn, ..config.clone() };
    if let Err(error) = server.listen(anywhere(group.family, DATA_PORT), listening) {
        unreachable!("it listens nowhere else: {error}");
    }
    let server = Host::server(server, serve_across(group));
    let duration = flow.stop.map(|stop| stop.since(flow.start));
    let session = Session::new(plan.clients + number, flow.start, duration)
        .bearing_wrong_bytes(plan.changes_payload());
    let reader = Reader::new(session);
    let mut client = Host::client(Endpoint::new(&format!("{name}.client"), seed), Box::new(reader));
    let (remote, local) = cross_addresses(group.family, number);
    config.candidates = vec![Candidate { address_id: 1, local, remote, backup: false, rate: None }];
    match client.connect(flow.start, config) {
        Ok(_) => Ok([client, server]),
        Err(ConnectError::Plugin(error)) => Err(below(error.into())),
        Err(error) => unreachable!("every connection has ports of its own: {error}"),
    }
}

/// A group whose flows start at random times during the run.
#[derive(Debug)]
pub struct Arrivals {
    /// The index of the group in the plan.
    pub group: usize,
    /// The number of flows that have started.
    begun: u32,
    stop: Option<Instant>,
    random: RandomStream,
}

impl Arrivals {
    /// Creates the starts of a group's flows, in a run that started at `begin`. Also returns the first start.
    pub fn new(plan: &Plan, group: usize, begin: Instant) -> (Self, Instant) {
        let of = &plan.cross_traffic[group];
        let start = begin + Duration::from_nanos(of.start_ns);
        let stop = of.duration_ns.map(|span| start + Duration::from_nanos(span));
        let seed = Seed { seed: plan.seed, run: plan.run };
        let mut random = seed.stream(&format!("cross_traffic.{}.arrivals", of.name));
        let first = start + next_arrival(of, &mut random);
        (Self { group, begun: 0, stop, random }, first)
    }

    /// Returns the name of the flow that starts at `now`, and the start of the next flow. Returns `None` if
    /// the group's time is over.
    pub fn next(&mut self, plan: &Plan, now: Instant) -> Option<(String, Instant)> {
        if self.stop.is_some_and(|stop| now >= stop) {
            return None;
        }
        let of = &plan.cross_traffic[self.group];
        let name = format!("cross.{}.{}", of.name, self.begun);
        self.begun += 1;
        Some((name, now + next_arrival(of, &mut self.random)))
    }
}

/// Draws the time between the starts of two transfers. The plan's check ensures that the mean exists.
fn next_arrival(plan: &CrossPlan, random: &mut RandomStream) -> Duration {
    let mean = plan.gap_ns.unwrap_or(1) as f64 * 1e-9;
    Duration::from_secs_f64(datagrams::exponential(random, mean))
}

/// A flow or a group at the start of the run.
#[derive(Debug)]
pub enum Beginning {
    /// A TCP flow and its name.
    Connection(CrossFlow, String),
    /// A flow of datagrams.
    Datagrams(CrossFlow, Box<Source>),
    /// Flows that start later, and the start of the first one.
    Arrivals(Box<Arrivals>, Instant),
}

/// Returns all flows of a plan, and all groups whose flows start later, in the plan's order. The run started
/// at `begin`.
pub fn beginnings(plan: &Plan, begin: Instant) -> Vec<Beginning> {
    let seed = Seed { seed: plan.seed, run: plan.run };
    let mut all = Vec::new();
    for (index, group) in plan.cross_traffic.iter().enumerate() {
        if group.kind == CrossKind::Transfers {
            let (arrivals, first) = Arrivals::new(plan, index, begin);
            all.push(Beginning::Arrivals(Box::new(arrivals), first));
            continue;
        }
        let duration = group.duration_ns.map(Duration::from_nanos);
        for (number, after) in group.starts(seed).into_iter().enumerate() {
            let flow = CrossFlow::new(index, begin + after, duration);
            if group.kind.is_datagrams() {
                let stream = format!("cross_traffic.{}.{number}.datagrams", group.name);
                let source = Source::new(group, seed.stream(&stream));
                all.push(Beginning::Datagrams(flow, Box::new(source)));
            } else {
                all.push(Beginning::Connection(flow, format!("cross.{}.{number}", group.name)));
            }
        }
    }
    all
}
