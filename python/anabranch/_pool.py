"""Worker processes that are always ended with the program."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


#: The signals after which the command line ends in an orderly way.
_INTERRUPTS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


@contextmanager
def processes(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Open a pool of processes that always end with this process.

    Submit jobs inside `undisturbed`: the pool starts its processes then, and they inherit the blocked
    signals.
    """
    with undisturbed():
        context = get_context("fork" if _has_one_thread() else "spawn")
        pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(os.getpid(),))
    try:
        yield pool
    finally:
        with undisturbed():
            # After an interrupt, waiting jobs are not started; running ones end within seconds.
            pool.shutdown(wait=True, cancel_futures=True)


def _has_one_thread() -> bool:
    """Return whether this process has a single thread, so that it may be forked.

    A forked worker starts in milliseconds, with everything imported and every scenario loaded. A second
    thread, for example of polars or a notebook, could hold a lock that the worker would wait for. False where
    the number of threads is unknown.
    """
    try:
        return len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208 - only counted
    except OSError:
        return False


def _begin(parent: int) -> None:
    """End this worker when its parent ends or requests it."""
    # A broken pool ends its workers with SIGTERM. The parent handles every other reason to end.
    # A forked worker has inherited the parent's handlers.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=look, daemon=True).start()


@contextmanager
def undisturbed() -> Iterator[None]:
    """Delay interrupts, because an interrupt during a pool's work would leave its processes waiting for ever.

    Processes that start inside the block do not run the caller's script. The script might start the sweep
    again in each process, or might not be a file.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _INTERRUPTS)
    main = vars(sys.modules["__main__"])
    names = [name for name in ("__spec__", "__file__") if name in main]
    script: dict[str, Any] = {name: main.pop(name) for name in names}
    main["__spec__"] = None
    try:
        yield
    finally:
        main.update({"__spec__": None, **script})
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
