"""The results of random settings, for a terminal and for the calibration's page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anabranch._numbers import four_digits
from anabranch.calibrate import page, score
from anabranch.calibrate.words import error_words, figure_name, mode_words, path_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate.compare import Comparison
    from anabranch.calibrate.model import Setting
    from anabranch.calibrate.score import Judged

WORST = 20
_HEAD = """\
Settings by chance (`tests/fidelity/draw.py`: two or three paths, RTTs of 10 to 300 ms, 1 to 30 Mb/s, queues
of 8 to 300 packets, up to 3 % of loss either way, 40 s, bulk and paced), measured on Linux 6.12 in virtual
time with the receive buffers of 6.18, and judged as the settings below. They are drawn, measured where there is
a laboratory, judged and written here by
`make fidelity N=66 SEED=1001 FIDELITY="--trials 12 --runs 32 --docs docs/calibration.md"`.

Each seed has two scores with different meanings. With *losses of its own* the simulator draws losses
independently, as everywhere else. With *the same losses* its links lose the packets that the kernel's trials
lost, trial by trial, and deliver the others as late (a path's `emulator_seed`).\
"""  # noqa: E501
_BLOCK = re.compile(r"^### Seed (\d+)\n.*?(?=^### Seed |\Z)", re.MULTILINE | re.DOTALL)


def rows(found: Sequence[Judged]) -> list[tuple[str, ...]]:
    """Return the fractions that meet their targets: of all, and by controller, kind and number of paths."""
    result = [score.row("all", score.score(found))]
    for key in (
        lambda setting: setting.congestion,
        lambda setting: setting.kind,
        lambda setting: f"{len(setting.legs)} paths",
    ):
        result += [score.row(name, one) for name, one in sorted(score.by(found, key).items())]
    return result


def line(setting: Setting, figure: Comparison) -> str:
    """Return a line about a figure: its setting, its value and its distance from the target."""
    found = "none" if figure.simulator is None else four_digits(figure.simulator)
    pace = f", paced at {setting.pace_bps / 1e6:.2f} Mb/s" if setting.pace_bps else ""
    times = score.excess(figure)
    # A figure that lies outside the range of the trials may differ by less than their interval allows.
    why = figure.why if times <= 1 else f"{times:.1f} times what is allowed"
    if figure.modes is not None:
        why = mode_words(figure.modes)
    return (
        f"{setting.case} {setting.congestion}: {figure_name(figure.figure)}: "
        f"kernel {four_digits(figure.kernel)}, simulator {found} "
        f"({error_words(figure)}, {why}); {path_words(setting)}{pace}"
    )


def worst(found: Sequence[Judged], most: int = WORST) -> list[str]:
    """Return lines about the figures that are furthest from their targets, goodputs first."""
    missed = score.worst(found)
    goodputs = [one for one in missed if one[1].figure == "goodput_mbps"]
    others = [one for one in missed if one[1].figure != "goodput_mbps"]
    return [line(*one) for one in (*goodputs, *others[: max(most - len(goodputs), 0)])]


def block(
    found: Sequence[Judged], same: Sequence[Judged], *, seed: int, trials: int, runs: int, of: str
) -> str:
    """Return the part of the page about one seed.

    Parameters
    ----------
    found
        The settings with the simulator's own losses.
    same
        The same settings with the losses of the kernel's trials; empty if the rows do not contain the seeds.
    seed, trials, runs
        The seed of the draw, and the numbers of the kernel's trials and of the simulator's runs per setting.
    of
        The version of the simulator.
    """
    counts = f"{len(found)} settings, {trials} trials and {runs} runs each, the simulator of {of}"
    text = f"### Seed {seed}\n\n{counts}: {score.sentence(score.score(found))}.\n\n{_table(found)}"
    if same:
        told = f"The same settings with the kernel's losses: {score.sentence(score.score(same))}."
        text += f"\n#### Seed {seed}, the same losses\n\n{told}\n\n{_table(same)}"
    return text


def _table(found: Sequence[Judged]) -> str:
    """Return a table of the fractions, and the figures that are furthest from their targets."""
    table = [f"|{' | '.join(score.HEAD)} |", "|---|--:|--:|--:|--:|"]
    table += ["| " + " | ".join(cells) + " |" for cells in rows(found)]
    listed = "\n".join(f"- {one}" for one in worst(found)) or "- nothing"
    return "\n".join(table) + f"\n\nThe furthest off:\n\n{listed}\n"


def merged(text: str, seed: int, part: str) -> str:
    """Insert one seed's part into a page, in the order of the seeds. The other parts are kept."""
    parts = {
        int(one.group(1)): one.group().strip() + "\n" for one in _BLOCK.finditer(page.drawn(text) + "\n")
    }
    parts[seed] = part
    section = page.random_settings("\n".join([_HEAD, "", *(parts[key] for key in sorted(parts))]).strip())
    begin, end = text.find(page.RANDOM[0]), text.find(page.RANDOM[1])
    if not 0 <= begin < end:
        return f"{text.rstrip()}\n\n{section}"
    begin = text.rindex("## Random settings", 0, begin)
    return text[:begin] + section.rstrip("\n") + text[end + len(page.RANDOM[1]) :]
