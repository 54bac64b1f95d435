"""A laboratory that measures settings on a Linux kernel in virtual time, and the rows that it has measured.

The laboratory is no part of this repository. `LAB` names its folder, whose `guest/measure.py` takes a JSON
file of cases, boots a guest a run and writes a row of the columns that groundtruth/README.md tells; `UML`
names its kernel, which is a program.
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import draw

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.calibrate.model import Setting

ROWS = "rows.csv"
#: How late the laboratory's links deliver, as that of the other measurements.
_JITTER_MS = "0.24"
_PROGRAMS = ("measure.py", "init.sh", "off", "bulk2", "linkemu_step")


class MissingError(Exception):
    """A part that measuring needs is missing."""


def missing(folder: Path, settings: Sequence[Setting], trials: int) -> list[str]:
    """Return the runs, `R001 trial 2`, that are not among a folder's rows."""
    have = set()
    if (folder / ROWS).exists():
        with (folder / ROWS).open(encoding="utf-8", newline="") as file:
            have = {(row.get("case"), row.get("cc"), row.get("trial")) for row in csv.DictReader(file)}
    return [
        f"{setting.case} trial {trial}"
        for setting in settings
        for trial in range(1, trials + 1)
        if (setting.case, setting.congestion, str(trial)) not in have
    ]


def measure(folder: Path, settings: Sequence[Setting], trials: int, environment: Mapping[str, str]) -> None:
    """Measure what is missing; what was measured stays, and an interrupted call is taken up by the next.

    Raises
    ------
    MissingError
        When there is no laboratory, or its program fails.
    """
    program, kernel = _found(environment)
    cases = folder / "cases.json"
    cases.write_text(json.dumps({one.case: draw.case(one) for one in settings}, indent=1), encoding="utf-8")
    command = [
        sys.executable, str(program), str(cases), "--trials", f"1-{trials}", "--jitter", _JITTER_MS,
        "--jobs", str(os.cpu_count() or 1), "--kernel", str(kernel), "--keep", "0",
        "--out", str(folder), "--file", ROWS,
    ]  # fmt: skip
    # Its lines are progress; stdout is for the score.
    ended = subprocess.run(command, check=False, stdout=sys.stderr, env=dict(environment)).returncode
    if ended != 0:
        message = f"the laboratory's program ended with {ended}"
        raise MissingError(message)


def _found(environment: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the laboratory's program and its kernel."""
    lab, kernel = environment.get("LAB", ""), environment.get("UML", "")
    if not lab or not kernel:
        message = "no laboratory: LAB names its folder (with guest/measure.py), UML its kernel"
        raise MissingError(message)
    guest = Path(lab).resolve() / "guest"
    absent = [str(guest / name) for name in _PROGRAMS if not (guest / name).is_file()]
    if not os.access(kernel, os.X_OK) or not Path(kernel).is_file():
        absent.append(kernel)
    if absent:
        message = f"not there, or not to be run: {', '.join(absent)}"
        raise MissingError(message)
    return guest / "measure.py", Path(kernel).resolve()
