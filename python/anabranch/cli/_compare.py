"""`anabranch compare`: whether another path helps."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from anabranch.cli import _commands, _console, _outputs, _sweep
from anabranch.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.comparison import Comparison


def compare(
    given: _commands.Given, *, trials: int, how: _sweep.How, report: Path | None, as_json: bool
) -> None:
    """Run a scenario over sets of its paths, and print the effect of each path."""
    from anabranch import comparison
    from anabranch.comparison.make import sweep_of
    from anabranch.results import summary

    fault = None if report is None else _outputs.unwritable(report, "--report")
    faults = [] if fault is None else [fault]
    try:
        loaded = given.load()
        _console.warn(loaded.warnings)
        what = sweep_of(loaded, given.scenario, given.overrides(), trials=trials)
    except InputError as error:
        raise InputError([*error.faults, *faults]) from None
    if report is not None:
        faults += _outputs.over_inputs([(report, "--report")], _outputs.inputs(loaded, given.scenario))
    if faults:
        raise InputError(faults)
    if not _sweep.make(what, how):
        return
    _sweep.left_out(how.folder(what), shown_by=f"anabranch results {how.folder(what)} --earlier")
    _console.warn(summary.standstills(how.folder(what)))
    found = comparison.read(how.folder(what))
    if report is not None:
        from anabranch import report as reports

        film = _commands.prepare_film(loaded)
        result = _commands.simulate(loaded, film=film, what="running with all paths once more")
        reports.write(report, result, comparison=found)
        _console.note(f"report: {report}")
    if as_json:
        _console.out(json.dumps(found.to_json(), indent=2))
    else:
        tell(found)
    _sweep.check_standstills(how.folder(what))


def tell(found: Comparison) -> None:
    """Write a comparison's table and its verdicts."""
    head, lines = found.table()
    _console.heading(f"{found.scenario}: which paths")
    _console.table(head, lines)
    _console.out()
    if found.terms.prices:
        _console.out(f"  {found.terms.heading}: with {found.settings}")
    for sentence in found.sentences:
        _console.out(f"  {sentence}")
    _console.out(f"  {found.fidelity.sentence}")
    for used in found.used:
        names = " and ".join(used.paths)
        if used.unreached:
            never = f", {used.unstarted} never started" if used.unstarted else ""
            short = f"in {used.unreached} of {used.runs} runs a player did not reach the end{never}"
            _console.note(f"warning: over {names} {short}")
        elif used.unfinished:
            _console.note(f"over {names} {used.unfinished} of {used.runs} runs did not finish in time")
