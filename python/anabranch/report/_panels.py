"""The panels of a run's figure, in the units of the trace."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.figures import _data
from anabranch.metrics._rows import of_each
from anabranch.report import _capacity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch._run import Run

#: The most clients that have a bar of time.
CLIENTS = 12
#: If the capacity is more than this multiple of the carried rate, it is named and not drawn, because it would
#: flatten the other curves.
_FLATTENS = 3.0
#: The most points of all curves of a panel.
_POINTS = 5000
#: The longest time for which a connection is still active after the player has left it, seconds: an answer,
#: and the way back.
_PARTING_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A curve: `points` are time in seconds and value; `colour` is a class of the style sheet."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str
    kind: str = "line"


@dataclass(frozen=True, kw_only=True)
class Band:
    """A bar: its start and end in seconds, its class, and the text for the pointer."""

    from_s: float
    to_s: float
    kind: str
    says: str = ""
    number: int | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of bands."""

    name: str
    bands: Sequence[Band]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """A panel: curves over a scale, or rows of bands.

    Attributes
    ----------
    title, unit
        Its title, and its unit.
    curves, rows
        Its content.
    legend
        Pairs of a class and its meaning, if it is not that of the curves' names.
    note
        The parts that could not be drawn.
    labelled
        Whether the changes of the world are written above it.
    """

    title: str
    unit: str = ""
    curves: Sequence[Curve] = ()
    rows: Sequence[Row] = ()
    legend: Sequence[tuple[str, str]] = ()
    note: str = ""
    labelled: bool = False


@dataclass(frozen=True, kw_only=True)
class Freeze:
    """A freeze of the picture, with the causes in words."""

    number: int
    client: int
    from_s: float
    to_s: float
    causes: str


@dataclass(frozen=True, kw_only=True)
class Figure:
    """The panels of a run, on one axis of time, for one client except for the bars of time."""

    until_s: float
    panels: Sequence[Panel]
    stalls: Sequence[Band]
    changes: Sequence[Mapping[str, Any]]
    freezes: Sequence[Freeze] = field(default=())
    #: The seconds of each cause, over the clients with a bar.
    frozen_s: Mapping[str, float] = field(default_factory=dict)
    #: The titles of panels that are left out because their values never change.
    constant: Sequence[str] = ()


def of_run(run: Run, *, client: int = 0) -> Figure:
    """Return the figure of a run: the session of one client, and a bar of time for each."""
    tables = run.tables
    found = _freezes(run)
    stalls = [
        Band(from_s=one.from_s, to_s=one.to_s, kind="frozen", says=one.causes)
        for one in found
        if one.client == client
    ]
    panels = []
    until = _data.duration_s(tables, client)
    if run.qoe is not None:
        bars = list(_time(run, found))
        until = max(until, *(band.to_s for row in bars for band in row.bands), 0.0)
        kinds = {band.kind for row in bars for band in row.bands}
        states = [(kind, kind) for kind in ("starting", "playing", "frozen") if kind in kinds]
        panels.append(Panel(title="Time", rows=bars, legend=states, labelled=True))
    panels += _viewer(run, client)
    path_class = {
        path: f"p{place % 8}" for place, path in enumerate(path["name"] for path in run.plan["paths"])
    }
    panels += [_throughput(run, client, path_class), _windows(run, client, path_class)]
    # A capture shows no congestion windows.
    panels = [panel for panel in panels if panel.curves or panel.rows or panel is panels[0]]
    more = list(_of_paths(run, client, path_class))
    panels += [panel for panel in more if _varies(panel)]
    if not panels[0].labelled:
        panels[0] = _with_labels(panels[0])
    frozen: dict[str, float] = {}
    for one in found:
        for cause, share in one.shares.items():
            frozen[cause] = frozen.get(cause, 0.0) + share * (one.to_s - one.from_s)
    return Figure(
        until_s=max(until, 0.1),
        panels=panels,
        stalls=stalls,
        changes=[row for row in _data.changes(tables) if row["t_s"] <= until],
        freezes=found,
        frozen_s=dict(sorted(frozen.items(), key=lambda item: -item[1])),
        constant=[panel.title for panel in more if panel.curves and not _varies(panel)],
    )


