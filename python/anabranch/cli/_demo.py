"""`anabranch demo`: the whole chain at once, and a report to look at."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from anabranch.cli import _commands, _console, _outputs, _show
from anabranch.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.scenario.load import Loaded


def demo(given: _commands.Given, *, report: Path) -> None:
    """Run a scenario, then each of its paths alone under TCP, and write the report of all."""
    from anabranch import report as reports

    fault = _outputs.unwritable(report, "--report")
    if fault is not None:
        raise InputError([fault])
    loaded = given.load()
    faults = _outputs.over_inputs([(report, "--report")], _outputs.inputs(loaded, given.scenario))
    if faults:
        raise InputError(faults)
    film = _commands.prepare_film(loaded)
    result = _commands.simulate(loaded, film=film, what=f"streaming over {_names(loaded)}")
    comparisons = []
    for path in loaded.scenario.paths:
        alone = _alone(loaded, path.name)
        label = f"TCP over {path.name}"
        run = _commands.simulate(alone, film=film, what=f"streaming over {path.name} alone")
        comparisons.append(reports.Comparison(label=label, run=run))
    _show.run(result)
    _console.out()
    _console.heading("Against a single path")
    own = f"MPTCP over {_names(loaded)}"
    _show.comparison([(own, result), *((item.label, item.run) for item in comparisons)])
    reports.write(report, result, comparisons=comparisons)
    _console.out()
    _console.out(f"report: {report.resolve()}")


def _names(loaded: Loaded) -> str:
    """Return the paths' names in one phrase."""
    return " + ".join(path.name for path in loaded.scenario.paths)


def _alone(loaded: Loaded, name: str) -> Loaded:
    """Return a scenario with one of its paths, over plain TCP; events elsewhere are left out."""
    value = loaded.scenario
    kept: dict[str, Any] = {
        "paths": tuple(path for path in value.paths if path.name == name),
        "events": tuple(event for event in value.events if event.path in (None, name)),
        "transport": value.transport.model_copy(update={"multipath": False}),
        "expect": {},
    }
    return replace(loaded, scenario=value.model_copy(update=kept))
