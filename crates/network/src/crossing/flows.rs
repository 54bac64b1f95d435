//! The background flows of a run, and the times at which they start, send datagrams and end.

use anabranch_host::Host;
use anabranch_plan::{Plan, PlanError};
use anabranch_plugin::Registry;
use anabranch_trace::Rows;
use anabranch_units::Instant;

use super::{Arrivals, CrossFlow, Source, Witnesses, hosts};

/// The next action of a background flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowDue {
    /// The next transfer of a group starts: call [`Flows::begin_transfer`].
    Transfer(usize),
    /// The time of a TCP flow is over: call [`Flows::end`].
    End(u32),
    /// A flow sends its next datagram: call [`Flows::send_datagram`].
    Datagram(u32),
}

/// The kind of packets of a flow.
#[derive(Debug)]
enum Carries<E> {
    /// Segments between two hosts.
    Connection(E),
    Datagrams(Box<Source>),
}

#[derive(Debug)]
struct Flow<E> {
    life: CrossFlow,
    carries: Carries<E>,
    /// The time of the next datagram, or the end of a TCP flow's time.
    due: Option<Instant>,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The flow's group.
    pub group: usize,
    /// The number of the datagram in its flow, from 1.
    pub number: u64,
    /// The size of the datagram in bytes, headers included.
    pub size: u64,
}

/// The host of a TCP flow that aborts the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aborts {
    /// The client, because the server has not received any segment of the connection.
    Client,
    /// The server, which sends the data.
    Server,
}

/// All background flows. `E` identifies the two hosts of a TCP flow: it contains the hosts, or their numbers.
#[derive(Debug)]
pub struct Flows<'a, E> {
    plan: &'a Plan,
    registry: Registry,
    begin: Instant,
    /// The flows that have started, by number.
    started: Vec<Flow<E>>,
    /// Groups whose flows start at random times, with the start of the next flow.
    arrivals: Vec<(Arrivals, Option<Instant>)>,
}

impl<'a, E> Flows<'a, E> {
    /// Creates an empty set of flows, in a run that started at `begin`; see [`super::beginnings`].
    pub fn new(plan: &'a Plan, registry: &Registry, begin: Instant) -> Self {
        let registry = registry.clone();
        Self { plan, registry, begin, started: Vec::new(), arrivals: Vec::new() }
    }

    /// Returns the number of the next flow.
    pub fn next_number(&self) -> u32 {
        self.started.len() as u32
    }

    /// Creates the client and the server of the next flow, which has this name.
    ///
    /// # Errors
    /// Returns an error for an unknown profile, part of a profile or plug-in.
    pub fn hosts(&self, life: &CrossFlow, name: &str) -> Result<[Host; 2], PlanError> {
        hosts(self.plan, &self.registry, life, (self.next_number(), name))
    }

    /// Adds a TCP flow between two hosts. Returns the action at its end, if its time is limited.
    pub fn add_connection(&mut self, life: CrossFlow, ends: E) -> Option<FlowDue> {
        let number = self.next_number();
        let due = life.stop;
        self.started.push(Flow { life, carries: Carries::Connection(ends), due });
        due.map(|_| FlowDue::End(number))
    }

    /// Adds a flow of datagrams. Returns the action of its first datagram.
    pub fn add_datagrams(&mut self, life: CrossFlow, source: Box<Source>) -> FlowDue {
        let number = self.next_number();
        let due = Some(life.start);
        self.started.push(Flow { life, carries: Carries::Datagrams(source), due });
        FlowDue::Datagram(number)
    }

    /// Adds a group whose first flow starts at `first`. Returns the action of that flow.
    pub fn add_arrivals(&mut self, arrivals: Arrivals, first: Instant) -> FlowDue {
        self.arrivals.push((arrivals, Some(first)));
        FlowDue::Transfer(self.arrivals.len() - 1)
    }

    /// Returns the time at which an action is due; `None` if it is not.
    pub fn due_at(&self, due: FlowDue) -> Option<Instant> {
        match due {
            FlowDue::Transfer(place) => self.arrivals[place].1,
            FlowDue::End(flow) | FlowDue::Datagram(flow) => self.started[flow as usize].due,
        }
    }

    /// Returns the earliest action and its time. The timers of hosts are not included.
    pub fn poll_timeout(&self) -> Option<(Instant, FlowDue)> {
        let transfers = (0..self.arrivals.len()).map(FlowDue::Transfer);
        let flows = self.started.iter().zip(0..).map(|(flow, number)| match flow.carries {
            Carries::Connection(_) => FlowDue::End(number),
            Carries::Datagrams(_) => FlowDue::Datagram(number),
        });
        transfers.chain(flows).filter_map(|due| Some((self.due_at(due)?, due))).min()
    }

    /// Starts the next transfer of a group at `now`. Returns the flow and its name; `None` if the group's
    /// time is over.
    pub fn begin_transfer(&mut self, place: usize, now: Instant) -> Option<(CrossFlow, String)> {
        let (arrivals, due) = &mut self.arrivals[place];
        let next = arrivals.next(self.plan, now);
        *due = next.as_ref().map(|(_, at)| *at);
        next.map(|(name, _)| (CrossFlow::new(arrivals.group, now, None), name))
    }

