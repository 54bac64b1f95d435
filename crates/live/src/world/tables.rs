//! The tables of a run: samples during the run, and totals at its end.

use anabranch_host::rows::{Served, connection_row};
use anabranch_host::{Host, report_ladder};
use anabranch_plan::PlanError;
use anabranch_plan::addresses::locate;
use anabranch_trace::{ConnectionRow, Summary, Trace};
use anabranch_units::{Duration, Instant};

use super::{CLIENT, Outcome, World};
use crate::side::Side;

/// The time between two samples.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

impl World<'_> {
    /// Adds a sample: the rows of our server's subflows, of the client's application and of the background
    /// flows.
    pub(super) fn sample(&mut self, now: Instant) {
        while self.next_sample <= now {
            self.next_sample += PERIOD;
        }
        let t_s = self.seconds(now);
        if let Some(host) = serves(&self.server) {
            for (handle, connection) in host.endpoint().connections() {
                let served = Served { client: CLIENT, handle: handle.index(), connection };
                let path = |end| &*self.plan.paths[usize::from(locate(end).0)].name;
                self.numbers.sample(t_s, &served, path, &mut self.rows);
            }
        }
        self.client.sample(now, &mut self.rows);
        self.crossing.sample(t_s, &mut self.rows);
    }

    /// Adds the rows of totals, and returns the result of the run.
    pub(super) fn finish(mut self) -> Result<Outcome, PlanError> {
        let now = self.clock.now();
        let (mut reinjected, mut fallback) = (0, false);
        if let Some(host) = serves(&self.server) {
            for (handle, connection) in host.endpoint().connections() {
                reinjected += connection.view().reinjected_bytes();
                fallback |= self.plan.transport.multipath && !connection.is_multipath();
                let served = Served { client: CLIENT, handle: handle.index(), connection };
                let path = |end| &*self.plan.paths[usize::from(locate(end).0)].name;
                self.numbers.report(&served, path, &mut self.rows);
            }
        }
        if let Some(session) = self.client.session() {
            let mut row = connection_row(session, now);
            row.reinjected_bytes = reinjected as i64;
            row.refused_packets = self.refused as i64;
            self.rows.connections.push(row);
        } else if let Some(origins) = &self.origins {
            self.rows.connections.push(ConnectionRow {
                client: i64::from(CLIENT),
                connect_s: f64::NAN,
                duration_s: self.seconds(now),
                bytes_read: origins.relayed() as i64,
                reinjected_bytes: reinjected as i64,
                max_read_gap_s: f64::NAN,
                refused_packets: self.refused as i64,
                fallback,
                finished: false,
                planned_s: self
                    .plan
                    .application
                    .duration_ns
                    .map_or(f64::NAN, |span| Duration::from_nanos(span).as_secs_f64()),
            });
        }
        self.client.report(&mut self.rows);
        if let Some(ladder) = &self.media.ladder {
            report_ladder(ladder, &mut self.rows);
        }
        self.network.report(&mut self.rows);
        self.crossing.report(now, &mut self.rows)?;
        let duration_s = self.seconds(now);
        let summary = Summary {
            // Two runs over real packets are never equal, so there is no digest.
            digest: String::new(),
            duration_s,
            steps: self.delivered,
            notes: self.notes,
            standstills: Vec::new(),
        };
        Ok(Outcome {
            trace: Trace { summary, tables: self.rows.into_tables() },
            lateness: self.lateness,
            congestion: self.server.congestion(),
            stripped: self.network.stripped().to_vec(),
            blocked: self.network.blocked().to_vec(),
            refused: self.client.refused() + self.server.refused(),
        })
    }
}

/// Returns our server. `None` if the server is a kernel.
pub(super) fn serves(side: &Side) -> Option<&Host> {
    match side {
        Side::Endpoint(host) => Some(host),
        Side::Kernel { .. } => None,
    }
}
