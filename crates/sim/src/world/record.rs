//! Tables that are written on request: the times at which each data segment left the server and reached its
//! client, and the received data held by the clients. These tables are not part of the digest and do not
//! change a run.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use anabranch_host::rows::Served;
use anabranch_mptcp::{Connection, FourTuple, Outgoing};
use anabranch_plan::addresses::locate;
use anabranch_plan::{Plan, RecordPlan};
use anabranch_trace::{ArrivalRow, DepartureRow, ReceiverRow};
use anabranch_units::Instant;
use anabranch_wire::{Dss, Mapping, MappingDsn, Segment};

use super::World;
use super::hosts::Station;

/// The identity of a subflow: the handle index of its connection at the server, and its ordinal within the
/// connection.
type Whose = (usize, u32);

/// Converts 32-bit numbers that wrap around to 64-bit positions after the first number.
#[derive(Clone, Copy, Debug)]
struct Count {
    first: u32,
    last: u64,
}

impl Count {
    const fn from(first: u32) -> Self {
        Self { first, last: 0 }
    }

    /// Returns the position nearest to the last one whose low 32 bits correspond to `low`.
    fn position(&mut self, low: u32) -> u64 {
        let offset = low.wrapping_sub(self.first).wrapping_sub(self.last as u32) as i32;
        let position = self.last.saturating_add_signed(i64::from(offset));
        self.last = self.last.max(position);
        position
    }
}

/// A subflow whose segments are recorded.
#[derive(Clone, Copy, Debug)]
struct Flow {
    whose: Whose,
    sent: Count,
    came: Count,
}

#[derive(Debug)]
struct Departure {
    at: Instant,
    whose: Whose,
    path: u8,
    position: u64,
    data_position: u64,
    bytes: u32,
    cwnd: u32,
    in_flight: u32,
    nearest: u32,
    nearest_cwnd: u32,
}

#[derive(Debug)]
struct Arrival {
    at: Instant,
    whose: Whose,
    position: u64,
    bytes: u32,
}

/// The recorded segments of a run.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// The subflows, by the client's address and the server's port.
    flows: BTreeMap<(SocketAddr, u16), Flow>,
    /// The converter of data sequence numbers for each connection.
    data: BTreeMap<usize, Count>,
    departures: Vec<Departure>,
    arrivals: Vec<Arrival>,
}

impl Record {
    /// Creates a record if the plan requests it.
    pub(super) fn of(plan: &Plan) -> Option<Box<Self>> {
        plan.record.contains(&RecordPlan::Receiver).then(Box::default)
    }

    /// Records a segment that the server sends.
    fn depart(
        &mut self,
        now: Instant,
        handle: usize,
        connection: &Connection,
        tuple: FourTuple,
        segment: &Segment,
    ) {
        let Some(window) = connection.view().last_window() else { return };
        if segment.payload.is_empty() {
            return;
        }
        let whose = (handle, window.ordinal);
        let first = Count::from(segment.seq.0);
        let new = Flow { whose, sent: first, came: first };
        let flow = self.flows.entry((tuple.remote, tuple.local.port())).or_insert(new);
        if flow.whose != whose {
            // The ports are used by a later subflow now.
            *flow = new;
        }
        let position = flow.sent.position(segment.seq.0);
        let data_position = match low_dsn(segment, position) {
            // The first data that is sent is the start of the data stream.
            Some(dsn) => self.data.entry(handle).or_insert(Count::from(dsn)).position(dsn),
            None => position,
        };
        let nearest =
            connection.view().samples().min_by_key(|sample| (sample.srtt.is_none(), sample.srtt));
        self.departures.push(Departure {
            at: now,
            whose,
            path: locate(tuple.remote).0,
            position,
            data_position,
            bytes: segment.payload.len() as u32,
            cwnd: window.cwnd,
            in_flight: window.in_flight,
            nearest: nearest.as_ref().map_or(window.ordinal, |sample| sample.ordinal),
            nearest_cwnd: nearest.map_or(window.cwnd, |sample| sample.cwnd_segments),
        });
    }

    /// Records a segment that arrives at a client.
    fn arrive(&mut self, now: Instant, client: SocketAddr, port: u16, segment: &Segment) {
        if segment.payload.is_empty() {
            return;
        }
        let Some(flow) = self.flows.get_mut(&(client, port)) else { return };
        let position = flow.came.position(segment.seq.0);
        let bytes = segment.payload.len() as u32;
        self.arrivals.push(Arrival { at: now, whose: flow.whose, position, bytes });
    }
}

/// Returns the low 32 bits of the DSN of a segment's first byte. `None` if the segment has no mapping, as in
/// plain TCP, and as in a first segment whose mapping is implied by `MP_CAPABLE`.
fn low_dsn(segment: &Segment, position: u64) -> Option<u32> {
    let Some(Dss { mapping: Some(mapping), .. }) = &segment.dss else { return None };
    let Mapping { dsn, ssn, length, .. } = mapping;
    let low = match dsn {
        MappingDsn::Long(dsn) => dsn.0 as u32,
        MappingDsn::Short(low) => *low,
    };
    // Positions begin at 0, and relative subflow sequence numbers begin at 1.
    (*length > 0).then(|| low.wrapping_add((position as u32 + 1).wrapping_sub(*ssn)))
}

