//! The configuration of an endpoint.

use std::net::IpAddr;

use anabranch_plugin::{PluginChoice, Registry};
use anabranch_units::Duration;

use crate::path_manager::Candidate;
use crate::profile::Stack;
use anabranch_tcp::config::{EcnMode, HostModel, RTO_MAX_DEFAULT, TcpConfig, mss_at};

/// The default length of the fragments of written data, in bytes ([`Config::send_fragment`]).
pub const SEND_FRAGMENT_DEFAULT: u64 = 32_768 - 40;

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
    /// The TCP maximum segment size that is announced over IPv4: 1460 bytes for an MTU of 1500. Over IPv6, it
    /// is computed from the same MTU ([`Self::mss_at`]).
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
    /// Whether every subflow is paced, independent of its controller (like the fq queueing discipline).
    pub pacing: bool,
    /// Whether small segments are sent at once (`TCP_NODELAY`). Otherwise at most one may be
    /// unacknowledged (Nagle's algorithm with Minshall's modification).
    pub nodelay: bool,
    /// The use of explicit congestion notification.
    pub ecn: EcnMode,
    /// The model of the host's kernel and network device.
    pub host: HostModel,
    /// The largest fragment of written data, in bytes (`mptcp_data_frag`): a page fragment of 32 KiB
    /// minus its header. A fragment starts in the rest of the page of the previous one.
    pub send_fragment: u64,
    /// Whether one processor runs both the application and packet processing. An application that an
    /// acknowledgement wakes then writes before other subflows get data (`mptcp_subflow_delegate`). With
    /// several processors, both happen at once.
    pub one_processor: bool,
    /// The kernel's mechanisms.
    pub stack: Stack,
    /// The upper limit of the retransmission timeout, including backoff (`net.ipv4.tcp_rto_max_ms`). At least
    /// [`RTO_MAX_LEAST`](anabranch_tcp::config::RTO_MAX_LEAST).
    pub rto_max: Duration,
    /// The number of consecutive retransmission timeouts or unanswered window probes after which a subflow
    /// ends (`net.ipv4.tcp_retries2`). `None` means the number that takes as long as 15 timeouts with
    /// [`RTO_MAX_DEFAULT`].
    pub retries: Option<u16>,
    /// The address pairs between which the client may open subflows. The first is the initial one.
    pub candidates: Vec<Candidate>,
    /// Further local addresses to announce to the peer, in order (Linux: endpoints with the flag `signal`).
    pub announce: Vec<Announcement>,
}

impl Config {
    /// Returns the maximum segment size that is announced from a local address, in bytes ([`mss_at`]).
    pub fn mss_at(&self, local: IpAddr) -> u16 {
        mss_at(self.mss, local)
    }

    /// Returns the configuration of the TCP connection of each subflow.
    pub(crate) fn tcp(&self) -> TcpConfig {
        TcpConfig {
            mss: self.mss,
            receive_buffer_initial: self.receive_buffer_initial,
            receive_buffer_max: self.receive_buffer_max,
            send_buffer_max: self.send_buffer_max,
            pacing: self.pacing,
            nodelay: self.nodelay,
            ecn: self.ecn,
            host: self.host,
            stack: self.stack.tcp,
            shared: self.stack.shared,
            rto_max: self.rto_max,
            retries: self.retries,
            reports_growth_later: self.defers_sending(),
        }
    }

    /// Returns whether an ACK on one subflow leaves the sending on other subflows to a later turn of the
    /// kernel's worker. Delegation requires one processor for packets and application
    /// (`mptcp_subflow_delegate`).
    #[inline]
    pub(crate) fn defers_sending(&self) -> bool {
        self.one_processor && self.stack.mptcp.delegates_sending
    }
}

/// A local address that the peer may join (RFC 8684 section 3.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// The address identifier. The identifier 0 belongs to the initial subflow and is not allowed.
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
            send_fragment: SEND_FRAGMENT_DEFAULT,
            one_processor: false,
            stack: Stack::default(),
            rto_max: RTO_MAX_DEFAULT,
            retries: None,
            candidates: Vec::new(),
            announce: Vec::new(),
        }
    }
}