def _varies(panel: Panel) -> bool:
    """Return whether a curve of a panel has two values."""
    return any(len({value for _, value in curve.points}) > 1 for curve in panel.curves)


def _with_labels(panel: Panel) -> Panel:
    """Return a panel with the changes of the world above it."""
    from dataclasses import replace

    return replace(panel, labelled=True)


@dataclass(frozen=True, kw_only=True)
class _Caused(Freeze):
    """A freeze with the shares of its causes."""

    shares: Mapping[str, float]


def _freezes(run: Run) -> list[_Caused]:
    """Return the freezes of the clients that have a bar, numbered in order."""
    if not run.qoe:
        return []
    from anabranch.why.attribute import freezes

    return [
        _Caused(
            number=number,
            client=one.client,
            from_s=one.from_s,
            to_s=one.to_s,
            causes=said(one.causes),
            shares=one.causes,
        )
        for number, one in enumerate(freezes(run, clients=CLIENTS), start=1)
    ]


def said(shares: Mapping[str, float]) -> str:
    """Return the largest causes with their shares, in words."""
    large = [(cause, share) for cause, share in shares.items() if share >= 0.1][:3]
    if len(large) == 1 and large[0][1] > 0.95:
        return large[0][0]
    return ", ".join(f"{cause} {100 * share:.0f} %" for cause, share in large) or "unexplained"


def _time(run: Run, freezes: Sequence[Freeze]) -> Iterator[Row]:
    """Yield a bar of time for each client: starting, playing, frozen."""
    for client, own in of_each({name: run.tables[name] for name in ("connections", "playback")}):
        if client >= CLIENTS:
            break
        end = _data.duration_s(own, client)
        events = [
            (time, what)
            for time, what in zip(own["playback"]["t_s"], own["playback"]["event"], strict=True)
            if what in ("start", "end")
        ]
        stalls = [one for one in freezes if one.client == client]
        # If a session never starts, the standstill begins after its only picture, or at the beginning.
        first = stalls[0].from_s if stalls else end
        started = min((time for time, what in events if what == "start"), default=first)
        ended = min((time for time, what in events if what == "end"), default=end)
        # Marks at a smaller distance would cover each other.
        apart, last = max(end, 0.1) / 40, -1e9
        bands = [Band(from_s=0.0, to_s=started, kind="starting", says="starting")]
        at = started
        for one in stalls:
            if one.from_s > at:
                bands.append(Band(from_s=at, to_s=one.from_s, kind="playing", says="playing"))
            number = one.number if one.from_s - last >= apart else None
            last = one.from_s if number else last
            bands.append(
                Band(
                    from_s=one.from_s,
                    to_s=one.to_s,
                    kind="frozen",
                    says=f"frozen {one.to_s - one.from_s:.1f} s: {one.causes}",
                    number=number,
                )
            )
            at = one.to_s
        if ended > at:
            bands.append(Band(from_s=at, to_s=ended, kind="playing", says="playing"))
        name = f"client {client}" if run.plan["clients"] > 1 else ""
        yield Row(name=name, bands=bands)


def _viewer(run: Run, client: int) -> Iterator[Panel]:
    """Yield the renditions on the screen, and the player's buffer."""
    tables = run.tables
    ladder = _data.renditions(tables, client)
    if ladder:
        order = sorted({row["name"]: row["mbps"] for row in ladder}.items(), key=lambda item: -item[1])
        rows = [
            Row(name=name, bands=[_band(row, "rendition", name) for row in ladder if row["name"] == name])
            for name, _ in order
        ]
        yield Panel(title="Rendition on the screen", rows=rows)
        yield _loads(run, client)
    elif run.summary.get("world") == "captured" and len(tables["chunks"]["t_s"]):
        yield _loads(run, client)
    elif run.qoe is not None and "frames" in run.qoe:
        yield from _pictures(run, client)
    buffers = [(row["t_s"], row["buffer_s"]) for row in _data.buffers(tables, client)]
    if buffers:
        curve = Curve(name="film held", points=buffers, colour="buffer", kind="area")
        yield Panel(title="Player buffer", unit="s", curves=[curve])
    dropped = _data.drops(tables, client)
    if dropped:
        until = max(_data.duration_s(tables, client), dropped[-1][0])
        curve = Curve(name="dropped", points=_stepped([(0.0, 0), *dropped], until), colour="drops")
        yield Panel(title="Pictures dropped by the browser", unit="so far", curves=[curve])


