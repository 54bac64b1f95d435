//! What a run writes down: samples as it goes, totals when it is over.

use anabranch_transport::ConnectionHandle;
use anabranch_units::{Duration, Instant};
use sha2::{Digest, Sha256};

use super::World;
use crate::application::report_ladder;
use crate::plan::ApplicationKind;
use crate::topology::locate;
use crate::trace::{Column, Summary, Table, Trace};

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
        for handle in 0..self.serving.len() {
            let client = self.served[handle];
            let start = self.clients[client as usize].start;
            let t = self.now.since(start).as_secs_f64();
            let connection = self.server.connection(ConnectionHandle(handle));
            let tuples: Vec<_> = connection.summaries().map(|s| s.tuple.remote).collect();
            for sample in connection.samples() {
                let (path, _) = locate(tuples[sample.id.index()]);
                self.rows.samples.push(
                    t,
                    i64::from(client),
                    self.numbers.of(client, handle, sample.ordinal as usize),
                    self.topology.paths[usize::from(path)].name.clone(),
                    i64::from(sample.cwnd_segments),
                    threshold(sample.ssthresh_segments),
                    i64::from(sample.in_flight_segments),
                    ms(sample.srtt),
                    ms(sample.min_rtt),
                    sample.delivery_rate.bps() as f64 / 1e6,
                    sample.pacing_rate.bps().min(1 << 50) as f64 / 1e6,
                    sample.totals.bytes_acked as i64,
                    sample.unsent_bytes as i64,
                    sample.totals.retransmissions as i64,
                    sample.state.name().to_owned(),
                );
            }
        }
        for client in &self.clients {
            if client.start <= self.now {
                client.sample(self.now, &mut self.rows);
            }
        }
    }

    /// Totals of clients, subflows and links.
    pub(super) fn report(&mut self) {
        let mut reinjected = vec![0u64; self.clients.len()];
        for (handle, connection) in self.server.connections().iter().enumerate() {
            let client = self.served[handle];
            reinjected[client as usize] += connection.reinjected_bytes();
            for subflow in connection.summaries() {
                let (path, _) = locate(subflow.tuple.remote);
                let totals = subflow.totals;
                self.rows.subflows.push(
                    i64::from(client),
                    self.numbers.of(client, handle, subflow.ordinal as usize),
                    self.topology.paths[usize::from(path)].name.clone(),
                    subflow.established,
                    totals.bytes_acked as i64,
                    totals.bytes_sent as i64,
                    totals.retransmissions as i64,
                    totals.bytes_retransmitted as i64,
                    totals.data_segments as i64,
                    totals.timeouts as i64,
                    totals.undos as i64,
                    totals.penalties as i64,
                );
            }
        }
        for (index, client) in self.clients.iter().enumerate() {
            let until = client.finished_at.unwrap_or(self.now);
            let since = |at: Instant| at.since(client.start).as_secs_f64();
            self.rows.connections.push(
                i64::from(client.id),
                client.connect.map_or(f64::NAN, since),
                since(until),
                client.bytes_read as i64,
                reinjected[index] as i64,
                client.max_gap.as_secs_f64(),
                self.hosts[index].refused as i64,
                client.fallback,
                client.finished,
            );
            client.report(&mut self.rows);
        }
        if let Some(ladder) = self.media.ladder() {
            report_ladder(ladder, &mut self.rows);
        }
        for (name, stats, inside) in self.topology.links.totals() {
            self.rows.links.push(
                name.to_owned(),
                stats.enqueued as i64,
                stats.delivered as i64,
                stats.dropped_queue as i64,
                stats.dropped_loss as i64,
                stats.dropped_down as i64,
                stats.bytes_delivered as i64,
                inside as i64,
            );
        }
    }

    /// The trace with its digest: the folded event log, then every table.
    pub(super) fn into_trace(self) -> Trace {
        let (log, events) = (self.digest, self.steps);
        let (duration_s, steps) = (self.now.as_secs_f64(), self.steps);
        let tables = self.rows.into_tables();
        let mut hash = Sha256::new();
        hash.update(log.to_le_bytes());
        hash.update(events.to_le_bytes());
        // Runs without cross traffic or adaptive playback keep the digests of the time before their
        // tables.
        let crossed = !self.plan.cross_traffic.is_empty();
        let adaptive = self.plan.application.kind == ApplicationKind::Adaptive;
        let tells = |table: &&Table| {
            (crossed || !table.is_of_cross_traffic())
                && (adaptive || !table.is_of_adaptive_playback())
        };
        for table in tables.iter().filter(tells) {
            hash.update(table.name.as_bytes());
            for (name, column) in table.columns.iter().filter(|(name, _)| table.digests(name)) {
                hash.update(name.as_bytes());
                hash.update(fold(column).to_le_bytes());
            }
        }
        let digest =
            hash.finalize().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
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

/// A column folded to one word, each value and its place counting.
fn fold(column: &Column) -> u64 {
    let mix = super::mix;
    match column {
        Column::Bool(values) => values.iter().fold(0, |hash, v| mix(hash, u64::from(*v))),
        Column::Float(values) => values.iter().fold(0, |hash, v| mix(hash, v.to_bits())),
        Column::Int(values) => values.iter().fold(0, |hash, v| mix(hash, *v as u64)),
        Column::Text(values) => values.iter().fold(0, |hash, text| {
            text.bytes().fold(mix(hash, text.len() as u64), |hash, byte| mix(hash, u64::from(byte)))
        }),
    }
}
