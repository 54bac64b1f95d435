"""Metrics of the cross traffic: background flows, separate from the clients."""

from __future__ import annotations

from typing import Any

from anabranch.metrics._rows import Tables, rounded, rows


def crossing(tables: Tables) -> dict[str, Any]:
    """Return the part of `qos` about cross traffic: empty without any.

    Rates are the bytes read over the time from the first start to the last end, so that flows that
    come one after another do not count as if they had run together.
    """
    flows = list(rows(tables.get("cross_traffic", {})))
    if not flows:
        return {}
    names = list(dict.fromkeys(flow["name"] for flow in flows))
    groups = [_group([flow for flow in flows if flow["name"] == name]) for name in names]
    return {"cross_traffic_mbps": _mbps(flows), "cross_traffic": groups}


def _group(flows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the numbers of the flows of one name."""
    datagrams = {
        name: sum(flow.get(name, 0) for flow in flows) for name in ("datagrams_sent", "datagrams_lost")
    }
    return {
        "name": flows[0]["name"],
        "congestion": flows[0]["congestion"],
        "flows": len(flows),
        "bytes": sum(flow["bytes_read"] for flow in flows),
        "goodput_mbps": _mbps(flows),
        "retransmissions": sum(flow["retransmissions"] for flow in flows),
        **(datagrams if datagrams["datagrams_sent"] else {}),
    }


def _mbps(flows: list[dict[str, Any]]) -> float | None:
    """Return what flows read together per second; those that never began add neither bytes nor time."""
    ran = [flow for flow in flows if flow["end_s"] is not None]
    lasted = max((f["end_s"] for f in ran), default=0.0) - min((f["start_s"] for f in ran), default=0.0)
    return rounded(sum(flow["bytes_read"] for flow in ran) * 8e-6 / lasted) if lasted > 0 else 0.0
