//! The network of a plan, which forwards packets over links to the hosts and applies the plan's changes.

use anabranch_link::{DropReason, Fate, LinkStats, Queued};
use anabranch_plan::{
    ChangePlan, Happening, InterfacePlan, Links, Plan, PlanError, StripsPlan, link_row,
};
use anabranch_trace::{EventRow, Rows};
use anabranch_units::{ByteCount, Duration, Instant, Seed};

use crate::interfaces::{EndpointNews, Interfaces};
use crate::notices::Notices;
use crate::packet::{Packet, Router};
use crate::ports::{Port, ports, way_back};
use crate::routes::{Route, routes};

/// An action of the network. If several are due at the same time, they are done in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A medium delivers or drops packets: call [`Network::poll_medium`].
    Medium(usize),
    /// The plan changes a link or an interface: call [`Network::handle_event`].
    Event,
    /// A router's message arrives at the sender of a packet: call [`Network::poll_notice`].
    Notice,
}

/// The fate of a packet on one link.
#[derive(Debug)]
pub enum Passage<P> {
    /// The link delivered the packet, and the caller forwards it: [`Network::forward`].
    Passed {
        /// The link.
        link: usize,
        /// The packet.
        packet: P,
        /// Whether the link's queue marked the packet (CE, RFC 3168).
        marked: bool,
        /// Whether the packet is a copy that the link made.
        copy: bool,
        /// Whether the link changed the payload.
        changed: bool,
    },
    /// The link dropped the packet.
    Dropped {
        /// The link.
        link: usize,
        /// The packet.
        packet: P,
        /// The reason.
        why: DropReason,
        /// Whether the packet is a copy that the link made.
        copy: bool,
    },
}

/// The result of forwarding a packet.
#[derive(Debug)]
pub enum Onward<P> {
    /// The packet is on a link of this medium.
    Entered {
        /// The medium.
        medium: usize,
        /// Whether the medium's next timeout may be earlier than before. It may, even while a
        /// delivery is pending.
        eager: bool,
    },
    /// The packet exceeds the MTU of its next link. If its sender is notified, [`Due::Notice`] may be due
    /// earlier.
    TooLarge {
        /// The link.
        link: usize,
        /// The packet.
        packet: P,
    },
    /// The packet has reached the host at the end of its route.
    Arrived(P),
    /// The packet has reached a client's interface that is down.
    Refused(P),
    /// A firewall at the start of the path dropped the packet.
    Blocked(P),
}

/// A change of the clients' interfaces on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceChange {
    /// The index of the path.
    pub path: usize,
    /// The change.
    pub what: InterfacePlan,
}

/// The effect of an event of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happened {
    /// A link changed. [`Network::due_at`] of its medium may have changed.
    Link {
        /// The link's medium; `None` if the change affects only the router in front of the link.
        medium: Option<usize>,
    },
    /// The clients' interfaces on a path changed.
    Interface {
        /// The change.
        change: InterfaceChange,
        /// The notice for the MPTCP of every client ([`Interfaces::notify`]). Always `None` if the clients
        /// are kernels.
        news: Option<EndpointNews>,
    },
}

/// The links and routes of a plan, with packets in them.
pub struct Network<'a, P: Packet> {
    plan: &'a Plan,
    /// The start of the plan's time.
    begin: Instant,
    links: Links<P>,
    /// The routers' ports to the links, in the order of the links.
    ports: Vec<Port>,
    /// The routes of the paths, followed by those of the groups of background flows.
    routes: Vec<Route>,
    interfaces: Interfaces,
    /// Whether the clients are kernels, which have their own interfaces.
    kernel_clients: bool,
    next_event: usize,
    notices: Notices<P::Notice>,
    /// The number of segments from which the MPTCP options were removed, by path.
    stripped: Vec<u64>,
    /// The number of SYNs that a firewall dropped, by path.
    blocked: Vec<u64>,
}

impl<'a, P: Packet> Network<'a, P> {
    /// Creates the idle network of a plan whose time starts at `begin`.
    ///
    /// # Errors
    /// Returns an error for an unknown link or path, and for invalid settings of a link.
    pub fn new(plan: &'a Plan, begin: Instant) -> Result<Self, PlanError> {
        let links = Links::build(&plan.links, Seed { seed: plan.seed, run: plan.run })?;
        let (paths, crossing) = routes(plan)?;
        plan.check_events()?;
        Ok(Self {
            plan,
            begin,
            links,
            ports: ports(plan),
            interfaces: Interfaces::new(plan, &paths),
            kernel_clients: false,
            routes: paths.into_iter().chain(crossing).collect(),
            next_event: 0,
            notices: Notices::default(),
            stripped: vec![0; plan.paths.len()],
            blocked: vec![0; plan.paths.len()],
        })
    }

