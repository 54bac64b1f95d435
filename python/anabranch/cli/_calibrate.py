"""`anabranch calibrate`: the simulator compared with a kernel's measurements."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import typer

from anabranch import _files
from anabranch.cli import _console
from anabranch.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch.calibrate.compare import Comparison
    from anabranch.calibrate.model import GroundTruth, Measured
    from anabranch.calibrate.outages import Cell, Row
    from anabranch.calibrate.page import Outcome
    from anabranch.calibrate.simulate import Task
    from anabranch.figures.calibration import Series


@dataclass(frozen=True, kw_only=True)
class Asked:
    """The options of the command.

    Attributes
    ----------
    against
        The folder of measurements; None is the one that came with the program.
    only
        Parts of the names of settings; empty is all.
    runs
        Runs of a setting with random loss.
    workers
        The number of processes; None for one per core.
    docs
        The page to write, if any.
    kernel
        The kernel that the folder was measured on; None takes the folder's own statement.
    same_losses
        Run only the settings whose tables have the emulator's seeds, and repeat the losses of the kernel's
        trials.
    """

    against: Path | None
    only: tuple[str, ...]
    runs: int
    workers: int | None
    docs: Path | None
    kernel: str | None = None
    same_losses: bool = False


def calibrate(asked: Asked, *, as_json: bool) -> None:
    """Run the settings, print each value as soon as it is known, and fail if one misses its target."""
    from anabranch.calibrate import page, score, simulate

    _known(asked)
    truth, cells = _measurements(asked)
    for fault in truth.refused:
        _console.note(f"{fault}\n")
    measured = chosen(truth, asked.only, [cell.name for cell in cells])
    cells = [cell for cell in cells if not asked.only or any(_matches(cell.name, one) for one in asked.only)]
    if asked.same_losses:
        measured = _seeded(measured)
    kernel = None if asked.docs is None else _prepare(asked.docs, measured)
    workers = asked.workers or os.cpu_count() or 1
    todo = simulate.tasks(measured, truth.films, runs=asked.runs, same_losses=asked.same_losses)
    compared = _compared(measured, todo, workers=workers, tables=not as_json) if todo else []
    rows = _outages(cells, workers=workers)
    if as_json:
        said = _json(truth, measured, compared) | {"outages": [row.to_json() for row in rows]}
        _console.out(json.dumps(said, indent=2, allow_nan=False))
    if asked.docs is not None and kernel is not None:
        first = {task.place: task for task in reversed(todo)}
        tasks = [first[place] for place in range(len(measured))]
        again = [one for one in measured if _tells_losses(one)]
        repeated = simulate.tasks(again, truth.films, runs=asked.runs, same_losses=True)
        same = _compared(again, repeated, workers=workers, tables=False) if again else []
        outcome = page.Outcome(
            truth=truth,
            measured=measured,
            compared=compared,
            tasks=tasks,
            runs=asked.runs,
            same_losses=score.judged(again, same),
        )
        _write(asked.docs, outcome, kernel)
    _conclude(truth, measured, compared, rows, tables=not as_json)


def _measurements(asked: Asked) -> tuple[GroundTruth, list[Cell]]:
    """Return the requested settings, and the cells with outages.

    A page, `--same-losses` and a given kernel apply to settings only, so the cells with outages are left out.
    """
    from anabranch.calibrate import outages, read
    from anabranch.calibrate.model import GroundTruth

    if asked.against is not None and outages.is_here(asked.against):
        return GroundTruth(measured=(), films={}, refused=()), outages.read(asked.against)
    if asked.against is not None:
        return read.read(asked.against, kernel=asked.kernel), []
    settings_alone = asked.same_losses or asked.docs is not None
    return read.shipped(), [] if settings_alone else outages.read()


def _outages(cells: Sequence[Cell], *, workers: int) -> list[Row]:
    """Run the cells with outages, and return a row of results for each variant and controller."""
    from anabranch.calibrate import outages

    if not cells:
        return []
    with _console.progress("outages", unit="runs") as bar:
        return outages.rows(cells, outages.each(cells, workers=workers, progress=bar))


def _known(asked: Asked) -> None:
    """Refuse an unknown kernel, a kernel given for the program's own measurements, and an incomplete page.

    Raises
    ------
    InputError
        If one of these is found.
    MissingError
        If the packages that draw the page's figures are missing.
    """
    from anabranch import _extras
    from anabranch.calibrate.kernels import KERNELS

    if asked.docs is not None:
        _extras.figures()
    if asked.same_losses and asked.docs is not None:
        hint = "the page has both: with the same losses and with losses of its own"
        message = "--docs writes a whole page"
        raise InputError([Fault(message=message, where="--same-losses", hint=hint)])
    if asked.kernel is None:
        return
    where = f"--kernel {asked.kernel}"
    if asked.kernel not in KERNELS:
        hint = did_you_mean(asked.kernel, KERNELS)
        raise InputError([Fault(message=f"unknown kernel: `{asked.kernel}`", where=where, hint=hint)])
    if asked.against is None:
        hint = "the measurements that came with the program name their own kernel"
        raise InputError([Fault(message="--kernel needs --against", where=where, hint=hint)])


def _tells_losses(one: Measured) -> bool:
    """Return whether packets were lost at random with known seeds."""
    return one.setting.lossy and bool(one.seeds)


def _seeded(measured: Sequence[Measured]) -> list[Measured]:
    """Return the settings whose losses can be repeated.

    Raises
    ------
    InputError
        When there are none.
    """
    found = [one for one in measured if _tells_losses(one)]
    if not found:
        message = "no setting here has random loss and a table with the seeds of the emulator"
        hint = "the shipped ones of kernel 6.18 have: --only P1, --only HA"
        raise InputError([Fault(message=message, where="--same-losses", hint=hint)])
    return found


def _compared(
    measured: Sequence[Measured], todo: Sequence[Task], *, workers: int, tables: bool
) -> list[list[Comparison]]:
    """Return the figures of every setting, and write each setting's table as soon as it is there."""
    from anabranch.calibrate import compare, simulate

    compared = []
    with _console.progress("calibrating", unit="runs") as bar:
        for place, runs in simulate.each(todo, workers=workers, progress=bar):
            compared.append(compare.compare(measured[place], runs))
            if tables:
                with bar.paused():
                    _table(measured[place], compared[-1])
    return compared


