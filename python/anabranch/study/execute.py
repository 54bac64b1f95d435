"""Execution of many runs: in this process, in several processes, or on a Dask cluster.

The results are the same bytes.
"""

from __future__ import annotations

from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures import CancelledError as Cancelled
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

from anabranch import _extras
from anabranch._pool import processes, undisturbed
from anabranch.errors import MissingError, PluginError
from anabranch.results import identity
from anabranch.study import measure

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator
    from concurrent.futures import Executor

    from anabranch.results.store import Rows
    from anabranch.study.sweep import Job

#: The result of a run: its rows, and the tables of its trace that are kept.
Outcome = tuple["Rows", dict[str, bytes]]
#: The number of runs handed out to each worker in advance, so that none has to wait for the next.
_AHEAD = 3


def work(job: Job, code: str) -> Outcome:
    """Run one run.

    Parameters
    ----------
    job
        What.
    code
        The identity of the program that requests the run. Another program would give other results.

    Raises
    ------
    MissingError
        When this worker runs another build of the program.
    PluginError
        When a plug-in in Python raises an exception. Its text names the cell and the run.
    """
    from anabranch._run import run_loaded
    from anabranch.metrics import score

    if identity.code() != code:
        message = f"a worker runs another build of this program: {identity.code()}, not {code}"
        raise MissingError(message, hint="install the same build everywhere")
    loaded, film = job.ready()
    try:
        run = run_loaded(loaded, run=job.run, film=film, cell=job.hash, may_stand=True)
    except PluginError as raised:
        labels = ", ".join(f"{column} {value}" for column, value in job.cell.labels)
        message = f"{raised}\n  in run {job.run} of `{job.cell.scenario}`, {labels or 'its only cell'}"
        raise PluginError(message) from None
    prices = {path.name: path.price_per_gb for path in loaded.scenario.paths if path.price_per_gb is not None}
    application = loaded.scenario.application
    scored = score.of(application.kind, film, application.duration)
    return measure.rows(job, run, prices, scored), measure.traces(job, run)


def execute(jobs: Iterable[Job], *, workers: int, dask: str | None = None) -> Generator[tuple[Job, Outcome]]:
    """Yield runs as they are done.

    Parameters
    ----------
    jobs
        The runs to make.
    workers
        Processes; 1 is this one. Not used with a cluster.
    dask
        Address of a Dask scheduler.

    Raises
    ------
    MissingError
        When a worker is gone, or the cluster cannot be reached.
    """
    code = identity.code()
    if dask is None and workers == 1:
        for job in jobs:
            yield job, work(job, code)
        return
    with ExitStack() as stack:
        pool: Executor
        if dask is None:
            pool, width = stack.enter_context(processes(workers)), workers
        else:
            pool, width = stack.enter_context(_cluster(dask))
        try:
            yield from _flow(pool, iter(jobs), code, width * _AHEAD)
        except BrokenProcessPool:
            message = "a worker process was ended from outside"
            hint = "is memory short? finished runs are kept: repeat the command to go on"
            raise MissingError(message, hint=hint) from None
        except _lost(dask) as error:
            reason = (str(error) or type(error).__name__).partition("\n")[0]
            message = f"a worker of the cluster is gone, or its scheduler `{dask}`: {reason}"
            hint = "is memory short? finished runs are kept: repeat the command to go on"
            raise MissingError(message, hint=hint) from None


def _lost(dask: str | None) -> tuple[type[BaseException], ...]:
    """Return the exceptions of a run whose cluster is gone; none without a cluster."""
    if dask is None:
        return ()
    from distributed import CancelledError
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError
    from distributed.scheduler import KilledWorker

    # If the scheduler is gone, submitted jobs are cancelled, here and in the executor's own futures.
    return KilledWorker, CommClosedError, ClosedClientError, CancelledError, Cancelled


def _flow(pool: Executor, jobs: Iterator[Job], code: str, ahead: int) -> Iterator[tuple[Job, Outcome]]:
    """Keep a number of runs submitted, and yield the finished ones."""
    under_way: dict[Any, Job] = {}
    try:
        while True:
            for job in islice(jobs, ahead - len(under_way)):
                with undisturbed():
                    # Processes start here, and inherit the setting that interrupts wait.
                    under_way[pool.submit(work, job, code)] = job
            if not under_way:
                return
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                yield under_way.pop(future), future.result()
    finally:
        for future in under_way:
            future.cancel()


@contextmanager
def _cluster(address: str) -> Iterator[tuple[Executor, int]]:
    """Connect to a Dask cluster. Yield an executor and the number of runs that it executes at once."""
    _extras.need("distributed", for_="a cluster")
    from distributed import Client
    from distributed.comm import addressing

    try:
        # An invalid address is refused here, because an incomplete client would raise an error when it is
        # deleted.
        addressing.get_address_host_port(address)
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError, TimeoutError) as error:
        message = f"no Dask scheduler at `{address}`: {error}"
        raise MissingError(message, hint="start one: dask scheduler; dask worker ADDRESS") from None
    with client:
        threads = sum(client.nthreads().values())
        if threads == 0:
            message = f"the cluster at `{address}` has no workers"
            raise MissingError(message, hint=f"start one: dask worker {address}")
        # A run that failed would fail again, so it is not repeated.
        yield client.get_executor(pure=False, retries=0), threads