def _loads(run: Run, client: int) -> Panel:
    """Return when chunks were on their way: a row for each requested rendition, from the top."""
    loads = _data.loads(run.tables, client)
    order = sorted({row["name"]: row["mbps"] for row in loads}.items(), key=lambda item: -item[1])
    kinds = {False: ("loading", "from request to last byte"), True: ("given-up", "given up")}
    bands: dict[str, list[Band]] = {name: [] for name, _ in order}
    for row in loads:
        bands[row["name"]].append(_band(row, *kinds[row["abandoned"]]))
    rows = [Row(name=name, bands=own) for name, own in bands.items()]
    legend = [kinds[given_up] for given_up in sorted({row["abandoned"] for row in loads})]
    return Panel(title="Chunks on their way", rows=rows, legend=legend)


def _pictures(run: Run, client: int) -> Iterator[Panel]:
    """Yield a panel with the times at which hidden pictures were due; nothing if all pictures were shown."""
    words = {"displayed": "shown", "discarded": "discarded", "flushed": "flushed"}
    fates = _data.fates(run.tables, client)
    lost = {row["fate"] for row in fates} - {"displayed"}
    if not lost:
        return
    hair = _data.duration_s(run.tables, client) / 1500
    rows = []
    for fate, word in words.items():
        if fate != "displayed" and fate not in lost:
            continue
        bands: list[Band] = []
        for row in fates:
            if row["fate"] != fate:
                continue
            # Bars that are closer than a pixel become one.
            if bands and row["from_s"] - bands[-1].to_s < hair:
                bands[-1] = Band(from_s=bands[-1].from_s, to_s=row["to_s"], kind=word, says=word)
            else:
                bands.append(_band(row, word, word))
        rows.append(Row(name=word, bands=bands))
    yield Panel(title="Pictures, when they were due", rows=rows)


def _band(row: Mapping[str, Any], kind: str, says: str) -> Band:
    """Return a row of a figure's data as a band."""
    return Band(from_s=row["from_s"], to_s=row["to_s"], kind=kind, says=says)


