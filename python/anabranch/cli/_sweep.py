"""`anabranch sweep`, `anabranch results`, `anabranch verify`: many runs and their results."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from anabranch.cli import _console
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.results.store import Row
    from anabranch.study.runner import Done
    from anabranch.study.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class How:
    """How runs are to be made.

    Attributes
    ----------
    workers
        The number of processes; None for one per core.
    dask
        Address of a Dask scheduler that runs them instead.
    shard
        A part of the whole: `3/20`.
    out
        The folder of results; None is `results/NAME`.
    """

    workers: int | None
    dask: str | None
    shard: str | None
    out: Path | None

    def folder(self, what: Sweep) -> Path:
        """Return the folder for a sweep's results."""
        return self.out or Path("results") / what.name


def sweep(
    scenario: str,
    grid: Sequence[str],
    sets: Sequence[str],
    *,
    trials: int,
    keep: Sequence[str],
    keep_trace: bool,
    how: How,
    as_json: bool,
) -> None:
    """Run a scenario over a grid and print the results."""
    from anabranch.experiments.make import sweep_of
    from anabranch.scenario._overrides import parse_assignment
    from anabranch.study import grid as grids
    from anabranch.study import measure

    axes = [grids.parse(text) for text in grid]
    fixed = [parse_assignment(text) for text in sets]
    faults = [one for one in (*axes, *fixed) if isinstance(one, Fault)]
    found = [one for one in axes if not isinstance(one, Fault)]
    faults += [*grids.duplicates(found), *measure.unknown_tables(keep)]
    if faults:
        raise InputError(faults)
    given = [one for one in fixed if not isinstance(one, Fault)]
    kept = measure.kept(keep, whole=keep_trace)
    run(sweep_of(scenario, found, given, trials=trials, keep=kept), how, as_json=as_json)


def run(what: Sweep, how: How, *, as_json: bool) -> None:
    """Run a sweep into its folder and print the means of its cells."""
    if make(what, how):
        results(how.folder(what), by=None, metrics=(), sql=None, as_json=as_json)
        check_standstills(how.folder(what))


def check_standstills(folder: Path) -> None:
    """Exit with the code for unreached ends if a run of a finished sweep stands still."""
    from anabranch.results import summary

    if summary.standstills(folder):
        raise typer.Exit(_console.UNREACHED)


def make(what: Sweep, how: How, *, told: bool = True) -> bool:
    """Make the runs that the folder lacks, and return whether all runs are made.

    Parameters
    ----------
    what, how
        The sweep, and how it is run.
    told
        Print at the end where the results are.
    """
    from anabranch.cli._films import making_film
    from anabranch.study.drive import drive
    from anabranch.study.runner import Shard

    _console.warn(dict.fromkeys(warning for cell in what.cells for warning in cell.warnings))
    folder = how.folder(what)
    try:
        done = drive(
            what,
            folder,
            films=making_film(),
            runs=_console.progress(f"running {what.name}", unit="runs"),
            workers=how.workers,
            dask=how.dask,
            shard=None if how.shard is None else Shard.parse(how.shard),
        )
    except KeyboardInterrupt:
        # While films are being made, the folder does not exist yet.
        if folder.exists():
            _console.note(f"interrupted; finished runs are in {folder}: repeat the command to go on")
        raise
    if told:
        _told(done, folder)
    return done.complete


def _told(done: Done, folder: Path) -> None:
    """Print how many runs were made and how many are left."""
    for note in done.notes:
        _console.note(f"damaged: {note}")
    left = done.total - done.before - done.now
    text = f"{done.now} runs, {done.before} were there already; results in {folder}"
    _console.note(text if left == 0 else f"{text}; {left} of {done.total} are left to other shards")


def report(folder: Path, run: str | None, *, out: Path) -> None:
    """Write the report of a stored run."""
    from anabranch import report as reports
    from anabranch.cli import _outputs
    from anabranch.study import stored

    fault = _outputs.unwritable(out, "--out")
    if fault is not None:
        raise InputError([fault])
    row, count = stored.find(folder, run)
    left_out(folder, shown_by=f"anabranch results {folder} --earlier")
    if run is None and count > 1:
        _console.note(first_of(folder, row, count))
    with _console.progress("running again") as progress:
        found = stored.open_run(folder, row["identity"], progress=progress)
    reports.write(out, found)
    _console.note(f"report: {out}")


