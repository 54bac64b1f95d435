//! The configuration of an endpoint and its host.

use std::net::{IpAddr, SocketAddr};

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::{Duration, Instant};
use anabranch_wire::Packet;

use crate::path_manager::Candidate;
use crate::profile::Stack;

/// The default limit of the retransmission timeout (`TCP_RTO_MAX`).
pub const RTO_MAX_DEFAULT: Duration = Duration::from_secs(120);
/// The smallest limit that can be configured (`TCP_RTO_MAX_MIN_SEC`).
pub const RTO_MAX_LEAST: Duration = Duration::from_secs(1);
/// The smallest segment size that a peer can request: 40 bytes of TCP options and 8 of payload
/// (`TCP_MIN_SND_MSS`; CVE-2019-11479).
pub(crate) const MSS_MIN: u16 = 48;
/// The difference between an IPv6 and an IPv4 header, in bytes (RFC 8200 section 3, RFC 791 section 3.1).
const IPV6_EXCESS: u16 = 20;

/// The number of ticks from which a timer belongs to the second level of the timer wheel
/// (`LVL_START(1)`).
const WHEEL_LEVEL: u64 = 63;
/// Each level is coarser than the one before by a factor of 2^3 (`LVL_CLK_SHIFT`).
const WHEEL_SHIFT: u32 = 3;
/// The shift of the last level (`LVL_DEPTH` 9).
const WHEEL_DEEPEST: u32 = 24;

/// Properties of a real host that the protocol does not define: timer ticks and memory accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// The timer tick (a jiffy: 4 ms for HZ = 250). Timers fire at multiples of it, long timers at
    /// coarser multiples ([`Self::expiry`]). Zero means exact time.
    pub timer_tick: Duration,
    /// The growth of the send buffer per segment of the window, in bytes of memory (`per_mss` of
    /// `tcp_sndbuf_expand`). It covers 1460 bytes of payload, headers and `skb_shared_info` in a buffer
    /// of 2 KiB, and the `sk_buff`. Kernels built for wireless networks reserve more for headers and need
    /// 4352 bytes.
    pub send_memory_per_segment: u64,
    /// The memory of a full received segment, in bytes: a 1500-byte packet in a 2 KiB buffer with its
    /// `sk_buff` (`truesize`). The payload's share of it determines the window of a buffer.
    pub receive_memory_per_segment: u64,
    /// The largest fragment of written data, in bytes (`mptcp_data_frag`): a page fragment of 32 KiB
    /// minus its header. A fragment starts in the rest of the page of the previous one.
    pub send_fragment: u64,
    /// The memory of a send buffer beyond its payload, in bytes: its header room and its `sk_buff`
    /// (`tcp_stream_alloc_skb`).
    pub send_memory_per_buffer: u64,
    /// Whether one processor runs applications and packet processing. An application that an
    /// acknowledgement wakes then writes before other subflows get data (`mptcp_subflow_delegate`). With
    /// several processors, both happen at once.
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

/// A moment on a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) host: &'a HostModel,
    pub(crate) now: Instant,
}

impl HostModel {
    /// Rounds `now` down to a tick.
    pub fn coarse(&self, now: Instant) -> Instant {
        let tick = self.timer_tick.as_nanos();
        let ticks = now.as_nanos().checked_div(tick);
        ticks.map_or(now, |ticks| Instant::from_nanos(ticks * tick))
    }

    /// Rounds a duration up to whole ticks (`usecs_to_jiffies`).
    pub fn ticks(&self, span: Duration) -> Duration {
        span.in_whole_ticks(self.timer_tick)
    }

    /// The time between two moments, each rounded down to a tick.
    pub(crate) fn ticks_between(&self, from: Instant, to: Instant) -> Duration {
        self.coarse(to).since(self.coarse(from))
    }

    /// The time at which a timer set at `now` for `span` fires. It is never early. It is the next
    /// multiple of the granularity of its level in the timer wheel (`calc_wheel_index`). The granularity
    /// is one tick below 63 ticks, and eight times as coarse for every eightfold duration.
    pub fn expiry(&self, now: Instant, span: Duration) -> Instant {
        self.timer(now, span).1
    }