def _conclude(
    truth: GroundTruth,
    measured: Sequence[Measured],
    compared: Sequence[Sequence[Comparison]],
    outage_rows: Sequence[Row],
    *,
    tables: bool,
) -> None:
    """Print how many figures are within their targets. Fail if one is not, or if something was refused."""
    from anabranch.calibrate import outages, score

    if tables and outage_rows:
        _console.heading(f"{outages.NAME}: kernel | simulator")
        _console.table(outages.HEAD, [outages.cells_of(row) for row in outage_rows])
        _console.out()
    if tables and measured:
        found = score.judged(measured, compared)
        shares = score.by(found, lambda setting: "/".join(filter(None, (setting.folder, setting.kind))))
        rows = [score.row(name, one) for name, one in shares.items()]
        _console.table(score.HEAD, [*rows, score.row("all", score.score(found))])
    verdicts = [one.verdict for comparisons in compared for one in comparisons]
    verdicts += ["ok" if row.holds else "miss" for row in outage_rows]
    counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in ("ok", "miss", "not judged")]
    refused = [f"{len(truth.refused)} refused, told above"] if truth.refused else []
    _console.note(", ".join([*counts, *refused]))
    if truth.refused:
        raise typer.Exit(_console.BAD_INPUT)
    if "miss" in verdicts:
        raise typer.Exit(_console.EXPECTATION_FAILED)


