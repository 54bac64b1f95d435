"""Write the tables and pictures of the live trials into the docs: `python docs/returning_paths_live.py`.

They come from the CSV files of the study's folder. A test compares the tables.
"""

from __future__ import annotations

import csv
import functools
import re
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy

from anabranch._intervals import half_width
from anabranch.figures import colours, look
from anabranch.figures.session import svg
from anabranch.viewed import lines, read, record

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import altair as alt

HERE = Path(__file__).parent
PAGES = (HERE / "returning-paths-live.md", HERE / "returning-paths.md")
FOLDER = HERE.parent / "studies" / "returning-paths"
FAIRNESS = FOLDER / "live-fairness.csv"
#: The world of the time lines: the tunnel.
_TUNNEL, _OUTAGE = "both-silent", (32.16, 36.40)
#: Resamples of the bootstrap, and the seed of its draws.
_RESAMPLES, _SEED = 10_000, 2035
_WIDTH = 620


def rounds() -> tuple[list[dict[str, Any]], int]:
    """Return the recorded runs of complete rounds, and the number of rounds."""
    found = read.read(FOLDER)
    rows = record.read(FOLDER, read.sweep(FOLDER, found))
    numbers = [{row["run"] for row in rows if case.owns(row)} for case in found.cases()]
    whole = set.intersection(*numbers)
    return [row for row in rows if row["run"] in whole], len(whole)


def standstill(row: Mapping[str, Any]) -> float:
    """Return the time of a session without a new picture, after its start."""
    return float(row["unplayed_s"]) - float(row["startup_delay_s"] or 0.0)


def by_case(
    rows: Sequence[Mapping[str, Any]], column: str | None = None
) -> dict[tuple[str, str], list[float]]:
    """Return the standstill, or a column, of each world and arm."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        value = standstill(row) if column is None else row.get(column)
        if value is not None:
            found.setdefault((row["row"], row["arm"]), []).append(float(value))
    return found


def resampled(values: Mapping[tuple[str, str], Sequence[float]], *, worlds: bool) -> dict[str, Any]:
    """Return the means of each arm over its worlds, in resamples of the trials and perhaps of the worlds."""
    chance = numpy.random.default_rng(_SEED)
    rows = list(dict.fromkeys(row for row, _ in values))
    arms = list(dict.fromkeys(arm for _, arm in values))
    chosen = numpy.tile(numpy.arange(len(rows)), (_RESAMPLES, 1))
    if worlds:
        chosen = chance.integers(len(rows), size=chosen.shape)
    found = {}
    for arm in arms:
        means = numpy.empty((_RESAMPLES, len(rows)))
        for place, row in enumerate(rows):
            own = numpy.array(values[row, arm])
            means[:, place] = own[chance.integers(len(own), size=(_RESAMPLES, len(own)))].mean(axis=1)
        found[arm] = numpy.take_along_axis(means, chosen, axis=1).mean(axis=1)
    return found


def mean(values: Mapping[tuple[str, str], Sequence[float]], arm: str) -> float:
    """Return an arm's mean over its worlds."""
    return statistics.fmean(statistics.fmean(own) for (_, name), own in values.items() if name == arm)


def _bounds(values: Any, form: str = "{:.1f}") -> str:  # noqa: ANN401 - an array
    """Return a 95 % interval as text."""
    low, high = numpy.percentile(values, [2.5, 97.5])
    return f"[{form.format(low)}, {form.format(high)}]"


