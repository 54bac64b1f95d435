"""A laboratory that measures settings on a Linux kernel in virtual time, and the rows of its measurements.

The laboratory is not part of this repository. `LAB` is its folder. The program `guest/measure.py` there
reads a JSON file of cases, boots a guest for each run, and writes a row with the columns of
groundtruth/README.md. `UML` is its kernel, which is a program.
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
#: The delay of the laboratory's links beyond the configured one, as in the other measurements.
_JITTER_MS = "0.24"
_PROGRAMS = ("measure.py", "init.sh", "off", "bulk2", "linkemu_step")


class MissingError(Exception):
    """A program that is required for measuring is missing."""


def missing(folder: Path, settings: Sequence[Setting], trials: int) -> list[str]:
    """Return the runs that a folder's rows lack, for example `R001 trial 2`."""
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
    """Measure the missing runs. Existing rows are kept, so an interrupted call can be repeated.

    Raises
    ------
    MissingError
        If there is no laboratory, or if its program fails.
    """
    program, kernel = _found(environment)
    cases = folder / "cases.json"
    cases.write_text(json.dumps({one.case: draw.case(one) for one in settings}, indent=1), encoding="utf-8")
    command = [
        sys.executable, str(program), str(cases), "--trials", f"1-{trials}", "--jitter", _JITTER_MS,
        "--jobs", str(os.cpu_count() or 1), "--kernel", str(kernel), "--keep", "0",
        "--out", str(folder), "--file", ROWS,
    ]  # fmt: skip
    # The program's output is progress, and stdout is reserved for the score.
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
