//! Background flows as every world has them: the hosts and the sources that they consist of, when they begin and end,
//! and what is written down of them. Who carries their packets, and wakes them, is a world.
//!
//! Each TCP flow has both its endpoints to itself, so that neither its keys nor its sequence numbers are
//! drawn from a stream that a client's connection draws from.

mod datagrams;

use anabranch_host::{Host, Reader, Session, rows};
use anabranch_plan::addresses::{DATA_PORT, anywhere, cross_addresses};
use anabranch_plan::application::serve_across;
use anabranch_plan::{CrossKind, CrossPlan, Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::{CrossRow, CrossSampleRow, Rows};
use anabranch_transport::path_manager::Candidate;
use anabranch_transport::{Config, ConnectError, Connection, Endpoint};
use anabranch_units::{Duration, Instant, RandomStream, Seed};

pub use datagrams::Source;

/// One background flow.
#[derive(Debug)]
pub struct CrossFlow {
    /// Which group of the plan it is of.
    pub group: usize,
    /// When it begins.
    pub start: Instant,
    /// When it is cut off.
    pub stop: Option<Instant>,
    /// When anything last happened to it; `None` before its start.
    pub last_event: Option<Instant>,
    /// When its connection ended with bytes left to read.
    broken_at: Option<Instant>,
}

/// Who knows of a flow: its client, its server's connection, or the source of its datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub struct Witnesses<'a> {
    /// What its client has measured.
    pub session: Option<&'a Session>,
    /// Its connection as its server has it, once that has heard of it.
    pub connection: Option<&'a Connection>,
    /// The source of its datagrams.
    pub source: Option<&'a Source>,
}

impl<'a> Witnesses<'a> {
    /// The two hosts of a TCP flow.
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
    /// A flow of a group that begins at `start`, and is cut off after `duration`.
    pub fn new(group: usize, start: Instant, duration: Option<Duration>) -> Self {
        let stop = duration.map(|span| start + span);
        Self { group, start, stop, last_event: None, broken_at: None }
    }

    /// Its time is over.
    pub fn is_cut_off(&self, now: Instant) -> bool {
        self.stop.is_some_and(|stop| now >= stop)
    }

    /// Something happens to it; it may have ended before its time.
    pub fn note(&mut self, now: Instant, witnesses: Witnesses<'_>) {
        self.last_event = Some(now);
        let server_gone = witnesses.connection.is_some_and(Connection::is_closed);
        let Some(session) = witnesses.session else { return };
        let over = session.over || server_gone;
        if over && !session.finished && !self.is_cut_off(now) {
            self.broken_at.get_or_insert(now);
        }
    }

    /// How it ended, in a word, and when.
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

    /// One row a flow whose connection stands, as its server sees it, at `t_s` seconds of the plan's time; `index` is the
    /// flow's number.
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

    /// One row, when the run is over, which began at `begin`.
    ///
    /// # Errors
    /// The group's controller is no plug-in's name.
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

/// The client and the server of a TCP flow, whose number among all flows is `flow`, and whose name gives it its chance.
/// Nothing is sent before the client is driven, which it is to be at the flow's start.
///
/// # Errors
/// Names that no profile, part of one or plug-in has.
pub fn hosts(
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

/// A group of the plan whose flows begin at random, as the run goes on.
#[derive(Debug)]
pub struct Arrivals {
    /// Which group.
    pub group: usize,
    /// How many have begun.
    begun: u32,
    stop: Option<Instant>,
    random: RandomStream,
}

impl Arrivals {
    /// Those of a group in a world that began at `begin`, and when the first is due.
    pub fn new(plan: &Plan, group: usize, begin: Instant) -> (Self, Instant) {
        let of = &plan.cross_traffic[group];
        let start = begin + Duration::from_nanos(of.start_ns);
        let stop = of.duration_ns.map(|span| start + Duration::from_nanos(span));
        let seed = Seed { seed: plan.seed, run: plan.run };
        let mut random = seed.stream(&format!("cross_traffic.{}.arrivals", of.name));
        let first = start + next_arrival(of, &mut random);
        (Self { group, begun: 0, stop, random }, first)
    }

    /// One is due at `now`: its name, and when the next one is; `None` when the group's time is over.
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

/// How long after a transfer of a group the next one begins. A plan without a gap is refused where it is read.
fn next_arrival(plan: &CrossPlan, random: &mut RandomStream) -> Duration {
    let mean = plan.gap_ns.unwrap_or(1) as f64 * 1e-9;
    Duration::from_secs_f64(datagrams::exponential(random, mean))
}

/// What a group consists of at the beginning.
#[derive(Debug)]
pub enum Beginning {
    /// A TCP flow, and its name.
    Connection(CrossFlow, String),
    /// A flow of datagrams.
    Datagrams(CrossFlow, Box<Source>),
    /// Flows to come, the first at this time.
    Arrivals(Box<Arrivals>, Instant),
}

/// Every flow of a plan, and every group of flows to come, in their order, in a world that began at `begin`.
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
