"""Metrics of each path over all its subflows, in the order of the scenario."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import rounded

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def by_path(subflows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the metrics of one client's paths.

    Parameters
    ----------
    subflows
        The client's subflows, in the order of establishment.
    The scenario's paths in order. If it is empty, paths are in the order of their first subflow.
        The scenario's paths in its order; without any, paths come in the order of their first subflow.
    """
    whole = sum(one["bytes"] for one in subflows)
    order = names or list(dict.fromkeys(one["path"] for one in subflows))
    return [_path(name, [one for one in subflows if one["path"] == name], whole) for name in order]


def _path(name: str, own: Sequence[Mapping[str, Any]], whole: float) -> dict[str, Any]:
    """Return the metrics of a path: sums over its subflows, and means weighted by their bytes."""
    count = sum(one["bytes"] for one in own)
    return {
        "path": name,
        "subflows": len(own),
        "bytes": count,
        "bytes_share": rounded(count / whole) if whole else None,
        "throughput_mbps": rounded(sum(one["throughput_mbps"] for one in own)),
        "retransmissions": sum(one["retransmissions"] for one in own),
        "srtt_ms_mean": _weighted(own, "srtt_ms_mean"),
        "cwnd_segments_mean": _weighted(own, "cwnd_segments_mean"),
    }


def _weighted(own: Sequence[Mapping[str, Any]], metric: str) -> float | None:
    """Return the mean of a metric over subflows, weighted by bytes; unweighted if no bytes were carried."""
    known = [(one[metric], one["bytes"]) for one in own if one[metric] is not None]
    whole = sum(count for _, count in known)
    if not known:
        return None
    if not whole:
        return rounded(sum(value for value, _ in known) / len(known), 3)
    return rounded(sum(value * count for value, count in known) / whole, 3)
