//! One host: its endpoint, its applications, and measurements around every call.

use std::net::{IpAddr, SocketAddr};

use anabranch_mptcp::{Connection, ConnectionHandle, Endpoint, FourTuple, Transmit};
use anabranch_units::{Instant, Seed};
use anabranch_wire::{Packet, parse_packet};
use bytes::Bytes;

use crate::application::Application;
use crate::case::{Case, PORT};
use crate::fault::SEGMENTS_AT_ONCE;
use crate::fault::{Fault, memory_cap};
use crate::flight::{CLIENT, SERVER};
use crate::meter::Meter;

/// One host.
#[derive(Debug)]
pub(crate) struct Side {
    index: usize,
    pub(crate) endpoint: Endpoint,
    /// One application per connection.
    pub(crate) applications: Vec<Application>,
    meter: Meter,
    /// The bytes that the endpoint has allocated.
    held: i64,
    pub(crate) most_held: i64,
    pub(crate) silent: bool,
    pub(crate) acks_only: bool,
}

impl Side {
    pub(crate) fn new(case: &Case, index: usize, meter: Meter) -> Self {
        let seed = Seed { seed: case.seed, run: case.twin as u64 };
        let mut held = 0;
        let endpoint = meter.around(&mut held, || {
            let name = ["client", "server"][index];
            let mut endpoint = Endpoint::new(name, seed);
            let config = case.configs[index].clone();
            if index == SERVER {
                for any in [IpAddr::from([0; 4]), IpAddr::from([0; 16])] {
                    let address = SocketAddr::new(any, PORT);
                    endpoint.listen(address, config.clone()).expect("the port is free");
                }
            } else {
                let opened = endpoint.connect(Instant::ZERO, config);
                opened.expect("the tables' own names are known");
            }
            endpoint
        });
        let mut side = Self {
            index,
            endpoint,
            applications: Vec::new(),
            meter,
            held,
            most_held: 0,
            silent: false,
            acks_only: false,
        };
        side.adopt(case);
        side
    }

    /// Adds an application for every new connection.
    fn adopt(&mut self, case: &Case) {
        while self.applications.len() < self.endpoint.len() {
            self.applications.push(Application::new(case.parts[self.index], self.index));
        }
    }

    /// Returns the first connection, which connects the two hosts.
    pub(crate) fn first(&self) -> Option<(&Connection, &Application)> {
        let first = self.endpoint.connections().next().map(|(_, connection)| connection);
        first.zip(self.applications.first())
    }

    /// Calls a function with a connection.
    pub(crate) fn drive(&mut self, number: usize, call: impl FnOnce(&mut Connection)) {
        if let Some(handle) = self.handle(number) {
            let Self { endpoint, meter, held, .. } = self;
            meter.around(held, || call(endpoint.connection_mut(handle)));
        }
    }

    /// Returns the connection of an application. Both have the same number, because connections are not freed
    /// during a run.
    fn handle(&self, number: usize) -> Option<ConnectionHandle> {
        self.endpoint.connections().nth(number).map(|(handle, _)| handle)
    }

    /// Passes a packet to the endpoint.
    pub(crate) fn take(&mut self, now: Instant, case: &Case, bytes: &[u8]) {
        let Self { endpoint, meter, held, .. } = self;
        meter.around(held, || {
            // A copy, so that its memory counts for this endpoint.
            let packet = parse_packet(&Bytes::copy_from_slice(bytes));
            let Ok(Packet { source, destination, segment }) = packet else { return };
            let tuple = FourTuple {
                local: (destination, segment.destination_port).into(),
                remote: (source, segment.source_port).into(),
            };
            endpoint.handle_segment(now, tuple, &segment);
        });
        self.adopt(case);
    }

    /// Returns the next time at which the endpoint or an application must be called.
    pub(crate) fn wake(&mut self) -> Option<Instant> {
        let timer = self.endpoint.poll_timeout();
        let all = self.endpoint.connections().zip(&self.applications);
        let reads = all.filter_map(|((_, connection), application)| application.wake(connection));
        reads.chain(timer).min()
    }

    /// Fires the timers that are due.
    pub(crate) fn fire(&mut self, now: Instant) {
        let Self { endpoint, meter, held, .. } = self;
        meter.around(held, || endpoint.handle_timeout(now));
    }

    /// Runs applications and connections until they have nothing to send. `look` checks each
    /// segment.
    pub(crate) fn settle(
        &mut self,
        now: Instant,
        out: &mut Vec<Transmit>,
        mut look: impl FnMut(&Transmit) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let Self { endpoint, applications, meter, held, .. } = self;
        let before = out.len();
        let handles: Vec<_> = endpoint.connections().map(|(handle, _)| handle).collect();
        for turn in 0.. {
            let mut again = false;
            for (handle, application) in handles.iter().zip(applications.iter_mut()) {
                let connection = meter.around(held, || endpoint.connection_mut(*handle));
                again |= meter.around(held, || application.act(now, connection));
                while let Some(event) = meter.around(held, || connection.poll_event()) {
                    application.take_event(event);
                    again = true;
                }
            }
            while let Some(transmit) = meter.around(held, || endpoint.poll_transmit(now)) {
                look(&transmit)?;
                out.push(own(transmit, *meter, held));
                again = true;
                if out.len() - before > SEGMENTS_AT_ONCE as usize {
                    return Err(too_many(now, out.len() - before));
                }
            }
            if !again {
                return Ok(());
            }
            if turn > SEGMENTS_AT_ONCE {
                return Err(too_many(now, turn as usize));
            }
        }
        Ok(())
    }

    /// Checks the used memory against the limit that follows from the configuration.
    pub(crate) fn judge_memory(&mut self, now: Instant, case: &Case) -> Result<(), Fault> {
        self.most_held = self.most_held.max(self.held);
        let connections = self.endpoint.len();
        let all = self.endpoint.connections();
        let subflows: usize =
            all.map(|(_, connection)| connection.view().summaries().count()).sum();
        let config = &case.configs[self.index];
        let cap = memory_cap(
            connections as u64,
            subflows as u64,
            config.receive_buffer_max,
            config.send_buffer_max,
        );
        if self.held > cap as i64 {
            let who = if self.index == CLIENT { "client" } else { "server" };
            let detail = format!(
                "{who} holds {} bytes with {} connections and {subflows} subflows, at most {cap}",
                self.held, connections
            );
            return Err(Fault { rule: "memory", detail, at: now });
        }
        Ok(())
    }
}

/// Copies a segment into separate memory. A clone would share the payload, and its memory would count for the
/// endpoint that frees it last.
fn own(transmit: Transmit, meter: Meter, held: &mut i64) -> Transmit {
    let mut copy = transmit.clone();
    copy.segment.payload = Bytes::copy_from_slice(&transmit.segment.payload);
    meter.around(held, || drop(transmit));
    copy
}

fn too_many(now: Instant, seen: usize) -> Fault {
    Fault { rule: "loop", detail: format!("{seen} outputs for one input, and no end"), at: now }
}
