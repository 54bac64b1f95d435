"""The bounds of a scenario's values: numbers from the Rust module."""

from __future__ import annotations

import sys

from anabranch.plugins import listed

_FOUND: dict[str, int] = dict(listed("limits"))

MOST_CLIENTS = _FOUND.get("most_clients", sys.maxsize)
MOST_PATHS = _FOUND.get("most_paths", sys.maxsize)
#: The largest number of background flows of all groups together.
MOST_FLOWS = _FOUND.get("most_flows", sys.maxsize)
#: The largest number of consecutive retransmission timeouts.
MOST_RETRIES = _FOUND.get("most_retries", sys.maxsize)
#: The range of the longest retransmission timeout, ns.
LEAST_RTO_MAX_NS = _FOUND.get("least_rto_max_ns", 0)
MOST_RTO_MAX_NS = _FOUND.get("most_rto_max_ns", sys.maxsize)
#: The range of the time between two attempts to connect, ns.
LEAST_ATTEMPT_DELAY_NS = _FOUND.get("least_attempt_delay_ns", 0)
MOST_ATTEMPT_DELAY_NS = _FOUND.get("most_attempt_delay_ns", sys.maxsize)
#: Bytes.
LEAST_MTU = _FOUND.get("least_mtu", 0)
#: The smallest MTU of a link that carries IPv6, bytes.
LEAST_IPV6_MTU = _FOUND.get("least_ipv6_mtu", 0)
