"""The tables from which the page makes plans.

They are found by trial. Each key of the set-up is changed, Python makes the plan, and the difference becomes
an *effect*: where in the plan the value goes, and how. `play/plan.js` applies effects and knows no key.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from anabranch.play import keys
from anabranch.play.setup import tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

#: The name of the path in templates: no character that a name may have.
PLACE = "\u00a7"
#: Marks: the name of a film in place of its table, a removed value, a float.
RAW, ABSENT, FLOAT = "$raw", "$absent", "$float"

Effect = dict[str, Any]
_Leaves = dict[tuple[Any, ...], Any]
_SECOND = 10**9


class NoEffectError(Exception):
    """A key whose influence on the plan has no form that the page knows."""


def made() -> dict[str, Any]:
    """Return the base plan, the template of a path, and the effects of every key."""
    base = _split(_plan({}))
    return {
        "base": _marked(base["plan"]),
        "path": _marked(base["path"]),
        "paths": _by_paths(),
        "cuts": {kind: _marked(_cut(kind)) for kind in keys.CUTS},
        "effects": {
            section: [{"id": key.id, "when": key.when, "effects": _effects(key)} for key in keys.of(section)]
            for section in keys.SECTIONS
        },
    }


def films(
    progress: Callable[[float, float], None] | None = None, *, more: Iterable[str] = ()
) -> dict[str, Film]:
    """Return the films and ladders that the page offers and `more` films, by name; a missing one is made."""
    from anabranch.media.films import open_film
    from anabranch.media.ladders import open_ladder

    found: dict[str, Film] = {}
    named = [name for name, _ in keys.BY_ID["application", "film"].choices]
    for name in dict.fromkeys([*named, *more]):
        film = open_film(name, (), progress=progress)
        assert film is not None
        found[name] = film
    for name, _ in keys.BY_ID["application", "ladder"].choices:
        ladder = open_ladder(name, ())
        assert ladder is not None
        found[name] = ladder
    return found


def plan(setup: Mapping[str, Any]) -> dict[str, Any]:
    """Return Python's plan of a set-up without its links and paths, and with a film's name for its table."""
    return cast("dict[str, Any]", _split(_plan(setup))["plan"])


def plan_of(
    loaded: Loaded, *, run: int = 0, seed: int | None = None, film: Film | None = None
) -> dict[str, Any]:
    """Return the plan of a scenario, with a film's name in place of its table.

    The default time limit depends on the size and the length of `film`; without one they are nearly 0.
    """
    from anabranch.scenario import plan

    scenario = loaded.scenario
    if seed is not None:
        scenario = scenario.model_copy(update={"seed": seed})
    return plan.build(scenario, film or next(iter(stand_ins(loaded).values()), None), run=run)


def stand_ins(loaded: Loaded) -> dict[str, Film]:
    """Return the film or ladder of a scenario by name, with its name in place of its table."""
    from anabranch.media.films import Film

    given = loaded.scenario.application
    if given.kind == "bulk":
        return {}
    name = str(given.ladder_name if given.kind == "adaptive" else given.film)
    return {name: Film(name=name, size_bytes=1, duration_ns=1, plan={RAW: name})}


def sized(loaded: Loaded) -> Film | None:
    """Return the film or ladder of a scenario with size and length, and its name in place of its table."""
    from anabranch.media.films import open_film
    from anabranch.media.ladders import open_ladder

    given = loaded.scenario.application
    if given.kind == "bulk":
        return None
    if given.kind == "adaptive":
        film = open_ladder(given.ladder, loaded.folders)
    else:
        film = open_film(given.film, loaded.folders, described=True)
    return None if film is None else replace(film, plan={RAW: film.name})


def differences(base: Mapping[str, Any], other: Mapping[str, Any]) -> list[Effect]:
    """Return the effects that turn a plan into another one."""
    before, after = _leaves(base), _leaves(other)
    return [{"at": at, "set": _marked(after.get(at, {ABSENT: True}))} for at in _changed(before, after)]


def _plan(setup: Mapping[str, Any]) -> dict[str, Any]:
    """Return Python's plan of a set-up, with a film's name in place of its table."""
    from anabranch.scenario import load

    return plan_of(load.load({**tables({"paths": [{"name": PLACE}], **setup})}))


def _split(plan: dict[str, Any]) -> dict[str, Any]:
    """Return a plan of one path without its links, and the path with them."""
    rest = {name: part for name, part in plan.items() if name not in ("links", "paths")}
    down, up = plan["links"]
    return {"plan": rest, "path": {"down": down, "up": up, "path": plan["paths"][0]}}


def _by_paths() -> list[list[Effect]]:
    """Return what the number of paths changes in a plan besides the paths, from one path on."""
    base = _leaves(_split(_plan({}))["plan"])
    found = []
    for count in range(1, keys.MOST_PATHS + 1):
        plan = _plan({"paths": [{"name": f"{PLACE}{place}"} for place in range(count)]})
        rest = {name: part for name, part in plan.items() if name not in ("links", "paths")}
        leaves = _leaves(rest)
        found.append(
            [{"at": at, "set": _marked(leaves.get(at, {ABSENT: True}))} for at in _apart(base, leaves)]
        )
    return found


def _cut(kind: str) -> dict[str, Any]:
    """Return the events of a cut and of the return from it, without their times."""
    events = _plan({"paths": [{"name": PLACE, "cut": kind, "cuts": [[1, 2]]}]})["events"]
    found: dict[str, Any] = {"lost": [], "back": []}
    for event in events:
        found["lost" if event.pop("at_ns") == _SECOND else "back"].append(event)
    return found


def _effects(key: keys.Key) -> list[Effect]:
    """Return the effects of a key."""
    if key.kind == "text":
        return _of_text(key)
    return _of_words(key) if key.kind in ("choice", "flag") else _of_numbers(key)


def _with(key: keys.Key, value: object) -> _Leaves:
    """Return the leaves of a plan with a value of a key, where the key exists."""
    part: dict[str, Any] = {key.id: value}
    if key.when is not None:
        other, values = key.when
        part[other] = values[0]
    setup: dict[str, Any] = {key.section: part}
    if key.section == "session":
        setup = part
    if key.section == "path":
        setup = {"paths": [{"name": PLACE, **part}]}
    split = _split(_plan(setup))
    return _leaves(split["path"] if key.section == "path" else split["plan"])


def _of_text(key: keys.Key) -> list[Effect]:
    """Return the effects of a name: the places where it is the whole value."""
    if key.section == "path":
        return []  # the template has the place of its name
    leaves = _with(key, "another")
    return [{"at": at, "text": True} for at, value in leaves.items() if value == "another"]


def _of_words(key: keys.Key) -> list[Effect]:
    """Return the effects of a choice: for each word the difference from the default's plan."""
    words: list[str | bool] = [*(word for word, _ in key.choices)] or [False, True]
    base = _with(key, key.default)
    chosen = {}
    for word in words:
        leaves = _with(key, word)
        sets = [{"at": at, "set": _marked(leaves.get(at, {ABSENT: True}))} for at in _changed(base, leaves)]
        chosen[json.dumps(word) if isinstance(word, bool) else word] = sets
    return [{"choice": chosen}]


