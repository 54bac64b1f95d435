"""A run as tables that a person reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch._numbers import or_dash
from anabranch.cli import _console
from anabranch.scenario.units import show_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch._run import Run


def run(result: Run) -> None:
    """Write what the viewer saw and what each subflow did."""
    count = result.plan["clients"]
    clients = f", means over {count} clients" if count > 1 else ""
    _console.heading(
        f"{result.scenario}: scheduler {result.scheduler}, congestion {result.congestion}, "
        f"seed {result.seed}, run {result.run}{clients}"
    )
    _console.out()
    if result.qoe is not None:
        viewer(result)
        _console.out()
    network(result)
    _console.out()
    subflows(result)
    _console.out()
    if "receiver" in result.qos:
        receiver(result)
        _console.out()
    if "cross_traffic" in result.qos:
        cross_traffic(result)
        _console.out()
    for note in result.notes:
        _console.out(f"  note: {note}")
    if result.digest:
        _console.out(f"  digest {result.digest}")
    for name, source in result.plugins.items():
        _console.out(f"  plug-in {name}, source {source}")


def viewer(result: Run) -> None:
    """Write what the viewer saw."""
    qoe = result.qoe or {}
    _console.heading("What the viewer saw")
    if "frames" not in qoe:
        _console.table(("", ""), _adaptive(result, qoe))
        return
    frames = qoe["frames"]
    shown = f"{frames['displayed']:,.0f} of {frames['total']:,.0f}"
    rows = [
        ("startup delay", or_dash(qoe["startup_delay_s"], "{:.2f} s")),
        ("pictures shown", shown),
        ("pictures discarded", or_dash(qoe["picture_discards"], "{:,.4g}")),
        ("pictures flushed", or_dash(frames["flushed"], "{:,.4g}")),
        ("buffer underflows", or_dash(qoe["buffer_underflows"], "{:,.4g}")),
        ("stalled, in all", or_dash(qoe["rebuffer_s"], "{:.2f} s")),
        ("stalled, each time", or_dash(qoe["recovery_time_s"], "{:.2f} s")),
        *_still(qoe),
        ("played to the end", _ended(result)),
    ]
    _console.table(("", ""), rows)


def _adaptive(result: Run, qoe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what the viewer of an adaptive player saw."""
    resolution = or_dash(qoe["resolution_mean"], "{:.0f}p")
    return [
        ("startup delay", or_dash(qoe["startup_delay_s"], "{:.2f} s")),
        ("mean resolution", resolution),
        ("mean rate of the pictures", or_dash(qoe["bitrate_mean_mbps"], "{:.2f} Mb/s")),
        ("time at the top", or_dash(qoe["top_share"], "{:.1f} %", scale=100)),
        ("changes of rendition", or_dash(qoe["resolution_changes"], "{:,.4g}")),
        ("chunks given up", or_dash(qoe["chunks_abandoned"], "{:,.4g}")),
        ("buffer underflows", or_dash(qoe["buffer_underflows"], "{:,.4g}")),
        ("stalled, in all", or_dash(qoe["rebuffer_s"], "{:.2f} s")),
        *_still(qoe),
        ("played to the end", _ended(result)),
    ]


