//! The configuration of an endpoint and its host.

use std::net::{IpAddr, SocketAddr};

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant};
use anabranch_wire::Packet;

use crate::path_manager::Candidate;
use crate::profile::Stack;

/// The longest retransmission timeout unless another one is set (`TCP_RTO_MAX`).
pub const RTO_MAX_DEFAULT: Duration = Duration::from_secs(120);
/// The least that it may be set to (`TCP_RTO_MAX_MIN_SEC`).
pub const RTO_MAX_LEAST: Duration = Duration::from_secs(1);
/// The smallest segment, TCP options and all, whatever the peer asks for: 40 bytes of options and 8 of
/// payload (`TCP_MIN_SND_MSS`; CVE-2019-11479).
pub(crate) const MSS_MIN: u16 = 48;
/// The bytes by which an IPv6 header is longer than one of IPv4 (RFC 8200 section 3, RFC 791 section 3.1).
const IPV6_EXCESS: u16 = 20;

/// Ticks that a timer may be set for to be in the first level of the wheel (`LVL_START(1)`).
const WHEEL_LEVEL: u64 = 63;
/// Each level tells apart times of 2^3 of those of the level before (`LVL_CLK_SHIFT`).
const WHEEL_SHIFT: u32 = 3;
/// The shift of the last level (`LVL_DEPTH` 9).
const WHEEL_DEEPEST: u32 = 24;

/// What a real host adds to the protocol: clocks that tick and memory that is accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// Timers fire on multiples of it (a jiffy: 4 ms where HZ is 250), long ones on multiples of several
    /// ([`Self::expiry`]); zero is exact time.
    pub timer_tick: Duration,
    /// Memory a send buffer grows by for each segment of the window (`tcp_sndbuf_expand`'s
    /// `per_mss`), bytes: 1460 of payload, headers and `skb_shared_info` in a buffer of 2 KiB, and
    /// its `sk_buff`. Kernels built for wireless networks reserve more for headers and have 4352.
    pub send_memory_per_segment: u64,
    /// Memory that a received full segment takes, bytes: a 1500-byte packet in a 2 KiB buffer with
    /// its `sk_buff` (`truesize`). What of it is payload tells how much window a buffer makes.
    pub receive_memory_per_segment: u64,
    /// The most bytes of a piece that written data is kept in and handed to subflows by
    /// (`mptcp_data_frag`): a 32 KiB page fragment less its header. A piece begins in what is left of the
    /// page that the last one ended in.
    pub send_fragment: u64,
    /// Memory that a socket buffer on the send queue takes besides its payload, bytes: its head and
    /// its `sk_buff` (`tcp_stream_alloc_skb`).
    pub send_memory_per_buffer: u64,
    /// Programs and packets share one processor: an application that an acknowledgement wakes writes before another
    /// subflow than the acknowledged one is given data (`mptcp_subflow_delegate`). Where there are several the two
    /// happen at once.
    pub one_processor: bool,
}

impl Default for HostModel {
    fn default() -> Self {
        Self {
            timer_tick: Duration::from_millis(4),
            send_memory_per_segment: 2048 + 256,
            receive_memory_per_segment: 2048 + 256,
            send_fragment: 32_768 - 40,
            send_memory_per_buffer: 576 + 256,
            one_processor: false,
        }
    }
}

impl HostModel {
    /// `now` as the tick clock shows it.
    pub fn coarse(&self, now: Instant) -> Instant {
        let tick = self.timer_tick.as_nanos();
        let ticks = now.as_nanos().checked_div(tick);
        ticks.map_or(now, |ticks| Instant::from_nanos(ticks * tick))
    }

    /// A span in whole ticks, rounded up (`usecs_to_jiffies`).
    pub fn ticks(&self, span: Duration) -> Duration {
        span.in_whole_ticks(self.timer_tick)
    }

    /// How much time lies between two moments by the tick clock.
    pub(crate) fn ticks_between(&self, from: Instant, to: Instant) -> Duration {
        self.coarse(to).since(self.coarse(from))
    }

    /// When a timer set at `now` for `span` fires: never early, on the next multiple of what its level of the timer
    /// wheel tells apart. That is a tick below 63 of them, and eight times as much for each eight times as long
    /// (`calc_wheel_index`).
    pub fn expiry(&self, now: Instant, span: Duration) -> Instant {
        self.timer(now, span).1
    }

    /// For when a timer set at `now` for `span` is set (`expires`), and when it fires.
    #[inline(always)]
    pub(crate) fn timer(&self, now: Instant, span: Duration) -> (Instant, Instant) {
        let tick = self.timer_tick.as_nanos();
        if tick == 0 {
            return (now + span, now + span);
        }
        let ticks = span.as_nanos().div_ceil(tick);
        let mut shift = 0;
        while shift < WHEEL_DEEPEST && ticks >= WHEEL_LEVEL << shift {
            shift += WHEEL_SHIFT;
        }
        let at = now.as_nanos() / tick + ticks;
        let fires = ((at >> shift) + 1) << shift;
        (Instant::from_nanos(at * tick), Instant::from_nanos(fires * tick))
    }
}

