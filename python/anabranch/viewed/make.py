"""Execution of a live study into a folder of results: arms in turn, some runs in parallel.

It continues after an interrupt.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import MissingError
from anabranch.results import identity
from anabranch.results.store import Store
from anabranch.study import sweep as sweeps
from anabranch.viewed._one import Made, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Self

    from anabranch.results.store import Row
    from anabranch.study.sweep import Sweep
    from anabranch.viewed.read import Case, LiveStudy

#: The emulator's own lateness at the 99th percentile above which a run does not count, milliseconds.
LATE_MS = 1.0
#: How often a run that does not count is repeated.
_AGAIN = 2


@dataclass(frozen=True, kw_only=True)
class Done:
    """The outcome of the execution.

    Attributes
    ----------
    total, before, now
        The number of all runs, of stored runs, and of new runs.
    failed
        The reasons why other runs were not made.
    """

    total: int
    before: int
    now: int
    failed: tuple[str, ...]


def at_once() -> int:
    """Return the default number of parallel runs: a viewer and a network take a core."""
    return max(1, os.cpu_count() or 1)


def make(
    folder: Path,
    found: LiveStudy,
    what: Sweep,
    *,
    workers: int,
    progress: Callable[[float, float], None],
    recorded: Collection[tuple[str, int]] = (),
) -> Done:
    """Make the missing runs over real packets.

    Parameters
    ----------
    folder
        The folder for results.
    found, what
        The live part of the study, and the runs.
    workers
        How many go side by side.
    progress
        Called with the number of runs done, and of all runs.

    Raises
    ------
    InputError
        When the folder holds something else, or another process writes to it.
    MissingError
        When the disk is full.
    """
    # Runs over real packets do not depend on the build, so another build may continue.
    tasks, planned = _tasks(found, what, live=True), sweeps.planned(what)
    manifest = sweeps.manifest(what, planned)
    for cell in manifest["cells"]:
        cell["code"] = _world(found.case_of(cell["labels"]))
    store = Store(folder, {**manifest, "code": ""})
    done = store.done()
    left = [
        task
        for task in tasks
        if (task.job.name, task.job.identity) not in done and (task.job.name, task.job.run) not in recorded
    ]
    count, failed = len(tasks) - len(left), []
    progress(count, len(tasks))
    with store.writing() as journal, _Runners(workers) as runners:
        for made in runners.results(left):
            if made.error:
                failed.append(made.error)
                continue
            journal.add(made.rows, made.traces)
            count += 1
            progress(count, len(tasks))
    if count == len(tasks):
        store.finish()
    before = len(tasks) - len(left)
    return Done(total=len(tasks), before=before, now=count - before, failed=tuple(failed))


def simulated(
    found: LiveStudy, what: Sweep, *, workers: int, progress: Callable[[float, float], None]
) -> list[Row]:
    """Make the same runs in the simulator, which takes seconds; return their rows.

    Parameters
    ----------
    found, what
        The live part of the study, and the runs.
    workers
        How many go side by side.
    progress
        Called with the number of runs done, and of all runs.

    Raises
    ------
    MissingError
        If a run fails.
    """
    tasks = _tasks(found, what, live=False)
    rows = []
    with _Runners(workers) as runners:
        for made in runners.results(tasks):
            if made.error:
                raise MissingError(made.error)
            rows.append(made.rows["runs"][0])
            progress(len(rows), len(tasks))
    return sorted(rows, key=lambda row: row["run"])


def _tasks(found: LiveStudy, what: Sweep, *, live: bool) -> list[Task]:
    """Return the runs by turns."""
    planned = sweeps.planned(what)
    tasks = []
    for job in what.jobs(planned):
        case = found.case_of(dict(job.cell.labels))
        if live:
            named = replace(job, identity=identity.of_run(job.hash, job.run, _world(case)))
        else:
            named = replace(job, keep=())
        tasks.append(
            Task(
                job=named,
                live=live,
                server=case.server,
                viewer=case.viewer,
                client=case.client,
                tcp_nopush=case.tcp_nopush,
            )
        )
    return tasks


def _world(case: Case) -> str:
    """Return a text that replaces the build in the identity of a run over real packets."""
    client = " stock" if case.client == "stock" else ""
    # The first studies always ran with it, and their stored runs have no mark.
    nginx = " without tcp_nopush" if case.server == "kernel" and not case.tcp_nopush else ""
    return f"{case.server} {case.viewer}{client}{nginx}"


def _same_share(process: int) -> None:
    """Give a process' session the share of the processor that this one has (autogroups, `sched(7)`).

    Linux schedules each session as a group, and a new one has the ordinary share.
    """
    try:
        own = Path("/proc/self/autogroup").read_text(encoding="ascii").split()[-1]
        Path(f"/proc/{process}/autogroup").write_text(own, encoding="ascii")
    except (OSError, IndexError):
        return


class _Runners:
    """Processes that make runs; all end with the block.

    Parameters
    ----------
    workers
        The number of processes.
    """

    def __init__(self, workers: int) -> None:
        self._pool = ThreadPoolExecutor(workers)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                # The processes remove their namespaces and devices.
                process.send_signal(signal.SIGTERM)
        self._pool.shutdown(wait=True, cancel_futures=True)

    def results(self, tasks: list[Task]) -> Iterator[Made]:
        """Yield the results of runs, as they are done."""
        for future in as_completed([self._pool.submit(self._counted, task) for task in tasks]):
            yield future.result()

    def _counted(self, task: Task) -> Made:
        """Repeat a run until it is valid, at most `_AGAIN` times."""
        made = self._made(task)
        for voids in range(_AGAIN + 1):
            if made.error or not task.live:
                break
            row = made.rows["runs"][0]
            row.update({"voids": voids, "void": row["late.p99_ms"] > LATE_MS})
            if not row["void"] or voids == _AGAIN:
                row["voids"] += row["void"]
                break
            made = self._made(task)
        return made

    def _made(self, task: Task) -> Made:
        """Make a run in a separate process."""
        with self._lock:
            if self._over:
                return Made(rows={}, traces={}, error="interrupted")
            # In a separate session: this process passes on an interrupt at the terminal.
            process = subprocess.Popen(
                [sys.executable, "-c", "from anabranch.viewed._one import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
            self._running.add(process)
        _same_share(process.pid)
        answer, said = process.communicate(pickle.dumps(task))
        with self._lock:
            self._running.discard(process)
        if process.returncode:
            last = said.decode(errors="replace").strip().splitlines() or [
                f"it ended with {process.returncode}"
            ]
            return Made(rows={}, traces={}, error=last[-1])
        made = pickle.loads(answer)
        if not isinstance(made, Made):
            message = "a run came to nothing"
            raise MissingError(message)
        return made