    /// Sends a flow's next datagram at `now`. Returns `None` if the flow's time is over.
    pub fn send_datagram(&mut self, flow: u32, now: Instant) -> Option<Sent> {
        let Flow { life, carries, due } = &mut self.started[flow as usize];
        life.last_event = Some(now);
        let Carries::Datagrams(source) = carries else { return None };
        if life.is_cut_off(now) {
            *due = None;
            return None;
        }
        *due = Some(source.send(life.start, now));
        Some(Sent { group: life.group, number: source.sent, size: source.size() })
    }

    /// Ends a TCP flow whose time is over. Returns the host that must abort the connection; `None` if all
    /// data was read.
    pub fn end<'h>(
        &'h mut self,
        flow: u32,
        hosts: impl FnOnce(&'h E) -> [&'h Host; 2],
    ) -> Option<Aborts> {
        let Flow { carries, due, .. } = &mut self.started[flow as usize];
        *due = None;
        let Carries::Connection(ends) = &*carries else { return None };
        let [client, server] = hosts(ends);
        let Witnesses { session, connection, .. } = Witnesses::of(client, server);
        if session.is_some_and(|session| session.finished) {
            return None;
        }
        Some(if connection.is_some() { Aborts::Server } else { Aborts::Client })
    }

    /// Records an event of a TCP flow, and whether its connection ended early.
    pub fn note<'h>(
        &'h mut self,
        flow: u32,
        now: Instant,
        hosts: impl FnOnce(&'h E) -> [&'h Host; 2],
    ) {
        let Flow { life, carries, .. } = &mut self.started[flow as usize];
        if let Carries::Connection(ends) = &*carries {
            let [client, server] = hosts(ends);
            life.note(now, Witnesses::of(client, server));
        }
    }

    /// Counts a datagram, sent at `sent`, that has passed all its links.
    pub fn arrive(&mut self, flow: u32, now: Instant, sent: Instant) {
        if let Some(source) = self.source(flow) {
            source.arrive(now, sent);
        }
    }

    /// Counts a datagram that a link or a router dropped.
    pub fn lose(&mut self, flow: u32) {
        if let Some(source) = self.source(flow) {
            source.lost += 1;
        }
    }

    fn source(&mut self, flow: u32) -> Option<&mut Source> {
        match &mut self.started.get_mut(flow as usize)?.carries {
            Carries::Datagrams(source) => Some(source),
            Carries::Connection(_) => None,
        }
    }

    /// Returns the start, the end and the group of a flow.
    pub fn life(&self, flow: u32) -> &CrossFlow {
        &self.started[flow as usize].life
    }

    /// Returns the hosts of a flow; `None` if the flow sends datagrams or does not exist.
    #[inline]
    pub fn ends(&self, flow: u32) -> Option<&E> {
        match &self.started.get(flow as usize)?.carries {
            Carries::Connection(ends) => Some(ends),
            Carries::Datagrams(_) => None,
        }
    }

    /// Returns the hosts of a flow, like [`Self::ends`], but mutably.
    pub fn ends_mut(&mut self, flow: u32) -> Option<&mut E> {
        match &mut self.started.get_mut(flow as usize)?.carries {
            Carries::Connection(ends) => Some(ends),
            Carries::Datagrams(_) => None,
        }
    }

    /// Adds a row for each subflow of the flows' connections at their servers, `t_s` seconds after the start
    /// of the plan.
    pub fn sample<'h>(&'h self, t_s: f64, hosts: impl Fn(&'h E) -> [&'h Host; 2], rows: &mut Rows) {
        for (index, flow) in self.started.iter().enumerate() {
            flow.life.sample(self.plan, t_s, index, flow.witnesses(&hosts), rows);
        }
    }

    /// Adds a row for each flow at the end of the run.
    ///
    /// # Errors
    /// Returns an error if a group's controller is not the name of a plug-in.
    pub fn report<'h>(
        &'h self,
        now: Instant,
        hosts: impl Fn(&'h E) -> [&'h Host; 2],
        rows: &mut Rows,
    ) -> Result<(), PlanError> {
        for (index, flow) in self.started.iter().enumerate() {
            let witnesses = flow.witnesses(&hosts);
            flow.life.report(self.plan, (self.begin, now), index, witnesses, rows)?;
        }
        Ok(())
    }
}

impl<E> Flow<E> {
    fn witnesses<'h>(&'h self, hosts: impl Fn(&'h E) -> [&'h Host; 2]) -> Witnesses<'h> {
        match &self.carries {
            Carries::Connection(ends) => {
                let [client, server] = hosts(ends);
                Witnesses::of(client, server)
            }
            Carries::Datagrams(source) => {
                Witnesses { source: Some(&**source), ..Witnesses::default() }
            }
        }
    }
}
