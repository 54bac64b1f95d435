"""Writing docs/calibration.md: the differences between simulator and kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._numbers import four_digits
from anabranch.calibrate import kernels, score, series, simulate
from anabranch.calibrate.words import error_words, figure_name, mode_words, path_words, verdict_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.calibrate.compare import Comparison
    from anabranch.calibrate.model import Change, GroundTruth, Measured, Setting
    from anabranch.calibrate.simulate import Task
    from anabranch.errors import Fault
    from anabranch.figures.calibration import Series

RANDOM = (
    "<!-- random settings: `make fidelity` writes what stands between these two marks -->",
    "<!-- /random -->",
)
KEPT = ("<!-- kept: what stands between these two marks is written by hand -->", "<!-- /kept -->")
_NOTHING_KEPT = "Nobody has written this yet."
_NOTHING_DRAWN = "No settings were drawn yet."

_TITLES = {
    "bulk": "Bulk: as much as the paths take",
    "paced": "Paced: the application writes at a rate of its own",
    "film": "Film: ten minutes of bulk, and how often a player behind it runs dry",
    "handoff": "Hand-over: path 1 is lost",
    "vlc": "VLC: what the viewer sees",
}
_HOWS = {
    "blackhole": "path 1 falls silent both ways",
    "linkdown": "the client's link of path 1 goes down",
    "linkdown+epdel": "the client's link of path 1 goes down and its end point is removed (REMOVE_ADDR)",
}

_PROFILE = 'with the profile `{}`\nand the coupled controls in its arithmetic (`form = "kernel"`)'
_NO_PROFILE = (
    "with its schedulers\n(`dft`, `round-robin`, `redundant`), the coupled controls in its arithmetic "
    '(`form = "kernel"`) and its receive buffer,\nelse with 6.18\'s transport'
)

_HEAD = """\
# Calibration: the simulator compared with the Linux kernel

![Simulated goodput compared with measured goodput, one point for each setting]({folder}/goodput.svg)

Each point is one setting: paths, congestion control, scheduler and kernel. It was measured on a Linux
kernel and then repeated in the simulator. A point outside the band can still be within its target, if the
kernel's own trials vary more than that.
"""

_HOW = """\
## How figures are compared

