"""Linux's retransmission timeouts: the values that `sysctl` takes, and the time that retries last."""

from __future__ import annotations

#: The longest timeout (`net.ipv4.tcp_rto_max_ms`) and the retries (`net.ipv4.tcp_retries2`) if none is set.
RTO_MAX, RETRIES = "120 s", 15
#: The most retries that Linux takes.
MOST_RETRIES = 255
_RTO_MIN_S = 0.2


def lasting_s(retries: int, rto_max_s: float) -> float:
    """Return how long Linux goes on: timeouts double from 0.2 s up to the longest (`tcp_model_timeout`)."""
    doublings = int(rto_max_s / _RTO_MIN_S).bit_length() - 1
    doubled = _RTO_MIN_S * ((2 << min(retries, doublings)) - 1)
    return doubled + rto_max_s * max(retries - doublings, 0)


def settings(rto_max_ns: int | None, retries: int | None) -> dict[str, int]:
    """Return the files below /proc/sys/net and their values for a longest timeout and a number of retries.

    A longest timeout without a number of retries gets the most that Linux takes.
    """
    found = {} if rto_max_ns is None else {"ipv4/tcp_rto_max_ms": round(rto_max_ns / 1e6)}
    if rto_max_ns is not None and retries is None:
        retries = MOST_RETRIES
    return found | ({} if retries is None else {"ipv4/tcp_retries2": min(retries, MOST_RETRIES)})
