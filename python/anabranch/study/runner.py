"""Running a sweep into a folder: what is there already is not run again."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch.errors import Fault, InputError
from anabranch.results.store import Store
from anabranch.study import execute, sweep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from anabranch.study.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One part of a sweep that is spread over machines.

    Attributes
    ----------
    number, of
        The part's number, from 1, and how many parts there are.
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read `3/20`.

        Raises
        ------
        InputError
            When the text is not a shard.
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
    """How a sweep went.

    Attributes
    ----------
    total
        Runs of the whole sweep.
    before
        Those that were there already.
    now
        Those that were run.
    """

    total: int
    before: int
    now: int

    @property
    def complete(self) -> bool:
        """Nothing is left to run."""
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
    """Run whatever of a sweep is not done, and make tables when all is.

    Parameters
    ----------
    what
        The sweep.
    folder
        Where its results go.
    workers
        Processes on this machine.
    dask
        Address of a Dask scheduler that runs them instead.
    shard
        Only a part of the runs; the tables are made by whoever finds nothing left to run.
    progress
        Told the runs done, and how many there are.

    Raises
    ------
    ScenarioError
        With every fault of every cell.
    InputError
        When the folder holds something else.
    MissingError
        When the disk is full, a worker is gone, or the cluster cannot be reached.
    """
    hashes = sweep.plan_hashes(what)
    part = "all" if shard is None else f"{shard.number}of{shard.of}"
    store = Store(folder, sweep.manifest(what), part=part)
    done = store.done()
    total = before = mine = there = 0
    for place, job in enumerate(what.jobs(hashes)):
        is_done, is_mine = (job.name, job.identity) in done, _is_mine(place, shard)
        total, before = total + 1, before + is_done
        mine, there = mine + is_mine, there + (is_mine and is_done)
    todo = (
        job
        for place, job in enumerate(what.jobs(hashes))
        if _is_mine(place, shard) and (job.name, job.identity) not in done
    )
    if progress is not None:
        progress(there, mine)
    if there < mine:
        runs = execute.execute(todo, workers=workers, dask=dask)
        with store.writing() as journal, closing(runs):
            for count, (_, (rows, traces)) in enumerate(runs, start=1):
                journal.add(rows, traces)
                if progress is not None:
                    progress(there + count, mine)
        done = store.done()
    # Others may have run theirs meanwhile.
    left = sum((job.name, job.identity) not in done for job in what.jobs(hashes))
    if left == 0:
        store.finish()
    return Done(total=total, before=total - left - (mine - there), now=mine - there)


def _is_mine(place: int, shard: Shard | None) -> bool:
    """Tell whether the run at a place is of this shard."""
    return shard is None or place % shard.of == shard.number - 1
