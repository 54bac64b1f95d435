"""The available plug-ins, read from the Rust module's tables."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import MissingError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import ModuleType

#: The kinds of plug-in, by the key that names one in a scenario's `[transport]` or `[application]`.
Kind = Literal["scheduler", "congestion", "path_manager", "abr"]


#: A name that gives a class by its file: `file.py:Class`. In other names, commas, parentheses and equals
#: signs have their meaning in the short form.
_PLACE = re.compile(r'[^"]*\.py:\w+')
_SPECIAL = re.compile(r"[(),=]")
#: A file and class inside a short form, in quotes or not.
_INSIDE = re.compile(r'"([^"]*\.py:\w+)"|([^"(),=\s][^"(),=]*\.py:\w+)')


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter of a plug-in.

    Attributes
    ----------
    key
        Its key.
    default
        Its default value, in a scenario's notation.
    allowed
        The permitted values, in words.
    """

    key: str
    default: str
    allowed: str


@dataclass(frozen=True, kw_only=True)
class PluginFault:
    """A fault in a plug-in's name or parameters.

    Attributes
    ----------
    path
        The keys that lead to it, starting at the plug-in's table.
    message
        The fault.
    known
        The valid names or keys.
    where, line
        File and line in the plug-in's source, if the source is at fault and not the scenario.
    hint
        The way to fix it, if `known` does not contain it.
    """

    path: tuple[str, ...]
    message: str
    known: tuple[str, ...] = ()
    where: str = ""
    line: int | None = None
    hint: str = ""


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """The plug-ins of each kind by name, with the first sentence of their documentation, and the profiles."""

    schedulers: Mapping[str, str]
    congestion: Mapping[str, str]
    path_managers: Mapping[str, str]
    abr: Mapping[str, str]
    profiles: Mapping[str, str]
    parts: Mapping[str, str]

    def of(self, kind: Kind) -> Mapping[str, str]:
        """Return the plug-ins of a kind."""
        named: dict[Kind, Mapping[str, str]] = {
            "scheduler": self.schedulers,
            "congestion": self.congestion,
            "path_manager": self.path_managers,
            "abr": self.abr,
        }
        return named[kind]


def module() -> ModuleType:
    """Return the Rust module.

    Raises
    ------
    MissingError
        If it was not built, or was built for another kind of host.
    """
    try:
        from anabranch import _anabranch
    except ImportError as error:
        message = f"the simulator module `anabranch._anabranch` is missing or broken ({error})"
        hint = "run `make build` in the folder with the sources, or install anabranch again"
        raise MissingError(message, hint=hint) from error
    return _anabranch


def listed(table: str) -> list[Any]:
    """Return a table of the Rust module, or an empty one if the module was not built.

    Then help texts can still be printed, and every other command fails in `module`.
    """
    try:
        return list(getattr(module(), table)())
    except MissingError:
        return []


@cache
def catalogue() -> Catalogue:
    """Return the plug-ins and profiles of the Rust module."""
    rust = module()
    return Catalogue(
        schedulers=dict(rust.schedulers()),
        congestion=dict(rust.congestion_controls()),
        path_managers=dict(rust.path_managers()),
        abr=dict(rust.abr_rules()),
        profiles=dict(rust.profiles()),
        parts=dict(rust.profile_parts()),
    )


def parameters(kind: Kind, name: str) -> list[Parameter]:
    """Return the parameters of a plug-in; an unknown name has none."""
    found = module().plugin_parameters(kind, name)
    return [Parameter(key=key, default=default, allowed=allowed) for key, default, allowed in found]


def encode(given: str | Mapping[str, Any]) -> str:
    """Return a plug-in for a plan: JSON text, because only the plug-in can interpret its keys."""
    table = {"name": given} if isinstance(given, str) else given
    return json.dumps(table, sort_keys=True, separators=(",", ":"), allow_nan=False)


