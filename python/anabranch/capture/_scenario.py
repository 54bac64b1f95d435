"""A captured session as a scenario: paths with measured times, rates and losses, and the application.

The rate of a path is estimated from segments that arrived directly after one another. At the client, the
slowest link sets their rate. At the server, the estimate is the rate of acknowledgements while the round-trip
time shows a queue. Times without either are unknown, and the rate before them holds. A lower bound is marked.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch._numbers import decimal
from anabranch.metrics._rows import rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch._run import Run
    from anabranch.capture._read import Capture
    from anabranch.capture._trace import Traced

#: Seconds of a step of a recording.
_STEP_S = 1.0
#: A round-trip time that is longer than the least one by this factor shows a queue.
_QUEUED = 1.25
#: Above this share of the range of round-trip times, a lost segment met a full queue.
_FULL = 0.7
#: Bytes of headers of a segment with the usual options.
_HEADERS = 72
#: The rate of a direction in which only acknowledgements were sent.
_UP_MBPS = 20.0
#: The queue of a path whose queue was never full, in packets.
_LEAST_PACKETS = 100


@dataclass(frozen=True, kw_only=True)
class PathFound:
    """A path as a capture shows it.

    Attributes
    ----------
    name
        Its name.
    rtt_ms
        The least round-trip time.
    rates
        The rate in Mb/s of each step of a second; None where it is unknown.
    is_lower_bound
        Whether the sender was limited all the time, so that the rate is only a lower bound.
    loss
        The share of segments that were lost although the queue was not full.
    queue_packets
        The length of the queue.
    queue_was_full
        Whether segments were lost at long round-trip times, so that the length is measured.
    """

    name: str
    rtt_ms: float
    rates: Sequence[float | None]
    is_lower_bound: bool
    loss: float
    queue_packets: int
    queue_was_full: bool

    @property
    def filled(self) -> list[float]:
        """The rates, with the rate before an unknown one, or at the beginning the first that is known."""
        known = next((rate for rate in self.rates if rate is not None), 1.0)
        result = []
        for rate in self.rates:
            known = known if rate is None else rate
            result.append(known)
        return result

    @property
    def unknown(self) -> list[tuple[int, int]]:
        """The stretches of seconds in which the rate is unknown: first and one past the last."""
        found: list[tuple[int, int]] = []
        for second, rate in enumerate(self.rates):
            if rate is not None:
                continue
            if found and found[-1][1] == second:
                found[-1] = (found[-1][0], second + 1)
            else:
                found.append((second, second + 1))
        return found


def paths(capture: Capture, traced: Traced) -> list[PathFound]:
    """Return what the capture shows of each path of a session."""
    begin = traced.summary["begin_s"]
    seconds = max(int(traced.summary["duration_s"] / _STEP_S) + 1, 1)
    table = list(rows(capture.tables["capture_samples"]))
    found = []
    for name in traced.paths:
        streams = {part.stream["stream"]: part for part in traced.parts if part.path == name}
        down = [row for row in table if _is(row, streams, "down")]
        times = _times(table, streams, traced.side)
        found.append(_path(name, list(streams.values()), down, times, begin, seconds, traced.side))
    return found


def _is(row: Mapping[str, Any], streams: Mapping[int, Any], way: str) -> bool:
    """Return whether a sample is of a direction of one of these streams."""
    part = streams.get(row["stream"])
    return part is not None and row["direction"] == getattr(part, way)


def _times(
    table: Sequence[Mapping[str, Any]], streams: Mapping[int, Any], side: str | None
) -> dict[int, float]:
    """Return the round-trip time of each tenth of a second that shows one."""
    way, column = ("down", "ack_rtt_ms") if side == "server" else ("up", "echo_rtt_ms")
    return {
        round(row["t_s"] * 10): row[column]
        for row in table
        if _is(row, streams, way) and row[column] is not None
    }


def _path(
    name: str,
    parts: Sequence[Any],
    down: Sequence[Mapping[str, Any]],
    times: Mapping[int, float],
    begin: float,
    seconds: int,
    side: str | None,
) -> PathFound:
    """Return what samples show of a path."""
    key = "syn_to_syn_ack_ms" if side == "client" else "syn_ack_to_ack_ms"
    shakes = [part.stream[key] for part in parts if part.stream[key] is not None and part.stream["syns"] == 1]
    least = min([*times.values(), *shakes], default=50.0)
    most = sorted(times.values())[int(0.99 * (len(times) - 1))] if times else least
    size = max((part.stream[part.down]["longest_payload"] for part in parts), default=1400) or 1400
    rates, is_lower_bound = _rates(down, times, least, begin, seconds, side, 1 + _HEADERS / size)
    known = [rate for rate in rates if rate is not None]
    full, lost, sent = 0, 0.0, 0.0
    for row in down:
        new = row["throughput_mbps"] * 1e6 / 80
        missing = row["skipped_bytes"] if side != "server" else row["resent_mbps"] * 1e6 / 80
        tick = round(row["t_s"] * 10)
        # The queue was full when the next segment left: up to a round-trip time earlier or later.
        near = max((times[at] for at in range(tick - 3, tick + 4) if at in times), default=least)
        is_full = most > least + 20 and near > least + _FULL * (most - least)
        if is_full:
            full += missing > 0
        else:
            lost, sent = lost + missing, sent + new + missing
    packets = 0.0
    if known:
        packets = (most - least) / 1e3 * median(known) * 1e6 / 8 / (size + _HEADERS)
    return PathFound(
        name=name,
        rtt_ms=least,
        rates=rates,
        is_lower_bound=is_lower_bound,
        loss=lost / sent if sent else 0.0,
        queue_packets=max(round(packets), 5) if full else max(round(1.5 * packets), _LEAST_PACKETS),
        queue_was_full=full > 0,
    )


def _rates(
    down: Sequence[Mapping[str, Any]],
    times: Mapping[int, float],
    least_ms: float,
    begin: float,
    seconds: int,
    side: str | None,
    wire: float,
) -> tuple[list[float | None], bool]:
    """Return the rate of each second, or None, and whether they are lower bounds."""
    pairs: list[list[float]] = [[] for _ in range(seconds)]
    # By second the rate in each tenth of it, over all connections.
    carried: list[dict[int, float]] = [{} for _ in range(seconds)]
    before: dict[int, int] = {}
    for row in down:
        second, tick = int((row["t_s"] - begin + 1e-6) / _STEP_S), round(row["t_s"] * 10)
        acked = row["acked_bytes"] - before.get(row["stream"], 0)
        before[row["stream"]] = row["acked_bytes"]
        if not 0 <= second < seconds:
            continue
        if row["pair_mbps"] is not None:
            pairs[second].append(row["pair_mbps"])
        carried[second][tick] = carried[second].get(tick, 0.0) + acked * 80e-6 * wire
    if side != "server":
        return [median(own) if len(own) > 1 else None for own in pairs], False

    queued = [
        fmean(own.values())
        if len(own) > 4 and all(times.get(tick, 0.0) > _QUEUED * least_ms for tick in own)
        else None
        for own in carried
    ]
    if any(rate is not None for rate in queued):
        return queued, False
    most = max((fmean(own.values()) for own in carried if own), default=1.0)
    return [most] * seconds, True


def write(path: Path, capture: Capture, traced: Traced, run: Run) -> list[Path]:
    """Write a scenario, and a recording for each path into the same folder. Return the files.

    Raises
    ------
    MissingError
        When a file cannot be written.
    """
    found = paths(capture, traced)
    files = []
    blocks = []
    for number, one in enumerate(found):
        file = path.with_name(f"{path.stem}-path{number}.csv")
        lines = [
            f"{decimal(second * _STEP_S, 9)},{decimal(rate, 3)}" for second, rate in enumerate(one.filled)
        ]
        _files.write(file, "\n".join(["t_s,rate_mbps", *lines, ""]), "the recording")
        files.append(file)
        blocks.append(_block(one, number, file.name))
    text = "\n".join([*_head(run), *_application(run), "", *blocks])
    _files.write(path, text, "the scenario")
    return [path, *files]


def _head(run: Run) -> list[str]:
    """Return the beginning of the scenario."""
    side = run.summary["captured_at"]
    return [
        f"# From a capture{f' at the {side}' if side else ''}.",
        "# The scheduler and the congestion control are not known: those of Linux are used.",
        'name = "captured"',
        'description = "a captured session"',
        "",
    ]


def _application(run: Run) -> list[str]:
    """Return the table of the application."""
    chunks = [row for row in run.rows("chunks") if row["track"] == "video" and row["done_s"] is not None]
    ladder = [row for row in run.rows("renditions") if row["track"] == "video" and row["height"]]
    if not chunks or not ladder:
        (own,) = run.rows("connections")
        note = (
            []
            if len(run.rows("requests")) < 2
            else ["# The single requests of the session are not repeated."]
        )
        return [*note, "[application]", 'kind = "bulk"', f'bytes = "{own["bytes_read"]} B"']
    lines = ["[application]", 'kind = "adaptive"', 'abr = "hlsjs"  # the rule of the player is not known']
    whole = [row["duration_s"] for row in ladder if row["duration_s"]]
    each = median(row["duration_s"] for row in chunks)
    length = max(whole, default=sum(row["duration_s"] for row in chunks))
    rungs = [f'    {{ height = {row["height"]}, bitrate = "{_bps(row, chunks)} bit/s" }},' for row in ladder]
    lines += [
        "",
        "[application.ladder]",
        f'chunk = "{each:g} s"',
        f'length = "{length:g} s"',
        f'spread = "{_spread(chunks):.0f} %"',
        "renditions = [",
        *rungs,
        "]",
        "",
        "[application.player]",
        'model = "hlsjs"',
    ]
    return lines


def _bps(rung: Mapping[str, Any], chunks: Sequence[Mapping[str, Any]]) -> int:
    """Return the mean rate of a rendition: measured if enough of it was requested, else declared."""
    own = [row for row in chunks if row["rendition"] == rung["rendition"]]
    if len(own) >= 5:
        return int(8 * sum(row["bytes"] for row in own) / sum(row["duration_s"] for row in own))
    return int(rung["average_bps"] or rung["bandwidth_bps"] / 1.2)


def _spread(chunks: Sequence[Mapping[str, Any]]) -> float:
    """Return the largest difference of a chunk's rate from the mean of its rendition, in percent."""
    rates: dict[int, list[float]] = {}
    for row in chunks:
        rates.setdefault(row["rendition"], []).append(row["bytes"] / row["duration_s"])
    parts = [abs(one / fmean(own) - 1) for own in rates.values() if len(own) >= 5 for one in own[:-1]]
    return min(100 * max(parts, default=0.2), 90)


def _block(one: PathFound, number: int, file: str) -> str:
    """Return the table of a path."""
    unknown = ", ".join(f"{first} to {last} s" for first, last in one.unknown[:20])
    lines = [f"# The client's address {one.name}."]
    if one.is_lower_bound:
        lines.append("# The sender was limited: the rate is a lower bound.")
    elif unknown:
        lines.append(f"# Nothing shows the rate at {unknown}: the rate before holds.")
    if not one.queue_was_full:
        lines.append("# The queue was never full, so its length is not known.")
    lines += [
        "[[paths]]",
        f'name = "path{number}"',
        f'rtt = "{one.rtt_ms:.3f} ms"',
        f'queue = "{one.queue_packets} packets"',
        f'loss = "{100 * one.loss:.4f} %"',
        f'down = {{ trace = {{ file = "{file}", repeat = false }} }}',
        f'up = {{ rate = "{_UP_MBPS:g} Mbit/s" }}  # only acknowledgements: not known',
        "",
    ]
    return "\n".join(lines)
