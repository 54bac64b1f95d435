"""The Rust world of real packets, with its errors as the program's own."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.errors import DefectError, Fault, InputError, MissingError, PluginError, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from anabranch.live.testbed import Bed
    from anabranch.scenario.load import Loaded

#: The priority of the thread that carries packets among those that run before others: a low one.
_PRIORITY = 2
#: A kernel's end: namespace, devices, MPTCP, congestion control.
End = tuple[str, list[str], bool, str | None]


def end(bed: Bed, which: str, *, multipath: bool, congestion: str | None = None) -> End:
    """Return a kernel's end of a testbed."""
    return (bed.place(which), [lane.device for lane in bed.lanes], multipath, congestion)


@contextmanager
def _before_others() -> Iterator[None]:
    """Let this thread run before all others of the host, where it may: packets are late when it waits."""
    policy, given = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        # Programs that are started meanwhile are as others.
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
            # Only who is privileged may let what it starts inherit again.
            os.sched_setscheduler(0, policy | os.SCHED_RESET_ON_FORK, given)


def go(
    loaded: Loaded,
    plan: Mapping[str, Any],
    *,
    client: End | None,
    server: End | None,
    application: bool,
    progress: Callable[[float, float], bool | None],
    bed: Bed,
    begun: Callable[[], None] = lambda: None,
    pcapng: Path | None = None,
) -> dict[str, Any]:
    """Run a plan over real packets and return its trace; `begun` is called once the network carries them.

    Raises
    ------
    ScenarioError
        When the plan cannot run here.
    PluginError, InputError
        When a plug-in in Python raises, or answers wrongly.
    MissingError
        When devices cannot be opened.
    """
    from anabranch.plugins.load import FaultyPluginError, anew
    from anabranch.scenario import _refused

    rust = plugins.module()

    def ready() -> None:
        bed.up()
        begun()

    try:
        classes = anew(loaded.plugins)
    except FaultyPluginError as error:
        found = [Fault(message=each.message, where=each.where, line=each.line) for each in error.faults]
        raise ScenarioError(found) from None
    capture = None if pcapng is None else str(pcapng)
    try:
        with _before_others():
            trace: dict[str, Any] = rust.live(
                json.dumps(plan),
                client,
                server,
                application,
                ready,
                progress,
                bed.interface,
                capture,
                classes,
                [number for number, lane in enumerate(bed.lanes) if lane.announced],
            )
    except rust.RaisedError as raised:
        raise PluginError(raised.args[2]) from None
    except rust.AnswerError as wrong:
        kind, name, method, message = wrong.args
        raise InputError([loaded.plugins[kind][name].fault(method, message)]) from None
    except rust.PlanError as error:
        found = _refused.faults(error.faults, dict(plan), loaded.scenario, loaded.source)
        raise ScenarioError(found) from None
    except OSError as error:
        message = f"real packets: {error}"
        raise MissingError(message) from None
    except rust.SimulationError as error:
        raise DefectError(str(error), replay="the scenario, over real packets") from None
    return trace
