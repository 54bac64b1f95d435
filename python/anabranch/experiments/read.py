"""The results of a sweep or a study: a folder, read as tables, figures and a page."""

from __future__ import annotations

import shutil
import warnings
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError
from anabranch.results import load, notes, query, store, summary, versus, worlds
from anabranch.results.read import Reader, rows, warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    import polars

    from anabranch._run import Run
    from anabranch.figures.picture import Picture

#: The most cells that a notebook shows; `means` has all.
_SHOWN = 24


class PooledWarning(UserWarning):
    """A warning that a mean pools cells that differ in an axis that is not named."""


class Results:
    """A folder of results, as returned by `anabranch.sweep` and `anabranch.run_study`.

    Parameters
    ----------
    folder
        A folder that a sweep or a study wrote, from Python or from the command line.
    goes
        The temporary folder that is deleted with this object; None if the user gave a folder.

    Attributes
    ----------
    folder
        The same.

    Raises
    ------
    InputError
        When it is no folder of results.

    Examples
    --------
    >>> import anabranch
    >>> anabranch.Results("results/SD18").means()  # doctest: +SKIP
    """

    def __init__(self, folder: str | Path, *, goes: Path | None = None) -> None:
        self.folder = Path(folder)
        self._made = store.made(self.folder)
        if goes is not None:
            weakref.finalize(self, shutil.rmtree, goes, ignore_errors=True)

    def __repr__(self) -> str:
        """Return the folder and its number of runs."""
        return f"Results({str(self.folder)!r}: {self.name}, {len(self)} runs)"

    def __len__(self) -> int:
        """Return the number of runs."""
        return rows(self.folder).height

    @property
    def name(self) -> str:
        """The name of the sweep or study."""
        return str(store.manifest(self.folder)["name"])

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns that distinguish cells: the grid's keys, and those that a study has."""
        return self._made.labels

    @property
    def notes(self) -> dict[str, str]:
        """Every assumption of a study by its name, in a sentence."""
        return dict(self._made.notes)

    def frame(self, table: str = "runs") -> polars.DataFrame:
        """Return a table, as `anabranch.load` does.

        Parameters
        ----------
        table
            `runs` (a row for each run), `subflows` (a row for each subflow), or a table of the trace that was
            kept. The suffix of a column's name is its unit.

        Raises
        ------
        InputError
            When there is no such table; the message has the nearest name.
        """
        return load(self.folder, table)

    def query(self, sql: str) -> polars.DataFrame:
        """Return the answer to an SQL query over the tables, as `anabranch.query` does.

        Raises
        ------
        InputError
            When the query would change something, or DuckDB refuses it.
        """
        return query(self.folder, sql)

    def means(self, *, by: Sequence[str] | None = None, metrics: Sequence[str] = ()) -> polars.DataFrame:
        """Return a row for each cell: its labels, the number of runs, and the mean of each metric.

        Parameters
        ----------
        by
            The columns that make a cell; None is the grid's keys, without the number of a drawn world.
        metrics
            Columns to take the mean of; if empty, a selection of those that the runs have.

        Returns
        -------
        polars.DataFrame
            `NAME` is the mean, in the unit that its name ends in; `NAME_ci95` half the width of its 95 %
            interval by Student's t, null where fewer than two runs have the metric.

        Raises
        ------
        InputError
            When a column does not exist or is not numeric.
        """
        import polars

        self._warn()
        labels = worlds.of_cells(self.labels) if by is None else list(by)
        for sentence in notes.pooled(self.folder, labels) if by is not None else ():
            warnings.warn(sentence, PooledWarning, stacklevel=2)
        found = summary.means(self.folder, labels, list(metrics))
        # A column without any number is still a numeric column.
        frame = polars.from_dicts(found, infer_schema_length=None) if found else polars.DataFrame()
        return frame.cast({polars.Null: polars.Float64})

    def versus(self, value: str, *, metrics: Sequence[str] = (), relative: bool = False) -> polars.DataFrame:
        """Return the differences between each cell and the cell with a given value of a grid key.

        Parameters
        ----------
        value
            A value, `linux`, or key and value, `transport.scheduler=linux`.
        metrics
            Columns to take differences of. If empty, those of the first metrics that fit into ten columns:
            the differences with their intervals, and `pairs`.
        relative
            Changes of the means in percent instead of differences.

        Returns
        -------
        polars.DataFrame
            A row a cell: `NAME` is the mean of the differences, cell less counterpart, over runs of the same
            luck; `NAME_low` and `NAME_high` the ends of its 95 % interval (BCa bootstrap), `NAME_pairs` how
            many pairs, `NAME_detectable` the smallest difference that so many show with a chance of 80 %.

        Raises
        ------
        InputError
            When nothing in the grid has this value, or a column does not exist or is not numeric.
        """
        import polars

        self._warn()
        if metrics:
            found = versus.differences(self.folder, value, list(metrics), relative=relative)
        else:
            found = versus.short(self.folder, value, relative=relative)
        return polars.from_dicts(found, infer_schema_length=None).cast({polars.Null: polars.Float64})

    def same_decisions(self) -> list[str]:
        """Return a sentence for each pair of values of an axis whose runs have equal digests."""
        return notes.same_decisions(self.folder)

    def _warn(self) -> None:
        """Warn about runs that are left out, and about runs that stand still."""
        warn(Reader(self.folder), stacklevel=4)
        summary.warn_standstills(self.folder, stacklevel=4)

    def open(self, run: str | None = None) -> Run:
        """Return a run with its trace.

        The trace is read if it was stored; otherwise the run is repeated and compared by its digest.

        Parameters
        ----------
        run
            The beginning of its `identity`; None is the first run.

        Raises
        ------
        InputError
            If there is no such run, or the repeated run differs.
        """
        from anabranch.study.stored import open_run

        return open_run(self.folder, run)

    def plot(self, *metrics: str) -> Picture:
        """Return metrics as bars with 95 % intervals and a dot for each trial.

        Parameters
        ----------
        metrics
            Columns of `runs`, one figure below the other; none is the first that matters.

        Returns
        -------
        Picture
            Shows itself in a notebook; `.save("figure.svg")` writes it, `.data` has its numbers.

        Raises
        ------
        InputError
            When a column does not exist or has no numbers; the message has the nearest name.
        """
        from anabranch.experiments import drawn

        self._warn()
        return drawn.of_metrics(self.folder, metrics)

    def figures(self) -> dict[str, Picture]:
        """Return every figure for which the results have numbers, by name: those of `study figures`."""
        from anabranch.experiments import drawn

        self._warn()
        return drawn.every(self.folder)

    def report(self, path: str | Path) -> Path:
        """Write one page, which loads nothing: verdicts, means with intervals, figures, assumptions.

        Parameters
        ----------
        path
            The file.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        MissingError
            When it cannot be written.
        """
        from anabranch.experiments import page

        return page.write(Path(path), self.folder)

    def claims(self) -> polars.DataFrame:
        """Return the verdicts on the claims of a study's paper.

        Returns
        -------
        polars.DataFrame
            `claim`, `place` in the paper, its text (`says`), the `verdict`, and its evidence (`rests_on`).

        Raises
        ------
        InputError
            If the results do not belong to a study with claims.
        """
        import polars

        from anabranch.claims import gather, page

        self._warn()
        paper = gather.judged(self.folder)
        if paper is None:
            message = "the results are of no study that states claims"
            raise InputError([Fault(message=message, where=str(self.folder))])
        verdicts = [
            {
                "claim": one.stated.claim.id,
                "place": one.stated.claim.place,
                "says": one.stated.claim.says,
                "verdict": one.verdict,
                "rests_on": page.evidence(one),
            }
            for one in paper.judged
        ]
        return polars.from_dicts(verdicts)

    def _repr_html_(self) -> str:
        """Return the notebook's view: the means of the cells with their intervals."""
        from anabranch import _html
        from anabranch.experiments.table import table

        head, lines, left = table(self.folder, worlds.of_cells(self.labels))
        parts = [_html.heading(self.name, f"{len(self)} runs")]
        parts.append(_html.table(head, lines[:_SHOWN], left=left))
        if len(lines) > _SHOWN:
            parts.append(_html.paragraph(f"and {len(lines) - _SHOWN} more cells: .means() has all"))
        parts += map(_html.paragraph, Reader(self.folder).left_out("earlier=True"))
        short, whole = summary.unfinished(self.folder)
        if short:
            parts.append(
                _html.paragraph(f"{short} of {whole} runs had not finished when the simulation ended")
            )
        parts += [_html.paragraph(fault.sentence()) for fault in summary.standstills(self.folder)]
        return _html.block(*parts)