def _of_numbers(key: keys.Key) -> list[Effect]:
    """Return the effects of a number.

    Raises
    ------
    NoEffectError
        When the plan depends on it in another way than the page can express.
    """
    off = key.default if key.omit else None
    tried = [key.least if key.least != off else key.least + key.step, _snapped(key), key.most]
    by_value = {value: _with(key, value) for value in tried}
    base = _with(key, key.default if off is None else off)
    places = dict.fromkeys(at for leaves in by_value.values() for at in _apart(base, leaves))
    effects: list[Effect] = []
    for at in places:
        values = [(value, leaves[at]) for value, leaves in by_value.items() if at in leaves]
        if values:
            effects.append({"at": at, **_form(key, values, base.get(at))})
        elif not any(_overlap(at, held) for leaves in by_value.values() for held in leaves):
            effects.append({"at": at, "set": {ABSENT: True}})
    return [{"off": off, **effect} for effect in effects] if off is not None else effects


def _snapped(key: keys.Key) -> float:
    """Return a value in the middle of a key's range."""
    from anabranch.play.setup import number

    steps = round((key.most - key.least) / 3 / key.step)
    return number(round(key.least + steps * key.step, 3))


def _form(key: keys.Key, values: Sequence[tuple[float, Any]], usual: int | None) -> Effect:
    """Return how a number becomes the value at a place of the plan."""
    if all(isinstance(found, int) for _, found in values):
        last, found = values[-1]
        times = found / last
        if all(found == round(value * times) for value, found in values):
            return {"times": int(times) if float(times).is_integer() else times}
        whole = _whole_factor(key)
        if usual is not None and all(found == min(usual, round(value * whole)) for value, found in values):
            return {"most": whole}
    if all(isinstance(found, float) for _, found in values):
        if all(found == value for value, found in values):
            return {"float": 0}
        if all(found == float(f"{value}e-2") for value, found in values):
            return {"float": -2}
    message = f"{key.section}.{key.id}: {values}, usually {usual}"
    raise NoEffectError(message)


def _whole_factor(key: keys.Key) -> int:
    """Return the bytes of a key's unit."""
    from anabranch.scenario.units import SIZE_UNITS

    return int(SIZE_UNITS[key.unit])


def _leaves(node: object, at: tuple[Any, ...] = ()) -> _Leaves:
    """Return the values of a tree by the steps to them; a list and an empty table count as values."""
    if isinstance(node, dict) and node and RAW not in node:
        return {place: leaf for name in node for place, leaf in _leaves(node[name], (*at, name)).items()}
    return {at: node}


def _apart(one: _Leaves, other: _Leaves) -> Iterator[tuple[Any, ...]]:
    """Yield the places at which two trees differ."""
    for at in dict.fromkeys([*one, *other]):
        if at not in one or at not in other or one[at] != other[at] or type(one[at]) is not type(other[at]):
            yield at


def _changed(base: _Leaves, leaves: _Leaves) -> Iterator[tuple[Any, ...]]:
    """Yield the places to change in a base, without those that a set table or value replaces."""
    for at in _apart(base, leaves):
        if at in leaves or not any(_overlap(at, held) for held in leaves):
            yield at


def _overlap(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether one place is inside the other."""
    return one[: len(other)] == other or other[: len(one)] == one


def _marked(node: Any) -> Any:  # noqa: ANN401 - any JSON
    """Return a tree with floats marked, which JavaScript would write as whole numbers."""
    if isinstance(node, float):
        return {FLOAT: repr(node)}
    if isinstance(node, dict):
        return {name: _marked(value) for name, value in node.items()}
    return [_marked(value) for value in node] if isinstance(node, list) else copy.copy(node)
