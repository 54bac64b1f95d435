"""`anabranch calibrate`: the simulator beside a kernel's measurements."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import typer

from anabranch.cli import _console
from anabranch.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from anabranch.calibrate.compare import Comparison
    from anabranch.calibrate.model import GroundTruth, Measured


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the command line asks for.

    Attributes
    ----------
    against
        The folder of measurements; None is the one that came with the program.
    only
        Parts of the names of settings; empty is all.
    runs
        Runs of a setting with random loss.
    workers
        Processes; None is one a core.
    docs
        The page to write, if any.
    """

    against: Path | None
    only: tuple[str, ...]
    runs: int
    workers: int | None
    docs: Path | None


def calibrate(asked: Asked, *, as_json: bool) -> None:
    """Run the settings, print figure beside figure, and fail when a judged one is off."""
    from anabranch.calibrate import compare, simulate
    from anabranch.calibrate.read import SHIPPED, read

    truth = read(SHIPPED if asked.against is None else asked.against)
    measured = chosen(truth, asked.only)
    todo = simulate.tasks(measured, dict(truth.films), runs=asked.runs)
    with _console.progress("calibrating", unit="runs") as progress:
        workers = asked.workers or os.cpu_count() or 1
        found = simulate.simulate(todo, workers=workers, progress=progress)
    compared = [compare.compare(one, found[place]) for place, one in enumerate(measured)]
    if as_json:
        _console.out(json.dumps(_json(measured, compared), indent=2, allow_nan=False))
    else:
        for one, comparisons in zip(measured, compared, strict=True):
            _table(one, comparisons)
    everything = [one for comparisons in compared for one in comparisons]
    counts = {verdict: sum(one.verdict == verdict for one in everything) for verdict in ("ok", "miss", "not judged")}
    _console.note(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    if counts["miss"]:
        raise typer.Exit(_console.EXPECTATION_FAILED)


def chosen(truth: GroundTruth, only: Sequence[str]) -> list[Measured]:
    """Return the settings that any of the patterns names, or all without a pattern.

    Raises
    ------
    InputError
        When a pattern names none.
    """
    names = [one.setting.name for one in truth.measured]
    faults = [
        Fault(
            message=f"no setting is called so: `{pattern}`",
            where=f"--only {pattern}",
            hint=did_you_mean(pattern, names),
        )
        for pattern in only
        if not any(_matches(name, pattern) for name in names)
    ]
    if faults:
        raise InputError(faults)
    return [
        one
        for one in truth.measured
        if not only or any(_matches(one.setting.name, pattern) for pattern in only)
    ]


def _matches(name: str, pattern: str) -> bool:
    """Tell whether a pattern stands anywhere in a setting's name."""
    return fnmatchcase(name.lower(), f"*{pattern.lower()}*")


def _table(measured: Measured, comparisons: Sequence[Comparison]) -> None:
    """Write one setting for a person."""
    _console.heading(measured.setting.name)
    headers = ("", "kernel", "±", "n", "simulator", "n", "error", "allowed", "", "")
    rows = [
        (
            one.figure,
            _number(one.kernel),
            "" if one.half_width is None else _number(one.half_width),
            str(one.trials),
            _number(one.simulator),
            str(one.runs),
            f"{100 * one.error / one.kernel:+.1f} %" if one.kernel else _number(one.error),
            "" if one.allowed is None else _number(one.allowed),
            one.verdict,
            one.why,
        )
        for one in comparisons
    ]
    _console.table(headers, rows)
    _console.out()


def _json(measured: Sequence[Measured], compared: Sequence[Sequence[Comparison]]) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "settings": [
            {"name": one.setting.name, "figures": [comparison.to_json() for comparison in comparisons]}
            for one, comparisons in zip(measured, compared, strict=True)
        ]
    }


def _number(value: float) -> str:
    """Return a figure with as many digits as it bears."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:.1f}" if size >= 100 else f"{value:.3f}"