    /// Makes the clients kernels. Their interfaces are not simulated, so every packet passes.
    #[must_use]
    pub fn with_kernel_clients(mut self) -> Self {
        self.kernel_clients = true;
        self
    }

    /// Puts a packet at the start of its route. A path's middlebox may remove its MPTCP options there,
    /// and a firewall may drop it. This does not check the client's interface; see [`Self::passes`].
    // A run of 20 MB calls it 28,314 times.
    #[inline(always)]
    pub fn send(&mut self, now: Instant, mut packet: P) -> Onward<P> {
        let route = packet.journey().route();
        if let Some(path) = self.plan.paths.get(route)
            && (path.strips_mptcp != StripsPlan::NONE || path.drops_mptcp)
        {
            self.stripped[route] += u64::from(packet.strip(path.strips_mptcp));
            if path.drops_mptcp && packet.is_mptcp_syn() {
                self.blocked[route] += 1;
                return Onward::Blocked(packet);
            }
        }
        self.forward(now, packet)
    }

    /// Puts a packet on the next link of its route, or delivers it to the host at the end.
    // A run of 20 MB calls it 56,530 times.
    #[inline(always)]
    pub fn forward(&mut self, now: Instant, packet: P) -> Onward<P> {
        let journey = packet.journey();
        let links = self.routes[journey.route()].links(journey.is_down());
        let Some(&link) = links.get(journey.hop()) else {
            let passes = !journey.is_down() || self.passes(journey.route());
            return if passes { Onward::Arrived(packet) } else { Onward::Refused(packet) };
        };
        let size = packet.size();
        if !self.ports[link].fits(size) {
            self.refuse_large(now, link, &packet);
            return Onward::TooLarge { link, packet };
        }
        let (medium, eager) = self.links.enter(now, link, packet, ByteCount(size), P::label);
        Onward::Entered { medium, eager }
    }

    /// Returns the next packet on a medium whose fate is known at `now`.
    #[inline]
    pub fn poll_medium(&mut self, now: Instant, medium: usize) -> Option<Passage<P>> {
        let (link, fate) = self.links.poll_fate(now, medium)?;
        Some(match fate {
            Fate::Delivered { mut packet, marked, copy, damage, .. } => {
                if marked {
                    packet.mark();
                }
                let changed = damage.is_some_and(|damage| packet.damage(damage));
                if changed {
                    self.ports[link].count_change();
                }
                packet.journey_mut().advance();
                Passage::Passed { link, packet, marked, copy, changed }
            }
            Fate::Dropped { packet, why, copy, .. } => Passage::Dropped { link, packet, why, copy },
        })
    }

    /// Returns the next wake-up of a medium if it has nothing to report at `now`; `None` if it must be
    /// polled.
    #[inline]
    pub fn quiet_until(&self, now: Instant, medium: usize) -> Option<Instant> {
        self.links.quiet_until(now, medium)
    }

    /// Drops a packet that exceeds a link's MTU, even if it allows fragmentation. The sender is notified,
    /// unless the link's router sends no ICMP. The message takes the propagation delay of all links on the
    /// way back, and waits in no queue. It is lost if one of those links is down.
    #[cold]
    fn refuse_large(&mut self, now: Instant, link: usize, packet: &P) {
        let Some(mtu) = self.ports[link].reject() else { return };
        let journey = packet.journey();
        let route = &self.routes[journey.route()];
        let router = Router { route: journey.route(), family: route.family, mtu };
        if let Some(delay) = way_back(&self.ports, route, journey.is_down())
            && let Some(notice) = packet.notice(router)
        {
            self.notices.send(now + delay, journey, notice);
        }
    }

    /// Returns the next message of a router that has arrived by `now`. Messages to an interface that is down
    /// are dropped.
    pub fn poll_notice(&mut self, now: Instant) -> Option<P::Notice> {
        while let Some((journey, notice)) = self.notices.poll(now) {
            if journey.is_down() || self.passes(journey.route()) {
                return Some(notice);
            }
        }
        None
    }

