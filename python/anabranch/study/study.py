"""A study: one folder with scenarios, the grid over them, and every assumption in one place.

`study.toml` names the runs and the assumptions that no source states. The scenarios are in the same folder.
"""

from __future__ import annotations

import dataclasses
import hashlib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from anabranch import _files
from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.results.worlds import WORLD
from anabranch.scenario import _faults, load, shipped
from anabranch.study import assume as assumed
from anabranch.study import drawn, grid, variants
from anabranch.study.assume import said
from anabranch.study.models import Arm, Assumption, Drawn, Joint, Part, Quick, Study, Table
from anabranch.study.sweep import Point, Sweep, cells
from anabranch.study.values import FILE, axis_of, is_by_value, is_pattern, of_axis, paths_of, spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from anabranch.scenario._lines import KeyPath
    from anabranch.scenario._overrides import Override
    from anabranch.study.variants import Fixed, Variant

M = TypeVar("M", bound=BaseModel)

#: The studies of the installed program (in a checkout, a link to its `studies` folder).
_PACKAGED = Path(__file__).resolve().parent.parent / "_studies"


def folders() -> dict[str, Path]:
    """Return every study by name: those of a `studies` folder here or above, then the program's."""
    here = Path.cwd()
    found: dict[str, Path] = {}
    for folder in [*(parent / "studies" for parent in (here, *here.parents)), _PACKAGED]:
        for file in sorted(folder.glob(f"*/{FILE}")):
            found.setdefault(file.parent.name, file.parent)
    return dict(sorted(found.items()))


def find(name: str) -> Path:
    """Return the folder of a study given by name or by path.

    Raises
    ------
    InputError
        When there is none.
    """
    known = folders()
    if name in known:
        return known[name]
    if _files.is_file(Path(name) / FILE):
        return Path(name)
    hint = did_you_mean(name, known, otherwise="`anabranch study list` shows all")
    raise InputError([Fault(message=f"no such study: `{name}`", hint=hint)])


def read(folder: Path) -> Study:
    """Return a study.

    Raises
    ------
    InputError
        With every fault of its file.
    """
    where = shipped.display(folder / FILE)
    study = validated(folder / FILE, Study, _keys)
    names = rows_of(folder) - {Path(one.file).stem for one in study.worlds}
    used = [(name, "parts", names) for part in study.parts for name in part.scenarios]
    every = names | set(study.rows())
    used += [
        (name, f"assumptions.{key}", every)
        for key, one in study.assumptions.items()
        for name in one.scenarios
    ]
    faults = [
        Fault(message=f"no such scenario: `{name}`", where=where, key=key, hint=did_you_mean(name, known))
        for name, key, known in used
        if name not in known
    ]
    faults = [*dict.fromkeys(faults), *_unknown_values(study, where)]
    if not study.parts and not study.worlds:
        hint = "`parts` has scenarios and a grid, `worlds` has worlds that are drawn"
        faults.append(Fault(message="missing key: `parts` or `worlds`", where=where, line=1, hint=hint))
    faults += drawn.faults(folder, study, where)
    faults += variants.faults(study, where)
    if faults:
        raise InputError(faults)
    return drawn.with_few_trials(study)


def validated(path: Path, model: type[M], keys: Callable[[KeyPath], Sequence[str]]) -> M:
    """Return the content of a study's file.

    Parameters
    ----------
    path
        The file.
    model
        The model that it must match.
    keys
        Returns the keys of the table that a path is in.

    Raises
    ------
    InputError
        With every fault of its keys and values.
    """
    where = shipped.display(path)
    raw, lines = load.read(path, where, what="study")
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        source = _faults.Source(where=where, raw=raw, lines=lines, origins={})
        found = (_faults.from_pydantic(source, one, valid=keys) for one in error.errors(include_url=False))
        raise InputError(fault for fault in found if fault is not None) from None


def rows_of(folder: Path) -> set[str]:
    """Return the names of a study's scenarios."""
    return {file.stem for file in folder.glob("*.toml")} - {"study", "claims", "live", "worlds"}


