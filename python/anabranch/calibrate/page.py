"""The page of the documentation that says how far simulator and kernel are apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.calibrate import series, simulate
from anabranch.calibrate.words import figure_name, number, verdict_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.calibrate.compare import Comparison
    from anabranch.calibrate.model import GroundTruth, Measured, Setting
    from anabranch.calibrate.simulate import Task
    from anabranch.errors import Fault
    from anabranch.figures.calibration import Series

KEPT = ("<!-- kept: what stands between these two marks is written by hand -->", "<!-- /kept -->")
_NOTHING_KEPT = "Nobody has written this yet."

_TITLES = {
    "bulk": "Bulk: as much as the paths take",
    "paced": "Paced: the application writes at a rate of its own",
    "handoff": "Hand-over: path 1 is lost",
    "vlc": "VLC: what the viewer sees",
}
_HOWS = {
    "blackhole": "path 1 falls silent both ways",
    "linkdown": "the client's link of path 1 goes down",
    "linkdown+epdel": "the client's link of path 1 goes down and its end point is removed (REMOVE_ADDR)",
}

_HEAD = """\
# Calibration: the simulator beside the Linux kernel

Every setting that was measured on a Linux kernel ([groundtruth](../groundtruth/README.md)) is run again
in the simulator, with the scheduler `linux` and the laboratory's buffers and queues. The figures of a run
are computed as the laboratory computed them: means over samples 200 ms apart from the server's accept,
totals of the last sample, goodput and silences as the client read. A setting with random loss is run
{runs} times, any other {plain} times, where only the emulator's lateness, bbr's own draws and the time
of a cut differ. A row gives the kernel's mean with its 95 % t-interval and how many trials it is of,
all tables pooled; the simulator's mean; and what the target allows. This page is written by
`anabranch calibrate --docs docs/calibration.md`.

**Targets.** Goodput within 2 % (bbr: 3 %); a subflow's bytes within 5 % of all; retransmissions within
15 % or 10 segments; mean congestion window and mean smoothed RTT within 10 %; of a paced application the
split between the subflows within 8 points, in place of their bytes; data again after the loss of a path
within 15 % or 100 ms; VLC's start within 0.3 s, its rebuffers within 2, their seconds within 20 %, lost
pictures within 25 %. With {interval} trials or more the interval of the kernel's mean stands in where it is
wider. The remaining figures are told and not judged.

**What is not judged.** Fewer than {interval} trials that are more than {spread:.0%} of their mean apart,
largest less smallest, are told and not judged: their mean may be anywhere.

**Two modes.** Of some figures there are two kinds of trial (reno either overshoots its slow start or does
not). With {interval} trials or more they are split where the two sides vary least in themselves; the sides
count as modes when Ashman's D is one that at most 1 % of equally many draws of a normal distribution
reach, and when they are further apart than the target allows. Then the share of the lower one is compared:
the simulator's has to be in the exact 95 % interval of the kernel's.
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a calibration found.

    Attributes
    ----------
    truth
        What was measured.
    measured, compared, tasks
        The settings that were run, their figures, and the first task of each.
    runs
        How many runs a setting with random loss was given.
    """

    truth: GroundTruth
    measured: Sequence[Measured]
    compared: Sequence[Sequence[Comparison]]
    tasks: Sequence[Task]
    runs: int


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One figure of the page: its file's name, and the settings side by side in it."""

    name: str
    alt: str
    columns: Mapping[str, tuple[Series, Series]]
    until_s: float


def kernel_series(truth: GroundTruth, measured: Sequence[Measured], faults: list[Fault]) -> dict[str, Series]:
    """Return the series of each setting's first trial by the setting's name; faults go to `faults`.

    A folder without `ts` has none, and the page no pictures.
    """
    result: dict[str, Series] = {}
    if not (truth.folder / "ts").is_dir():
        return result
    for one in measured:
        if one.setting.kind != "vlc":
            found = series.of_kernel(truth.folder, one.trials[0].run, faults)
            if found is not None:
                result[one.setting.name] = found
    return result


def pictures(outcome: Outcome, kernel: Mapping[str, Series]) -> list[Picture]:
    """Return the figures: the congestion controls of one case side by side."""
    groups: dict[str, list[tuple[Setting, Task]]] = {}
    for one, task in zip(outcome.measured, outcome.tasks, strict=True):
        if one.setting.name in kernel:
            groups.setdefault(group(one.setting), []).append((one.setting, task))
    result = []
    for name, members in groups.items():
        columns = {
            setting.congestion: (
                kernel[setting.name],
                series.of_simulator(setting, simulate.trace(task, task.runs[0])[1]),
            )
            for setting, task in members
        }
        alt = f"{name.replace('-', ' ')}: kernel and simulator over time, {', '.join(columns)}"
        until = max(setting.duration_s for setting, _ in members)
        result.append(Picture(name=name, alt=alt, columns=columns, until_s=until))
    return result