/// What a host does with explicit congestion notification (RFC 3168; `net.ipv4.tcp_ecn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// Nothing (0).
    Off,
    /// Asks for it in every SYN of its own and accepts it in those of others (1).
    Request,
    /// Accepts it where the other side asks (2).
    #[default]
    Accept,
}

impl EcnMode {
    /// Every mode with its name in scenarios.
    pub const NAMED: [(&'static str, Self); 3] =
        [("off", Self::Off), ("request", Self::Request), ("accept", Self::Accept)];
}

/// The configuration of one side of a connection.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Offer or accept MPTCP; without it the connection is plain TCP.
    pub multipath: bool,
    /// The path scheduler.
    pub scheduler: PluginChoice,
    /// The congestion controller of every subflow.
    pub congestion: PluginChoice,
    /// The path manager (client side).
    pub path_manager: PluginChoice,
    /// Schedulers and controllers that are not in the tables.
    pub registry: Registry,
    /// TCP maximum segment size to announce over IPv4: 1460 for an MTU of 1500. Over IPv6 it is that of
    /// the same MTU ([`Self::mss_at`]).
    pub mss: u16,
    /// Initial receive buffer, bytes of memory (`tcp_rmem[1]`).
    pub receive_buffer_initial: u64,
    /// Largest receive buffer (`tcp_rmem[2]`).
    pub receive_buffer_max: u64,
    /// Largest send buffer of a subflow (`tcp_wmem[2]`).
    pub send_buffer_max: u64,
    /// Require DSS checksums (RFC 8684 section 3.1, flag A).
    pub checksum: bool,
    /// Tell the peer not to join the address and port that the connection begins with, as behind a
    /// balancer of load that would send the join elsewhere (RFC 8684 section 3.1, flag C).
    pub deny_join_initial_address: bool,
    /// Pace every subflow, whatever its controller (as the fq queueing discipline would).
    pub pacing: bool,
    /// Send small segments at once (`TCP_NODELAY`); else only one may be unacknowledged (Nagle's
    /// algorithm as Minshall changed it).
    pub nodelay: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// The host.
    pub host: HostModel,
    /// The mechanisms of the kernel.
    pub stack: Stack,
    /// The longest retransmission timeout, doubled or not (`net.ipv4.tcp_rto_max_ms`); at least [`RTO_MAX_LEAST`].
    pub rto_max: Duration,
    /// Retransmission timeouts in a row, and window probes without an answer, that end a subflow
    /// (`net.ipv4.tcp_retries2`). `None` is as many as last for as long as 15 of them with [`RTO_MAX_DEFAULT`].
    pub retries: Option<u16>,
    /// Pairs of addresses the client may open subflows between, the first is the initial one.
    pub candidates: Vec<Candidate>,
    /// Further addresses of ours to announce to the peer, in order (Linux's `signal` end points).
    pub announce: Vec<Announcement>,
}

impl Config {
    /// The maximum segment size that is announced from an address of ours, bytes: what its MTU leaves
    /// beside the headers (`tcp_mtu_to_mss`, `ip6_default_advmss`).
    pub fn mss_at(&self, local: IpAddr) -> u16 {
        match local {
            IpAddr::V4(_) => self.mss,
            IpAddr::V6(_) => self.mss.saturating_sub(IPV6_EXCESS).max(MSS_MIN),
        }
    }

    /// What an acknowledgement brings about beside its own subflow is left to turns of their own, and there is one
    /// processor for these and for the application (`mptcp_subflow_delegate`).
    #[inline(always)]
    pub(crate) fn leaves_to_turns(&self) -> bool {
        self.host.one_processor && self.stack.mptcp.delegates_sending
    }
}

/// An address of ours that the peer may join (RFC 8684 section 3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Its identifier, not 0, which is the initial subflow's.
    pub address_id: u8,
    /// The address.
    pub address: IpAddr,
    /// The port; `None` is that of the initial subflow.
    pub port: Option<u16>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            multipath: true,
            scheduler: PluginChoice::named("linux"),
            congestion: PluginChoice::named("cubic"),
            path_manager: PluginChoice::named("full-mesh"),
            registry: Registry::TABLES,
            mss: 1460,
            receive_buffer_initial: 131_072,
            receive_buffer_max: 6 << 20,
            send_buffer_max: 4 << 20,
            checksum: false,
            deny_join_initial_address: false,
            pacing: false,
            nodelay: false,
            ecn: EcnMode::default(),
            host: HostModel::default(),
            stack: Stack::default(),
            rto_max: RTO_MAX_DEFAULT,
            retries: None,
            candidates: Vec::new(),
            announce: Vec::new(),
        }
    }
}

/// Window scale for a largest receive buffer (`tcp_select_initial_window`).
pub(crate) fn window_scale(receive_buffer_max: u64) -> u8 {
    let bits = 64 - receive_buffer_max.max(65_535).leading_zeros();
    (bits - 1).saturating_sub(15).min(14) as u8
}

/// A four-tuple seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FourTuple {
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// That of a packet, as the one who receives it sees it.
    pub fn of_receiver(packet: &Packet) -> Self {
        let Packet { source, destination, segment } = packet;
        Self {
            local: SocketAddr::new(*destination, segment.destination_port),
            remote: SocketAddr::new(*source, segment.source_port),
        }
    }
}
