"""Converts a trace's tables to the rows that charts draw, with few enough points for long runs."""

from __future__ import annotations

from math import inf, isfinite
from typing import TYPE_CHECKING, Any

from anabranch.metrics._rows import of_one, rows
from anabranch.metrics._still import standing_times
from anabranch.plugins.tables import module

if TYPE_CHECKING:
    from anabranch.metrics._rows import Tables

Row = dict[str, Any]

#: The most points of a line: about one per pixel.
_POINTS = 1000
#: The shortest window over which throughput is taken, seconds.
_THROUGHPUT_WINDOW_S = 1.0
#: The time within which changes of a link count as one, seconds.
_APART_S = 1.0


def duration_s(tables: Tables, client: int) -> float:
    """Return the length of a client's session, including pictures shown after the last byte."""
    ends = [row["duration_s"] for row in rows(tables["connections"], client=client)]
    ends += [row["t_s"] for row in rows(tables.get("playback", {}), client=client)]
    return max(ends, default=0.0)


def fates(tables: Tables, client: int) -> list[Row]:
    """Return intervals of pictures with the same fate: `from_s`, `to_s`, `fate`, `pictures`.

    A picture is drawn at the time it was due. A picture that was never due is drawn after the one before it.
    """
    result: list[Row] = []
    step = _frame_step(tables, client)
    now = 0.0
    for row in rows(tables.get("frames", {}), client=client):
        when = row["shown_s"] if row["fate"] == "displayed" and row["shown_s"] is not None else row["due_s"]
        now = when if when is not None else now + step
        if row["fate"] == "unplayed":
            continue
        last = result[-1] if result else None
        if last and last["fate"] == row["fate"] and -step / 2 <= now - last["to_s"] <= step:
            last["to_s"], last["pictures"] = max(now + step, last["to_s"]), last["pictures"] + 1
        else:
            result.append({"from_s": now, "to_s": now + step, "fate": row["fate"], "pictures": 1})
    return [{**row, "from_s": round(row["from_s"], 3), "to_s": round(row["to_s"], 3)} for row in result]


def stalls(tables: Tables, client: int) -> list[Row]:
    """Return the times without a new picture that a viewer notices: `from_s`, `to_s`."""
    return [{"from_s": begin, "to_s": end} for begin, end in standing_times(of_one(tables, client))]


def changes(tables: Tables) -> list[Row]:
    """Return the changes of the world, both directions of a link as one: `t_s`, `label`."""
    told: dict[tuple[float, str, str], set[str]] = {}
    for row in rows(tables.get("events", {})):
        name, way = row["link"], ""
        if name.endswith((".down", ".up")):
            name, _, way = name.rpartition(".")
        told.setdefault((row["t_s"], name, _plain(row["what"])), set()).add(way)
    result = []
    last: dict[tuple[str, str], float] = {}
    for (time, name, what), ways in sorted(told.items(), key=lambda item: item[0][0]):
        # Consecutive steps of a fade have one label, at the first step.
        kind = (name, what.split(" ")[0])
        step, last[kind] = time - last.get(kind, -_APART_S), time
        if step < _APART_S and kind[1] in ("rate", "loss", "delay"):
            continue
        direction = "" if len(ways) > 1 or ways == {""} else f" ({next(iter(ways))})"
        result.append({"t_s": time, "label": f"{name} {what}{direction}"})
    return result


def windows(tables: Tables, client: int) -> list[Row]:
    """Return each subflow's congestion window: `t_s`, `subflow`, `path`, `cwnd_segments`."""
    return _means(tables, client, "cwnd_segments")


def round_trips(tables: Tables, client: int) -> list[Row]:
    """Return each subflow's smoothed round-trip time: `t_s`, `subflow`, `path`, `srtt_ms`."""
    return _means(tables, client, "srtt_ms")


def queueing(tables: Tables, client: int) -> list[Row]:
    """Return each subflow's smoothed RTT above its smallest RTT: `t_s`, `subflow`, `path`, `queueing_ms`.

    Most of it is time in queues. A delay that a link adds for other reasons is included.
    """
    step = _step_s(tables, client, at_least=0.1)
    smallest = {
        (whose["subflow"], time): min(values)
        for whose, points in _by_subflow(tables, client, "min_rtt_ms")
        for time, values in _binned(points, step)
    }
    result = []
    for row in round_trips(tables, client):
        least = smallest.get((row["subflow"], row["t_s"]))
        if least is not None:
            result.append({**row, "queueing_ms": round(max(row["srtt_ms"] - least, 0.0), 1)})
    return result