def _still(qoe: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return a text with the time without a new picture and the film that was not shown."""
    return [
        ("no new picture, in all", or_dash(qoe["still_s"], "{:.2f} s")),
        ("no new picture, longest", or_dash(qoe["still_longest_s"], "{:.2f} s")),
        ("film not shown", or_dash(qoe["unplayed_s"], "{:.2f} s")),
        ("play time", or_dash(qoe["play_time_s"], "{:.1f} s")),
    ]


def _ended(result: Run) -> str:
    """Return whether the film was played to the end, and what else ended the session."""
    if (result.qoe or {})["finished"]:
        return "yes"
    cut = result.cut_short
    return "no" if cut is None else f"no: the session ended after {show_time(cut)} (application.duration)"


def network(result: Run) -> None:
    """Write what the network did as a whole."""
    qos = result.qos
    several = sum(row["srtt_ms_mean"] is not None for row in qos["subflows"]) > 1
    drops = "packets dropped by queues" + (", in all" if result.plan["clients"] > 1 else "")
    sent_again = qos["reinjected_bytes"]
    reinjected = None if sent_again is None else sent_again / 1e3
    _console.heading("What the network did")
    rows = [
        ("duration", or_dash(result.duration_s, "{:,.2f} s")),
        ("goodput", or_dash(qos["goodput_mbps"], "{:.3f} Mb/s")),
        ("RTT difference", or_dash(qos["rtt_diff_ms"] if several else None, "{:.1f} ms")),
        ("reinjected", or_dash(reinjected, "{:,.1f} kB")),
        ("longest wait for a byte", or_dash(qos["max_read_gap_s"], "{:.2f} s")),
        (drops, or_dash(qos["queue_drops"], "{:,}")),
    ]
    if "cross_traffic_mbps" in qos:
        rows.append(("cross traffic", or_dash(qos["cross_traffic_mbps"], "{:.3f} Mb/s")))
    _console.table(("", ""), rows)


def subflows(result: Run) -> None:
    """Write what each subflow did."""
    whose = f", {result.whose_subflows}" if result.whose_subflows else ""
    _console.heading(f"What each subflow did{whose}")
    headers = ("path", "MB", "Mb/s", "retransmissions", "srtt ms", "cwnd mean", "cwnd median")
    rows = [
        (
            row["path"],
            or_dash(row["bytes"], "{:,.1f}", scale=1e-6),
            or_dash(row["throughput_mbps"], "{:.2f}"),
            or_dash(row["retransmissions"], "{:,.0f}"),
            or_dash(row["srtt_ms_mean"], "{:.1f}"),
            or_dash(row["cwnd_segments_mean"], "{:.1f}"),
            or_dash(row["cwnd_segments_median"], "{:.0f}"),
        )
        for row in result.qos["subflows"]
    ]
    _console.table(headers, rows)


def receiver(result: Run) -> None:
    """Print how much data waited at the receiver, if this was recorded."""
    found = result.qos["receiver"]
    _console.heading("What had come and could not be read yet")
    awaited: dict[str, float] = {}
    for row in result.qos["subflows"]:
        awaited[row["path"]] = awaited.get(row["path"], 0.0) + (row.get("awaited_share") or 0.0)
    paths = [f"{name} {100 * share:.0f} %" for name, share in awaited.items() if share > 0]
    behind = f", for {', '.join(paths)}" if paths else ""
    rows = [
        ("a byte waits for a loss on its subflow", or_dash(found["subflow_wait_ms"], "{:,.1f} ms")),
        ("and then for another subflow", or_dash(found["stream_wait_ms"], "{:,.1f} ms") + behind),
        ("bytes that wait for another subflow", or_dash(found["reordered_share"], "{:.1f} %", scale=100)),
        ("time in which something waits", or_dash(found["held_s"], "{:,.1f} s")),
        ("of it for a retransmission", or_dash(found["held_for_repair_s"], "{:,.1f} s")),
        ("and the reader had nothing else", or_dash(found.get("reader_blocked_s"), "{:,.1f} s")),
        ("sender at the edge of the window", or_dash(found.get("window_limited_s"), "{:,.1f} s")),
        (
            "most of the buffer that waits",
            or_dash(found.get("buffer_waiting_share_max"), "{:.0f} %", scale=100),
        ),
    ]
    _console.table(("", ""), rows)


def cross_traffic(result: Run) -> None:
    """Print the results of the background flows, a line for each group."""
    _console.heading("What the cross traffic did")
    headers = ["flows", "congestion", "how many", "MB", "Mb/s", "Mb/s each", "retransmissions"]
    groups = result.qos["cross_traffic"]
    lost = any("datagrams_lost" in row for row in groups)
    rows = [
        (
            row["name"],
            row["congestion"],
            or_dash(row["flows"], "{:,}"),
            or_dash(row["bytes"], "{:,.1f}", scale=1e-6),
            or_dash(row["goodput_mbps"], "{:.2f}"),
            or_dash(row["goodput_mbps"], "{:.2f}", scale=1 / row["flows"]),
            or_dash(row["retransmissions"], "{:,}"),
            *([or_dash(row.get("datagrams_lost"), "{:,}")] if lost else []),
        )
        for row in groups
    ]
    _console.table([*headers, *(["datagrams lost"] if lost else [])], rows, left=2)
