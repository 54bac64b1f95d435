//! Background flows with real packets: hosts and sources of datagrams inside the emulator. Their packets
//! share the links of the plan with the client's packets and never leave the emulator.

use std::collections::VecDeque;

use anabranch_host::Host;
use anabranch_mptcp::{FourTuple, earliest};
use anabranch_network::crossing::{Aborts, Beginning, CrossFlow, FlowDue, Flows, Sent, beginnings};
use anabranch_plan::addresses::{cross_addresses, locate};
use anabranch_plan::{Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::Rows;
use anabranch_units::Instant;
use anabranch_wire::{EmitError, emit_packet, parse_packet};
use bytes::Bytes;

use crate::header::datagram;
use crate::icmp::{self, Heard};
use crate::network::Datagram;

/// The two hosts of a TCP flow: a client that reads and a server that sends.
type Pair = [Box<Host>; 2];

fn hosts(pair: &Pair) -> [&Host; 2] {
    pair.each_ref().map(|host| &**host)
}

/// A packet that enters the route of a group.
pub(super) struct Departure {
    /// The number of the group in the plan.
    pub(super) group: usize,
    /// Whether the packet is for the flow's client.
    pub(super) down: bool,
    /// The datagram that the packet contains, if there is one.
    pub(super) datagram: Option<Datagram>,
}

/// The background flows of a run.
pub(super) struct Crossing<'a> {
    plan: &'a Plan,
    flows: Flows<'a, Pair>,
    /// Datagrams to send, with the numbers of their flows.
    datagrams: VecDeque<(u32, Sent)>,
}

impl<'a> Crossing<'a> {
    /// Creates the background flows of a plan.
    ///
    /// # Errors
    /// Returns an error if a profile, a part of a profile or a plug-in has an unknown name.
    pub(super) fn new(
        plan: &'a Plan,
        registry: &Registry,
        begin: Instant,
    ) -> Result<Self, PlanError> {
        let flows = Flows::new(plan, registry, begin);
        let mut all = Self { plan, flows, datagrams: VecDeque::new() };
        for beginning in beginnings(plan, begin) {
            match beginning {
                Beginning::Connection(flow, name) => all.add(flow, &name)?,
                Beginning::Datagrams(flow, source) => {
                    all.flows.add_datagrams(flow, source);
                }
                Beginning::Arrivals(arrivals, first) => {
                    all.flows.add_arrivals(*arrivals, first);
                }
            }
        }
        Ok(all)
    }

    fn add(&mut self, flow: CrossFlow, name: &str) -> Result<(), PlanError> {
        let pair = self.flows.hosts(&flow, name)?.map(Box::new);
        self.flows.add_connection(flow, pair);
        Ok(())
    }

    /// Handles all events that were due by `now`.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::new`].
    pub(super) fn handle_timeout(&mut self, now: Instant) -> Result<(), PlanError> {
        for flow in 0..self.flows.next_number() {
            self.handle_timers(flow, now);
        }
        while let Some((at, due)) = self.flows.poll_timeout().filter(|(at, _)| *at <= now) {
            match due {
                FlowDue::Transfer(place) => {
                    if let Some((flow, name)) = self.flows.begin_transfer(place, at) {
                        self.add(flow, &name)?;
                    }
                }
                FlowDue::End(flow) => self.end(flow, now),
                FlowDue::Datagram(flow) => {
                    let sent = self.flows.send_datagram(flow, at);
                    self.datagrams.extend(sent.map(|sent| (flow, sent)));
                }
            }
        }
        Ok(())
    }

    /// Handles the timers of a flow's hosts. A connection can end by a timer alone, for example after its
    /// last retransmission timeout.
    fn handle_timers(&mut self, flow: u32, now: Instant) {
        if self.flows.life(flow).start > now {
            return;
        }
        let mut fired = false;
        for host in self.flows.ends_mut(flow).into_iter().flatten() {
            while host.handle_timeout(now) {
                fired = true;
            }
        }
        if fired {
            self.flows.note(flow, now, hosts);
        }
    }

    /// Ends a TCP flow whose time is over.
    fn end(&mut self, flow: u32, now: Instant) {
        let aborts = self.flows.end(flow, hosts);
        let (Some(aborts), Some([client, server])) = (aborts, self.flows.ends_mut(flow)) else {
            return;
        };
        match aborts {
            Aborts::Client => client.abort(),
            Aborts::Server => server.abort(),
        }
        self.flows.note(flow, now, hosts);
    }

    /// Handles a packet or a router's message that has crossed its links. The receiver may keep a slice of
    /// it.
    pub(super) fn handle_packet(&mut self, now: Instant, down: bool, bytes: &Bytes) {
        let flow = if let Ok(packet) = parse_packet(bytes) {
            let tuple = FourTuple::of_receiver(&packet);
            let Some((host, flow)) = self.host(tuple, down) else { return };
            host.handle_segment(now, tuple, &packet.segment);
            flow
        } else if let Some(Heard::PathMtu { tuple, mtu, seq }) = icmp::hear(bytes) {
            let Some((host, flow)) = self.host(tuple, down) else { return };
            if host.handle_path_mtu(now, tuple, mtu, seq).is_none() {
                return;
            }
            flow
        } else {
            return;
        };
        self.flows.note(flow, now, hosts);
    }

    /// Returns the client of a flow (`down`) or its server, for the addresses of the receiver.
    fn host(&mut self, tuple: FourTuple, down: bool) -> Option<(&mut Host, u32)> {
        let (_, flow) = locate(if down { tuple.local } else { tuple.remote });
        let [client, server] = self.flows.ends_mut(flow)?;
        Some((if down { client } else { server }, flow))
    }

