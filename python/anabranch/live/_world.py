"""The Rust code for real packets, with its errors as errors of the program."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch import _files, _rust, plugins
from anabranch.errors import MissingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from anabranch.live.testbed import Bed
    from anabranch.scenario.load import Loaded

#: The real-time priority of the thread that carries packets: a low one.
_PRIORITY = 2
#: A kernel's end: namespace, devices, MPTCP, congestion control.
End = tuple[str, list[str], bool, str | None]


def end(bed: Bed, which: str, *, multipath: bool, congestion: str | None = None) -> End:
    """Return a kernel's end of a testbed."""
    return (bed.place(which), [lane.device for lane in bed.lanes], multipath, congestion)


@contextmanager
def _before_others() -> Iterator[None]:
    """Give this thread real-time priority if the host permits it, because packets are late if it waits."""
    policy, given = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        # Programs that are started meanwhile have normal priority.
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(_PRIORITY))
    except PermissionError:
        yield
        return
    try:
        yield
    finally:
        try:
            os.sched_setscheduler(0, policy, given)
        except PermissionError:
            # Only a privileged process may reset this flag.
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, given)


def go(
    loaded: Loaded,
    plan: dict[str, Any],
    *,
    client: End | None,
    server: End | None,
    application: bool,
    progress: Callable[[float, float], bool | None],
    bed: Bed,
    begun: Callable[[], None] = lambda: None,
    pcapng: Path | None = None,
    origin: tuple[str, str] | None = None,
    watch: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Run a plan over real packets and return its trace. `begun` is called when the network carries packets.

    Without an application in the plan, our endpoint relays connections of programs to `origin`: a namespace,
    and an address with a port in it. `watch` is called with the run's state, as `live` of the Rust module
    defines it.

    Raises
    ------
    ScenarioError
        If the plan cannot run here.
    PluginError, InputError
        If a plug-in in Python raises an exception or returns a wrong value.
    MissingError
        If devices cannot be opened.
    OSError
        If the capture's file cannot be written. The message has no name, because only the caller knows how
        the user named the file.
    """
    from anabranch.scenario import plan as plans

    def ready() -> None:
        bed.up()
        begun()

    try:
        with (
            _rust.classes(loaded, plan, replay="the scenario, over real packets") as classes,
            _before_others(),
        ):
            trace: dict[str, Any] = plugins.module().live(
                plans.encode(plan),
                client,
                server,
                application,
                ready,
                progress,
                bed.interface,
                None if pcapng is None else str(pcapng),
                classes,
                [number for number, lane in enumerate(bed.lanes) if lane.announced],
                origin,
                watch,
            )
    except OSError as error:
        if pcapng is not None and _files.refusal(pcapng) is not None:
            raise
        message = f"real packets: {error}"
        raise MissingError(message) from None
    return trace