impl World<'_> {
    /// Records the segment that a host sends, if segments are recorded.
    #[cold]
    #[inline(never)]
    pub(super) fn record_departure(&mut self, station: usize, sent: &Outgoing) {
        let Station { host, serves, route, .. } = &self.stations[station];
        if let (Some(record), Some(handle), true, None) =
            (&mut self.record, sent.connection, *serves, route)
        {
            let connection = host.endpoint().connection(handle);
            record.depart(self.now, handle.index(), connection, sent.tuple, self.blank.segment());
        }
    }

    /// Records a segment that arrives at a client, if segments are recorded.
    #[cold]
    #[inline(never)]
    pub(super) fn record_arrival(&mut self, client: SocketAddr, port: u16, segment: &Segment) {
        if let Some(record) = &mut self.record {
            record.arrive(self.now, client, port, segment);
        }
    }

    /// Samples the received data held by each client for each of its connections.
    #[cold]
    pub(super) fn sample_receivers(&mut self) {
        let clients = self.plan.clients as usize;
        for (client, Station { host, .. }) in self.stations[..clients].iter().enumerate() {
            let Some(session) = host.session().filter(|it| it.start <= self.now) else { continue };
            for (number, (_, connection)) in host.endpoint().connections().enumerate() {
                let held = connection.view().receiver();
                self.rows.receivers.push(ReceiverRow {
                    t_s: self.now.since(session.start).as_secs_f64(),
                    client: client as i64,
                    connection: number as i64,
                    in_order_bytes: held.in_order as i64,
                    unread_bytes: held.unread as i64,
                    ahead_bytes: held.ahead as i64,
                    subflow_bytes: held.in_subflows as i64,
                    window_bytes: held.window as i64,
                    limit_bytes: held.limit as i64,
                });
            }
        }
    }

    /// Adds the rows of all segments, after every subflow has got its number.
    #[cold]
    pub(super) fn report_segments(&mut self, record: &Record) {
        let clients = self.plan.clients as usize;
        let starts: Vec<Instant> = self.stations[..clients]
            .iter()
            .map(|it| it.host.session().map_or(self.begin, |session| session.start))
            .collect();
        let mut opened = vec![0i64; clients];
        let mut numbers = BTreeMap::new();
        let mut connections = Vec::new();
        for (handle, connection) in self.stations[clients].host.endpoint().connections() {
            let handle = handle.index();
            let client = self.served[handle];
            let served = Served { client, handle, connection };
            for subflow in connection.view().summaries() {
                let number = self.numbers.of(&served, subflow.ordinal);
                numbers.insert((handle, subflow.ordinal), number);
            }
            connections.push((client, opened[client as usize]));
            opened[client as usize] += 1;
        }
        let about = |(handle, _): Whose, at: Instant| {
            let (client, connection) = connections[handle];
            let t_s = at.since(starts[client as usize]).as_secs_f64();
            (t_s, i64::from(client), connection)
        };
        for one in &record.departures {
            let (t_s, client, connection) = about(one.whose, one.at);
            let number = |ordinal| numbers.get(&(one.whose.0, ordinal)).copied().unwrap_or(-1);
            self.rows.departures.push(DepartureRow {
                t_s,
                client,
                connection,
                subflow: number(one.whose.1),
                path: &self.plan.paths[usize::from(one.path)].name,
                position: one.position as i64,
                data_position: one.data_position as i64,
                bytes: i64::from(one.bytes),
                cwnd_segments: i64::from(one.cwnd),
                in_flight_segments: i64::from(one.in_flight),
                nearest: number(one.nearest),
                nearest_cwnd_segments: i64::from(one.nearest_cwnd),
            });
        }
        for one in &record.arrivals {
            let (t_s, client, connection) = about(one.whose, one.at);
            self.rows.arrivals.push(ArrivalRow {
                t_s,
                client,
                connection,
                subflow: numbers.get(&one.whose).copied().unwrap_or(-1),
                position: one.position as i64,
                bytes: i64::from(one.bytes),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Count;

    #[test]
    fn numbers_go_round_and_back() {
        let mut count = Count::from(u32::MAX - 1);
        assert_eq!(count.position(u32::MAX - 1), 0);
        assert_eq!(count.position(3), 5);
        // This number was seen before.
        assert_eq!(count.position(u32::MAX), 1);
        assert_eq!(count.position(4), 6);
        let far = (0..9u32).map(|n| count.position(4u32.wrapping_add(n << 30))).last();
        assert_eq!(far, Some(6 + (8u64 << 30)));
    }
}
