"""Titles of axes in words with units, and the values of an axis as numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Titles of columns of results whose names do not say enough.
METRICS = {
    "picture_discards": "picture discards",
    "buffer_underflows": "buffer underflows",
    "retransmissions": "retransmissions",
    "throughput_mean_mbps": "throughput, Mb/s",
    "resolution_mean": "resolution, lines",
    "resolution_changes": "changes of rendition",
    "rebuffer_total_s": "rebuffering, s",
    "rebuffer_s": "rebuffering, s",
    "startup_s": "start, s",
    "startup_delay_s": "startup delay, s",
    "recovery_time_s": "recovery time, s",
    "still_s": "time without a new picture, s",
    "unplayed_s": "film not shown, s",
    "waiting_s": "waiting, s",
    "rate_less_waiting_mbps": "rate less waiting, Mb/s",
    "bitrate_mean_mbps": "rate of the pictures, Mb/s",
    "top_share": "share of time at the top",
    "goodput_mbps": "goodput, Mb/s",
    "throughput_mbps": "throughput, Mb/s",
    "srtt_ms": "mean smoothed RTT, ms",
    "rtt_difference_ms": "RTT difference of the paths, ms",
    "throughput_difference_mbps": "throughput difference of the paths, Mb/s",
    "stalled_share": "share of the session stalled, %",
    "cost": "cost of a session",
}
#: Units by the end of a column's name.
_UNITS = {
    "mbps": "Mb/s",
    "ms": "ms",
    "s": "s",
    "bytes": "bytes",
    "mb": "MB",
    "segments": "segments",
    "percent": "%",
}
#: Keys of a scenario in words.
_KEYS = {
    "rtt": "round-trip time",
    "bytes": "transfer",
    "receive_buffer": "receive buffer",
    "send_buffer": "send buffer",
}
#: The decimal prefix of sizes.
_MEGA = 1e6


def metric(name: str) -> str:
    """Return the title of a column of results."""
    if name in METRICS:
        return METRICS[name]
    stem, _, end = name.rpartition("_")
    words = re.sub(r"[_.]", " ", stem if stem and end in _UNITS else name)
    return f"{words}, {_UNITS[end]}" if stem and end in _UNITS else words


def key(name: str, unit: str = "") -> str:
    """Return the title of an axis of a grid: `rate of lte, Mb/s` for `paths.lte.rate`."""
    parts = name.split(".")
    words = _KEYS.get(parts[-1], parts[-1].replace("_", " "))
    own = f"{words} of {parts[1]}" if parts[0] in ("paths", "links") and len(parts) > 2 else words
    return f"{own}, {unit}" if unit else own


def numbers(values: Sequence[object]) -> tuple[list[float], str] | None:
    """Return the values of an axis as numbers, and their unit; None if they are not all of one kind.

    Parameters
    ----------
    values
        Numbers, or texts with a unit such as `5 Mbit/s`, `20 ms`, `1 %` and `100 packets`.
    """
    from anabranch.scenario import units

    if all(isinstance(one, int | float) and not isinstance(one, bool) for one in values):
        return [float(str(one)) for one in values], ""
    if not all(isinstance(one, str) for one in values):
        return None
    texts = [str(one) for one in values]
    kinds: tuple[tuple[Callable[[str], float], str], ...] = (
        (lambda text: units.limited_rate_bps(text) / _MEGA, "Mb/s"),
        (lambda text: units.time_ns(text) / 1e6, "ms"),
        (lambda text: 100 * units.fraction(text), "%"),
        (lambda text: units.size_bytes(text) / _MEGA, "MB"),
        (_packets, "packets"),
    )
    for read, unit in kinds:
        try:
            found = [read(text) for text in texts]
        except units.UnitError:
            continue
        # Times of a second or more are shown in seconds.
        return ([one / 1e3 for one in found], "s") if unit == "ms" and min(found) >= 1e3 else (found, unit)
    return None


def _packets(text: str) -> float:
    """Return a queue's limit in packets.

    Raises
    ------
    UnitError
        If the limit is no count of packets.
    """
    from anabranch.scenario import units

    limit = units.queue(text)
    if limit is None or "packets" not in limit:
        message = f"not a count of packets: `{text}`"
        raise units.UnitError(message)
    return float(limit["packets"])
