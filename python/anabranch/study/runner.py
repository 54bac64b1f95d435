"""Execution of a sweep into a folder. Runs that are already there are not repeated."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError
from anabranch.results import traces
from anabranch.results.reusable import reusable_runs
from anabranch.results.store import Store
from anabranch.study import execute, measure, sweep

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from anabranch.results.store import Key
    from anabranch.study.sweep import Job, Planned, Sweep


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One part of a sweep that is spread over machines.

    Attributes
    ----------
    number, of
        The part's number, from 1, and the number of parts.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `3/20`.

        Raises
        ------
        InputError
            If the text is not a shard.
        """
        match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
        number, of = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= of:
            message = f"not a shard: `{text}`"
            raise InputError(
                [Fault(message=message, where=f"--shard {text}", hint="for example --shard 3/20")]
            )
        return cls(number=number, of=of)


@dataclass(frozen=True, kw_only=True)
class Done:
    """The outcome of a sweep.

    Attributes
    ----------
    total
        Runs of the whole sweep.
    before
        Runs that were already there.
    now
        Runs that were made now.
    notes
        Sentences about damaged files of the folder.
    """

    total: int
    before: int
    now: int
    notes: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether no run is left."""
        return self.before + self.now == self.total


def run(
    what: Sweep,
    folder: Path,
    *,
    workers: int,
    dask: str | None = None,
    shard: Shard | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> Done:
    """Make the missing runs of a sweep. When all runs exist, write the tables.

    Parameters
    ----------
    what
        The sweep.
    folder
        The folder of the results.
    workers
        Processes on this machine.
    dask
        Address of a Dask scheduler that runs them instead.
    shard
        The part of the runs to make. The shard that finds no run left writes the tables.
    progress
        Called with the number of runs done, and of all runs.

    Raises
    ------
    ScenarioError
        With every fault of every cell.
    InputError
        When the folder holds something else.
    MissingError
        When the disk is full, a worker is gone, or the cluster cannot be reached.
    """
    planned = sweep.planned(what)
    part = "all" if shard is None else f"{shard.number}of{shard.of}"
    store = Store(folder, sweep.manifest(what, planned), part=part)
    done = store.done(what.keep)
    if _renamed(store, _left(what, planned, shard, done), what.keep):
        done = store.done(what.keep)
    total = before = mine = there = 0
    for place, job in enumerate(what.jobs(planned)):
        is_done, is_mine = (job.name, job.identity) in done, _is_mine(place, shard)
        total, before = total + 1, before + is_done
        mine, there = mine + is_mine, there + (is_mine and is_done)

    alike = _Alike(what, planned, _left(what, planned, shard, done))
    if progress is not None:
        progress(there, mine)
    if there < mine:
        runs = execute.execute(
            filter(alike.is_first, _left(what, planned, shard, done)), workers=workers, dask=dask
        )
        with store.writing() as journal, closing(runs):
            count = there
            for job, (rows, traces) in runs:
                journal.add(rows, traces)
                others = alike.others(job)
                for other in others:
                    journal.add(measure.renamed(rows, dict(job.cell.labels), other), traces)
                count += 1 + len(others)
                if progress is not None:
                    progress(count, mine)
        done = store.done(what.keep)
    # Other shards may have finished their runs meanwhile.
    left = sum((job.name, job.identity) not in done for job in what.jobs(planned))
    if left == 0:
        store.finish()
    return Done(total=total, before=total - left - (mine - there), now=mine - there, notes=store.notes)


def _renamed(store: Store, jobs: Iterator[Job], keep: Sequence[str]) -> bool:
    """Rename stored runs for cells that differ only in their name. Return whether there were any."""
    files = store.tables()
    if files.rows_of("runs") is None:
        return False
    wanted: dict[tuple[str, int], list[Job]] = {}
    for job in jobs:
        wanted.setdefault((job.alike, job.run), []).append(job)
    found = list(reusable_runs(files, wanted, keep)) if wanted else []
    if not found:
        return False
    with store.writing() as journal:
        for place, rows, source in found:
            tables = (traces.contents(store.folder, source, keep) if keep else None) or {}
            for job in wanted[place]:
                # A stored run contains its scenario's name, so it is not used under another name.
                if measure.RUN not in keep or job.identity == source[1]:
                    journal.add(measure.renamed(rows, (), job), tables)
    return True


def _left(what: Sweep, planned: Sequence[Planned], shard: Shard | None, done: set[Key]) -> Iterator[Job]:
    """Yield the runs of a shard that are not done."""
    for place, job in enumerate(what.jobs(planned)):
        if _is_mine(place, shard) and (job.name, job.identity) not in done:
            yield job


class _Alike:
    """Runs of cells that differ only in their name. One of them is made and used for all.

    Parameters
    ----------
    what, planned
        The sweep, and the planned cells.
    todo
        The runs to make.
    """

    def __init__(self, what: Sweep, planned: Sequence[Planned], todo: Iterator[Job]) -> None:
        counts = Counter(one.alike for one in planned)
        # A kept run contains its scenario's name.
        several = {text for text, count in counts.items() if count > 1 and measure.RUN not in what.keep}
        self._groups: dict[tuple[str, int], list[Job]] = {}
        for job in todo if several else ():
            if job.alike in several:
                self._groups.setdefault((job.alike, job.run), []).append(job)

    def is_first(self, job: Job) -> bool:
        """Return whether a job must be run, because no equal job comes before it."""
        group = self._groups.get((job.alike, job.run))
        return group is None or group[0] == job

    def others(self, job: Job) -> list[Job]:
        """Return the later jobs that have the same result."""
        return self._groups.get((job.alike, job.run), [])[1:]


def _is_mine(place: int, shard: Shard | None) -> bool:
    """Return whether the run at a place is of this shard."""
    return shard is None or place % shard.of == shard.number - 1
