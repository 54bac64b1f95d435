//! Limits that a scenario is held to before it is a plan: who writes plans asks for them.

/// The most clients.
pub(super) const MOST_CLIENTS: u32 = 10_000;

/// The most paths, as many as addresses have networks for.
pub(super) const MOST_PATHS: usize = 8;

/// The most flows of all groups together: as many as there may be clients.
pub(super) const MOST_FLOWS: u64 = 10_000;

/// The least MTU of a link: the size that every IPv4 host takes (RFC 1122 section 3.3.3), which leaves room for
/// headers with all their options.
pub(super) const LEAST_MTU: u64 = 576;

/// The least MTU of a link that IPv6 crosses (RFC 8200 section 5).
pub(super) const LEAST_IPV6_MTU: u64 = 1280;

/// The most retransmission timeouts in a row: hours with the shortest longest timeout.
pub(super) const MOST_RETRIES: u16 = 10_000;

/// The shortest time between two attempts to connect (RFC 8305 section 5), ns.
pub(super) const LEAST_ATTEMPT_DELAY_NS: u64 = 10_000_000;

/// The longest time between two attempts to connect (RFC 8305 section 5), ns.
pub(super) const MOST_ATTEMPT_DELAY_NS: u64 = 2_000_000_000;

/// All of them, by name.
pub const LIMITS: [(&str, u64); 8] = [
    ("most_clients", MOST_CLIENTS as u64),
    ("most_paths", MOST_PATHS as u64),
    ("most_flows", MOST_FLOWS),
    ("most_retries", MOST_RETRIES as u64),
    ("least_mtu", LEAST_MTU),
    ("least_ipv6_mtu", LEAST_IPV6_MTU),
    ("least_attempt_delay_ns", LEAST_ATTEMPT_DELAY_NS),
    ("most_attempt_delay_ns", MOST_ATTEMPT_DELAY_NS),
];