    /// The requested time (`expires`) of a timer set at `now` for `span`, and the time at which it fires.
    #[inline]
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

/// The use of explicit congestion notification (RFC 3168; `net.ipv4.tcp_ecn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EcnMode {
    /// ECN is not used (0).
    Off,
    /// ECN is requested in outgoing SYNs and accepted in incoming ones (1).
    Request,
    /// ECN is accepted in incoming SYNs (2).
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
    /// Whether MPTCP is offered and accepted. Otherwise the connection is plain TCP.
    pub multipath: bool,
    /// The path scheduler.
    pub scheduler: PluginChoice,
    /// The congestion controller of every subflow.
    pub congestion: PluginChoice,
    /// The path manager (client side).
    pub path_manager: PluginChoice,
    /// Schedulers and controllers that are not built in.
    pub registry: Registry,
    /// The TCP maximum segment size that is announced over IPv4: 1460 bytes for an MTU of 1500. Over IPv6
    /// it follows from the same MTU ([`Self::mss_at`]).
    pub mss: u16,
    /// The initial receive buffer, in bytes of memory (`tcp_rmem[1]`).
    pub receive_buffer_initial: u64,
    /// The largest receive buffer, in bytes of memory (`tcp_rmem[2]`).
    pub receive_buffer_max: u64,
    /// The largest send buffer of a subflow, in bytes of memory (`tcp_wmem[2]`).
    pub send_buffer_max: u64,
    /// Whether DSS checksums are required (RFC 8684 section 3.1, flag A).
    pub checksum: bool,
    /// Whether the peer must not join the address and port of the initial subflow (RFC 8684 section 3.1,
    /// flag C). A server behind a load balancer needs this, because a join could reach another server.
    pub deny_join_initial_address: bool,
    /// Whether every subflow is paced, whatever its controller (like the fq queueing discipline).
    pub pacing: bool,
    /// Whether small segments are sent at once (`TCP_NODELAY`). Otherwise at most one may be
    /// unacknowledged (Nagle's algorithm with Minshall's modification).
    pub nodelay: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// The model of the host.
    pub host: HostModel,
    /// The kernel's mechanisms.
    pub stack: Stack,
    /// The limit of the retransmission timeout, with or without backoff (`net.ipv4.tcp_rto_max_ms`). At
    /// least [`RTO_MAX_LEAST`].
    pub rto_max: Duration,
    /// The number of consecutive retransmission timeouts or unanswered window probes that ends a subflow
    /// (`net.ipv4.tcp_retries2`). `None`: as many as take the time of 15 timeouts with
    /// [`RTO_MAX_DEFAULT`].
    pub retries: Option<u16>,
    /// The address pairs between which the client may open subflows. The first is the initial one.
    pub candidates: Vec<Candidate>,
    /// Further local addresses to announce to the peer, in order (`signal` endpoints in Linux).
    pub announce: Vec<Announcement>,
}

impl Config {
    /// The maximum segment size that is announced from a local address, in bytes: its MTU minus the
    /// headers (`tcp_mtu_to_mss`, `ip6_default_advmss`).
    pub fn mss_at(&self, local: IpAddr) -> u16 {
        match local {
            IpAddr::V4(_) => self.mss,
            IpAddr::V6(_) => self.mss.saturating_sub(IPV6_EXCESS).max(MSS_MIN),
        }
    }

    /// Whether work for other subflows is delegated after an acknowledgement, on one processor that also
    /// runs the application (`mptcp_subflow_delegate`).
    #[inline]
    pub(crate) fn leaves_to_turns(&self) -> bool {
        self.host.one_processor && self.stack.mptcp.delegates_sending
    }
}

/// A local address that the peer may join (RFC 8684 section 3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The address identifier. It is not 0, which belongs to the initial subflow.
    pub address_id: u8,
    /// The address.
    pub address: IpAddr,
    /// The port; `None` means the port of the initial subflow.
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

/// The window scale for a largest receive buffer (`tcp_select_initial_window`).
pub(crate) fn window_scale(receive_buffer_max: u64) -> u8 {
    let bits = 64 - receive_buffer_max.max(65_535).leading_zeros();
    (bits - 1).saturating_sub(15).min(14) as u8
}

/// The addresses and ports of a connection or packet, seen from one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FourTuple {
    /// The local address and port.
    pub local: SocketAddr,
    /// The peer's address and port.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// The four-tuple of a packet, seen by its receiver.
    pub fn of_receiver(packet: &Packet) -> Self {
        let Packet { source, destination, segment } = packet;
        Self {
            local: SocketAddr::new(*destination, segment.destination_port),
            remote: SocketAddr::new(*source, segment.source_port),
        }
    }
}