def shares(throughput: list[Row]) -> list[Row]:
    """Return each path's share of the throughput: `t_s`, `path`, `part`, `percent`.

    Parameters
    ----------
    throughput
        Rows of `throughputs`.

    While no path carries data, there are no shares. Each such time begins a new `part`.
    """
    carried: dict[float, dict[str, float]] = {}
    for row in throughput:
        at = carried.setdefault(row["t_s"], {})
        at[row["path"]] = at.get(row["path"], 0.0) + row["mbps"]
    paths = dict.fromkeys(row["path"] for row in throughput)
    result = []
    part = 0
    for time, own in sorted(carried.items()):
        whole = sum(own.values())
        if not whole:
            part += 1
            continue
        for path in paths:
            percent = round(100 * own.get(path, 0.0) / whole, 1)
            result.append({"t_s": time, "path": path, "part": part, "percent": percent})
    return result


def _means(tables: Tables, client: int, column: str) -> list[Row]:
    """Return a column of each subflow, as means of its samples in each bin."""
    step = _step_s(tables, client, at_least=0.1)
    return [
        {"t_s": time, **whose, column: round(sum(values) / len(values), 1)}
        for whose, points in _by_subflow(tables, client, column)
        for time, values in _binned(points, step)
    ]


def sequences(tables: Tables, client: int) -> list[Row]:
    """Return each subflow's payload acknowledged so far: `t_s`, `subflow`, `path`, `acked_mb`."""
    step = _step_s(tables, client, at_least=0.1)
    return [
        {"t_s": time, **whose, "acked_mb": round(values[-1] / 1e6, 4)}
        for whose, points in _by_subflow(tables, client, "bytes_acked")
        for time, values in _binned(points, step)
    ]


def throughputs(tables: Tables, client: int) -> list[Row]:
    """Return each subflow's acknowledged payload per second: `t_s`, `subflow`, `path`, `mbps`."""
    step = _step_s(tables, client, at_least=_THROUGHPUT_WINDOW_S / 2)
    window = max(_THROUGHPUT_WINDOW_S, 2 * step)
    result = []
    for whose, points in _by_subflow(tables, client, "bytes_acked"):
        marks = [(time, values[-1]) for time, values in _binned(points, step)]
        back = max(1, round(window / step))
        for index, (time, count) in enumerate(marks):
            earlier_time, earlier = marks[max(0, index - back)]
            if time > earlier_time:
                mbps = (count - earlier) * 8e-6 / (time - earlier_time)
                result.append({"t_s": time, **whose, "mbps": round(mbps, 3)})
    return result


def buffers(tables: Tables, client: int) -> list[Row]:
    """Return the media that the player holds: `t_s`, `buffer_s`."""
    step = _step_s(tables, client, at_least=0.1)
    table = rows(tables.get("player", {}), client=client)
    points = [(row["t_s"], row["buffer_s"]) for row in table if row["buffer_s"] is not None]
    return [{"t_s": time, "buffer_s": round(min(values), 3)} for time, values in _binned(points, step)]


def renditions(tables: Tables, client: int) -> list[Row]:
    """Return the rendition on the screen over time: `from_s`, `to_s`, `mbps`, `name`, `height`.

    A chunk is drawn at the time when its pictures were shown, without times of standstill. A log without
    positions in the film, such as one of CMCD, does not show these times: then nothing is returned.
    """
    found: list[Row] = module().renditions(of_one(tables, client))
    rounded = ("from_s", "to_s", "mbps")
    known = (row for row in found if isfinite(row["from_s"]) and isfinite(row["to_s"]))
    return [row | {name: round(row[name], 3) for name in rounded} for row in known]