def _curves(
    rows: Sequence[Mapping[str, Any]], column: str, classes: Mapping[str, str], opening: set[int]
) -> list[Curve]:
    """Return a curve for each subflow, without those of the player's opening connections."""
    lines: dict[tuple[int, str], list[tuple[float, float]]] = {}
    for row in rows:
        if row["subflow"] not in opening:
            lines.setdefault((row["subflow"], row["path"]), []).append((row["t_s"], row[column]))
    # If there are more points in total, only every second, third, ... point of each curve is kept.
    step = -(-sum(len(line) for line in lines.values()) // _POINTS) or 1
    return [
        Curve(name=path, points=[*line[::step], *(line[-1:] if step > 1 else ())], colour=classes[path])
        for (_, path), line in lines.items()
    ]


def _windows(run: Run, client: int, classes: Mapping[str, str]) -> Panel:
    """Return the congestion windows."""
    rows = _data.windows(run.tables, client)
    curves = _curves(rows, "cwnd_segments", classes, opening(run, client))
    return Panel(title="Congestion window of each subflow", unit="segments", curves=curves)


def _of_paths(run: Run, client: int, classes: Mapping[str, str]) -> Iterator[Panel]:
    """Yield the smoothed RTT, the time in queues, and the share of each path."""
    without = opening(run, client)
    trips = _curves(_data.round_trips(run.tables, client), "srtt_ms", classes, without)
    yield Panel(title="Smoothed RTT of each subflow", unit="ms", curves=trips)
    queues = _curves(_data.queueing(run.tables, client), "queueing_ms", classes, without)
    note = "the smoothed RTT less the smallest RTT so far; delays that a link adds itself are included"
    yield Panel(title="Time in queues, estimated", unit="ms", curves=queues, note=note)
    kept = [row for row in _data.throughputs(run.tables, client) if row["subflow"] not in without]
    lines: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for row in _data.shares(kept):
        lines.setdefault((row["path"], row["part"]), []).append((row["t_s"], row["percent"]))
    shares = [Curve(name=path, points=line, colour=classes[path]) for (path, _), line in lines.items()]
    yield Panel(title="Share of each path", unit="% of the throughput", curves=shares)


def _throughput(run: Run, client: int, classes: Mapping[str, str]) -> Panel:
    """Return each path's throughput, with its capacity and the film's rate."""
    rows = _data.throughputs(run.tables, client)
    carried = _curves(rows, "mbps", classes, opening(run, client))
    sums: dict[float, float] = {}
    for row in rows:
        sums[row["t_s"]] = sums.get(row["t_s"], 0.0) + row["mbps"]
    curves = []
    if len({curve.name for curve in carried}) > 1:
        curves.append(Curve(name="together", points=sorted(sums.items()), colour="whole"))
    until = max(sums, default=0.0)
    film = _film(run, client, until)
    highest = max([*sums.values(), *(value for _, value in film)], default=0.0)
    beyond = []
    for path, steps in _capacity.of_paths(run).items():
        before = [step for step in steps if step[0] < until]
        if not before:
            continue
        if max(mbps for _, mbps in before) > _FLATTENS * max(highest, 0.1):
            beyond.append(f"{path} {max(mbps for _, mbps in before):,.4g} Mb/s")
            continue
        points = _stepped(before, until)
        curves.append(Curve(name=f"{path} could", points=points, colour=classes[path], kind="capacity"))
    if film:
        name = "film's rate" if run.plan["ladder"] is None else "rendition's rate"
        curves.append(Curve(name=name, points=film, colour="film", kind="film"))
    note = f"above the panel: what could be carried by {', '.join(beyond)}" if beyond else ""
    return Panel(title="Throughput of each subflow", unit="Mb/s", curves=[*carried, *curves], note=note)


def _stepped(steps: Sequence[tuple[float, float]], until_s: float) -> list[tuple[float, float]]:
    """Return the corners of values that hold until the next."""
    points: list[tuple[float, float]] = []
    for time, value in steps:
        if points:
            points.append((round(time, 3), points[-1][1]))
        points.append((round(time, 3), value))
    return [*points, (until_s, points[-1][1])] if points else []


def _film(run: Run, client: int, until_s: float) -> list[tuple[float, float]]:
    """Return the film's mean rate over a time, in Mb/s, or that of the rendition on the screen."""
    film = run.plan["film"]
    ladder = _data.renditions(run.tables, client)
    if ladder:
        steps = [(row["from_s"], row["mbps"]) for row in sorted(ladder, key=lambda row: row["from_s"])]
        return _stepped([step for step in steps if step[0] < until_s], until_s)
    if run.qoe is None or not film or "recorded" not in film or not until_s:
        return []
    recorded = film["recorded"]
    mbps = round(8e3 * recorded["size_bytes"] / recorded["duration_ns"], 3)
    return [(0.0, mbps), (until_s, mbps)]


def opening(run: Run, client: int) -> set[int]:
    """Return the subflows of the connections that a player opened before the one it plays from.

    VLC reads the head and the end of an MP4 over two separate connections, and closes each when the next one
    is answered. Their subflows carry nothing after the film has been requested, or existed before that and
    end soon after.
    """
    table = run.tables["requests"]
    asked = [time for time, whose in zip(table["t_s"], table["client"], strict=True) if whose == client]
    if run.qoe is None or "frames" not in run.qoe or len(asked) < 2:
        return set()
    heard: dict[int, tuple[float, float]] = {}
    samples = run.tables["samples"]
    for subflow, whose, time in zip(samples["subflow"], samples["client"], samples["t_s"], strict=True):
        if whose == client:
            heard[subflow] = (heard.get(subflow, (time,))[0], time)
    films = {
        subflow
        for subflow, (first, last) in heard.items()
        if last > asked[-1] and (first > asked[-1] or last > asked[-1] + _PARTING_S)
    }
    table = run.tables["subflows"]
    carried = zip(table["subflow"], table["client"], table["established"], strict=True)
    own = {subflow for subflow, whose, stood in carried if whose == client and stood}
    return own - films if films else set()


def colour_of(run: Run) -> dict[str, str]:
    """Return the colour of each path in the figure, as a value of CSS."""
    paths = [path["name"] for path in run.plan["paths"]]
    return {path: f"var(--p{place % 8})" for place, path in enumerate(dict.fromkeys(paths))}