def arms_table(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the table of the arms over all worlds."""
    values, gaps, goods = by_case(rows), by_case(rows, "max_read_gap_s"), by_case(rows, "goodput_mbps")
    over, within = resampled(values, worlds=True), resampled(values, worlds=False)
    base = next(iter(over))
    heads = ("arm", "sessions", "standstill", "change, these worlds", "change, other worlds", "longest gap")
    yield f"| {' | '.join(heads)} | goodput |"
    yield "|---|--:|--:|--:|--:|--:|--:|"
    for arm in over:
        count = sum(row["arm"] == arm for row in rows)
        changes = ["", ""]
        if arm != base:
            change = 100 * (mean(values, arm) / mean(values, base) - 1)
            changes = [
                f"{change:+.0f} % {_bounds(100 * (one[arm] / one[base] - 1), '{:+.0f}')}"
                for one in (within, over)
            ]
        yield (
            f"| `{arm}` | {count} | {mean(values, arm):.1f} s {_bounds(within[arm])} | {' | '.join(changes)} "
            f"| {mean(gaps, arm):.1f} s | {mean(goods, arm):.2f} Mb/s |"
        )


def worlds_table(rows: Sequence[Mapping[str, Any]], column: str | None = None) -> Iterator[str]:
    """Yield the table of a column by world and arm; of the standstill if no column is given."""
    values = by_case(rows, column)
    arms = list(dict.fromkeys(arm for _, arm in values))
    yield "| world | " + " | ".join(f"`{arm}`" for arm in arms) + " |"
    yield "|---|" + "--:|" * len(arms)
    for row in dict.fromkeys(row for row, _ in values):
        yield f"| `{row}` | " + " | ".join(_mean(values.get((row, arm), ())) for arm in arms) + " |"


def _mean(values: Sequence[float]) -> str:
    """Return a mean with half the width of its 95 % interval."""
    if not values:
        return "-"
    width, digits = half_width(values), 0 if statistics.fmean(values) >= 100 else 1
    return f"{statistics.fmean(values):,.{digits}f}" + ("" if width is None else f" ± {width:,.{digits}f}")


def counted(rows: Sequence[Mapping[str, Any]], count: int) -> str:
    """Return in sentences how many sessions there are, and how late the emulator was."""
    late = max((row["late.p99_ms"] for row in rows), default=0.0)
    voids = int(sum(row["voids"] for row in rows))
    sessions = len({(row["row"], row["arm"]) for row in rows})
    rounds_of = f"{count} {'round' if count == 1 else 'rounds'} of {sessions} sessions"
    return (
        f"{rounds_of}, {len(rows)} in all. At the 99th percentile of a session the emulator was late by\n"
        f"at most {late:.2f} ms. Attempts above 1 ms do not count and are repeated: {voids}."
    )


def tables(rows: Sequence[Mapping[str, Any]], count: int) -> dict[str, str]:
    """Return the page's tables by name, of the runs of so many complete rounds."""
    browser = [row for row in rows if row.get("resolution_mean") is not None]
    return {
        "count": counted(rows, count),
        "arms": "\n".join(arms_table(rows)),
        "worlds": "\n".join(worlds_table(rows)),
        "fairness": "\n".join(fairness()),
        "resolution": "\n".join(worlds_table(browser, "resolution_mean")),
    }


def fairness() -> Iterator[str]:
    """Yield the table of the competing flows, as shares of their goodput next to the kernel."""
    with FAIRNESS.open(encoding="utf-8", newline="") as file:
        runs = list(csv.DictReader(file))
    shapes = list(dict.fromkeys(one["shape"] for one in runs))
    yield "| queue | " + " | ".join(f"{shape}: kernel, CUBIC | gateway, `video`" for shape in shapes) + " |"
    yield "|---|" + "--:|--:|" * len(shapes)
    for queue in dict.fromkeys(one["queue"] for one in runs):
        cells = []
        for shape in shapes:
            beside = [
                _others(
                    [
                        one
                        for one in runs
                        if (one["shape"], one["queue"], one["sender"]) == (shape, queue, sender)
                    ]
                )
                for sender in ("kernel", "gateway")
            ]
            shares = ", ".join(f"{100 * own / base:.0f}" for base, own in zip(*beside, strict=True))
            texts = [", ".join(f"{value:.1f}" for value in values) for values in beside]
            cells += [texts[0], f"{texts[1]} ({shares} %)"]
        yield f"| {queue} packets | {' | '.join(cells)} |"


def _others(runs: Sequence[Mapping[str, str]]) -> list[float]:
    """Return the mean goodput of each competing flow over some runs."""
    found = [[one[key] for one in runs if one[key]] for key in ("other_p1_mbps", "other_p2_mbps")]
    return [statistics.fmean(map(float, values)) for values in found if values]


def _between(table: str, found: re.Match[str]) -> str:
    """Return a table between its marks."""
    return found[1] + table + found[2]


def with_tables(text: str, given: Mapping[str, str]) -> str:
    """Return a page with its tables replaced."""
    for name, table in given.items():
        text = re.sub(
            rf"(<!-- table: {name} -->\n\n).*?(\n\n<!-- end -->)",
            functools.partial(_between, table),
            text,
            flags=re.DOTALL,
        )
    return text


def timelines() -> alt.VConcatChart:
    """Return the first session of each arm in the tunnel: picture, buffer and paths over time."""
    import altair as alt

    own = [_numbers(one) for one in lines.read(FOLDER) if one["row"] == _TUNNEL]
    ends = max(one["t_s"] for one in own) + 1, max(one["buffer_s"] for one in own)
    panels = []
    for arm in dict.fromkeys(one["arm"] for one in own):
        panels += _of_arm([one for one in own if one["arm"] == arm], str(arm), ends)
    figure: alt.VConcatChart = look.dressed(alt.vconcat(*panels, spacing=6), labels=11)
    return figure


def _numbers(one: Mapping[str, str]) -> dict[str, Any]:
    """Return a line with its numbers."""
    return {key: text if key in ("row", "arm") else float(text or 0) for key, text in one.items()}


def _of_arm(own: Sequence[dict[str, Any]], arm: str, ends: tuple[float, float]) -> list[Any]:
    """Return the two panels of an arm; the axes of all arms have the same ends."""
    import altair as alt

    x = alt.X(
        "t_s:Q", scale=alt.Scale(domain=[0, ends[0]], nice=False), title=None, axis=alt.Axis(tickCount=12)
    )
    outage = (
        alt.Chart(look.values([{"t_s": _OUTAGE[0], "to_s": _OUTAGE[1]}]))
        .mark_rect(color="#E4E4E4")
        .encode(x=x, x2="to_s:Q")
    )
    still = [
        {"t_s": one["t_s"], "to_s": one["t_s"] + one["standing_s"]} for one in own if one["standing_s"] > 0.02
    ]
    bars = alt.Chart(look.values(still)).mark_rect(color=colours.STILL, opacity=0.45).encode(x=x, x2="to_s:Q")
    buffer = (
        alt.Chart(look.values([{"t_s": one["t_s"] + 0.5, "buffer_s": one["buffer_s"]} for one in own]))
        .mark_line(color=colours.BUFFER, strokeWidth=1.8)
        .encode(
            x=x,
            y=alt.Y(
                "buffer_s:Q",
                title="buffer, s",
                scale=alt.Scale(domain=[0, ends[1]]),
                axis=alt.Axis(tickCount=3),
            ),
        )
    )
    seconds = sum(one["standing_s"] for one in own if one["t_s"] >= _OUTAGE[0] - 1)
    title = alt.TitleParams(f"{arm}: stands still for {seconds:.1f} s from the outage on", anchor="start")
    paths = sorted(key for key in own[0] if key.startswith("mbps_"))
    carried = [
        {"t_s": one["t_s"] + 0.5, "mbps": one[key], "path": key.removeprefix("mbps_")}
        for one in own
        for key in paths
    ]
    palette = colours.of_paths([key.removeprefix("mbps_") for key in paths])
    scale = alt.Scale(domain=list(palette), range=list(palette.values()))
    rates = (
        alt.Chart(look.values(carried))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=x,
            y=alt.Y("mbps:Q", title="Mb/s", axis=alt.Axis(tickCount=3)),
            color=alt.Color("path:N", title="path", scale=scale),
        )
    )
    upper = alt.layer(outage, bars, buffer).properties(width=_WIDTH, height=52, title=title)
    return [upper, alt.layer(outage, rates).properties(width=_WIDTH, height=58)]