def _prepare(docs: Path, measured: Sequence[Measured]) -> dict[str, Series]:
    """Return the kernel's series, before any time is spent on what could not be drawn or written.

    Raises
    ------
    InputError
        When the page cannot be written, or a series cannot be read.
    """
    from anabranch.calibrate import page
    from anabranch.cli._outputs import unwritable

    faults = list(filter(None, [unwritable(docs, "--docs") or _unreadable(docs)]))
    kernel = page.kernel_series(measured, faults)
    if faults:
        raise InputError(faults)
    return kernel


def _unreadable(docs: Path) -> Fault | None:
    """Return the fault of an existing page whose handwritten part cannot be read and would be lost."""
    try:
        if docs.exists():
            docs.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        message = f"not a page of text: `{docs}`"
        return Fault(message=message, where="--docs", hint="its handwritten part would be lost")
    return None


def _write(docs: Path, outcome: Outcome, kernel: Mapping[str, Series]) -> None:
    """Write the page, and its figures into a folder with the same name."""
    from anabranch.calibrate import page
    from anabranch.figures import calibration, goodput

    shown = page.pictures(outcome, kernel)
    folder = docs.with_suffix("") if docs.suffix else docs.with_name(f"{docs.name}.figures")
    before = docs.read_text(encoding="utf-8") if docs.exists() else ""
    try:
        folder.mkdir(exist_ok=True)
        for picture in shown:
            chart = calibration.overlay(picture.columns, until_s=picture.until_s)
            _files.write(folder / f"{picture.name}.svg", calibration.svg(chart), "a figure")
        text = page.page(
            outcome, shown, folder=folder.name, by_hand=page.kept(before), random=page.drawn(before)
        )
        _files.write(docs, text, "the page")
        _files.write(folder / "goodput.svg", goodput.svg(text), "a figure")
    except OSError as error:
        message = f"cannot write the page: {error.strerror or error}"
        raise InputError([Fault(message=message, where=f"--docs {docs}")]) from None
    _console.note(f"page: {docs}")


def chosen(truth: GroundTruth, only: Sequence[str], others: Sequence[str] = ()) -> list[Measured]:
    """Return the settings that any of the patterns names, or all without a pattern.

    Raises
    ------
    InputError
        When a pattern names none, and none of the `others`.
    """
    names = [*(one.setting.name for one in truth.measured), *others]
    # There are hundreds of cells, so only their kinds are listed.
    shown = [*names[: len(truth.measured)], *sorted({name.split("/")[0] for name in others})]
    faults = [
        Fault(
            message=f"no setting has a name that matches: `{pattern}`",
            where=f"--only {pattern}",
            hint=did_you_mean(pattern, shown),
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
    """Return whether a pattern occurs in a setting's name."""
    return fnmatchcase(name.lower(), f"*{pattern.lower()}*")


def _table(measured: Measured, comparisons: Sequence[Comparison]) -> None:
    """Write one setting for a person."""
    from anabranch._numbers import four_digits
    from anabranch.calibrate import words

    _console.heading(measured.setting.name)
    headers = ("", "kernel", "±", "n", "simulator", "n", "error", "allowed", "")
    rows = [
        (
            words.figure_name(one.figure),
            four_digits(one.kernel),
            "" if one.half_width is None else four_digits(one.half_width),
            str(one.trials),
            "none" if one.simulator is None else four_digits(one.simulator),
            str(one.runs),
            words.error_words(one),
            "" if one.allowed is None else four_digits(one.allowed),
            words.verdict_words(one),
        )
        for one in comparisons
    ]
    _console.table(headers, rows)
    _console.out()


def _json(
    truth: GroundTruth, measured: Sequence[Measured], compared: Sequence[Sequence[Comparison]]
) -> dict[str, Any]:
    """Return what `--json` prints."""
    return {
        "refused": [str(fault) for fault in truth.refused],
        "settings": [
            {"name": one.setting.name, "figures": [comparison.to_json() for comparison in comparisons]}
            for one, comparisons in zip(measured, compared, strict=True)
        ],
    }