def decision(folder: Path, run: str | None, *, number: int | None, at_s: float | None, as_json: bool) -> None:
    """For one decision of a stored run, print the result of choosing another path."""
    from anabranch.why import decision as decisions

    if number is not None and at_s is not None:
        raise InputError(
            [Fault(message="both --at and --decision are given", where="--at", hint="leave one of them out")]
        )

    def wanted(one: decisions.Chosen) -> bool:
        return one.number == number if at_s is None else one.at_s >= at_s

    found = decisions.other(folder, run, wanted)
    if as_json:
        _console.out(json.dumps(found.to_json(), indent=2))
        return
    one = found.chosen
    _console.note(
        f"decision {one.number} at {one.at_s:.3f} s: byte {one.first_byte} of the data went on subflow "
        f"{one.taken}, and could have gone on {one.other}"
        + (", waiting in either for room in its window" if one.queues else "")
    )
    lines = [
        (name, _cell({name: was}, "", name), _cell({name: would}, "", name))
        for name, (was, would) in {"acked_ms": found.acked_ms, **found.metrics}.items()
    ]
    _console.table(("", "as it was", "on the other"), lines, left=1)


def results(
    folder: Path,
    *,
    by: Sequence[str] | None,
    metrics: Sequence[str],
    sql: str | None,
    as_json: bool,
    earlier: bool = False,
    table: Path | None = None,
) -> None:
    """Print the means of a folder's cells, or the answer to a query; also write them to a file."""
    from anabranch.results import notes, read, store, summary, worlds

    given = [option for option, value in (("--by", by), ("--metric", metrics)) if value]
    if sql is not None and given:
        message = f"{' and '.join(given)} cannot be combined with --sql"
        raise InputError([Fault(message=message, where="--sql", hint="say it in the query")])
    found = store.made(folder, earlier=earlier)
    if sql is not None:
        answer = read.asked(read.Reader(folder), sql, earlier=earlier)
        rows, headers = answer.to_dicts(), answer.columns
    else:
        rows = summary.means(folder, list(by or worlds.of_cells(found.labels)), metrics, earlier=earlier)
        headers = list(dict.fromkeys(key for row in rows for key in row))
        headers = [name for name in headers if not name.endswith(summary.INTERVAL)]
        short, whole = summary.unfinished(folder)
        if short:
            _console.note(f"the simulation ended before the sessions of {short} of {whole} runs had finished")
        unreached = summary.unreached(folder)
        if unreached:
            _console.note(f"warning: {unreached}")
        _console.warn(summary.standstills(folder))
        if rows and not earlier:
            for sentence in [*notes.same_decisions(folder), *notes.pooled(folder, by or headers)]:
                _console.note(f"note: {sentence}")
        for name, note in found.notes.items():
            _console.note(f"assumption: {name}: {note}")
    left_out(folder, earlier=earlier)
    if found.exact:
        _console.note(
            f"{len(found.exact)} cells draw nothing: all of their runs are the same, so each has one"
        )
    if store.journals(folder):
        count = len(store.journals(folder))
        are = "journal is" if count == 1 else "journals are"
        _console.note(f"not finished: {count} {are} open in {folder}")
    if as_json:
        _console.out(json.dumps([_plain(row) for row in rows], indent=2, default=_said))
    left = sum(1 for name in headers if rows and isinstance(rows[0].get(name), str))
    width = summary.INTERVAL if sql is None else ""
    if sql is None:
        rows = _shortened(rows, headers)
    lines = [[_cell(row, name + width if width else "", name) for name in headers] for row in rows]
    if table is not None:
        from anabranch.experiments.table import printed

        _written(table, *printed(rows, headers, left), left)
    if as_json:
        return
    _console.table(tuple(headers), lines, left=left)
    if not rows:
        _console.note("no rows")


def _written(path: Path, heads: Sequence[str], lines: Sequence[Sequence[str]], left: int) -> None:
    """Write a table to a file."""
    from anabranch import _files
    from anabranch.results import written

    _files.write(path, written.text(path.suffix, heads, lines, left=left), "the table")
    _console.note(f"table: {path}")


def first_of(folder: Path, row: Row, count: int) -> str:
    """Return a sentence that names the first run of a folder and its cell."""
    from anabranch.results import store
    from anabranch.results.worlds import of_cells

    labels = of_cells(store.made(folder).labels)
    cell = ", ".join(str(row[name]) for name in labels if row.get(name) is not None)
    of_cell = f" of the cell {cell}" if cell else ""
    return f"run {row['identity']}{of_cell}, the first of {count}: --run ID names another"


def left_out(folder: Path, *, earlier: bool = False, shown_by: str = "--earlier") -> None:
    """Print notes about the runs that a summary leaves out, and about damaged files."""
    from anabranch.results import read

    for sentence in read.left_out(folder, shown_by):
        if not (earlier and f"({shown_by} shows" in sentence):
            _console.note(sentence)


