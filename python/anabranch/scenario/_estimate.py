"""Estimates of how long a session lasts, for the progress bar and the time limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.scenario import _follow

if TYPE_CHECKING:
    from anabranch.media.films import Film

_SECOND = 10**9


def expected_duration_s(plan: dict[str, Any], film: Film | None) -> float:
    """Return the approximate duration of the session in seconds, for progress and limits."""
    application = plan["application"]
    if application["duration_ns"] is not None:
        return float(application["duration_ns"] / _SECOND)
    size = application["bytes"] or (film.size_bytes if film else 0)
    seconds = size * 8 / _bottleneck_bps(plan)
    if application["kind"] == "adaptive" and film is not None:
        return film.duration_ns / _SECOND
    if application["kind"] == "progressive" and film is not None:
        seconds = max(seconds, film.duration_ns / _SECOND)
    if application["kind"] == "paced" and application["rate_bps"]:
        seconds = max(seconds, size * 8 / application["rate_bps"])
    return max(seconds, 1.0)


def delivers(plan: dict[str, Any]) -> bool:
    """Return whether at least one path can deliver packets in both directions, judged by its links' loss."""
    mended = {event["link"] for event in plan["events"] if "link" in event and "loss" in event["change"]}
    dead = {link["name"] for link in plan["links"] if link.get("loss") == {"bernoulli": 1.0}} - mended
    dead |= {
        link["name"]
        for link in plan["links"]
        if link.get("corrupt") == 1.0 and not link.get("corrupt_passes")
    }
    return any(dead.isdisjoint((*path["down"], *path["up"])) for path in plan["paths"])


def _bottleneck_bps(plan: dict[str, Any]) -> float:
    """Return the sum of the paths' slowest downlink rates, minus the part of cross traffic."""
    rates = {link["name"]: _left_bps(plan, link) for link in plan["links"]}
    total = 0.0
    for path in plan["paths"]:
        total += min([rates[name] or 1e9 for name in path["down"]], default=1e9)
    shared = [rate for name, rate in rates.items() if rate and all(name in p["down"] for p in plan["paths"])]
    return float(min([total, *shared]) / plan["clients"])


def _left_bps(plan: dict[str, Any], link: dict[str, Any]) -> float | None:
    """Return the part of a link's rate that cross traffic leaves.

    TCP flows take equal shares, and other traffic takes its mean rate.

    The result is at least a tenth of the rate. A run that needs more time reports this itself.
    """
    groups = [group for group in plan["cross_traffic"] if link["name"] in group["data"]]
    flows = sum(group["count"] for group in groups if group["kind"] in ("bulk", "paced"))
    clients = plan["clients"]
    if link["rate_bps"] is None and "model" not in link:
        return None
    whole = _follow.likely_bps(link)
    left = max(whole - sum(map(_mean_bps, groups)), 0.1 * whole)
    return float(left * clients / (clients + flows))


def _mean_bps(group: dict[str, Any]) -> float:
    """Return the mean rate that a group sends to a link; 0 for groups that take a share."""
    match group["kind"]:
        case "udp" | "poisson":
            return float(group["rate_bps"] * group["count"])
        case "on-off":
            busy = group["on_ns"] / (group["on_ns"] + group["off_ns"])
            return float(group["rate_bps"] * group["count"] * busy)
        case "transfers":
            return float(group["bytes"] * 8 * _SECOND / group["gap_ns"])
    return 0.0


def time_limit_ns(plan: dict[str, Any], film: Film | None) -> int:
    """Return the time after which the run gives up: four times the estimated duration, plus five minutes.

    An adaptive player may stay at its highest rendition.
    """
    seconds = expected_duration_s(plan, film)
    if film is not None and plan["application"]["kind"] == "adaptive":
        seconds = max(seconds, film.size_bytes * 8 / _bottleneck_bps(plan))
    return int((4 * seconds + 300) * _SECOND)
