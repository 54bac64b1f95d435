"""The drawn worlds of a study: every arm in each of them."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.results.worlds import WORLD
from anabranch.scenario import shipped
from anabranch.scenario.presets import preset_keys
from anabranch.study import grid, read_worlds, values
from anabranch.study.sweep import Point
from anabranch.study.templates import TemplateError
from anabranch.study.worlds import LISTS, Worlds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from anabranch.study.models import Drawn, Study

#: The column with the name of the arm.
ARM = "arm"
_PRESET = "transport.preset"


def faults(folder: Path, study: Study, where: str) -> list[Fault]:
    """Return the faults of a study's arms and of its files of worlds."""
    found: list[Fault] = []
    rows = [name for part in study.parts for name in part.scenarios]
    for place, one in enumerate(study.worlds):
        key = f"worlds.{place}"
        if one.row in rows:
            found.append(Fault(message=f"given twice: `{one.row}`", where=where, key=f"{key}.row"))
        rows.append(one.row)
        found += _unknown(one.arms, study.arms, "arm", where, f"{key}.arms")
        found += _unknown(one.without, LISTS, "list", where, f"{key}.without")
    if study.worlds and not study.arms:
        hint = "a table [arms.NAME] with `what` and `set` for each"
        found.append(Fault(message="missing table: `arms`", where=where, hint=hint))
    if study.base is not None:
        found += _unknown([study.base], study.arms, "arm", where, "base")
    for file in dict.fromkeys(one.file for one in study.worlds):
        try:
            read_worlds.read(folder / file)
        except InputError as error:
            found += error.faults
    return found


def _unknown(
    names: Sequence[str], known: Mapping[str, Any] | Sequence[str], what: str, where: str, key: str
) -> list[Fault]:
    """Return the faults of names that are not known."""
    return [
        Fault(message=f"no such {what}: `{name}`", where=where, key=key, hint=did_you_mean(name, known))
        for name in names
        if name not in known
    ]


def with_few_trials(study: Study) -> Study:
    """Return a study that runs every drawn world once, unless its file has a number of trials."""
    if not study.worlds or study.parts:
        return study
    update: dict[str, Any] = {} if "trials" in study.model_fields_set else {"trials": 1}
    if "trials" not in study.quick.model_fields_set:
        update["quick"] = study.quick.model_copy(update={"trials": 1})
    return study.model_copy(update=update)


def counted(study: Study, count: int | None) -> Study:
    """Return a study with another number of worlds in each row; None keeps the study's own."""
    if count is None:
        return study
    return study.model_copy(
        update={"worlds": [one.model_copy(update={"count": count}) for one in study.worlds]}
    )


def with_seed(study: Study, seed: int) -> Study:
    """Return a study that draws other worlds."""
    return study.model_copy(
        update={"worlds": [one.model_copy(update={"seed": seed}) for one in study.worlds]}
    )


@lru_cache(maxsize=16)
def _read(path: Path, changed_ns: int) -> Worlds:  # noqa: ARG001 - an edited file is read again
    """Return the distribution of a file."""
    return read_worlds.read(path)


def distribution(folder: Path, drawn: Drawn) -> Worlds:
    """Return the distribution that a row is drawn from."""
    path = (folder / drawn.file).resolve()
    return _read(path, path.stat().st_mtime_ns)


def tables(folder: Path, drawn: Drawn, world: int) -> dict[str, Any]:
    """Return the tables of a world's scenario, without an arm.

    Raises
    ------
    InputError
        If a text of the file has no value in this world.
    """
    name = f"{drawn.row}-{world}"
    try:
        return distribution(folder, drawn).tables(
            name, seed=drawn.seed, world=world, without=tuple(drawn.without)
        )
    except TemplateError as error:
        where = f"{shipped.display(folder / drawn.file)}, world {world}"
        raise InputError([Fault(message=str(error), where=where)]) from None


def points(
    folder: Path,
    study: Study,
    drawn: Drawn,
    axes: Sequence[grid.Axis],
    fixed: Mapping[str, Any],
    labels: tuple[tuple[str, str], ...],
) -> Iterator[Point]:
    """Yield the cells of a row, world by world.

    Parameters
    ----------
    folder, study, drawn
        The study and the row.
    axes
        Axes over all worlds and arms.
    fixed, labels
        Keys set by assumptions, and result labels.
    """
    for world in range(drawn.count):
        raw = tables(folder, drawn, world)
        for arm in drawn.arms or study.arms:
            for point in grid.points(axes):
                over = [values.of_axis(axis, at, None) for axis, at in point]
                yield Point(
                    path=folder / f"{raw['name']}.toml",
                    tables=raw,
                    settings=settings(study, raw, arm, fixed, over),
                    labels=(
                        *labels,
                        (ARM, arm),
                        *((axis.key, axis.labels[at]) for axis, at in point),
                        (WORLD, str(world)),
                    ),
                    where=f"{shipped.display(folder / drawn.file)}, world {world}",
                )


def settings(
    study: Study,
    raw: Mapping[str, Any],
    arm: str | None,
    fixed: Mapping[str, Any],
    over: Sequence[tuple[str, Any, str]] = (),
) -> tuple[tuple[str, Any, str], ...]:
    """Return the keys that are set in a world: first by assumptions, then by an arm, then by axes.

    Later ones replace earlier ones.

    An arm's preset also replaces the keys that assumptions set and the preset has a value for.

    Parameters
    ----------
    study
        The study.
    raw
        The world's tables.
    arm
        The arm; None sets nothing.
    fixed, over
        Keys set by assumptions and by axes.
    """
    names = _names(raw)
    given = [(key, value, values.FILE) for key, value in values.spread(fixed, names)]
    of_arm = {} if arm is None else study.arms[arm].set
    own = [(key, value, f"{values.FILE}, arms.{arm}") for key, value in values.spread(of_arm, names)]
    keys = _keys({key: value for key, value, _ in (*own, *over)})
    return (*(one for one in given if one[0] not in keys), *own, *over)


def is_of_an_arm(study: Study, key: str) -> bool:
    """Return whether an arm sets a key; `paths.*` stands for every path, on both sides."""
    return bool(study.worlds) and any(
        fnmatchcase(key, one) or fnmatchcase(one, key)
        for arm in study.arms.values()
        for one in _keys(arm.set)
    )


def _keys(settings: Mapping[str, Any]) -> set[str]:
    """Return the keys that are set, with those that a preset sets."""
    name = settings.get(_PRESET)
    of_preset = preset_keys(name) if isinstance(name, str) else {}
    return {*settings, *(f"transport.{key}" for key in of_preset)}


def paths_of(point: Point) -> list[str]:
    """Return the names of a point's paths."""
    return values.paths_of(point.path) if point.tables is None else _names(point.tables)


def _names(raw: Mapping[str, Any]) -> list[str]:
    """Return the names of the paths in a scenario's tables."""
    return [str(one.get("name")) for one in raw.get("paths", ())]