def versus(
    folder: Path,
    value: str,
    *,
    by: Sequence[str] | None,
    metrics: Sequence[str],
    sql: str | None,
    as_json: bool,
    relative: bool = False,
    table: Path | None = None,
) -> None:
    """Print the paired differences between a folder's cells and those with a value of the grid."""
    from anabranch.results import notes, summary

    beside = [option for option, other in (("--by", by), ("--sql", sql)) if other]
    if beside:
        message = f"{' and '.join(beside)} cannot be combined with `--versus`"
        raise InputError([Fault(message=message, where=f"--versus {value}", hint="leave one of them out")])
    _console.warn(summary.standstills(folder))
    left_out(folder)
    for sentence in notes.same_decisions(folder):
        _console.note(f"note: {sentence}")
    changes(folder, value, metrics, relative=relative, as_json=as_json, table=table)


def changes(
    folder: Path,
    value: str,
    metrics: Sequence[str],
    *,
    relative: bool,
    as_json: bool,
    table: Path | None = None,
) -> None:
    """Print paired differences without the notes about the folder."""
    from anabranch.results import store
    from anabranch.results import versus as compared
    from anabranch.results.worlds import WORLD

    rows = compared.differences(folder, value, metrics, relative=relative)
    what = "change of the mean in percent" if relative else "cell less its counterpart"
    worlds = WORLD in store.made(folder).labels
    paired = "drawn worlds in pairs" if worlds else "runs of the same number in pairs"
    _console.note(f"{what}, {paired}; in brackets the 95 % interval")
    if as_json:
        _console.out(json.dumps([_plain(row) for row in rows], indent=2))
    labels = [name for name in store.made(folder).labels if name in rows[0]]
    rows = _shortened(rows, labels)
    ends = (compared.LOW, compared.HIGH, compared.PAIRS, compared.DETECTABLE)
    names = [name for name in rows[0] if name not in labels and not name.endswith(ends)]
    pairs = [max(row[name + compared.PAIRS] for name in names) for row in rows]
    lines = [
        [*(str(row[name]) for name in labels), str(count), *(_difference(row, name, count) for name in names)]
        for row, count in zip(rows, pairs, strict=True)
    ]
    if table is not None:
        from anabranch.experiments.table import differences, label
        from anabranch.figures import words

        keys = [label(rows, name) for name in labels]
        columns = [differences(rows, name, pairs) for name in names]
        cells = [
            [*(values[place] for _, values in keys), str(count), *(column[place] for column in columns)]
            for place, count in enumerate(pairs)
        ]
        heads = [*(head for head, _ in keys), "pairs", *map(words.metric, names)]
        _written(table, heads, cells, len(labels))
    if not as_json:
        _console.table((*labels, "pairs", *names), lines, left=len(labels))


def _difference(row: Mapping[str, Any], name: str, most: int) -> str:
    """Return a difference as a table shows it: with its number of pairs, if another metric has more."""
    from anabranch.results import versus as compared

    value, low, high = row[name], row[name + compared.LOW], row[name + compared.HIGH]
    if value is None:
        return "-"
    count = row[name + compared.PAIRS]
    if value == low == high == 0:
        return "no difference"
    text = f"{value:+.3g}" if low is None or high is None else f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"
    return text if count == most else f"{text}, {count} {'pair' if count == 1 else 'pairs'}"


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row for JSON, with null for NaN and infinity."""
    wild = {name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)}
    return {name: None if name in wild else value for name, value in row.items()}


def _said(value: object) -> float | str:
    """Convert a value without a JSON type: DuckDB's decimals to numbers, times and others to text."""
    return float(value) if isinstance(value, Decimal) else str(value)


def _shortened(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    """Return rows in which the names of classes are shortened for reading."""
    from anabranch import plugins

    short = plugins.short(row[name] for row in rows for name in names if isinstance(row.get(name), str))
    return [
        {
            name: short[value] if name in names and isinstance(value, str) else value
            for name, value in row.items()
        }
        for row in rows
    ]


def _cell(row: Mapping[str, Any], interval: str, name: str) -> str:
    """Return a value for a table, with its interval if it has one."""
    value, width = row.get(name), row.get(interval)
    if value is None:
        return "-"
    from anabranch._numbers import with_half
    from anabranch.metrics.score import can_be_negative

    return with_half(value, width, is_signed=can_be_negative(name))


def verify(folder: Path, identities: Sequence[str], *, sample: int | None) -> None:
    """Run some runs again and compare every byte of their rows."""
    from anabranch.study import verify as verifying

    with _console.progress("running again", unit="runs") as progress:
        differences, count = verifying.verify(folder, identities, sample=sample, progress=progress)
    for name, lines in differences.items():
        for line in lines:
            _console.out(f"{name} {line}")
    _console.note(f"{count} runs were repeated, {len(differences)} differ")
    if differences:
        raise typer.Exit(_console.EXPECTATION_FAILED)
