"""A live study's page, in Markdown: the runs, the results of each arm, and the simulator's."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

from anabranch._intervals import half_width
from anabranch._numbers import significant
from anabranch.live.viewers import VIEWERS
from anabranch.viewed.make import LATE_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.viewed.compare import Compared, Difference
    from anabranch.viewed.read import Case, LiveStudy


def page(name: str, found: LiveStudy, compared: Compared, reports: dict[str, str]) -> str:
    """Return the page.

    Parameters
    ----------
    name
        The study's.
    found, compared
        The live part of the study, and its results.
    reports
        By arm, the file of the report of its first trial, in the page's folder.
    """
    return "\n".join(
        [*_head(name, found, compared), *_arms(found, compared, reports), *_beside(compared), ""]
    )


def _head(name: str, found: LiveStudy, compared: Compared) -> Iterator[str]:
    """Yield the question, and how the runs were made."""
    voids = sum(compared.voids.values())
    yield f"# {name} over real packets"
    yield ""
    yield f"{found.question}"
    yield ""
    yield f"This page is written by `anabranch study live {name} --docs docs/examples`."
    viewers = dict.fromkeys(VIEWERS[case.viewer].title for case in found.cases())
    yield (
        f"{' or '.join(viewers)} plays; the arms are run by turns, in real time. The emulator itself "
        f"was late by {compared.late_ms:.2f} ms at most, at the 99th percentile of a run; runs beyond "
        f"{LATE_MS:g} ms are void: {voids} {'was' if voids == 1 else 'were'}."
    )


def _arms(found: LiveStudy, compared: Compared, reports: dict[str, str]) -> Iterator[str]:
    """Yield a table with what viewers saw, an arm a column; one for each world if there are worlds."""
    cases = [case for case in found.cases() if case.name in compared.trials]
    yield ""
    yield "## What the viewer saw"
    if not found.worlds:
        yield from _table(cases, compared, reports)
    for row in dict.fromkeys(case.row for case in cases if case.in_world):
        yield ""
        yield f"### {row}"
        yield from _table([case for case in cases if case.row == row], compared, reports)


def _table(cases: Sequence[Case], compared: Compared, reports: dict[str, str]) -> Iterator[str]:
    """Yield a table with what viewers saw, a case a column."""
    by_name = {
        one.name: one.metric.title for one in compared.differences if one.arm in {c.name for c in cases}
    }
    yield ""
    yield "| | " + " | ".join(case.arm for case in cases) + " |"
    yield "|---|" + "--:|" * len(cases)
    yield "| scenario, who serves | " + " | ".join(_served(case) for case in cases) + " |"
    yield "| trials | " + " | ".join(str(compared.trials[case.name]) for case in cases) + " |"
    for name, title in by_name.items():
        values = [_mean(_viewer(compared, case.name, name)) for case in cases]
        yield f"| {title} | " + " | ".join(values) + " |"
    if reports:
        links = [f"[report]({reports[case.name]})" if case.name in reports else "" for case in cases]
        yield "| its first trial | " + " | ".join(links) + " |"


def _served(case: Case) -> str:
    """Return what an arm runs, and who serves."""
    return f"`{case.row}`, {'our endpoint' if case.server == 'gateway' else 'the kernel'}"


def _viewer(compared: Compared, arm: str, name: str) -> Sequence[float]:
    """Return a metric's values over real packets."""
    return next((one.viewer for one in compared.differences if (one.arm, one.name) == (arm, name)), ())


def _beside(compared: Compared) -> Iterator[str]:
    """Yield the table of differences."""
    yield ""
    yield "## The simulator beside the viewer"
    yield ""
    asked = [one for one in compared.differences if one.verdict]
    near = sum(one.verdict != "apart" for one in asked)
    yield (
        f"{near} of {len(asked)} figures with a target are inside it, or inside the viewer's 95 % interval. "
        "Means, of as many trials in both."
    )
    yield ""
    yield "| arm | | viewer | simulator | apart | | cause |"
    yield "|---|---|--:|--:|--:|---|---|"
    for one in compared.differences:
        yield f"| {' | '.join(cells(one))} | {one.cause} |"


def cells(one: Difference) -> tuple[str, ...]:
    """Return a difference as a table's cells: arm, metric, viewer, simulator, difference, verdict."""
    return (
        one.arm,
        one.metric.title,
        _mean(one.viewer),
        _mean(one.simulator),
        ("+" if one.apart >= 0 else "") + significant(one.apart, 2),
        one.verdict,
    )


def _mean(values: Sequence[float]) -> str:
    """Return a mean with half the width of its 95 % interval."""
    if not values:
        return "-"
    width = half_width(values)
    return significant(statistics.fmean(values), 3) + ("" if width is None else f" ± {significant(width, 2)}")
