"""One run of a live study in a separate process.

The task is read from stdin, and the result is written to stdout.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch._run import Run
    from anabranch.live.run import Server
    from anabranch.results.store import Rows
    from anabranch.study.sweep import Job


@dataclass(frozen=True, kw_only=True)
class Task:
    """A run to make.

    Attributes
    ----------
    job
        What.
    live
        Whether the run is over real packets; otherwise it is simulated.
    server, viewer
        The server's software, and the program that plays over real packets.
    client
        The timeouts of the client's kernel: as in the scenario, or its own.
    tcp_nopush
        Whether nginx sets `TCP_CORK`.
    """

    job: Job
    live: bool
    server: Server
    viewer: str
    client: str = "set"
    tcp_nopush: bool = False


@dataclass(frozen=True, kw_only=True)
class Made:
    """The result of the run.

    Attributes
    ----------
    rows, traces
        As of any run of a sweep.
    error
        The reason why there is no result; empty if there is one.
    """

    rows: Rows
    traces: dict[str, bytes]
    error: str = ""


def work(task: Task) -> Made:
    """Make a run."""
    from anabranch._run import run_loaded
    from anabranch.errors import InputError, MissingError
    from anabranch.live.run import run_live
    from anabranch.study import measure

    try:
        loaded, film = task.job.ready()
        if task.live:
            number = task.job.run
            stock = task.client == "stock"
            run = run_live(
                loaded,
                server=task.server,
                viewer=task.viewer,
                run=number,
                # The packets are read from the played file, which another encoder may have made.
                film=None,
                stock_client=stock,
                tcp_nopush=task.tcp_nopush,
            )
        else:
            run = run_loaded(loaded, run=task.job.run, film=film, may_stand=True)
    except (InputError, MissingError) as error:
        return Made(rows={}, traces={}, error=str(error))
    rows = measure.rows(task.job, run, {})
    rows["runs"][0].update(_beside(run))
    return Made(rows=rows, traces=measure.traces(task.job, run))


def _beside(run: Run) -> dict[str, Any]:
    """Return more values to compare: the network's lateness, and the time in each rendition."""
    late = run.summary.get("lateness", {})
    found: dict[str, Any] = {f"late.{name}": late[name] for name in ("p99_ms", "max_ms") if name in late}
    heights = {row["rendition"]: row["height"] for row in run.rows("renditions") if row["track"] == "video"}
    played = [
        row
        for row in run.rows("chunks")
        if row["track"] == "video" and not row["abandoned"] and row["done_s"] is not None
    ]
    whole = sum(row["duration_s"] for row in played)
    for rendition, height in heights.items() if whole else ():
        at = sum(row["duration_s"] for row in played if row["rendition"] == rendition)
        found[f"time_at.{height}p"] = 100 * at / whole
    return found


def _ended(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _follow(parent: int) -> None:
    """End this process in an orderly way when its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Make the run that stdin describes."""
    signal.signal(signal.SIGTERM, _ended)
    threading.Thread(target=_follow, args=(os.getppid(),), daemon=True).start()
    try:
        made = work(pickle.load(sys.stdin.buffer))
        pickle.dump(made, sys.stdout.buffer)
    except (KeyboardInterrupt, BrokenPipeError):
        sys.exit(1)