def _unknown_values(study: Study, where: str) -> list[Fault]:
    """Return the faults of values that assumptions replace and no axis has."""
    faults = []
    for name, one in study.assumptions.items():
        for key, value in (item for settings in (one.set, *one.sweep) for item in settings.items()):
            grids = [part.grid[key] for part in study.parts if key in part.grid]
            if grids and is_by_value(value):
                known = {text: None for values in grids for text in axis_of(key, values).texts}
                faults += [
                    Fault(
                        message=f"no such value of `{key}`: `{text}`",
                        where=where,
                        key=f"assumptions.{name}",
                        hint=did_you_mean(text, known),
                    )
                    for text in value
                    if text not in known
                ]
    return faults


def _keys(path: KeyPath) -> list[str]:
    """Return the valid keys of the table of `study.toml` that a key path leads to."""
    tables: dict[object, type[Table]] = {
        "parts": Part,
        "worlds": Drawn,
        "arms": Arm,
        "assumptions": Assumption,
        "joint": Joint,
        "quick": Quick,
    }
    model = tables.get(path[0], Study) if len(path) > 1 else Study
    return list(model.model_fields)


def sweep(
    folder: Path,
    study: Study,
    *,
    trials: int | None = None,
    quick: bool = False,
    vary: str | None = None,
    axes: Sequence[grid.Axis] = (),
    keep: tuple[str, ...] = (),
    only: Sequence[str] = (),
    sets: Sequence[Override] = (),
    assume: Sequence[str] = (),
    worlds: int | None = None,
) -> Sweep:
    """Return the sweep to run.

    Parameters
    ----------
    folder, study
        The study.
    trials
        Instead of the study's own number.
    quick
        With the changes of the study's `quick`: a test of the machinery, without meaningful results.
    vary
        The assumption whose other values are run too.
    axes
        Axes that are added to the study's own, or replace those with the same key.
    keep
        Tables of every run's trace to keep.
    only
        The rows to run, `*` and `?` allowed; empty is all.
    sets
        Keys to set in every row, instead of what assumptions set; `paths.*` is every path.
    assume
        Other values of assumptions instead of the study's own: `NAME=TEXT`, a text that one has. The name
        of a joint assumption alone selects all of its values.
    worlds
        The number of drawn worlds of each row instead of the study's own, from 1.

    Raises
    ------
    InputError
        When there is no such assumption, value or row, or a scenario cannot be read.
    """
    _check_varied(study, vary)
    faults = _axes_set(study, axes, sets)
    if faults:
        raise InputError(faults)
    chosen = assumed.chosen(study.assumptions, variants.texts(study, assume), vary)
    study = drawn.counted(study, study.quick.worlds if quick and worlds is None else worlds)
    given, study = study, _with_values(study, chosen)
    rows = _rows(study, only)
    points = (
        _with(point, sets)
        for varied in _variants(study, vary)
        for point in _cells(folder, study, varied, rows, axes, quick=quick)
    )
    name = folder.name + ("-quick" if quick else "") + (f"-{vary}" if vary else "")
    name += _chosen(rows if only else ()) + ("-set" if sets else "")
    name += _assumed(study, assume, chosen)
    notes = sentences(study)
    for key, other in chosen.items():
        notes[key] = (
            f"{study.assumptions[key].what}: {said(other)} (instead of {said(given.assumptions[key].set)})"
        )
    if sets:
        notes["--set"] = f"in place of the above: {said({one.key: one.value for one in sets})}"
    count = trials or (study.quick.trials if quick else study.trials)
    return Sweep(name=name, cells=cells(points), trials=count, keep=keep, notes=notes, once=True)


def _assumed(study: Study, assume: Sequence[str], chosen: Mapping[str, dict[str, Any]]) -> str:
    """Return the part of a folder's name for the selected values of assumptions."""
    joint = [text for text in assume if text in study.joint]
    among = {key for one in joint for key in study.joint[one].values}
    names = [f"-{one}" for one in joint]
    names += [f"-assume-{key}-{assumed.short(one)}" for key, one in chosen.items() if key not in among]
    return "".join(names)


