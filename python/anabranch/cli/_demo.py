"""`anabranch demo`: the whole chain at once, and a report to look at."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from anabranch.cli import _commands, _compare, _console, _outputs, _show, _sweep
from anabranch.errors import InputError

#: Runs of each set of paths: enough for a confidence interval, in a few seconds.
_TRIALS = 5


def demo(given: _commands.Given, *, report: Path) -> None:
    """Run a scenario, compare its paths, and write the report of both."""
    from anabranch import comparison
    from anabranch import report as reports
    from anabranch.comparison.make import sweep_of

    loaded = given.load()
    fault = _outputs.unwritable(report, "--report")
    faults = [] if fault is None else [fault]
    faults += _outputs.over_inputs([(report, "--report")], _outputs.inputs(loaded, given.scenario))
    if faults:
        raise InputError(faults)
    film = _commands.prepare_film(loaded)
    names = " + ".join(path.name for path in loaded.scenario.paths)
    result = _commands.simulate(loaded, film=film, what=f"streaming over {names}")
    found = None
    if len(loaded.scenario.paths) > 1:
        with TemporaryDirectory() as folder:
            how = _sweep.How(workers=None, dask=None, shard=None, out=Path(folder))
            what = sweep_of(loaded, given.scenario, given.overrides(), trials=_TRIALS)
            _sweep.make(what, how, told=False)
            found = comparison.read(Path(folder))
    _show.run(result)
    if found is not None:
        _console.out()
        _compare.tell(found)
    reports.write(report, result, comparison=found)
    _console.out()
    _console.out(f"report: {report.resolve()}")