def loads(tables: Tables, client: int) -> list[Row]:
    """Return the time in which each chunk was loaded, until its last byte or until it was abandoned.

    `from_s`, `to_s`, `name` (of the rendition), `mbps` (the rendition's bitrate), `abandoned`.
    """
    table = rows(tables.get("renditions", {}))
    ladder = {(row["track"], row["rendition"]): row for row in table}
    known = (row for row in rows(tables.get("chunks", {}), client=client) if row["t_s"] is not None)
    asked = sorted(known, key=lambda row: row["t_s"])
    until = duration_s(tables, client)
    result = []
    for place, row in enumerate(asked):
        # An abandoned chunk ended at the latest when the next one was requested.
        later = (one["t_s"] for one in asked[place + 1 :] if one["t_s"] > row["t_s"])
        ended = next(later, until) if row["done_s"] is None else row["done_s"]
        if (declared := ladder.get((row["track"], row["rendition"]))) is None:
            continue
        # A player's log may not have the rates.
        mbps = round((declared["average_bps"] or declared["bandwidth_bps"] or 0) / 1e6, 3)
        piece = {"from_s": round(row["t_s"], 3), "to_s": round(max(ended, row["t_s"]), 3)}
        result.append({**piece, "name": declared["name"], "mbps": mbps, "abandoned": row["abandoned"]})
    return result


def drops(tables: Tables, client: int) -> list[tuple[float, int]]:
    """Return the number of pictures that a browser had dropped over time, a point for each change."""
    times = (row["t_s"] for row in rows(tables.get("playback", {}), client=client) if row["event"] == "drop")
    counts = {round(time, 3): number for number, time in enumerate(sorted(times), start=1)}
    return list(counts.items())


def _plain(what: str) -> str:
    """Return a change in words. The trace may store it as JSON."""
    import json
    import re

    from anabranch.scenario.units import show_rate, show_time

    rate = re.fullmatch(r"rate (\d+) bit/s", what)
    if rate is not None:
        return f"rate {show_rate(int(rate[1]))}"
    try:
        change = json.loads(what)
    except ValueError:
        return what
    if isinstance(change, dict) and len(change) == 1:
        ((key, value),) = change.items()
        if key == "rate_bps":
            return f"rate {show_rate(value)}"
        if key == "delay_ns":
            return f"delay {show_time(value)}"
        if key == "loss":
            share = value.get("bernoulli") if isinstance(value, dict) else 0
            return "bursty loss" if share is None else f"loss {share:.2%}"
    return str(change)


def _frame_step(tables: Tables, client: int) -> float:
    """Return the time from one picture to the next."""
    times = sorted(row["pts_s"] for row in rows(tables.get("frames", {}), client=client))
    return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 1 / 30


def _step_s(tables: Tables, client: int, *, at_least: float) -> float:
    """Return the width of a bin: whole tenths of a second, so that a run has at most `_POINTS`."""
    tenths = -(-duration_s(tables, client) * 10 // _POINTS)
    return max(at_least, float(tenths) / 10)


def _by_subflow(tables: Tables, client: int, column: str) -> list[tuple[Row, list[tuple[float, float]]]]:
    """Return each subflow's `subflow`, `path` and (time, value) points, until it carries no more data."""
    series: dict[tuple[int, str], list[tuple[float, float]]] = {}
    ends: dict[tuple[int, str], tuple[float, float]] = {}
    for row in rows(tables.get("samples", {}), client=client):
        whose = (row["subflow"], row["path"])
        if row[column] is not None:
            series.setdefault(whose, []).append((row["t_s"], row[column]))
        if row["bytes_acked"] is not None and row["bytes_acked"] > ends.get(whose, (-1.0, 0.0))[0]:
            ends[whose] = (row["bytes_acked"], row["t_s"])
    # The points continue until the rate has visibly fallen to zero.
    until = {whose: end + 2 * _THROUGHPUT_WINDOW_S for whose, (_, end) in ends.items()}
    return [
        ({"subflow": whose[0], "path": whose[1]}, [at for at in points if at[0] <= until.get(whose, inf)])
        for whose, points in sorted(series.items())
    ]


def _binned(points: list[tuple[float, float]], step: float) -> list[tuple[float, list[float]]]:
    """Sort points into bins of equal width, keyed by the beginning of the bin."""
    bins: dict[int, list[float]] = {}
    for time, value in points:
        bins.setdefault(int(time / step + 1e-6), []).append(value)
    return [(round(number * step, 3), values) for number, values in sorted(bins.items())]