    /// Applies the plan's next change and adds its row. Returns `None` if the event names no link or path.
    pub fn handle_event(&mut self, now: Instant, rows: &mut Rows) -> Option<Happened> {
        let event = self.plan.events.get(self.next_event)?;
        self.next_event += 1;
        let (name, what, happened) = match event.happening()? {
            Happening::Link(name, change) => {
                let link = self.plan.links.iter().position(|link| link.name == name)?;
                (name, change.describe(), self.change_link(now, link, change))
            }
            Happening::Interface(name, what) => {
                let path = self.plan.paths.iter().position(|path| path.name == name)?;
                (name, what.name().to_owned(), self.change_interface(path, what))
            }
        };
        let t_s = now.since(self.begin).as_secs_f64();
        rows.events.push(EventRow { t_s, link: name, what: &what });
        Some(happened)
    }

    fn change_link(&mut self, now: Instant, link: usize, change: ChangePlan) -> Happened {
        self.ports[link].apply(change);
        let medium = change.change().map(|change| self.links.set(now, link, change));
        Happened::Link { medium }
    }

    fn change_interface(&mut self, path: usize, what: InterfacePlan) -> Happened {
        let news = if self.kernel_clients { None } else { self.interfaces.change(path, what) };
        Happened::Interface { change: InterfaceChange { path, what }, news }
    }

    /// Returns the time at which an action is due; `None` if it is not.
    #[inline]
    pub fn due_at(&self, due: Due) -> Option<Instant> {
        match due {
            Due::Medium(medium) => self.links.poll_timeout(medium),
            Due::Event => {
                let event = self.plan.events.get(self.next_event)?;
                Some(self.begin + Duration::from_nanos(event.at_ns))
            }
            Due::Notice => self.notices.poll_timeout(),
        }
    }

    /// Returns the earliest action and its time.
    pub fn poll_timeout(&self) -> Option<(Instant, Due)> {
        let media = (0..self.links.media()).map(Due::Medium);
        let all = media.chain([Due::Event, Due::Notice]);
        all.filter_map(|due| Some((self.due_at(due)?, due))).min()
    }

    /// Returns the number of media that carry the links.
    pub fn media(&self) -> usize {
        self.links.media()
    }

    /// Returns the route of a path or of a group of background flows.
    #[inline]
    pub fn route(&self, route: usize) -> &Route {
        &self.routes[route]
    }

    /// Returns the route number of a group of background flows.
    pub fn crossing(&self, group: usize) -> u16 {
        (self.plan.paths.len() + group) as u16
    }

    /// Returns whether a route belongs to a group of background flows, and not to a path.
    #[inline]
    pub fn is_crossing(&self, route: usize) -> bool {
        route >= self.plan.paths.len()
    }

    /// Returns the interfaces of the clients.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// Returns whether the client's interface on a route is up. Hosts of background flows have no interface,
    /// so their packets always pass.
    #[inline]
    pub fn passes(&self, route: usize) -> bool {
        self.is_crossing(route) || self.interfaces.is_up(route)
    }

    /// Returns the packets in all queues of a path towards the client.
    pub fn queued(&self, now: Instant, path: usize) -> Queued {
        let links = self.routes[path].links(true).iter();
        links.map(|link| self.links.queued(now, *link)).fold(Queued::default(), |sum, of| Queued {
            packets: sum.packets + of.packets,
            bytes: ByteCount(sum.bytes.0 + of.bytes.0),
        })
    }

    /// Returns the number of segments from which the MPTCP options were removed, by path.
    pub fn stripped(&self) -> &[u64] {
        &self.stripped
    }

    /// Returns the number of SYNs that a firewall dropped, by path.
    pub fn blocked(&self) -> &[u64] {
        &self.blocked
    }

    /// Returns the name, the totals and the number of packets inside, for each link.
    pub fn totals(&self) -> impl Iterator<Item = (&str, &LinkStats, u64)> {
        self.links.totals()
    }

    /// Adds the row of each link at the end of the run.
    pub fn report(&self, rows: &mut Rows) {
        for ((name, stats, inside), port) in self.links.totals().zip(&self.ports) {
            let mut row = link_row(name, stats, inside);
            port.report(&mut row);
            rows.links.push(row);
        }
    }
}
