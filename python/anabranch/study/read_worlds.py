"""Reads a file of worlds, reports all its faults at once, and tries each kind in a world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, did_you_mean, shown
from anabranch.scenario import _faults, load, shipped
from anabranch.study import draws, templates
from anabranch.study.draws import Draw
from anabranch.study.templates import Template, TemplateError
from anabranch.study.worlds import KINDS, LISTS, NUMBER, Kind, Many, Worlds, counts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from anabranch.scenario._lines import KeyPath

_TOP = ("draw", "scenario", KINDS, *LISTS)
_LIST = ("count", "name", "draw", "set", "kinds")
_KIND = ("weight", "draw", "set")
#: The most elements of a list.
_MOST = 16
#: The number of worlds that are searched for one with a given kind.
_TRIED = 1000
#: The keys that every world sets itself.
_OF_WORLDS = ("name", "seed")


def read(path: Path) -> Worlds:
    """Return the distribution of a file.

    Raises
    ------
    InputError
        With every fault of the file; each kind of each list is tried in a world.
    """
    where = shipped.display(path)
    raw, lines = load.read(path, where, what="file of worlds")
    source = _faults.Source(where=where, raw=raw, lines=lines, origins={})
    reader = _Reader(source)
    worlds = reader.worlds(raw)
    if not reader.faults:
        reader.faults += _tried(worlds, path)
    if reader.faults:
        raise InputError(sorted(dict.fromkeys(reader.faults), key=source.order))
    return worlds


def _tried(worlds: Worlds, path: Path) -> list[Fault]:
    """Return the faults of scenarios that have each kind of each list."""
    where = shipped.display(path)
    found: dict[tuple[str, str | None], Fault] = {}
    for key, place in worlds.kinds():
        for fault in faults_of(worlds, path.parent, key, place):
            name = KINDS if key == KINDS else f"{key}.kinds"
            message = f"in a world with {name}.{place}: {fault.message}"
            found.setdefault(
                (fault.message, fault.key),
                Fault(message=message, where=where, key=fault.key, hint=fault.hint),
            )
    return list(found.values())


def faults_of(worlds: Worlds, folder: Path, key: str, place: int) -> Sequence[Fault]:
    """Return the faults of the first world that has elements of a kind, or that has a scenario of a kind."""
    try:
        drawn = (worlds.tables("world", seed=1, world=world, kind=(key, place)) for world in range(_TRIED))
        found = next((one for one in drawn if key == KINDS or key in one), None)
        if found is not None:
            load.load(found, folder=folder)
    except TemplateError as error:
        return [Fault(message=str(error))]
    except InputError as error:
        return error.faults
    return []


@dataclass
class _Scope:
    """The names that templates may use; `routes` are those of drawn paths."""

    names: set[str] = field(default_factory=set)
    routes: set[str] = field(default_factory=set)
    sums: set[str] = field(default_factory=set)
    paths: bool = False


class _Reader:
    """Reads a file and collects its faults."""

    def __init__(self, source: _faults.Source) -> None:
        self.faults: list[Fault] = []
        self._source = source
        self._fewest_paths = 1

    def worlds(self, raw: dict[str, Any]) -> Worlds:
        """Return the distribution."""
        self._known((), raw, _TOP)
        scope = _Scope()
        drawn = self._draws(("draw",), raw.get("draw", {}), scope)
        scope.names |= drawn.keys()
        if "paths" not in raw:
            self._fault((), "missing table: `paths`", hint="a list with `count`, `draw` and `set` or `kinds`")
        lists = {}
        for key in LISTS:
            if key in raw:
                lists[key] = self._many(key, raw[key], scope)
                scope.paths = True
        scenario = self._scenario(("scenario",), raw.get("scenario", {}), scope)
        kinds = self._listed((KINDS,), raw[KINDS], scope) if KINDS in raw else []
        return Worlds(draws=drawn, scenario=scenario, lists=lists, scenario_kinds=kinds)

    def _scenario(self, path: KeyPath, raw: Any, scope: _Scope) -> dict[str, Any]:  # noqa: ANN401 - TOML
        """Return tables of the scenario; a name or a seed in them is a fault."""
        for key in _OF_WORLDS:
            if isinstance(raw, dict) and key in raw:
                hint = "study.toml has the seed of the draws" if key == "seed" else "leave it out"
                self._fault((*path, key), f"each world has its own `{key}`", hint=hint)
        return self._tables(path, raw, scope)

    def _fault(self, path: KeyPath, message: str, *, hint: str = "") -> None:
        self.faults.append(self._source.fault(path, message, hint=hint))

    def _known(self, path: KeyPath, raw: Mapping[str, Any], known: Sequence[str]) -> None:
        """Find keys that a table does not have."""
        for key in raw:
            if key not in known:
                self._fault((*path, key), f"unknown key: `{key}`", hint=did_you_mean(key, known))

    def _is_table(self, path: KeyPath, raw: object) -> bool:
        """Return whether a value is a table."""
        if not isinstance(raw, dict):
            self._fault(path, f"expected a table, got {shown(raw)}")
        return isinstance(raw, dict)

    def _draws(self, path: KeyPath, raw: Any, scope: _Scope) -> dict[str, Draw]:  # noqa: ANN401 - TOML
        """Return the draws of a table."""
        result: dict[str, Draw] = {}
        for name, value in raw.items() if self._is_table(path, raw) else ():
            if not name.isidentifier() or name in (NUMBER, "sum", "min", "max"):
                hint = "letters, digits and `_`, except n, sum, min and max"
                self._fault((*path, name), f"no name of a drawn value: `{name}`", hint=hint)
            one = self._draw((*path, name), value)
            self._check_paths((*path, name), one, _with_routes(scope, result), scope)
            # Templates and other draws may use a name whose draw is wrong.
            result[name] = one or Draw(form="path")
        return result

    def _draw(self, path: KeyPath, raw: object) -> Draw | None:
        """Return a draw, or None if it is wrong."""
        found = draws.parse(raw)
        if isinstance(found, Draw):
            return found
        for key, message, hint in found:
            self._fault((*path, key) if key else path, message, hint=hint)
        return None

    def _check_paths(self, path: KeyPath, one: Draw | None, known: set[str], scope: _Scope) -> None:
        """Find draws of paths that come too early, and draws of another path that name no drawn one."""
        if one is None:
            return
        for inner in one.values if one.form == "choice" else ():
            self._check_paths(path, inner, known, scope)
        if one.form == "path" and not scope.paths:
            self._fault(
                path, "paths are drawn later than this", hint="draw a path in `handoffs` or another list"
            )
        elif one.form == "path" and one.than and one.than not in known:
            hint = did_you_mean(one.than, known, otherwise='a name drawn before by { path = "any" }')
            self._fault(path, f"no such drawn path: `{one.than}`", hint=hint)
        elif one.form == "path" and one.than and self._fewest_paths < 2:
            self._fault(path, "no other path: a world can have one path only", hint="`paths.count` from 2")

    def _many(self, key: str, raw: Any, scope: _Scope) -> Many:  # noqa: ANN401 - TOML
        """Return a list."""
        if not self._is_table((key,), raw):
            raw = {"set": {}}
        self._known((key,), raw, _LIST)
        count = self._count(key, raw.get("count", 1))
        drawn = self._draws((key, "draw"), raw.get("draw", {}), scope)
        sums = set(drawn) if key == "paths" else scope.sums
        scope.sums = sums
        inner = _Scope(
            names={*scope.names, *drawn, NUMBER},
            routes=_with_routes(scope, drawn),
            sums=sums,
            paths=scope.paths,
        )
        name = None
        if key in ("paths", "links") or "name" in raw:
            text = raw.get("name", f"{key[0]}{{n}}")
            name = self._template((key, "name"), text, inner) if isinstance(text, str) else None
            if name is None and not isinstance(text, str):
                self._fault((key, "name"), f"expected a text, got {shown(text)}")
        return Many(count=count, name=name, draws=drawn, kinds=self._kinds(key, raw, inner))

    def _count(self, key: str, raw: object) -> Draw:
        """Return the draw of a list's length."""
        one = self._draw((key, "count"), raw)
        if one is None:
            return Draw(form="constant", values=(1,))
        least = 1 if key == "paths" else 0
        lengths = list(counts(one))
        if key == "paths":
            self._fewest_paths = min(lengths, default=1)
        if not lengths or not all(least <= length <= _MOST for length in lengths) or not _is_whole(one):
            self._fault((key, "count"), f"expected whole numbers from {least} to {_MOST}, got {shown(raw)}")
        return one

    def _kinds(self, key: str, raw: Mapping[str, Any], scope: _Scope) -> list[Kind]:
        """Return the kinds of a list."""
        given = raw.get("kinds")
        if (given is None) == ("set" not in raw):
            self._fault((key,), f"expected either `set` or `kinds` in `{key}`")
        if given is None:
            return [Kind(weight=1.0, draws={}, tables=self._set((key, "set"), raw.get("set", {}), scope))]
        return self._listed((key, "kinds"), given, scope)

    def _listed(self, path: KeyPath, given: object, scope: _Scope) -> list[Kind]:
        """Return the kinds that a list of tables has."""
        if not isinstance(given, list) or not given or not all(isinstance(one, dict) for one in given):
            self._fault(path, f"expected a list of tables, got {shown(given)}")
            return []
        weights = [one.get("weight", 1) for one in given]
        if not draws.is_weights(weights):
            message = f"expected weights of zero or more that are not all zero, got {shown(weights)}"
            self._fault(path, message)
            weights = [1] * len(given)
        return [
            self._kind((*path, place), one, weight, scope)
            for place, (one, weight) in enumerate(zip(given, weights, strict=True))
        ]

    def _kind(self, path: KeyPath, raw: Mapping[str, Any], weight: float, scope: _Scope) -> Kind:
        """Return one kind."""
        self._known(path, raw, _KIND)
        if "set" not in raw:
            self._fault(path, "missing key: `set`", hint="the keys of an element of this kind")
        drawn = self._draws((*path, "draw"), raw.get("draw", {}), scope)
        inner = _Scope(names={*scope.names, *drawn}, sums=scope.sums, paths=scope.paths)
        return Kind(weight=weight, draws=drawn, tables=self._set((*path, "set"), raw.get("set", {}), inner))

    def _set(self, path: KeyPath, raw: Any, scope: _Scope) -> list[dict[str, Any]]:  # noqa: ANN401 - TOML
        """Return the tables of one element, or of several elements that belong together."""
        one = self._scenario if path[0] == KINDS else self._tables
        if not isinstance(raw, list):
            return [one(path, raw, scope)]
        if path[0] in ("paths", "links"):
            self._fault(path, f"expected a table: each element of `{path[0]}` has a name of its own")
        return [one((*path, place), tables, scope) for place, tables in enumerate(raw)]

    def _tables(self, path: KeyPath, raw: Any, scope: _Scope) -> dict[str, Any]:  # noqa: ANN401 - TOML
        """Return tables with templates in place of texts."""
        if not self._is_table(path, raw):
            return {}
        return {key: self._value((*path, key), value, scope) for key, value in raw.items()}

    def _value(self, path: KeyPath, raw: Any, scope: _Scope) -> Any:  # noqa: ANN401 - TOML
        """Return a value with templates in place of texts."""
        if isinstance(raw, str):
            return self._template(path, raw, scope)
        if isinstance(raw, dict):
            return self._tables(path, raw, scope)
        if isinstance(raw, list):
            return [self._value((*path, place), one, scope) for place, one in enumerate(raw)]
        return raw

    def _template(self, path: KeyPath, text: str, scope: _Scope) -> Template | None:
        """Return a template, or None if it is wrong."""
        try:
            found = templates.parse(text)
        except TemplateError as error:
            self._fault(path, str(error))
            return None
        for name in sorted(found.names() - scope.names):
            self._fault(path, f"no such drawn value: `{name}`", hint=did_you_mean(name, scope.names))
        for name in sorted(found.summed() - scope.sums):
            message = f"no value of every path to sum up: `{name}`"
            self._fault(path, message, hint=did_you_mean(name, scope.sums))
        return found


def _with_routes(scope: _Scope, drawn: Mapping[str, Draw]) -> set[str]:
    """Return the names of drawn paths after some draws, which replace those of the same names."""
    return scope.routes - drawn.keys() | {name for name, one in drawn.items() if _is_path(one)}


def _is_path(draw: Draw) -> bool:
    """Return whether a draw gives paths only."""
    return all(map(_is_path, draw.values)) if draw.form == "choice" else draw.form == "path"


def _is_whole(draw: Draw) -> bool:
    """Return whether a draw gives whole numbers only."""
    if draw.form == "choice":
        return all(map(_is_whole, draw.values))
    return draw.form in ("integer", "constant")
