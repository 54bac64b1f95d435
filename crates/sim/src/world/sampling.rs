//! What a run writes down: samples as it goes, totals when it is over.

use anabranch_host::report_ladder;
use anabranch_trace::{ConnectionRow, LinkRow, SampleRow, SubflowRow, Summary, Trace};
use anabranch_units::{Duration, Instant};

use super::World;
use super::hosts::Station;
use crate::digest::{Tells, digest};
use crate::plan::ApplicationKind;
use crate::topology::locate;

/// Time between samples.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

/// A client's subflows are numbered over all its connections, as they are first seen.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    /// By connection and place in it.
    given: Vec<Vec<i64>>,
    /// By client.
    next: Vec<i64>,
}

impl Numbers {
    fn of(&mut self, client: u32, handle: usize, place: usize) -> i64 {
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

impl World<'_> {
    /// One row a subflow and one a client.
    pub(super) fn sample(&mut self) {
        let clients = self.plan.clients as usize;
        for (handle, connection) in self.stations[clients].host.endpoint().connections() {
            let handle = handle.index();
            let client = self.served[handle];
            let start = self.stations[client as usize].host.session().map(|session| session.start);
            let t = start.map_or(f64::NAN, |start| self.now.since(start).as_secs_f64());
            let tuples: Vec<_> = connection.summaries().map(|s| s.tuple.remote).collect();
            for sample in connection.samples() {
                let (path, ..) = locate(tuples[sample.id.index()]);
                self.rows.samples.push(SampleRow {
                    t_s: t,
                    client: i64::from(client),
                    subflow: self.numbers.of(client, handle, sample.ordinal as usize),
                    path: &self.topology.paths[usize::from(path)].name,
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
                });
            }
        }
        for Station { host, .. } in &self.stations[..clients] {
            if host.session().is_some_and(|session| session.start <= self.now) {
                host.sample(self.now, &mut self.rows);
            }
        }
    }

    /// Totals of clients, subflows and links.
    pub(super) fn report(&mut self) {
        let clients = self.plan.clients as usize;
        let mut reinjected = vec![0u64; clients];
        for (handle, connection) in self.stations[clients].host.endpoint().connections() {
            let handle = handle.index();
            let client = self.served[handle];
            reinjected[client as usize] += connection.reinjected_bytes();
            for subflow in connection.summaries() {
                let (path, ..) = locate(subflow.tuple.remote);
                let totals = subflow.totals;
                self.rows.subflows.push(SubflowRow {
                    client: i64::from(client),
                    subflow: self.numbers.of(client, handle, subflow.ordinal as usize),
                    path: &self.topology.paths[usize::from(path)].name,
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
                });
            }
        }
        for (index, Station { host, refused, .. }) in self.stations[..clients].iter().enumerate() {
            let Some(session) = host.session() else { continue };
            let until = session.finished_at.unwrap_or(self.now);
            let since = |at: Instant| at.since(session.start).as_secs_f64();
            self.rows.connections.push(ConnectionRow {
                client: i64::from(session.id),
                connect_s: session.connected_at.map_or(f64::NAN, since),
                duration_s: since(until),
                bytes_read: session.bytes_read as i64,
                reinjected_bytes: reinjected[index] as i64,
                max_read_gap_s: session.max_gap.as_secs_f64(),
                refused_packets: *refused as i64,
                fallback: session.fell_back,
                finished: session.finished,
            });
            host.report(&mut self.rows);
        }
        if let Some(ladder) = &self.media.ladder {
            report_ladder(ladder, &mut self.rows);
        }
        let ways = &self.topology.ways;
        for ((name, stats, inside), way) in self.topology.links.totals().zip(ways) {
            self.rows.links.push(LinkRow {
                link: name,
                enqueued: stats.enqueued as i64,
                delivered: stats.delivered as i64,
                dropped_queue: stats.dropped_queue as i64,
                dropped_loss: stats.dropped_loss as i64,
                dropped_down: stats.dropped_down as i64,
                bytes_delivered: stats.bytes_delivered as i64,
                queued_at_end: inside as i64,
                dropped_aqm: stats.dropped_aqm as i64,
                marked: stats.marked as i64,
                reordered: stats.reordered as i64,
                duplicated: stats.duplicated as i64,
                dropped_corrupt: stats.dropped_corrupt as i64,
                dropped_mtu: way.dropped as i64,
            });
        }
    }

    /// The trace with its digest: the folded event log, then every table.
    pub(super) fn into_trace(self) -> Trace {
        let (log, events) = (self.digest, self.steps);
        let (duration_s, steps) = (self.seconds(self.now), self.steps);
        let tables = self.rows.into_tables();
        let tells = Tells {
            cross_traffic: !self.plan.cross_traffic.is_empty(),
            adaptive_playback: self.plan.application.kind == ApplicationKind::Adaptive,
        };
        let digest = digest(log, events, &tables, tells);
        Trace { summary: Summary { digest, duration_s, steps, notes: self.notes }, tables }
    }
}

/// A slow start threshold; missing before the first congestion.
pub(super) fn threshold(segments: u32) -> f64 {
    if segments == u32::MAX { f64::NAN } else { f64::from(segments) }
}

/// A time in milliseconds, where there is one.
pub(super) fn ms(span: Option<Duration>) -> f64 {
    span.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3)
}
