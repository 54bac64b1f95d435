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
from anabranch.capture import _film, _queue, _rule
from anabranch.capture._outages import Outage, outages
from anabranch.metrics._rows import rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch._run import Run
    from anabranch.capture._read import Capture
    from anabranch.capture._trace import Traced

#: Seconds of a step of a recording.
_STEP_S = 1.0
#: A round-trip time that is longer than the least one by this factor shows a queue.
_QUEUED = 1.25
#: A second has a queue if more tenths of it than these have segments, and all of them show one.
_LEAST_TICKS = 4
#: The least number of seconds with a queue that show whether packets arrive together.
_LEAST_SHARES = 2
#: Rates that differ by less than this share agree.
_NEAR = 0.1
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
    outages
        The times in which the path was down.
    """

    name: str
    rtt_ms: float
    rates: Sequence[float | None]
    is_lower_bound: bool
    loss: float
    queue_packets: int
    queue_was_full: bool
    outages: Sequence[Outage] = ()

    @property
    def filled(self) -> list[float]:
        """The rates, with the rate before an unknown one, or at the beginning the first that is known."""
        return _filled(self.rates)

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
        seen = _Seen(down=down, times=times, begin=begin, seconds=seconds, side=traced.side)
        found.append(_path(name, list(streams.values()), seen))
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


@dataclass(frozen=True, kw_only=True)
class _Seen:
    """The samples of a path.

    Attributes
    ----------
    down
        Those of the direction to the client.
    times
        The round-trip times by tenth of a second, in milliseconds.
    begin, seconds
        When the session began, and its length in whole seconds.
    side
        The host at which the capture was taken.
    """

    down: Sequence[Mapping[str, Any]]
    times: Mapping[int, float]
    begin: float
    seconds: int
    side: str | None


def _path(name: str, parts: Sequence[Any], seen: _Seen) -> PathFound:
    """Return what samples show of a path."""
    down, times, begin, side = seen.down, seen.times, seen.begin, seen.side
    key = "syn_to_syn_ack_ms" if side == "client" else "syn_ack_to_ack_ms"
    shakes = [part.stream[key] for part in parts if part.stream[key] is not None and part.stream["syns"] == 1]
    least = min([*times.values(), *shakes], default=50.0)
    size = max((part.stream[part.down]["longest_payload"] for part in parts), default=1400) or 1400
    rates, is_lower_bound = _rates(seen, least, 1 + _HEADERS / size)
    per_s = [rate * 1e6 / 8 / (size + _HEADERS) for rate in _filled(rates)]
    found = _queue.queue(list(_ticks(down, side, size)), times, least, per_s, round(begin * 10))
    packets = round(found.packets if found.was_full else 1.5 * found.packets)
    return PathFound(
        name=name,
        rtt_ms=least,
        rates=rates,
        is_lower_bound=is_lower_bound,
        loss=found.loss,
        queue_packets=max(packets, 5 if found.was_full else _LEAST_PACKETS),
        queue_was_full=found.was_full,
        outages=outages(down, size, begin, at_server=side == "server"),
    )


def _ticks(down: Sequence[Mapping[str, Any]], side: str | None, size: float) -> Iterator[_queue.Tick]:
    """Yield the tenths of a second of samples, with segments of a size as packets."""
    for row in down:
        new = row["throughput_mbps"] * 1e6 / 80
        missing = row["skipped_bytes"] if side != "server" else row["resent_mbps"] * 1e6 / 80
        yield _queue.Tick(number=round(row["t_s"] * 10), sent=(new + missing) / size, lost=missing / size)


def _filled(rates: Sequence[float | None]) -> list[float]:
    """Return rates with the rate before an unknown one, or at the beginning the first that is known."""
    known = next((rate for rate in rates if rate is not None), 1.0)
    result = []
    for rate in rates:
        known = known if rate is None else rate
        result.append(known)
    return result


def _rates(seen: _Seen, least_ms: float, wire: float) -> tuple[list[float | None], bool]:
    """Return the rate of each second, or None, and whether they are lower bounds.

    Parameters
    ----------
    seen
        The samples.
    least_ms
        The least round-trip time.
    wire
        The bytes on the link for each byte of payload.
    """
    pairs, carried = _by_second(seen, wire)
    if seen.side != "server":
        busy = _busy(seen.times, least_ms)
        starts = (round(seen.begin * 10) + 10 * second for second in range(seen.seconds))
        whole = [
            sum(own.values()) / 10 if busy.issuperset(range(start, start + 10)) else None
            for start, own in zip(starts, carried, strict=True)
        ]
        return _paired([median(own) if len(own) > 1 else None for own in pairs], whole), False
    queued = [
        fmean(own.values())
        if len(own) > _LEAST_TICKS and all(seen.times.get(tick, 0.0) > _QUEUED * least_ms for tick in own)
        else None
        for own in carried
    ]
    if any(rate is not None for rate in queued):
        return queued, False
    # A tenth without an acknowledgement counts as well: the next one may acknowledge its bytes too.
    most = max((sum(own.values()) / 10 for own in carried if own), default=1.0)
    return [most] * seen.seconds, True


def _by_second(seen: _Seen, wire: float) -> tuple[list[list[float]], list[dict[int, float]]]:
    """Return by second the rates of neighbouring segments, and the rate in each tenth, of all connections."""
    pairs: list[list[float]] = [[] for _ in range(seen.seconds)]
    carried: list[dict[int, float]] = [{} for _ in range(seen.seconds)]
    before: dict[int, int] = {}
    for row in seen.down:
        second, tick = int((row["t_s"] - seen.begin + 1e-6) / _STEP_S), round(row["t_s"] * 10)
        acked = row["acked_bytes"] - before.get(row["stream"], 0)
        before[row["stream"]] = row["acked_bytes"]
        if not 0 <= second < seen.seconds:
            continue
        if row["pair_mbps"] is not None:
            pairs[second].append(row["pair_mbps"])
        rate = acked * 80e-6 if seen.side == "server" else row["throughput_mbps"]
        carried[second][tick] = carried[second].get(tick, 0.0) + rate * wire
    return pairs, carried


def _busy(times: Mapping[int, float], least_ms: float) -> set[int]:
    """Return the tenths of a second in which the link was busy: in some a segment arrived that had waited.

    The link was busy as long as the segment waited.
    """
    return {
        tick - before
        for tick, time in times.items()
        if time > _QUEUED * least_ms
        for before in range(int((time - least_ms) / 100) + 1)
    }


def _paired(pairs: Sequence[float | None], queued: Sequence[float | None]) -> list[float | None]:
    """Return the rate of each second at the client, from segments that followed one another.

    The median of their rates is exact on a link of constant rate. A varying link carries another rate on
    average. A radio that sends several packets at once lets them arrive faster than it carries them, and
    jitter lets most of them arrive slower. In a second in which a queue never ended, the bytes that arrived
    are the rate; such seconds also show by how much the rates of other seconds are too high or too low.
    """
    both = [(pair, own) for pair, own in zip(pairs, queued, strict=True) if pair and own is not None]
    share = median(own / pair for pair, own in both) if len(both) >= _LEAST_SHARES else 1.0
    if abs(share - 1) < _NEAR:
        share = 1.0
    result = []
    for pair, own in zip(pairs, queued, strict=True):
        if pair is None or (own is not None and abs(own / pair - 1) > _NEAR):
            result.append(own)
        else:
            result.append(share * pair if own is None else pair)
    return result


@dataclass(frozen=True, kw_only=True)
class Written:
    """The files of a scenario, the scenario first, and the rule of adaptation that agrees best with its film.

    `rule` is None if the session has no chunks with renditions, or if the log names the player.
    """

    files: Sequence[Path]
    rule: _rule.Rule | None


def write(path: Path, capture: Capture, traced: Traced, run: Run, *, ladder: str | None = None) -> Written:
    """Write a scenario, and its recordings and playlist into the same folder.

    Parameters
    ----------
    path
        The file of the scenario.
    capture, traced, run
        The session.
    ladder
        The ladder of the film as a scenario names it. None takes it from the chunks of the session.

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
    blocks += [_handoff(outage, number) for number, one in enumerate(found) for outage in one.outages]
    rule = None
    more = _write_text(path, run, ladder, None, blocks)
    if not _film.knows_player(run) and (rule := _rule.best(path, run)):
        _write_text(path, run, ladder, rule, blocks)
    return Written(files=[path, *files, *more], rule=rule)


def _write_text(
    path: Path, run: Run, ladder: str | None, rule: _rule.Rule | None, blocks: Sequence[str]
) -> list[Path]:
    """Write the scenario and the playlist of its film. Return the playlist, if there is one."""
    played, more = _film.application(run, path.with_name(f"{path.stem}-film.m3u8"), ladder, rule)
    _files.write(path, "\n".join([*_head(run), *played, "", *blocks]), "the scenario")
    return more


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


def _handoff(outage: Outage, number: int) -> str:
    """Return the table of an outage."""
    return "\n".join(
        [
            f"# The path was silent until {outage.until_s:.1f} s; it may have been up again before.",
            "[[handoffs]]",
            'kind = "silent"',
            f'path = "path{number}"',
            f'at = "{outage.begin_s:.1f} s"',
            f'lasting = "{outage.end_s - outage.begin_s:.1f} s"',
            "",
        ]
    )