def label(given: str | Mapping[str, Any]) -> str:
    """Return a plug-in's short form: `rtx-aware(blest(lambda=1.1))`.

    Examples
    --------
    >>> label({"name": "rtx-aware", "base": {"name": "blest", "lambda": 1.1}})
    'rtx-aware(blest(lambda=1.1))'
    >>> label({"name": "blest(lambda=1.1)", "base": "c,d/mine.py:X"})
    'blest("c,d/mine.py:X", lambda=1.1)'
    """
    if isinstance(given, str):
        return _quoted(given) if _PLACE.fullmatch(given) else given
    name, within = label(given["name"]), ""
    own = {key: value for key, value in given.items() if key not in {"name", "base"}}
    if name.endswith(")") and (own or "base" in given):
        # The name is already a short form, so the other parameters are added to its own.
        name, within = _parted(name)
    inside = [label(given["base"])] if "base" in given else []
    inside += [within] if within else []
    inside += [f"{key}={_scalar(value)}" for key, value in sorted(own.items())]
    return f"{name}({', '.join(inside)})" if inside else name


def short(names: Iterable[str]) -> dict[str, str]:
    """Return a readable name for each short form. A Python class is shown by its name alone.

    If that name is not unique, as much of its path is added as is necessary.

    Parameters
    ----------
    names
        All short forms that are shown together. Other texts are not changed.

    Examples
    --------
    >>> short(["linux", "deep/mine.py:Mine", "rtx-aware(deep/mine.py:Mine)"])
    {'linux': 'linux', 'deep/mine.py:Mine': 'Mine', 'rtx-aware(deep/mine.py:Mine)': 'rtx-aware(Mine)'}
    >>> list(short(["a/mine.py:Mine", "b/mine.py:Mine", "a/mine.py:Other"]).values())
    ['a/mine.py:Mine', 'b/mine.py:Mine', 'Other']
    """
    shown = list(dict.fromkeys(names))
    places = dict.fromkeys(place for name in shown for place in _places(name))
    # The candidates for each name, the shortest first: the class, the file and class, the last folder too,
    # ...
    ways = {place: _tails(place) for place in places}
    taken = [name for name in shown if name not in places]
    called = {
        place: next(
            way
            for way in own
            if way == place
            or (way not in taken and not any(way in ways[other] for other in places if other != place))
        )
        for place, own in ways.items()
    }

    def said(name: str) -> str:
        if name in called:
            return called[name]
        return _INSIDE.sub(lambda found: _quoted(called[found[1] or found[2]]), name)

    return {name: said(name) for name in shown}


def _places(name: str) -> list[str]:
    """Return the files and names of the classes in a short form."""
    if _PLACE.fullmatch(name):
        return [name]
    return [found[1] or found[2] for found in _INSIDE.finditer(name)]


def _tails(place: str) -> list[str]:
    """Return the possible names of `file.py:Class`, from the class alone to the whole path."""
    file, _, own = place.rpartition(":")
    parts = file.split("/")
    return [own, *(f"{'/'.join(parts[at:])}:{own}" for at in range(len(parts) - 1, -1, -1))]


def absolute(given: str) -> str:
    """Return a short form with absolute paths, which were relative to the working directory."""
    whole = _PLACE.fullmatch(given)
    for _, name, _ in module().plugin_parts(encode(given)):
        place = _PLACE.fullmatch(name)
        if place is not None:
            full = str(Path.cwd() / name)
            # A match at the end of a longer name does not count.
            found = re.compile(rf'(?<![\w./-])"?{re.escape(name)}"?')
            given = (full if whole else _quoted(full)).join(found.split(given))
    return given


def _parted(short: str) -> tuple[str, str]:
    """Return the name of a short form and the text in its parentheses."""
    start = short.index('"', 1) if short.startswith('"') else 0
    at = short.index("(", start)
    return short[:at].rstrip(), short[at + 1 : -1].strip()


def _quoted(text: str) -> str:
    """Return a name or a word in the notation of the short form."""
    return f'"{text}"' if _SPECIAL.search(text) and '"' not in text else text


def _scalar(value: object) -> str:
    """Return a parameter's value in the notation of the short form."""
    if isinstance(value, bool):
        return json.dumps(value)
    return f"{value:g}" if isinstance(value, float) else _quoted(str(value))