    /// Handles a datagram that has reached the end of its links.
    pub(super) fn arrive(&mut self, now: Instant, datagram: Datagram) {
        self.flows.arrive(datagram.flow, now, datagram.sent);
    }

    /// Handles the loss of a datagram on a link or at a router.
    pub(super) fn lose(&mut self, datagram: Datagram) {
        self.flows.lose(datagram.flow);
    }

    /// Writes the next packet of any flow to `packet`. Returns `None` if no flow has a packet until the next
    /// input.
    ///
    /// # Errors
    /// Returns an error if a segment cannot be encoded, which is a bug of our endpoint.
    pub(super) fn poll_transmit(
        &mut self,
        now: Instant,
        packet: &mut Vec<u8>,
    ) -> Result<Option<Departure>, EmitError> {
        if let Some((flow, sent)) = self.datagrams.pop_front() {
            let family = self.plan.cross_traffic[sent.group].family;
            datagram(cross_addresses(family, flow), sent.size as usize, packet);
            // The delay is that of the links. The lateness of the emulator does not count.
            let datagram = Some(Datagram { flow, sent: now });
            return Ok(Some(Departure { group: sent.group, down: true, datagram }));
        }
        for flow in 0..self.flows.next_number() {
            let &CrossFlow { start, group, .. } = self.flows.life(flow);
            if start > now {
                continue;
            }
            let Some([client, server]) = self.flows.ends_mut(flow) else { continue };
            let request = client.poll_transmit(now).map(|sent| (sent, false));
            let sent = request.or_else(|| Some((server.poll_transmit(now)?, true)));
            let Some((sent, down)) = sent else { continue };
            emit_packet(sent.local.ip(), sent.remote.ip(), &sent.segment, packet)?;
            self.flows.note(flow, now, hosts);
            return Ok(Some(Departure { group, down, datagram: None }));
        }
        Ok(None)
    }

    /// Returns the time at which [`Self::handle_timeout`] must be called, after [`Self::poll_transmit`] has
    /// returned `None`.
    pub(super) fn poll_timeout(&mut self, now: Instant) -> Option<Instant> {
        let mut next = self.flows.poll_timeout().map(|(at, _)| at);
        for flow in 0..self.flows.next_number() {
            let life = self.flows.life(flow);
            let (start, begun) = (life.start, life.start <= now && life.last_event.is_some());
            let Some([client, server]) = self.flows.ends_mut(flow) else { continue };
            let timers = if begun {
                earliest(client.poll_timeout(), server.poll_timeout())
            } else {
                Some(start)
            };
            next = earliest(next, timers);
        }
        next
    }

    /// Adds one row for each flow whose server has a connection.
    pub(super) fn sample(&self, t_s: f64, rows: &mut Rows) {
        self.flows.sample(t_s, hosts, rows);
    }

    /// Adds one row for each flow at the end of the run.
    ///
    /// # Errors
    /// Returns an error if a controller has an unknown name.
    pub(super) fn report(&self, now: Instant, rows: &mut Rows) -> Result<(), PlanError> {
        self.flows.report(now, hosts, rows)
    }
}

#[cfg(test)]
mod tests {
    use anabranch_trace::Column;
    use anabranch_units::Duration;

    use super::*;

    /// Returns a plan with one background flow over a link in each direction.
    fn plan() -> Plan {
        let text = r#"{"scenario":"t","seed":1,"run":0,"application":{"kind":"bulk"},
            "transport":{"scheduler":"linux","congestion":"cubic","path_manager":"full-mesh",
              "receive_buffer_initial":131072,"receive_buffer_max":1048576,"send_buffer_max":4194304,"mss":1460},
            "links":[{"name":"down","rate_bps":12000000,"delay_ns":0},{"name":"up","rate_bps":12000000,"delay_ns":0}],
            "paths":[{"name":"p","down":["down"],"up":["up"]}],"time_limit_ns":1,
            "cross_traffic":[{"name":"c","kind":"bulk","congestion":"cubic","count":1,"start_ns":0,"data":["down"],"acks":["up"]}]}"#;
        Plan::from_json(text).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Handles the events that are due at `now`. If `open`, each packet arrives at once. Otherwise it is
    /// lost.
    fn turn(crossing: &mut Crossing<'_>, now: Instant, open: bool) -> bool {
        crossing.handle_timeout(now).expect("names that are known");
        let mut bytes = Vec::new();
        let Some(sent) = crossing.poll_transmit(now, &mut bytes).expect("a segment that fits")
        else {
            return false;
        };
        if open {
            crossing.handle_packet(now, sent.down, &bytes.into());
        }
        true
    }

    #[test]
    fn a_flow_whose_server_gives_up_without_a_packet_is_broken() {
        let (plan, begin) = (plan(), Instant::from_nanos(1_000_000_000));
        let mut crossing = Crossing::new(&plan, &Registry::TABLES, begin).expect("a plan");
        // The handshake is complete and some data has arrived before all packets are lost.
        for number in 0..20 {
            turn(&mut crossing, begin + Duration::from_millis(number), true);
        }
        // A connection of Linux gives up after 924.6 s (tcp_retries2 = 15). After that, no timer is set.
        let mut now = begin + Duration::from_millis(20);
        while let Some(at) = crossing.poll_timeout(now) {
            now = now.max(at);
            while turn(&mut crossing, now, false) {}
            assert!(now.since(begin).as_secs_f64() < 5000.0, "it never gives up");
        }
        let mut rows = Rows::default();
        crossing.report(now, &mut rows).expect("names that are known");
        let tables = rows.into_tables();
        let table = tables.iter().find(|table| table.name == "cross_traffic").expect("a table");
        let Some(Column::Text(fates)) = table.column("fate") else { panic!("a column of text") };
        assert_eq!(fates.iter().collect::<Vec<_>>(), ["broken"]);
    }
}
