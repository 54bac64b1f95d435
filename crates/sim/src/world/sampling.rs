//! The tables that every run writes: samples during the run, and totals at its end.

use anabranch_host::report_ladder;
use anabranch_host::rows::{Served, connection_row};
use anabranch_plan::ApplicationKind;
use anabranch_plan::addresses::locate;
use anabranch_trace::{Summary, Trace};
use anabranch_units::Duration;

use super::World;
use super::hosts::Station;
use crate::digest::{OptionalTables, digest};

/// The time between two samples.
pub(super) const PERIOD: Duration = Duration::from_millis(100);

impl World<'_> {
    /// Adds one row for each subflow and one for each client.
    pub(super) fn sample(&mut self) {
        let clients = self.plan.clients as usize;
        for (handle, connection) in self.stations[clients].host.endpoint().connections() {
            let handle = handle.index();
            let client = self.served[handle];
            let start = self.stations[client as usize].host.session().map(|session| session.start);
            let t = start.map_or(f64::NAN, |start| self.now.since(start).as_secs_f64());
            let served = Served { client, handle, connection };
            let path = |end| &*self.plan.paths[usize::from(locate(end).0)].name;
            self.numbers.sample(t, &served, path, &mut self.rows);
        }
        for Station { host, .. } in &self.stations[..clients] {
            if host.session().is_some_and(|session| session.start <= self.now) {
                host.sample(self.now, &mut self.rows);
            }
        }
        if self.record.is_some() {
            self.sample_receivers();
        }
    }

    /// Adds the totals of clients, subflows and links.
    pub(super) fn report(&mut self) {
        let clients = self.plan.clients as usize;
        let mut reinjected = vec![0u64; clients];
        let mut wrong_bytes = 0;
        for (handle, connection) in self.stations[clients].host.endpoint().connections() {
            let handle = handle.index();
            let client = self.served[handle];
            reinjected[client as usize] += connection.view().reinjected_bytes();
            let served = Served { client, handle, connection };
            let path = |end| &*self.plan.paths[usize::from(locate(end).0)].name;
            self.numbers.report(&served, path, &mut self.rows);
        }
        if let Some(record) = self.record.take() {
            self.report_segments(&record);
        }
        for (index, Station { host, refused, .. }) in self.stations[..clients].iter().enumerate() {
            let Some(session) = host.session() else { continue };
            let mut row = connection_row(session, self.now);
            row.reinjected_bytes = reinjected[index] as i64;
            row.refused_packets = *refused as i64;
            wrong_bytes += session.wrong_bytes();
            self.rows.connections.push(row);
            host.report(&mut self.rows);
        }
        if wrong_bytes > 0 {
            self.notes.push(format!(
                "Clients read {wrong_bytes} bytes that were not those sent: links changed payloads."
            ));
        }
        if let Some(ladder) = &self.media.ladder {
            report_ladder(ladder, &mut self.rows);
        }
        self.network.report(&mut self.rows);
    }

    /// Returns the trace with its digest.
    pub(super) fn into_trace(self) -> Trace {
        let (log, events) = (self.digest, self.steps);
        let (duration_s, steps) = (self.seconds(self.now), self.steps);
        let tables = self.rows.into_tables();
        let optional = OptionalTables {
            cross_traffic: !self.plan.cross_traffic.is_empty(),
            adaptive_playback: self.plan.application.kind == ApplicationKind::Adaptive,
        };
        let digest = digest(log, events, &tables, optional);
        let (notes, standstills) = (self.notes, self.standstills);
        Trace { summary: Summary { digest, duration_s, steps, notes, standstills }, tables }
    }
}
