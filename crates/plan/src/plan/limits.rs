//! The limits of a plan. The Python code that writes plans reads them too.

/// The largest number of clients.
pub(super) const MOST_CLIENTS: u32 = 10_000;

/// The largest number of paths.
pub(super) const MOST_PATHS: usize = 8;

/// The largest total number of cross traffic flows, and of expected transfers per group.
pub(super) const MOST_FLOWS: u64 = 10_000;

/// The smallest MTU of a link in bytes. Every IPv4 host accepts packets of this size (RFC 1122 section
/// 3.3.3). It leaves room for headers with all options.
pub(super) const LEAST_MTU: u64 = 576;

/// The smallest MTU of a link that IPv6 crosses, in bytes (RFC 8200 section 5).
pub(super) const LEAST_IPV6_MTU: u64 = 1280;

/// The largest number of consecutive retransmission timeouts. Even at the smallest `rto_max`, they take
/// hours.
pub(super) const MOST_RETRIES: u16 = 10_000;

/// The shortest time between two attempts to connect (RFC 8305 section 5), ns.
pub(super) const LEAST_ATTEMPT_DELAY_NS: u64 = 10_000_000;

/// The longest time between two attempts to connect (RFC 8305 section 5), ns.
pub(super) const MOST_ATTEMPT_DELAY_NS: u64 = 2_000_000_000;

/// All limits by name.
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