def _cells(
    folder: Path,
    study: Study,
    varied: Variant | None,
    rows: Sequence[str],
    axes: Sequence[grid.Axis],
    *,
    quick: bool,
) -> Iterator[Point]:
    """Yield the cells of some rows, in the study's order."""
    for part in study.parts:
        for name in part.scenarios:
            if name in rows and _concerns(study, varied, name):
                fixed = variants.fixed(study, name, varied, quick=quick)
                yield from _points(folder / f"{name}.toml", part, axes, fixed)
    for one in study.worlds:
        if one.row in rows and _concerns(study, varied, one.row):
            fixed = variants.fixed(study, one.row, varied, quick=quick)
            yield from drawn.points(folder, study, one, axes, fixed.settings({}), fixed.labels)


def cells_of_variant(folder: Path, study: Study, variant: Variant) -> Iterator[Point]:
    """Yield the cells of a study with other values of assumptions. Their scenarios are not validated."""
    return _cells(folder, study, variant, study.rows(), (), quick=False)


def with_settings(point: Point, over: tuple[tuple[str, Any, str], ...]) -> Point:
    """Return a point with more settings."""
    return dataclasses.replace(point, settings=(*point.settings, *over))


def drawn_points(folder: Path, study: Study) -> Iterator[Point]:
    """Yield the cells of a study's drawn worlds without other options. Their scenarios are not validated."""
    return _cells(folder, study.model_copy(update={"parts": []}), None, study.rows(), (), quick=False)


def drawn_point(folder: Path, study: Study, one: Drawn, world: int, arm: str | None) -> Point:
    """Return one drawn world with an arm's settings, or with those of assumptions alone."""
    raw = drawn.tables(folder, one, world)
    fixed = variants.fixed(study, one.row, None, quick=False).settings({})
    where = f"{shipped.display(folder / one.file)}, world {world}"
    path = folder / f"{raw['name']}.toml"
    return Point(
        path=path, tables=raw, settings=drawn.settings(study, raw, arm, fixed), labels=(), where=where
    )


def _with_values(study: Study, values: Mapping[str, dict[str, Any]]) -> Study:
    """Return a study in which these values of assumptions replace its own."""
    changed = {
        name: one.model_copy(update={"set": one.set | values[name]}) if name in values else one
        for name, one in study.assumptions.items()
    }
    return study.model_copy(update={"assumptions": changed})


def sentences(study: Study) -> dict[str, str]:
    """Return each assumption of a study in a sentence."""
    return {key: f"{one.what}: {said(one.set)} ({one.why})" for key, one in study.assumptions.items()}


def _check_varied(study: Study, vary: str | None) -> None:
    """Refuse an assumption that does not exist or has no other values."""
    if vary is None or vary in study.joint:
        return
    if vary not in study.assumptions:
        hint = did_you_mean(vary, [*study.assumptions, *study.joint])
        raise InputError([Fault(message=f"no such assumption: `{vary}`", where="--vary", hint=hint)])
    if not study.assumptions[vary].sweep:
        message = f"the assumption has no other values: `{vary}`"
        raise InputError([Fault(message=message, where="--vary", hint="its `sweep` in study.toml is empty")])


#: The largest number of characters for selected rows in a folder's name.
_LONGEST = 60


def around(
    folder: Path, study: Study, name: str, *, cells_of: Callable[[Mapping[str, Any]], bool], trials: int
) -> Sweep:
    """Return the cells with the other values of an assumption, without the cells of the study itself.

    Parameters
    ----------
    folder, study
        The study.
    name
        The assumption.
    cells_of
        Returns whether a cell is wanted, given its labels.
    trials
        Runs of each cell.
    """
    points = (
        point
        for varied in _variants(study, name)[1:]
        for point in _cells(folder, study, varied, study.rows(), (), quick=False)
        if cells_of({key: value for key, value in point.labels if key not in ("varied", WORLD)})
    )
    notes = sentences(study)
    return Sweep(
        name=f"{folder.name}-around-{name}", cells=cells(points), trials=trials, notes=notes, once=True
    )


def _rows(study: Study, only: Sequence[str]) -> list[str]:
    """Return the rows that patterns choose, in the study's order."""
    rows = study.rows()
    faults = [
        Fault(
            message=f"no such row: `{pattern}`", where=f"--only {pattern}", hint=did_you_mean(pattern, rows)
        )
        for pattern in only
        if not any(fnmatchcase(row, pattern) for row in rows)
    ]
    if faults:
        raise InputError(faults)
    return [row for row in rows if not only or any(fnmatchcase(row, pattern) for pattern in only)]


