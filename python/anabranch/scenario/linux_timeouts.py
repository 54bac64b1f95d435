"""Linux's retransmission timeouts: the values of `sysctl`, and the time that retries last."""

from __future__ import annotations

#: The longest timeout (`net.ipv4.tcp_rto_max_ms`) and the retries (`net.ipv4.tcp_retries2`) if none is set.
RTO_MAX, RETRIES = "120 s", 15
#: The most retries that Linux takes.
MOST_RETRIES = 255
_RTO_MIN_S = 0.2
#: Linux repeats a SYN four times after one second each (`tcp_syn_linear_timeouts`), and then six times with
#: doubling timeouts (`tcp_syn_retries`). With the last timeout, that is 131 s.
_SYN_LINEAR, _SYN_RETRIES, _SYN_LASTS_S = 4, 6, 131
_MOST_SYN_RETRIES = 127


def lasting_s(retries: int, rto_max_s: float) -> float:
    """Return the time after which Linux gives up.

    Timeouts double from 0.2 s up to the longest one (`tcp_model_timeout`).
    """
    doublings = int(rto_max_s / _RTO_MIN_S).bit_length() - 1
    doubled = _RTO_MIN_S * ((2 << min(retries, doublings)) - 1)
    return doubled + rto_max_s * max(retries - doublings, 0)


def syn_retries(rto_max_s: float) -> int:
    """Return the smallest `tcp_syn_retries` that lasts for 131 s, at most 127 (Linux's limit)."""
    sent, lasted = 0, 0.0
    while lasted < _SYN_LASTS_S:
        lasted += min(2.0 ** max(sent - _SYN_LINEAR, 0), rto_max_s)
        sent += 1
    return min(max(sent - 1 - _SYN_LINEAR, _SYN_RETRIES), _MOST_SYN_RETRIES)


def settings(rto_max_ns: int | None, retries: int | None) -> dict[str, int]:
    """Return the files below /proc/sys/net and their values for a longest timeout and a number of retries.

    If the longest timeout is set without a number of retries, the largest number that Linux accepts is used.
    With a longest timeout, the number of SYN retries is raised so that they last as long as before.
    """
    if rto_max_ns is None:
        return {} if retries is None else {"ipv4/tcp_retries2": min(retries, MOST_RETRIES)}
    return {
        "ipv4/tcp_rto_max_ms": round(rto_max_ns / 1e6),
        "ipv4/tcp_retries2": MOST_RETRIES if retries is None else min(retries, MOST_RETRIES),
        "ipv4/tcp_syn_retries": syn_retries(rto_max_ns / 1e9),
    }
