//! The configuration of a TCP connection and its host.

use std::net::{IpAddr, SocketAddr};

use anabranch_units::{Duration, Instant};
use anabranch_wire::Packet;

use super::stack::{SharedStack, TcpStack};

/// The default limit of the retransmission timeout (`TCP_RTO_MAX`).
pub const RTO_MAX_DEFAULT: Duration = Duration::from_secs(120);
/// The smallest limit that can be configured (`TCP_RTO_MAX_MIN_SEC`).
pub const RTO_MAX_LEAST: Duration = Duration::from_secs(1);
/// The smallest segment size that a peer can request: 40 bytes of TCP options and 8 of payload
/// (`TCP_MIN_SND_MSS`; CVE-2019-11479).
pub(crate) const MSS_MIN: u16 = 48;
/// The difference between an IPv6 and an IPv4 header, in bytes (RFC 8200 section 3, RFC 791 section 3.1).
const IPV6_EXCESS: u16 = 20;

/// The number of ticks from which a timer is in the second level of the timer wheel (`LVL_START(1)`).
const WHEEL_LEVEL: u64 = 63;
/// Each level of the timer wheel is coarser than the previous one by a factor of 2^3 (`LVL_CLK_SHIFT`).
const WHEEL_SHIFT: u32 = 3;
/// The shift of the last level (`LVL_DEPTH` 9).
const WHEEL_DEEPEST: u32 = 24;

/// Properties of a real host that the protocol does not define: timer ticks and memory accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostModel {
    /// The timer tick (a jiffy: 4 ms for HZ = 250). Timers fire at multiples of it, and long timers at
    /// coarser multiples ([`Self::expiry`]). Zero means exact timers.
    pub timer_tick: Duration,
    /// The growth of the send buffer per segment of the window, in bytes of memory (`per_mss` of
    /// `tcp_sndbuf_expand`): 1460 bytes of payload, headers and `skb_shared_info` in a buffer of 2 KiB, and
    /// the `sk_buff`. Kernels built for wireless networks reserve more for headers and need 4352 bytes.
    pub send_memory_per_segment: u64,
    /// The memory of a full received segment, in bytes: a 1500-byte packet in a 2 KiB buffer, with its
    /// `sk_buff` (`truesize`). The ratio of payload to this memory determines the window of a buffer.
    pub receive_memory_per_segment: u64,
    /// The memory of a socket buffer for sending without its payload, in bytes: header space and the
    /// `sk_buff` (`tcp_stream_alloc_skb`).
    pub send_memory_per_buffer: u64,
}

impl Default for HostModel {
    fn default() -> Self {
        Self {
            timer_tick: Duration::from_millis(4),
            send_memory_per_segment: 2048 + 256,
            receive_memory_per_segment: 2048 + 256,
            send_memory_per_buffer: 576 + 256,
        }
    }
}

/// A point in time on a host.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// The host.
    pub host: &'a HostModel,
    /// The time.
    pub now: Instant,
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

    /// Returns the time between two moments, each rounded down to a tick.
    pub(crate) fn ticks_between(&self, from: Instant, to: Instant) -> Duration {
        self.coarse(to).since(self.coarse(from))
    }

    /// Returns the time at which a timer set at `now` for `span` fires. A timer never fires early. The time
    /// is rounded up to the granularity of the timer's level in the timer wheel (`calc_wheel_index`): one
    /// tick below 63 ticks, and eight times coarser for each eightfold duration.
    pub fn expiry(&self, now: Instant, span: Duration) -> Instant {
        self.timer(now, span).1
    }

    /// Returns the requested time (`expires`) of a timer set at `now` for `span`, and the time at which it
    /// fires.
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
    /// All modes with their names in scenarios.
    pub const NAMED: [(&'static str, Self); 3] =
        [("off", Self::Off), ("request", Self::Request), ("accept", Self::Accept)];
}

/// The configuration of one TCP connection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TcpConfig {
    /// The TCP maximum segment size that is announced over IPv4: 1460 bytes for an MTU of 1500. Over IPv6, it
    /// is computed from the same MTU ([`Self::mss_at`]).
    pub mss: u16,
    /// The initial receive buffer, in bytes of memory (`tcp_rmem[1]`).
    pub receive_buffer_initial: u64,
    /// The largest receive buffer, in bytes of memory (`tcp_rmem[2]`).
    pub receive_buffer_max: u64,
    /// The largest send buffer, in bytes of memory (`tcp_wmem[2]`).
    pub send_buffer_max: u64,
    /// Whether the connection is paced, independent of its controller (like the fq queueing discipline).
    pub pacing: bool,
    /// Whether small segments are sent at once (`TCP_NODELAY`). Otherwise at most one may be
    /// unacknowledged (Nagle's algorithm with Minshall's modification).
    pub nodelay: bool,
    /// The use of explicit congestion notification.
    pub ecn: EcnMode,
    /// The model of the host's kernel and network device.
    pub host: HostModel,
    /// The mechanisms of TCP.
    pub stack: TcpStack,
    /// The mechanisms that the layer above also uses.
    pub shared: SharedStack,
    /// The upper limit of the retransmission timeout, including backoff (`net.ipv4.tcp_rto_max_ms`). At least
    /// [`RTO_MAX_LEAST`].
    pub rto_max: Duration,
    /// The number of consecutive retransmission timeouts or unanswered window probes after which the
    /// connection ends (`net.ipv4.tcp_retries2`). `None` means the number that takes as long as 15 timeouts
    /// with [`RTO_MAX_DEFAULT`].
    pub retries: Option<u16>,
    /// Whether growth of the send buffer is reported to the layer above with a delay
    /// (`MPTCP_DELEGATE_SNDBUF`).
    pub reports_growth_later: bool,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            mss: 1460,
            receive_buffer_initial: 131_072,
            receive_buffer_max: 6 << 20,
            send_buffer_max: 4 << 20,
            pacing: false,
            nodelay: false,
            ecn: EcnMode::default(),
            host: HostModel::default(),
            stack: TcpStack::LINUX_6_18,
            shared: SharedStack::LINUX_6_18,
            rto_max: RTO_MAX_DEFAULT,
            retries: None,
            reports_growth_later: false,
        }
    }
}

impl TcpConfig {
    /// Returns the maximum segment size that is announced from a local address, in bytes ([`mss_at`]).
    pub fn mss_at(&self, local: IpAddr) -> u16 {
        mss_at(self.mss, local)
    }
}

/// Returns the maximum segment size that is announced from a local address, in bytes. `mss` is the one over
/// IPv4. The MTU is the same for IPv4 and IPv6 (`tcp_mtu_to_mss`, `ip6_default_advmss`).
pub fn mss_at(mss: u16, local: IpAddr) -> u16 {
    match local {
        IpAddr::V4(_) => mss,
        IpAddr::V6(_) => mss.saturating_sub(IPV6_EXCESS).max(MSS_MIN),
    }
}

/// Returns the window scale for a largest receive buffer (`tcp_select_initial_window`).
pub fn window_scale(receive_buffer_max: u64) -> u8 {
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
    /// Returns the four-tuple of a packet as seen by its receiver.
    pub fn of_receiver(packet: &Packet) -> Self {
        let Packet { source, destination, segment } = packet;
        Self {
            local: SocketAddr::new(*destination, segment.destination_port),
            remote: SocketAddr::new(*source, segment.source_port),
        }
    }
}
