"""Runs with the Rust module: imports a scenario's Python classes, and converts the module's errors."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch import plugins
from anabranch.errors import DefectError, Fault, InputError, PluginError, ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.plugins import Kind
    from anabranch.scenario.load import Loaded


@contextmanager
def classes(
    loaded: Loaded, plan: Mapping[str, Any], *, replay: str
) -> Iterator[Mapping[Kind, Mapping[str, Any]]]:
    """Import a scenario's classes again, and yield them for one run of its plan.

    Parameters
    ----------
    loaded
        The scenario.
    plan
        Its plan.
    replay
        The inputs that repeat the run, in words.

    Raises
    ------
    ScenarioError
        When a class cannot be imported, or the module refuses the plan.
    InputError
        When a plug-in in Python returns something that is not a valid answer.
    PluginError
        When one raises.
    DefectError
        When a rule was broken.
    """
    from anabranch.plugins.load import FaultyPluginError, anew
    from anabranch.scenario import _refused

    rust = plugins.module()
    try:
        found = anew(loaded.plugins)
    except FaultyPluginError as error:
        faults = [Fault(message=each.message, where=each.where, line=each.line) for each in error.faults]
        raise ScenarioError(faults) from None
    try:
        yield found
    except rust.RaisedError as raised:
        raise PluginError(raised.args[2]) from None
    except rust.AnswerError as wrong:
        kind, name, method, message = wrong.args
        raise InputError([loaded.plugins[kind][name].fault(method, message)]) from None
    except rust.PlanError as error:
        refused = _refused.faults(error.faults, dict(plan), loaded.scenario, loaded.source)
        raise ScenarioError(refused) from None
    except rust.SimulationError as error:
        raise DefectError(str(error), replay=replay) from None


def refuse_standstill(loaded: Loaded, summary: Mapping[str, Any], *, replay: str) -> None:
    """Raise the fault of a run that came to a standstill.

    Parameters
    ----------
    loaded
        The scenario.
    summary
        The summary of the run's trace.
    replay
        The inputs that repeat the run, in words.

    Raises
    ------
    InputError
        If a scheduler in Python could have sent data.
    DefectError
        If not.
    """
    for one in summary.get("standstills", ()):
        fault = _refusing(loaded, one["message"]) if one["could_send"] else None
        raise InputError([fault]) if fault else DefectError(one["message"], replay=replay)


def _refusing(loaded: Loaded, message: str) -> Fault | None:
    """Return the fault of the user's own scheduler, if any, in a run that came to a standstill."""
    for one in loaded.plugins.get("scheduler", {}).values():
        fault = one.fault("schedule", f"the scheduler sends nothing more: {message}")
        hint = "return a subflow that `can_send` or `can_queue`, or `Wait(until_ms=...)` to be called again"
        return replace(fault, hint=hint)
    return None