def group(setting: Setting) -> str:
    """Return the name of what stands under one heading: a case, whatever the congestion control."""
    parts = setting.name.split("/")
    del parts[2]
    return re.sub(r"[^\w.]+", "-", "-".join(parts)).lower()


def kept(text: str) -> str:
    """Return what somebody wrote by hand into an earlier page."""
    begin, end = text.find(KEPT[0]), text.find(KEPT[1])
    found = text[begin + len(KEPT[0]) : end].strip() if 0 <= begin < end else ""
    return found or _NOTHING_KEPT


def page(outcome: Outcome, shown: Sequence[Picture], *, folder: str, by_hand: str) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    outcome
        What was found.
    shown
        The figures.
    folder
        Where their files are, seen from the page.
    by_hand
        What to say on what stays apart.
    """
    from anabranch.calibrate import compare

    head = _HEAD.format(
        runs=outcome.runs,
        plain=min(outcome.runs, simulate.RUNS_WITHOUT_LOSS),
        interval=compare.TRIALS_FOR_INTERVAL,
        spread=compare.SPREAD,
    )
    parts = [
        head,
        _summary(outcome),
        f"## What stays apart, and why\n\n{KEPT[0]}\n\n{by_hand}\n\n{KEPT[1]}\n",
    ]
    by_name = {picture.name: picture for picture in shown}
    kind = section = ""
    for one, comparisons in zip(outcome.measured, outcome.compared, strict=True):
        setting = one.setting
        if setting.kind != kind:
            kind = setting.kind
            parts.append(f"## {_TITLES[kind]}\n")
        if group(setting) != section:
            section = group(setting)
            parts.append(_section(setting, by_name.get(section), folder))
        parts.append(_table(setting, comparisons))
    return "\n".join(parts)


def _summary(outcome: Outcome) -> str:
    """Return how many figures hold, by kind, and which do not."""
    lines = ["## In short\n", "| | ok | miss | not judged |", "|---|--:|--:|--:|"]
    misses = []
    for kind, title in _TITLES.items():
        found = [
            (one.setting, comparison)
            for one, comparisons in zip(outcome.measured, outcome.compared, strict=True)
            if one.setting.kind == kind
            for comparison in comparisons
        ]
        if not found:
            continue
        counts = [sum(c.verdict == verdict for _, c in found) for verdict in ("ok", "miss", "not judged")]
        lines.append(f"| {title.partition(':')[0]} | " + " | ".join(map(str, counts)) + " |")
        misses += [
            f"- `{setting.name}`: {figure_name(c.figure)}, "
            f"kernel {number(c.kernel)}, simulator {number(c.simulator)}"
            for setting, c in found
            if c.verdict == "miss"
        ]
    listed = ["\nWhat misses its target:\n", *misses] if misses else ["\nNothing misses its target."]
    return "\n".join([*lines, *listed]) + "\n"


def _section(setting: Setting, picture: Picture | None, folder: str) -> str:
    """Return the heading of a case, its paths, and its figure."""
    legs = " | ".join(
        f"{leg.rtt_ms:g} ms, {leg.rate_mbps:g} Mb/s" + (f", {leg.loss:.2%} loss" if leg.loss else "")
        for leg in setting.legs
    )
    what = [legs, "MPTCP" if setting.multipath else "plain TCP", f"{setting.duration_s:g} s"]
    if setting.pace_bps:
        what.append(f"paced at {setting.pace_bps / 1e6:g} Mb/s")
    if setting.how:
        what.append(_HOWS[setting.how])
    name = " ".join(part for part in (setting.case, setting.film, setting.how) if part)
    lines = [f"### {setting.kind} {name}\n", "; ".join(what) + ".\n"]
    if picture is not None:
        lines.append(f"![{picture.alt}]({folder}/{picture.name}.svg)\n")
    return "\n".join(lines)


def _table(setting: Setting, comparisons: Sequence[Comparison]) -> str:
    """Return the figures of one setting."""
    lines = [
        f"| {setting.congestion} | kernel | n | simulator | error | allowed | |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for one in comparisons:
        interval = "" if one.half_width is None else f" ± {number(one.half_width)}"
        error = f"{one.error / one.kernel:+.1%}" if one.kernel else number(one.error)
        cells = (
            figure_name(one.figure),
            number(one.kernel) + interval,
            str(one.trials),
            number(one.simulator),
            error,
            "" if one.allowed is None else "± " + number(one.allowed),
            verdict_words(one),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
