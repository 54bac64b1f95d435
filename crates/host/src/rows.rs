//! Trace rows of endpoints and sessions, shared by the simulator and the live runner.

use std::net::SocketAddr;

use anabranch_mptcp::{Connection, SubflowSample, SubflowSummary};
use anabranch_trace::{ConnectionRow, Rows, SampleRow, SubflowRow};
use anabranch_units::{Duration, Instant};

use crate::session::Session;

/// A client's connection as the server sees it. The client's addresses identify the paths of the subflows.
#[derive(Clone, Copy, Debug)]
pub struct Served<'a> {
    /// The client's number.
    pub client: u32,
    /// The index of the connection's handle.
    pub handle: usize,
    /// The connection.
    pub connection: &'a Connection,
}

/// The numbers of subflows in the trace. A client's subflows are numbered over all its connections, in order
/// of appearance.
#[derive(Debug, Default)]
pub struct Numbers {
    /// The assigned numbers by connection handle and ordinal.
    given: Vec<Vec<i64>>,
    /// The next number of each client.
    next: Vec<i64>,
}

impl Numbers {
    /// Adds a row for the state of each subflow of a connection, `t_s` seconds after the client's start.
    pub fn sample<'a>(
        &mut self,
        t_s: f64,
        served: &Served<'_>,
        path: impl Fn(SocketAddr) -> &'a str,
        rows: &mut Rows,
    ) {
        let ends: Vec<_> = served.connection.view().summaries().map(|it| it.tuple.remote).collect();
        for sample in served.connection.view().samples() {
            let number = self.of(served, sample.ordinal);
            let path = path(ends[sample.id.index()]);
            rows.samples.push(sample_row(t_s, served.client, number, path, &sample));
        }
    }

    /// Adds a row with the totals of each subflow of a connection, including closed ones.
    pub fn report<'a>(
        &mut self,
        served: &Served<'_>,
        path: impl Fn(SocketAddr) -> &'a str,
        rows: &mut Rows,
    ) {
        for subflow in served.connection.view().summaries() {
            let number = self.of(served, subflow.ordinal);
            let path = path(subflow.tuple.remote);
            rows.subflows.push(subflow_row(served.client, number, path, &subflow));
        }
    }

    /// Returns the number of a subflow. Each client's numbers start at 0.
    pub fn of(&mut self, served: &Served<'_>, ordinal: u32) -> i64 {
        let &Served { client, handle, .. } = served;
        let place = ordinal as usize;
        let (client, most) = (client as usize, |len: usize, at: usize| len.max(at + 1));
        self.next.resize(most(self.next.len(), client), 0);
        self.given.resize_with(most(self.given.len(), handle), Vec::new);
        let given = &mut self.given[handle];
        while given.len() <= place {
            given.push(self.next[client]);
            self.next[client] += 1;
        }
        given[place]
    }
}

/// Returns the row of a client's subflow, `t_s` seconds after the client's start.
fn sample_row<'a>(
    t_s: f64,
    client: u32,
    subflow: i64,
    path: &'a str,
    sample: &SubflowSample,
) -> SampleRow<'a> {
    SampleRow {
        t_s,
        client: i64::from(client),
        subflow,
        path,
        cwnd_segments: i64::from(sample.cwnd_segments),
        ssthresh_segments: threshold(sample.ssthresh_segments),
        in_flight_segments: i64::from(sample.in_flight_segments),
        srtt_ms: ms(sample.srtt),
        min_rtt_ms: ms(sample.min_rtt),
        delivery_rate_mbps: sample.delivery_rate.bps() as f64 / 1e6,
        pacing_rate_mbps: sample.pacing_rate.bps().min(1 << 50) as f64 / 1e6,
        bytes_acked: sample.totals.bytes_acked as i64,
        unsent_bytes: sample.unsent_bytes as i64,
        retransmissions: sample.totals.retransmissions as i64,
        state: sample.state.name(),
    }
}

/// Returns the row with the totals of a client's subflow.
fn subflow_row<'a>(
    client: u32,
    number: i64,
    path: &'a str,
    subflow: &SubflowSummary,
) -> SubflowRow<'a> {
    let totals = subflow.totals;
    SubflowRow {
        client: i64::from(client),
        subflow: number,
        path,
        established: subflow.established,
        bytes: totals.bytes_acked as i64,
        bytes_sent: totals.bytes_sent as i64,
        retransmissions: totals.retransmissions as i64,
        bytes_retransmitted: totals.bytes_retransmitted as i64,
        data_segments: totals.data_segments as i64,
        timeouts: totals.timeouts as i64,
        undos: totals.undos as i64,
        penalties: totals.penalties as i64,
        delivered_ce: totals.delivered_ce as i64,
        ecn_reductions: totals.ecn_reductions as i64,
    }
}

/// Returns the row of a client's session at its end or at `now`. Columns that the client cannot measure are
/// 0.
pub fn connection_row(session: &Session, now: Instant) -> ConnectionRow {
    let until = session.finished_at.unwrap_or(now);
    let since = |at: Instant| at.since(session.start).as_secs_f64();
    ConnectionRow {
        client: i64::from(session.id),
        connect_s: session.connected_at.map_or(f64::NAN, since),
        duration_s: since(until),
        bytes_read: session.bytes_read as i64,
        reinjected_bytes: 0,
        max_read_gap_s: session.max_gap.as_secs_f64(),
        refused_packets: 0,
        fallback: session.fell_back,
        finished: session.finished,
        planned_s: session.planned().map_or(f64::NAN, Duration::as_secs_f64),
    }
}

/// Returns a slow-start threshold in segments; NaN if no loss has set it yet.
pub fn threshold(segments: u32) -> f64 {
    if segments == u32::MAX { f64::NAN } else { f64::from(segments) }
}

/// Returns a duration in milliseconds; NaN if the argument is `None`.
pub fn ms(span: Option<Duration>) -> f64 {
    span.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
}
