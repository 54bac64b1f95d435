"""Drawn worlds: scenarios whose values are drawn from the distributions of a file.

The file has draws, the scenario's tables with the drawn values in them, and lists of drawn length: paths,
handovers and other tables, each of one of several kinds. File, seed and number determine a world.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.study import draws
from anabranch.study.templates import Template, TemplateError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.study.draws import Draw

#: The arrays of a scenario that a file may draw, in the order in which they are drawn.
LISTS = ("paths", "links", "handoffs", "events", "cross_traffic")
#: The kinds of the whole scenario.
KINDS = "kinds"
#: The number of an element, from 1.
NUMBER = "n"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One of the kinds of a list's elements.

    Attributes
    ----------
    weight
        The weight of its draw among the kinds.
    draws
        Draws for each element of this kind.
    tables
        Its keys; texts are templates. Several tables are elements that come together.
    """

    weight: float
    draws: Mapping[str, Draw]
    tables: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Many:
    """A list of drawn length.

    Attributes
    ----------
    count
        The draw of its length.
    name
        The template of an element's name, if its elements have names.
    draws
        Draws for each element, of every kind.
    kinds
        The kinds of elements.
    """

    count: Draw
    name: Template | None
    draws: Mapping[str, Draw]
    kinds: Sequence[Kind]


@dataclass(frozen=True, kw_only=True)
class Worlds:
    """The distribution of a file.

    Attributes
    ----------
    draws
        Draws of the world.
    scenario
        Tables of the scenario; texts are templates.
    lists
        Its arrays.
    scenario_kinds
        Kinds of the whole scenario, one of which is drawn: its tables are set over `scenario`.
    """

    draws: Mapping[str, Draw]
    scenario: Mapping[str, Any]
    lists: Mapping[str, Many]
    scenario_kinds: Sequence[Kind] = ()

    def tables(
        self,
        name: str,
        *,
        seed: int,
        world: int,
        without: Sequence[str] = (),
        kind: tuple[str, int] | None = None,
    ) -> dict[str, Any]:
        """Return the tables of a world's scenario.

        Parameters
        ----------
        name
            The scenario's name.
        seed, world
            The seed of the draws and the number of the world.
        without
            Lists that are left out. All other values stay what they are.
        kind
            A list, or `KINDS`, and the place of the kind that is taken instead of a drawn one.

        Raises
        ------
        TemplateError
            If a text has no value.
        """
        made = _Made(self, seed, world, kind)
        result = {"name": name, "seed": luck(seed, world), **made.scenario()}
        for key in LISTS:
            if key in self.lists and key not in without:
                found = made.elements(key)
                result |= {key: found} if found else {}
        return result

    def kinds(self) -> Iterator[tuple[str, int]]:
        """Yield every kind of the scenario and of every list: `KINDS` or the list, and the kind's place."""
        yield from ((KINDS, place) for place in range(len(self.scenario_kinds)))
        for key, many in self.lists.items():
            yield from ((key, place) for place in range(len(many.kinds)))

    def path_names(self) -> list[str]:
        """Return the names of all paths that a world can have, if they depend on nothing but their number."""
        many = self.lists["paths"]
        try:
            return (
                []
                if many.name is None
                else [many.name.value({NUMBER: n + 1}, {}) for n in range(_longest(many))]
            )
        except (KeyError, TemplateError):
            return []


def luck(seed: int, world: int) -> int:
    """Return the seed of a world's scenario: worlds do not share their random numbers."""
    # No drawn value has a name with this sign.
    return int(draws.chance(seed, world)("#seed") * 2**31)


class _Made:
    """The values of a world, as far as they are drawn."""

    def __init__(self, worlds: Worlds, seed: int, world: int, kind: tuple[str, int] | None) -> None:
        self._worlds = worlds
        self._kind = kind
        self._chance = draws.chance(seed, world)
        self._paths: list[str] = []
        self._sums: dict[str, list[Any]] = {}
        self._own: dict[str, list[dict[str, Any]]] = {}
        self._values = self._drawn(worlds.draws, "", {})
        for key in LISTS:
            if key in worlds.lists:
                self._draw(key, worlds.lists[key])

    def _drawn(self, given: Mapping[str, Draw], place: str, known: dict[str, Any]) -> dict[str, Any]:
        """Return known values and those of more draws."""
        values = dict(known)
        for name, one in given.items():
            values[name] = one.value(place + name, self._chance, values, self._paths)
        return values

    def _draw(self, key: str, many: Many) -> None:
        """Draw the elements of a list."""
        count = many.count.value(f"{key}.#count", self._chance, self._values, self._paths)
        own = [
            self._drawn(many.draws, f"{key}.{n}.", {**self._values, NUMBER: n})
            for n in range(1, int(count) + 1)
        ]
        if key == "paths":
            self._sums = {name: [one[name] for one in own] for name in many.draws}
            self._paths = [str(many.name.value(one, self._sums)) for one in own if many.name is not None]
        self._own[key] = own

    def scenario(self) -> dict[str, Any]:
        """Return the tables that are no lists."""
        result = _filled(self._worlds.scenario, self._values, self._sums)
        if self._worlds.scenario_kinds:
            kind = self._picked(KINDS, self._worlds.scenario_kinds, "")
            values = self._drawn(kind.draws, "", self._values)
            for tables in kind.tables:
                result = _merged(result, _filled(tables, values, self._sums))
        return dict(result)

    def _picked(self, key: str, kinds: Sequence[Kind], place: str) -> Kind:
        """Return the kind that is drawn, or taken instead."""
        if self._kind is not None and self._kind[0] == key:
            return kinds[self._kind[1]]
        total = sum(kind.weight for kind in kinds)
        return kinds[draws.picked([kind.weight / total for kind in kinds], self._chance(place + "#kind"))]

    def elements(self, key: str) -> list[dict[str, Any]]:
        """Return the elements of a list."""
        many = self._worlds.lists[key]
        result = []
        for own in self._own[key]:
            place = f"{key}.{own[NUMBER]}."
            kind = self._picked(key, many.kinds, place)
            values = self._drawn(kind.draws, place, own)
            name = {} if many.name is None else {"name": str(many.name.value(values, self._sums))}
            result += [{**name, **_filled(one, values, self._sums)} for one in kind.tables]
        return result


def _filled(raw: Any, values: Mapping[str, Any], sums: Mapping[str, list[Any]]) -> Any:  # noqa: ANN401 - TOML
    """Return tables with their texts' values."""
    if isinstance(raw, Template):
        return raw.value(values, sums)
    if isinstance(raw, dict):
        return {key: _filled(value, values, sums) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_filled(value, values, sums) for value in raw]
    return raw


def _merged(below: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with others set over them."""
    result = dict(below)
    for key, value in over.items():
        known = result.get(key)
        both = isinstance(known, dict) and isinstance(value, dict)
        result[key] = _merged(known, value) if both and isinstance(known, dict) else value
    return result


def _longest(many: Many) -> int:
    """Return the largest length of a list."""
    return max(counts(many.count), default=0)


def counts(draw: Draw) -> Iterator[int]:
    """Yield the lengths between which a draw of whole numbers lies; those of other draws are no lengths."""
    if draw.form == "choice":
        for one, weight in zip(draw.values, draw.weights, strict=True):
            yield from counts(one) if weight > 0 else ()
    elif draw.form in ("integer", "constant"):
        yield from (one for one in draw.values if isinstance(one, int) and not isinstance(one, bool))
