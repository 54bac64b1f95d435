"""`anabranch study run` and `study show` for studies with drawn worlds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch.cli import _console
from anabranch.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from pathlib import Path

    from anabranch.cli._sweep import How
    from anabranch.study.models import Drawn, Study
    from anabranch.study.sweep import Sweep

#: The metrics whose changes are printed after a run.
_CHANGES = ("still_s", "unplayed_s", "startup_delay_s", "goodput_mbps", "retransmissions")


def run(study: Study, what: Sweep, how: How, *, as_json: bool) -> None:
    """Run a study, and print the means of its cells; of drawn worlds also the changes from the base arm."""
    from anabranch.cli import _sweep
    from anabranch.results import store, versus

    if not _sweep.make(what, how):
        return
    folder = how.folder(what)
    _sweep.results(folder, by=None, metrics=(), sql=None, as_json=as_json)
    wanted = study.worlds and study.base is not None and not as_json and not store.journals(folder)
    if wanted and versus.is_comparable(folder, "arm", str(study.base)):
        _changes(folder, f"arm={study.base}")
    # The exit code for unfinished runs is set last, so that everything is printed first.
    _sweep.check_standstills(folder)


def _changes(folder: Path, base: str) -> None:
    """Print the changes from the base arm."""
    from anabranch.cli import _sweep

    _console.out("")
    _console.note(f"compared with {base} (`anabranch results {folder} --versus {base} --percent`):")
    _sweep.changes(folder, base, _measured(folder), relative=True, as_json=False)


def _measured(folder: Path) -> list[str]:
    """Return those metrics of the list that the runs have."""
    from anabranch.results.read import present_runs

    columns = present_runs(folder).columns
    return [name for name in _CHANGES if name in columns]


def show(name: str, *, world: int | None, row: str | None, arm: str | None) -> None:
    """Print what a study runs, or one of its drawn worlds as a scenario."""
    from anabranch.study import study as studies

    folder = studies.find(name)
    study = studies.read(folder)
    if world is not None:
        _console.out(_scenario(folder, study, world, row, arm))
        return
    given = [option for option, value in (("--row", row), ("--arm", arm)) if value is not None]
    if given:
        message = f"{' and '.join(given)} without `--world`"
        raise InputError([Fault(message=message, where=given[0], hint="--world N prints a world's scenario")])
    _described(study)


def _described(study: Study) -> None:
    """Print rows, axes, arms and assumptions."""
    from anabranch.study import study as studies
    from anabranch.study.assume import said
    from anabranch.study.values import axis_of

    _console.out(f"{study.title} ({study.source})\n{study.question}\n")
    for part in study.parts:
        _console.out(f"rows: {', '.join(part.scenarios)}")
        for key, values in part.grid.items():
            _console.out(f"  {key}: {', '.join(axis_of(key, values).texts)}")
    for one in study.worlds:
        without = f", without {', '.join(one.without)}" if one.without else ""
        _console.out(f"row: {one.row}: {one.count} worlds of {one.file}, seed {one.seed}{without}")
    for key, arm in study.arms.items():
        base = " (the others are compared with it)" if key == study.base else ""
        _console.out(f"arm: {key}: {arm.what}: {said(arm.set)}{base}")
    for key, text in studies.sentences(study).items():
        _console.out(f"assumption: {key}: {text}")


def _scenario(folder: Path, study: Study, world: int, row: str | None, arm: str | None) -> str:
    """Return a world's scenario as a file for `anabranch run`."""
    import tomli_w

    from anabranch.scenario import _overrides
    from anabranch.study import study as studies
    from anabranch.study import sweep

    drawn = _row(study, row)
    if arm is not None and arm not in (drawn.arms or study.arms):
        hint = did_you_mean(arm, drawn.arms or study.arms)
        raise InputError([Fault(message=f"no such arm: `{arm}`", where=f"--arm {arm}", hint=hint)])
    point = studies.drawn_point(folder, study, drawn, world, arm)
    (cell,) = sweep.cells([point])
    overrides = [_overrides.Override(key=key, value=value, origin="") for key, value, _ in cell.settings]
    raw: dict[str, Any] = _overrides.apply(json.loads(cell.raw), overrides).raw
    first = {key: value for key, value in raw.items() if not isinstance(value, dict | list)}
    return tomli_w.dumps({**first, **raw}).rstrip("\n")


def _row(study: Study, row: str | None) -> Drawn:
    """Return a row of the study that has drawn worlds."""
    if not study.worlds:
        message = "the study has no drawn worlds"
        raise InputError(
            [Fault(message=message, where="--world", hint="its scenarios are files in its folder")]
        )
    found = [one for one in study.worlds if row in (None, one.row)]
    if not found:
        hint = did_you_mean(str(row), [one.row for one in study.worlds])
        raise InputError(
            [Fault(message=f"no such row of drawn worlds: `{row}`", where=f"--row {row}", hint=hint)]
        )
    return found[0]