def _chosen(rows: Sequence[str]) -> str:
    """Return the part of a folder's name for the chosen rows."""
    text = "+".join(rows)
    if len(text) > _LONGEST:
        text = f"{len(rows)}-rows-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
    return f"-{text}" if rows else ""


def _with(point: Point, sets: Sequence[Override]) -> Point:
    """Return a point with some keys replaced."""
    if not sets:
        return point
    given = [
        (key, value, one.origin)
        for one in sets
        for key, value in spread({one.key: one.value}, drawn.paths_of(point))
    ]
    keys = {key for key, *_ in given}
    kept = (one for one in point.settings if one[0] not in keys)
    return dataclasses.replace(point, settings=(*kept, *given))


def _axes_set(study: Study, axes: Sequence[grid.Axis], sets: Sequence[Override]) -> list[Fault]:
    """Return the faults of keys that are set and varied, or that arms set."""
    varied = {key for part in study.parts for key in part.grid} | {axis.key for axis in axes}
    return [
        Fault(message=f"an arm of the study sets this key: `{key}`", where=origin)
        for key, origin in [(one.key, one.origin) for one in sets] + [(one.key, one.origin) for one in axes]
        if drawn.is_of_an_arm(study, key)
    ] + [
        Fault(
            message=f"the study varies this key: `{one.key}`",
            where=one.origin,
            hint=f"--grid {one.key}=VALUE runs one value of it",
        )
        for one in sets
        if one.key in varied
    ]


def _variants(study: Study, vary: str | None) -> list[Variant | None]:
    """Return the study as it is, and with each other value of one assumption."""
    return [None, *(variants.variants(study, vary) if vary is not None else ())]


def _concerns(study: Study, varied: Variant | None, scenario: str) -> bool:
    """Return whether what is varied is about a scenario."""
    return varied is None or any(scenario in one.rows for one in varied.reaches(study))


def _points(path: Path, part: Part, axes: Sequence[grid.Axis], fixed: Fixed) -> Iterator[Point]:
    """Yield the cells of one scenario."""
    given = {axis.key: axis for axis in axes}
    used = [given.pop(key, axis_of(key, values)) for key, values in part.grid.items()]
    names = paths_of(path)
    for point in grid.points([*used, *given.values()]):
        texts = {axis.key: axis.texts[at] for axis, at in point}
        if not fixed.concerns({**dict(fixed.labels), **texts}):
            continue
        own = fixed.settings(texts)
        patterns = {
            key: value
            for key, value in own.items()
            if is_pattern(value) or (key in part.grid and is_by_value(value))
        }
        plain = {key: value for key, value in own.items() if key not in patterns}
        settings = ((key, value, FILE) for key, value in spread(plain, names))
        yield Point(
            path=path,
            settings=(*settings, *(of_axis(axis, at, patterns.get(axis.key)) for axis, at in point)),
            labels=(*fixed.labels, *((axis.key, axis.labels[at]) for axis, at in point)),
        )


def world_of(
    folder: Path,
    study: Study,
    row: str,
    over: Mapping[str, Any],
    *,
    origin: str,
    labels: tuple[tuple[str, str], ...],
) -> Point:
    """Return a row of a study in the world of its assumptions, outside its grid.

    Parameters
    ----------
    folder, study
        The study.
    row
        The scenario.
    over
        Keys set over what assumptions set, those of the grid too; `paths.*` is every path.
    origin
        Where they come from.
    labels
        Its labels in the results.
    """
    path = folder / f"{row}.toml"
    fixed = variants.fixed(study, row, None, quick=False).settings({**over})
    plain = {key: value for key, value in fixed.items() if not is_pattern(value) and not is_by_value(value)}
    names = paths_of(path)
    settings = {key: (value, FILE) for key, value in spread(plain, names)}
    settings |= {key: (value, origin) for key, value in spread(over, names)}
    return Point(path=path, settings=tuple((key, *one) for key, one in settings.items()), labels=labels)
