"""The fidelity of the simulator at random settings: `make fidelity N=66 SEED=1001`.

Draws settings, measures them on a Linux kernel if the environment names a laboratory (`LAB` and `UML`, see
laboratory.py), and runs them in the simulator. Reports how many figures meet their targets, by the rules of
`anabranch calibrate`: first with the simulator's own losses, then with the losses and the jitter of the
kernel's trials. Measurements are kept in target/fidelity/SEED. Without a laboratory, only existing
measurements are judged, and the exit code is 2 if some are missing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import draw
import laboratory
import report

from anabranch.calibrate import compare, read, score, simulate
from anabranch.cli import _console
from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from anabranch.calibrate.model import Measured, Setting

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "fidelity"


def main() -> int:
    """Draw, measure, run, judge and report."""
    given = _arguments()
    folder = given.work / str(given.seed)
    folder.mkdir(parents=True, exist_ok=True)
    if given.rows is not None and not (folder / laboratory.ROWS).exists():
        shutil.copyfile(given.rows, folder / laboratory.ROWS)
    drawn = draw.settings(given.n, given.seed)
    left = laboratory.missing(folder, drawn, given.trials)
    if left:
        _console.note(
            f"{len(left)} of {given.n * given.trials} runs of the kernel are missing: {left[0]} is the first"
        )
        try:
            laboratory.measure(folder, drawn, given.trials, os.environ)
        except laboratory.MissingError as error:
            _console.note(f"error: {error}")
            return 2
    try:
        measured = _measured(folder, drawn)
    except AnabranchError as error:
        _console.note(str(error))
        return 2
    if not measured:
        _console.note("error: nothing is left to judge")
        return 2
    found = score.judged(measured, _compared(measured, given, same_losses=False))
    told = all(one.seeds for one in measured)
    same = score.judged(measured, _compared(measured, given, same_losses=True)) if told else []
    _console.table(score.HEAD, report.rows(found))
    _show_worst(found)
    if same:
        _console.out("\nWith the losses of the kernel's trials, one by one:")
        _console.table(score.HEAD, report.rows(same))
        _show_worst(same)
    else:
        _console.note("the rows do not tell the seeds of their losses: not run with the same ones")
    if given.docs is not None:
        text = given.docs.read_text(encoding="utf-8")
        counts = {"seed": given.seed, "trials": given.trials, "runs": given.runs}
        part = report.block(found, same, **counts, of=_commit())
        given.docs.write_text(report.merged(text, given.seed, part), encoding="utf-8")
    return 0


def _arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="make fidelity", description=__doc__)
    parser.add_argument("-n", type=int, default=66, help="how many settings are drawn")
    parser.add_argument("--seed", type=int, default=1001, help="of the draw")
    parser.add_argument("--trials", type=int, default=4, help="runs of the kernel a setting")
    parser.add_argument("--runs", type=int, default=16, help="runs of the simulator a setting")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes of the simulator")
    parser.add_argument("--rows", type=Path, help="rows that were measured elsewhere, where none are kept")
    parser.add_argument("--work", type=Path, default=WORK, help="where what was measured is kept")
    parser.add_argument("--docs", type=Path, help="the calibration's page, to write the score into")
    return parser.parse_args()


def _measured(folder: Path, drawn: Sequence[Setting]) -> list[Measured]:
    """Return the measured settings. Report those that were not measured, or not as they were drawn."""
    truth = read.read(folder)
    for fault in truth.refused:
        _console.note(f"{fault}\n")
    kept = {one.setting: one for one in truth.measured}
    absent = [setting.name for setting in drawn if setting not in kept]
    if absent:
        _console.note(f"not measured, or not as drawn, and left out: {', '.join(absent)}")
    return [kept[setting] for setting in drawn if setting in kept]


def _show_worst(found: Sequence[score.Judged]) -> None:
    """Print the figures that are furthest from their targets."""
    _console.out("\nThe furthest off:")
    for line in report.worst(found):
        _console.out(f"- {line}")


def _compared(
    measured: Sequence[Measured], given: argparse.Namespace, *, same_losses: bool
) -> list[list[compare.Comparison]]:
    """Return the figures of every setting from the requested number of runs, with and without loss."""
    runs = {"runs": given.runs, "plain": given.runs}
    # Client, server and links run in one guest with one processor.
    todo = simulate.tasks(measured, {}, same_losses=same_losses, one_processor=True, **runs)
    compared = []
    with _console.progress("simulating", unit="runs") as bar:
        for place, figures in simulate.each(todo, workers=given.workers, progress=bar):
            compared.append(compare.compare(measured[place], figures))
    return compared


def _commit() -> str:
    """Return the version of the simulator: the last commit that changed it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(ROOT), *words, "--", "crates"]
        return subprocess.run(command, check=False, capture_output=True, text=True).stdout.strip()

    told = git("log", "-1", "--format=%h")
    changed = " and changes" if git("status", "--porcelain") else ""
    return f"commit {told}{changed}" if told else "an archive without a history"


if __name__ == "__main__":
    sys.exit(main())
