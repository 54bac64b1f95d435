"""The page of a measurement: the arms, the first trial over time, and UQ18's figures."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch._numbers import three_digits
from anabranch.measure._figures import sentence

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.measure import Measured, Session
    from anabranch.report._panels import Curve, Panel

#: The columns of the arms: figure and heading.
_HEADS = {
    "goodput_mbps": "goodput, Mb/s",
    "startup_s": "first picture after, s",
    "stalled_s": "in stalls, s",
    "height": "height, pixels",
}
#: The table of the captures' figures, and its key.
_CAPTURE_HEADS = [
    "arm",
    "path",
    "bytes",
    "least RTT, ms",
    "mean RTT, ms",
    "out of order",
    "received twice, bytes",
    "waited for, s",
]
_CAPTURE_NOTE = (
    "Means over the trials. Out of order: frames that came while an earlier one of the subflow was missing. "
    "Received twice: bytes that the server retransmitted needlessly. Waited for: how long data of other "
    "paths waited for data of this path. Retransmissions of lost segments cannot be seen at the client."
)


def write(path: Path, found: Measured) -> Path:
    """Write the page, and return its place.

    Raises
    ------
    MissingError
        When the file cannot be written.
    """
    _files.write(path, build(found), "the report")
    return path


def build(found: Measured) -> str:
    """Return the page as HTML text."""
    from anabranch.report import _draw, _page, _panels

    heads, lines = table(found)
    first = [session for session in found.sessions if session.trial == 0]
    until = max((session.duration_s for session in first), default=1.0)
    panels = [panel for session in first if (panel := _panel(session, found)) is not None]
    figure = _panels.Figure(until_s=max(until, 1.0), panels=panels, stalls=(), changes=())
    paper_heads, paper_lines = _paper(found.rows)
    return _page.rendered(
        "measure.html.j2",
        title="Measured over this host's paths",
        url=found.plan.url.geturl(),
        paths=", ".join(path.name for path in found.plan.host.paths),
        trials=found.plan.trials,
        players=", ".join(found.players),
        notes=found.notes,
        verdicts=[sentence(difference) for difference in found.differences],
        heads=heads,
        lines=lines,
        figure=_draw.figure(figure),
        paper_heads=paper_heads,
        paper_lines=paper_lines,
        paper_note=_note(paper_heads[1:], found.rows),
        capture_heads=_CAPTURE_HEADS,
        capture_lines=_capture(found),
        capture_note=_CAPTURE_NOTE,
    )


def table(found: Measured) -> tuple[list[str], list[list[str]]]:
    """Return a table of the arms: its heads and lines. A figure that no arm has is left out."""
    arms = found.arms
    shown = [key for key in _HEADS if any(key in arm.figures for arm in arms)]
    lines = []
    for arm in arms:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in arm.shares.items())
        lines.append([arm.name, *(_cell(arm.figures, key) for key in shown), shares])
    return ["arm", *(_HEADS[key] for key in shown), "shares of the bytes"], lines


def _cell(figures: Mapping[str, Any], key: str) -> str:
    """Return a mean with its interval; a dash if the arm has none."""
    found = figures.get(key)
    if found is None:
        return "–"
    return three_digits(found.mean) + ("" if found.half is None else f" ± {three_digits(found.half)}")


def _panel(session: Session, found: Measured) -> Panel | None:
    """Return the throughput of each path over a session; None if nothing was counted."""
    from anabranch.report._panels import Panel

    curves = list(_curves(session, found))
    return Panel(title=f"Throughput, {session.arm}", unit="Mb/s", curves=curves) if curves else None


def _curves(session: Session, found: Measured) -> Iterator[Curve]:
    """Yield the throughput of each path over the last second, from the counters of its subflows."""
    from anabranch.report._panels import Curve

    begin = session.samples[0].at_s if session.samples else 0.0
    for place, path in enumerate(found.plan.host.paths):
        most: dict[int, int] = {}
        totals = []
        for sample in session.samples:
            for subflow in sample.subflows:
                address, port = subflow.local
                if address == path.address:
                    most[port] = max(most.get(port, 0), subflow.received)
            totals.append((sample.at_s - begin, sum(most.values())))
        if not totals or not totals[-1][1]:
            continue
        points = [(at, _rate(totals, number)) for number, (at, _) in enumerate(totals)]
        yield Curve(name=path.name, points=points, colour=f"p{place % 8}")


def _rate(totals: Sequence[tuple[float, int]], number: int) -> float:
    """Return the rate over the second before a sample, in Mb/s."""
    at, total = totals[number]
    first = next((place for place in range(number + 1) if totals[place][0] >= at - 1.0), number)
    since, before = totals[first]
    return 8e-6 * (total - before) / (at - since) if at > since else 0.0


def _paper(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return the means of UQ18's figures of each arm. A figure without values is left out."""
    names = [name for name in rows[0]["uq18"] if any(row["uq18"][name] is not None for row in rows)]
    lines = []
    for arm in dict.fromkeys(row["arm"] for row in rows):
        own = [row["uq18"] for row in rows if row["arm"] == arm and not row["error"]]
        lines.append([arm, *(_figure([each[name] for each in own]) for name in names)])
    return ["arm", *names], lines


def _figure(values: Sequence[Any]) -> str:
    """Return the mean of a figure, or of each path's; a dash without values."""
    known = [value for value in values if value is not None]
    if not known:
        return "–"
    if isinstance(known[0], dict):
        paths = dict.fromkeys(path for value in known for path in value)
        means = {path: fmean(value[path] for value in known if path in value) for path in paths}
        return ", ".join(f"{path} {three_digits(value)}" for path, value in means.items())
    return three_digits(fmean(known))


def _note(names: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the meanings of UQ18's figures, and their source."""
    from anabranch.capture import FIGURES

    meanings = "; ".join(f"{name}: {FIGURES[name]}" for name in names)
    sources = {row["uq18_from"] for row in rows}
    source = (
        "Throughput, round-trip times and bytes come from the captures of the headers. "
        "Round-trip times are those from a timestamp to its echo, or of the handshake."
        if sources == {"capture"}
        else "Round-trip times are the kernel's smoothed ones; a client has them from its requests only."
        if sources == {"tcp_info"}
        else "Some sessions have no whole capture: their figures come from the kernel's counters."
    )
    return f"Means over the trials. {meanings}. {source}"


def _capture(found: Measured) -> list[list[str]]:
    """Return what the captures show of each arm and path: lines of a table, without any if there are none."""
    lines = []
    for arm in found.arms:
        own = [one.captured for one in found.sessions if one.arm == arm.name and not one.error]
        whole = [one for one in own if one is not None and one.is_whole]
        for path in found.plan.host.paths:
            seen = [one.paths[path.name] for one in whole if path.name in one.paths]
            if not seen:
                continue
            values: list[list[Any]] = [
                [one.bytes for one in seen],
                [one.min_rtt_ms for one in seen],
                [one.rtt_ms for one in seen],
                [one.out_of_order for one in seen],
                [one.twice_bytes for one in seen],
                [one.head_of_line_s for one in seen],
            ]
            lines.append([arm.name, path.name, *(_figure(column) for column in values)])
    return lines