def dots(rows: Sequence[Mapping[str, Any]]) -> alt.ConcatChart:
    """Return the standstill of every session, a panel a world, with the means."""
    import altair as alt

    points = [{"world": row["row"], "arm": row["arm"], "still_s": standstill(row)} for row in rows]
    panels = []
    arms = list(dict.fromkeys(one["arm"] for one in points))
    longest = max(one["still_s"] for one in points)
    for world in dict.fromkeys(one["world"] for one in points):
        own = [one for one in points if one["world"] == world]
        base = alt.Chart(look.values(own)).encode(
            y=alt.Y("arm:N", sort=arms, title=None, axis=alt.Axis(minExtent=100)),
            x=alt.X("still_s:Q", title="standstill, s", scale=alt.Scale(domain=[0, longest], nice=True)),
        )
        means = [
            {"arm": arm, "still_s": statistics.fmean(one["still_s"] for one in own if one["arm"] == arm)}
            for arm in arms
        ]
        bar = base.properties(data=look.values(means)).mark_tick(thickness=3, size=18, color=colours.STILL)
        dot = base.mark_circle(size=34, opacity=0.55, color="#0072B2")
        panels.append(alt.layer(dot, bar).properties(title=world, width=230, height=92))
    page: alt.ConcatChart = alt.concat(*panels, columns=2)
    return look.dressed(page, labels=11)


def main() -> None:
    """Write the tables and the pictures."""
    rows, count = rounds()
    if not rows:
        sys.stdout.write("no complete round is recorded\n")
        return
    given = tables(rows, count)
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8"), given), encoding="utf-8")
    images = HERE / "images"
    (images / "returning-paths-live.svg").write_text(svg(timelines()) + "\n", encoding="utf-8")
    (images / "returning-paths-live-still.svg").write_text(svg(dots(rows)) + "\n", encoding="utf-8")
    sys.stdout.write(f"{count} rounds, {len(rows)} sessions\n")


if __name__ == "__main__":
    main()