**Settings.** The measurements are in [groundtruth](../groundtruth/README.md). They include [unusual
settings](../groundtruth/odd/README.md) and the [papers' kernel](../groundtruth/papers-kernel/README.md).
The simulator uses the laboratory's buffers and queues. Kernel 6.18 is compared with the scheduler `linux`.
MPTCP v0.94 on Linux 4.14 is compared {profile}.

**Figures.** They are computed as in the laboratory. Means are over samples 200 ms apart, from the moment at
which the server accepts the connection. Totals are those of the last sample. Goodput and gaps are measured
where the client reads.

**Runs.** A setting with random loss is run {runs} times. Any other is run {plain} times, because the
emulator's lateness, bbr's random draws and the time of a cut still differ. Bulk transfers of ten minutes,
from which a film's stalls are computed, are run {films} times.

**Tables.** A row has the kernel's mean with its 95 % t-interval, the number of trials over all tables, the
simulator's mean and the difference allowed. This page is written by `anabranch calibrate --docs
docs/calibration.md`.

| figure | target |
|---|---|
| goodput | 2 % (bbr: 3 %) |
| a subflow's bytes | 5 % of all bytes |
| split between the subflows of a paced application (instead of their bytes) | 8 points |
| retransmissions | 15 % or 10 segments |
| mean congestion window and mean smoothed RTT, also of hand-overs | 10 % |
| largest gap between reads | 15 % or 100 ms |
| time until data arrives again after the loss of a path | 15 % or 100 ms |
| stalls | 2 or 25 % |
| VLC: startup | 0.3 s |
| VLC: rebuffers | 2 |
| VLC: seconds of rebuffering | 20 % |
| VLC: lost pictures | 25 % |

The remaining figures are shown and not judged.

**Every figure with a target is judged.** If the simulator's mean is outside the range of all trials by more
than the target, it is a miss in any case. Otherwise, where the 95 % t-interval of the kernel's mean is
wider than the target, the interval is used: unchanged with {interval} trials or more, with fewer up to
{most:g} times the target. Trials that vary widely therefore do not excuse any difference. A figure that the
simulator does not have is a miss. The denominator of a share is every figure with a target.

**Two modes.** For some figures there are two kinds of trial (reno either overshoots its slow start or does
not). With {interval} trials or more, they are split where the two sides vary least within themselves. The
sides count as modes under two conditions. Their Ashman's D is so large that at most 1 % of equally many
draws of a normal distribution reach it. And they are further apart than the target allows. Then two things
are compared.
The simulator's share of runs in the lower mode must be in the exact 95 % interval of the kernel's share.
And the mean of the simulator's runs in each mode must be as near to the kernel's mean there as the rules
above require of a whole figure. If no run falls into a mode, it is judged by its share alone.
"""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The results of a calibration.

    Attributes
    ----------
    truth
        The measurements.
    measured, compared, tasks
        The settings that were run, their values, and the first task of each.
    runs
        The number of runs of a setting with random loss.
    same_losses
        The settings that were run again with the losses of the kernel's trials.
    """

    truth: GroundTruth
    measured: Sequence[Measured]
    compared: Sequence[Sequence[Comparison]]
    tasks: Sequence[Task]
    runs: int
    same_losses: Sequence[score.Judged] = ()


@dataclass(frozen=True, kw_only=True)
class Picture:
    """One figure of the page: its file's name, and the settings that it shows side by side."""

    name: str
    alt: str
    columns: Mapping[str, tuple[Series, Series]]
    until_s: float


def kernel_series(measured: Sequence[Measured], faults: list[Fault]) -> dict[str, Series]:
    """Return the series of each setting's first trial by the setting's name; faults go to `faults`.

    If `ts` has no series of a trial, the trial has none, and the page has no figure of it.
    """
    result: dict[str, Series] = {}
    for one in measured:
        run = one.trials[0].run
        if one.setting.kind != "vlc" and one.folder is not None and series.kept(one.folder, run):
            found = series.of_kernel(one.folder, run, faults)
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
    """Return the name of a group of settings, as part of a file name."""
    return re.sub(r"[^\w.]+", "-", setting.group).lower()


def kept(text: str) -> str:
    """Return the handwritten text of an existing page."""
    return _between(text, KEPT) or _NOTHING_KEPT


def drawn(text: str) -> str:
    """Return an existing page's text about random settings."""
    return _between(text, RANDOM) or _NOTHING_DRAWN


def _between(text: str, marks: tuple[str, str]) -> str:
    """Return the text between two marks."""
    begin, end = text.find(marks[0]), text.find(marks[1])
    return text[begin + len(marks[0]) : end].strip() if 0 <= begin < end else ""


def random_settings(found: str) -> str:
    """Return the page's section on random settings."""
    return f"## Random settings\n\n{RANDOM[0]}\n\n{found}\n\n{RANDOM[1]}\n"


def page(
    outcome: Outcome,
    shown: Sequence[Picture],
    *,
    folder: str,
    by_hand: str,
    random: str = _NOTHING_DRAWN,
) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    outcome
        The results.
    shown
        The figures.
    folder
        The folder of the figures, relative to the page.
    by_hand
        Handwritten text about values that are outside their targets.
    random
        Text about random settings.
    """
    from anabranch.calibrate import compare

    old = kernels.KERNELS["mptcp-0.94"]
    how = _HOW.format(
        profile=_PROFILE.format(old.name) if old.profile else _NO_PROFILE,
        films=min(outcome.runs, simulate.RUNS_OF_FILMS),
        runs=outcome.runs,
        plain=min(outcome.runs, simulate.RUNS_WITHOUT_LOSS),
        interval=compare.TRIALS_FOR_INTERVAL,
        most=compare.INTERVAL_MOST,
    )
    parts = [
        _HEAD.format(folder=folder),
        _summary(outcome),
        how,
        f"## What stays apart, and why\n\n{KEPT[0]}\n\n{by_hand}\n\n{KEPT[1]}\n",
        random_settings(random),
    ]
    by_name = {picture.name: picture for picture in shown}
    chapter = section = ""
    for one, comparisons in zip(outcome.measured, outcome.compared, strict=True):
        setting = one.setting
        if _chapter(setting) != chapter:
            chapter = _chapter(setting)
            parts.append(f"## {chapter}\n")
        if group(setting) != section:
            section = group(setting)
            parts.append(_section(setting, by_name.get(section), folder))
        parts.append(_table(setting, comparisons))
    return "\n".join(parts)


def _chapter(setting: Setting) -> str:
    """Return the heading of a folder's settings of one kind."""
    return (f"{setting.folder}: " if setting.folder else "") + _TITLES[setting.kind]


def _summary(outcome: Outcome) -> str:
    """Return how many values are within their targets, by folder and kind, and which are not."""
    everything = score.judged(outcome.measured, outcome.compared)
    lines = ["## In short\n", f"|{' | '.join(score.HEAD)} |", "|---|--:|--:|--:|--:|"]
    kinds = score.by(everything, lambda setting: _chapter(setting).rpartition(":")[0])
    lines += ["| " + " | ".join(score.row(name, found)) + " |" for name, found in kinds.items()]
    lines.append("")
    for folder, found in score.by(everything, lambda setting: setting.folder or "groundtruth").items():
        lines.append(f"- {folder}: {score.sentence(found)}.")
    misses = [
        f"- `{one.setting.name}`: {figure_name(c.figure)}, "
        f"kernel {four_digits(c.kernel)}, "
        f"simulator {'none' if c.simulator is None else four_digits(c.simulator)}"
        + ("" if c.modes is None else f" ({mode_words(c.modes)})")
        for one in everything
        for c in one.comparisons
        if c.verdict == "miss"
    ]
    listed = ["\nFigures that miss their target:\n", *misses] if misses else ["\nNothing misses its target."]
    refused = [f"- {' '.join(str(fault).split())}" for fault in outcome.truth.refused]
    left_out = ["\nNot understood and left out:\n", *refused] if refused else []
    return "\n".join([*lines, *_same_losses(outcome, everything), *listed, *left_out]) + "\n"


def _same_losses(outcome: Outcome, everything: Sequence[score.Judged]) -> list[str]:
    """Return how many values are within their targets with the kernel's own losses and without."""
    if not outcome.same_losses:
        return []
    repeated = {one.setting for one in outcome.same_losses}
    own = score.score([one for one in everything if one.setting in repeated])
    same = score.score(outcome.same_losses)
    return [
        "\n**The same losses.** The figures above are judged with losses that the simulator draws.",
        f"{len(repeated)} settings have random loss, and their tables have the seeds of these losses.",
        "They were run again, and lost the same packets that the kernel's trials lost (`--same-losses`):\n",
        f"- the same losses: {score.sentence(same)};",
        f"- drawn losses, as above: {score.sentence(own)}.",
    ]


def _section(setting: Setting, picture: Picture | None, folder: str) -> str:
    """Return the heading of a case, its paths, and its figure."""
    what = [path_words(setting), "MPTCP" if setting.multipath else "plain TCP", f"{setting.duration_s:g} s"]
    what += [f"path {one.path} {_becomes(one)} at {one.at_s:g} s" for one in setting.changes]
    if setting.receive_buffer_bytes is not None:
        what.append(f"receive buffer up to {setting.receive_buffer_bytes:,} bytes")
    if setting.pace_bps:
        what.append(f"paced at {setting.pace_bps / 1e6:g} Mb/s")
    if setting.how:
        what.append(_HOWS[setting.how])
    other = setting.scheduler if setting.scheduler != "default" else ""
    words = (setting.folder, setting.kind, setting.case, other, setting.film, setting.how)
    name = " ".join(word for word in words if word)
    lines = [f"### {name}\n", "; ".join(what) + ".\n"]
    if picture is not None:
        lines.append(f"![{picture.alt}]({folder}/{picture.name}.svg)\n")
    return "\n".join(lines)


def _becomes(change: Change) -> str:
    """Return the words for a path's new state."""
    return change.state if change.rate_mbps is None else f"has {change.rate_mbps:g} Mb/s"


def _table(setting: Setting, comparisons: Sequence[Comparison]) -> str:
    """Return the figures of one setting."""
    lines = [
        f"| {setting.congestion} | kernel | n | simulator | error | allowed | |",
        "|---|--:|--:|--:|--:|--:|---|",
    ]
    for one in comparisons:
        interval = "" if one.half_width is None else f" ± {four_digits(one.half_width)}"
        cells = (
            figure_name(one.figure),
            four_digits(one.kernel) + interval,
            str(one.trials),
            "none" if one.simulator is None else four_digits(one.simulator),
            error_words(one),
            "" if one.allowed is None else "± " + four_digits(one.allowed),
            verdict_words(one),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"
