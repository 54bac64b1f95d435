"""The driver of a sweep: makes its films, makes the missing runs, and adds up what they cost.

`anabranch.sweep`, `compare`, `run_study` and the commands of the same names all use it. They differ only in
how they show progress.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from typing import TYPE_CHECKING

from anabranch.results import cost
from anabranch.study import runner
from anabranch.study.sweep import make_films

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from anabranch._progress import Told
    from anabranch.study.runner import Done, Shard
    from anabranch.study.sweep import Sweep


def drive(
    what: Sweep,
    folder: Path,
    *,
    films: AbstractContextManager[Told],
    runs: AbstractContextManager[Told],
    workers: int | None = None,
    dask: str | None = None,
    shard: Shard | None = None,
) -> Done:
    """Make the missing runs of a sweep.

    Parameters
    ----------
    what
        The sweep.
    folder
        The folder of results.
    films, runs
        Show the progress of making films and of the runs; each is entered once.
    workers
        Processes on this machine; None is one for each core.
    dask
        Address of a Dask scheduler that makes the runs instead.
    shard
        The part of the runs to make; None is all.

    Raises
    ------
    ScenarioError, InputError, MissingError
        In the same cases as `anabranch.study.runner.run`.
    """
    with films as progress:
        make_films(what, progress)
    # The processor time of a cluster cannot be measured here.
    spent = cost.counting(folder) if dask is None else nullcontext()
    with runs as progress, spent:
        return runner.run(
            what,
            folder,
            workers=workers or os.cpu_count() or 1,
            dask=dask,
            shard=shard,
            progress=progress,
        )
