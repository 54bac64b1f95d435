"""A run at a glance: a few numbers, a bar of time and a bar of bytes, as small HTML."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

from anabranch import _html, _numbers
from anabranch.figures import colours
from anabranch.metrics._still import strips

if TYPE_CHECKING:
    from collections.abc import Mapping

    from anabranch.metrics._rows import Tables

#: The viewer's metrics to show, if the run has them, with their labels.
_VIEWER = {
    "startup_delay_s": "starts after, s",
    "startup_s": "starts after, s",
    "rebuffer_s": "frozen, s",
    "rebuffer_total_s": "frozen, s",
    "buffer_underflows": "buffer underflows",
    "picture_discards": "discarded pictures",
    "resolution_mean": "resolution, lines",
}
#: The metrics of a path's subflow to show.
_SUBFLOW = {"path": "path", "bytes": "bytes", "throughput_mbps": "Mb/s", "retransmissions": "retransmissions"}

#: The words and the colour of each state of the screen.
_STATES = {
    "wait": ("waiting", colours.WAITING),
    "play": ("playing", colours.RENDITION),
    "freeze": ("frozen", colours.STILL),
}


def run(name: str, said: Mapping[str, Any], tables: Tables) -> str:
    """Return a notebook's view of a run.

    Parameters
    ----------
    name
        The scenario's.
    said
        The result of `Run.to_json`.
    tables
        The trace.
    """
    qoe, qos = said["qoe"] or {}, said["qos"]
    told = {words: qoe[key] for key, words in _VIEWER.items() if qoe.get(key) is not None}
    told |= {"goodput, Mb/s": qos["goodput_mbps"]} if qos.get("goodput_mbps") is not None else {}
    flows = [[_number(one[key]) for key in _SUBFLOW] for one in qos["subflows"]]
    carried: dict[str, float] = {}
    for one in qos["subflows"]:
        carried[one["path"]] = carried.get(one["path"], 0.0) + one["bytes"]
    about = f"{said['scheduler']}, {said['congestion']}, seed {said['seed']}, run {said['run']}"
    total = sum(carried.values()) or 1.0
    return _html.block(
        _html.heading(name, f"{about}, {said['duration_s']:.1f} s"),
        *([_time(tables)] if said["qoe"] else []),
        _html.table(("", ""), [(words, _number(value)) for words, value in told.items()]),
        shares({path: count / total for path, count in carried.items()}),
        _html.table(tuple(_SUBFLOW.values()), flows),
        *map(_html.paragraph, said["notes"]),
    )


def shares(carried: Mapping[str, float]) -> str:
    """Return the share of the bytes that each path carried as a bar, with a line of words below."""
    paths = colours.of_paths(list(carried))
    ends = list(accumulate(carried.values()))
    parts = [
        (f"{path}: {100 * share:.0f} % of the bytes", end - share, end, paths[path])
        for (path, share), end in zip(carried.items(), ends, strict=True)
    ]
    told = ", ".join(name for name, *_ in parts)
    return _html.strip(parts, 1.0, told) + _html.paragraph(told)


def _time(tables: Tables) -> str:
    """Return the first client's session as a bar: waiting for the start, playing, and frozen."""
    spans = next(iter(strips(tables)), [])
    whole = max((span["to_s"] for span in spans), default=0.0)
    frozen = sum(span["to_s"] - span["from_s"] for span in spans if span["state"] == "freeze")
    return _html.strip([_part(span) for span in spans], whole, f"{whole:.1f} s, frozen for {frozen:.1f} s")


def _part(span: Mapping[str, Any]) -> tuple[str, float, float, str]:
    """Return a part of the bar of time."""
    words, colour = _STATES[span["state"]]
    begin, end = span["from_s"], span["to_s"]
    return f"{words} from {begin:.1f} to {end:.1f} s", begin, end, colour


def _number(value: object) -> str:
    """Return the text of a value."""
    if isinstance(value, float):
        return _numbers.trimmed(f"{value:,.2f}")
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
