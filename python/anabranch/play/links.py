"""Links of the page: a run as an address, in the form that `play/link.js` writes.

`#v=1&name=two-paths&paths.0.name=wifi&paths.0.loss=0.5&run=0&build=...&digest=...`: all after the `#` are
keys of the set-up that differ from their defaults, and facts about the run.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote

from anabranch.errors import Fault, InputError, did_you_mean, shown
from anabranch.play import fixed, keys, presets, setup

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

#: The version of the form.
_VERSION = "1"
#: Facts about a run that are not keys of a set-up.
_FACTS = ("v", "scenario", "run", "code", "compare", "build", "digest")
_PLUGINS = ("scheduler.", "congestion.")
_CUT_KEYS = ("cuts", "cut")
#: Characters that `encodeURIComponent` leaves as they are.
_SAFE = "!'()*~-._"
#: A number; the same expression is in `play/plan.js`.
_DECIMAL = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
#: The most that a run's number may be.
_MOST_RUN = 2**53 - 1


@dataclass(frozen=True, kw_only=True)
class Link:
    """A link that has been read.

    Attributes
    ----------
    setup
        The set-up, without the keys that have their defaults.
    run
        The number of the run.
    build, digest
        The build that made the link, and the first digits of its result; empty if not given.
    """

    setup: dict[str, Any] = field(default_factory=dict)
    run: int = 0
    build: str = ""
    digest: str = ""

    def tables(self) -> dict[str, Any]:
        """Return the tables of the scenario."""
        return tables(self.setup)


def tables(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of the scenario that a set-up stands for."""
    scenario = given.get("scenario")
    shipped = fixed.named(scenario) if scenario else None
    return setup.tables(given) if shipped is None else shipped.tables(given)


def read(text: str) -> Link:
    """Return the run that a link stands for.

    Raises
    ------
    InputError
        When a key or a value is not one of the page's, or the scheduler is a program.
    """
    given: dict[str, Any] = {"application": {}, "transport": {}, "paths": {}}
    facts: dict[str, str] = {}
    faults: list[Fault] = []
    for name, value in parse_qsl(text.partition("#")[2], keep_blank_values=True):
        if name in _FACTS:
            facts[name] = value
            continue
        fault = _take(given, name, value)
        if fault is not None:
            faults.append(fault)
    faults += _facts(facts, given["paths"])
    if facts.get("scenario"):
        faults += _fixed(facts, given)
    if faults:
        raise InputError(faults)
    if facts.get("scenario"):
        given["scenario"] = facts["scenario"]
    given["paths"] = [given["paths"][place] for place in sorted(given["paths"])]
    run = int(facts.get("run", "0"))
    return Link(setup=given, run=run, build=facts.get("build", ""), digest=facts.get("digest", ""))


def _facts(facts: Mapping[str, str], paths: Mapping[int, Any]) -> Iterator[Fault]:
    """Yield the faults of a link as a whole."""
    if facts.get("v") != _VERSION:
        message = f"not a link of this version of the page: v={facts.get('v', '')}"
        yield Fault(message=message, where="link", hint="copy the link from the page of this build")
    if facts.get("code"):
        hint = "open it in the page: `anabranch play LINK`"
        yield Fault(
            message="the link's scheduler is written in JavaScript", where="link", key="code", hint=hint
        )
    run = facts.get("run", "0")
    if not run.isascii() or not run.isdecimal() or int(run) > _MOST_RUN:
        yield Fault(
            message=f"the number of a run is a whole number from 0, not {shown(run)}", where="link", key="run"
        )
    if not facts.get("scenario") and (sorted(paths) != list(range(len(paths))) or not paths):
        yield Fault(message="the paths are numbered from 0 on, without gaps", where="link", key="paths")


def _fixed(facts: Mapping[str, str], given: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the faults of a link to a scenario with a fixed network and video."""
    name = facts["scenario"]
    known = fixed.named(name)
    if known is None:
        hint = did_you_mean(name, list(fixed.offered()))
        yield Fault(message=f"no such scenario: {shown(name)}", where="link", key="scenario", hint=hint)
        return
    more = [key for key in given if key not in ("application", "transport", "paths", "seed")]
    more += [f"application.{key}" for key in given["application"]]
    more += [f"paths.{place}.{key}" for place, path in given["paths"].items() for key in path]
    hint = "a link to it has keys of the transport and `seed`"
    for key in more:
        yield Fault(
            message=f"the network and the video of {name} are fixed", where="link", key=key, hint=hint
        )
    if known.is_drawn() and ("seed" in given or facts.get("run", "0") != "0"):
        key = "seed" if "seed" in given else "run"
        message = f"the network of {name} is drawn from the seed, so the page has one run of it"
        yield Fault(message=message, where="link", key=key, hint=f"`anabranch run {name}` has others")


def _take(given: dict[str, Any], name: str, value: str) -> Fault | None:
    """Put a value into a set-up; return what is wrong with it."""
    steps = name.split(".")
    section, part, wanted = "session", given, name
    if steps[0] == "paths" and len(steps) == 3 and steps[1] in map(str, range(keys.MOST_PATHS)):
        section, wanted = "path", steps[2]
        part = given["paths"].setdefault(int(steps[1]), {})
    elif steps[0] in ("application", "transport"):
        section, wanted = steps[0], name.partition(".")[2]
        part = given[section]
    if section == "transport" and wanted.startswith(_PLUGINS):
        part[wanted] = _scalar(value)
        return None
    if section == "path" and wanted in _CUT_KEYS:
        return _take_cut(part, name, wanted, value)
    key = keys.BY_ID.get((section, wanted))
    if key is None:
        known = [one.id for one in keys.KEYS if one.section == section]
        hint = did_you_mean(wanted, known)
        return Fault(message=f"the page has no such key: {shown(name)}", where="link", key=name, hint=hint)
    read = _value(key, value)
    if read is None:
        return Fault(
            message=f"not a value of this key: {shown(value)}", where="link", key=name, hint=_hint(key, value)
        )
    part[wanted] = read
    return None


def _hint(key: keys.Key, value: str) -> str:
    """Return the nearest word, or the range of a number."""
    if key.choices:
        return did_you_mean(value, [word for word, _ in key.choices if word])
    if key.kind != "number":
        return ""
    return f"from {key.least} to {key.most} {key.unit}".rstrip() + f" in steps of {key.step}"


def _value(key: keys.Key, text: str) -> float | str | bool | None:
    """Return a value of a key; None if it is not permitted."""
    if key.kind == "flag":
        return {"true": True, "false": False}.get(text)
    if key.kind != "number":
        return text if not key.choices or text in dict(key.choices) else None
    try:
        number = _number(text)
    except (ValueError, OverflowError):
        return None
    return number if key.permits(number) else None


def _number(text: str) -> int | float:
    """Return a number that is written in decimal digits, as the page reads it.

    Raises
    ------
    ValueError
        When it is another text.
    """
    if _DECIMAL.fullmatch(text) is None:
        raise ValueError(text)
    return setup.number(float(text))


def _take_cut(part: dict[str, Any], name: str, wanted: str, value: str) -> Fault | None:
    """Put the cuts of a path, or their kind, into it."""
    if wanted == "cut":
        part["cut"] = value
        return (
            None
            if value in keys.CUTS
            else Fault(message=f"no such cut: {shown(value)}", where="link", key=name)
        )
    try:
        found = [_cut(one) for one in value.split(",")]
    except (ValueError, OverflowError):
        message = f"cuts are pairs of seconds: {shown(value)}"
        return Fault(message=message, where="link", key=name, hint="for example 20-40,60-")
    part["cuts"] = found
    return None


def _cut(text: str) -> list[float | None]:
    """Return when a cut begins and ends; None if it never ends."""
    begin, end = text.split("-")
    found = (_number(begin), _number(end) if end else None)
    if found[0] < 0 or (found[1] is not None and found[1] <= found[0]):
        raise ValueError(text)
    return [*found]


def _scalar(text: str) -> float | str | bool:
    """Return a parameter of a plug-in: a number, true or false, or a word."""
    if text in ("true", "false"):
        return text == "true"
    try:
        return _number(text)
    except (ValueError, OverflowError):
        return text


def write(given: Mapping[str, Any], *, run: int = 0, build: str = "", digest: str = "") -> str:
    """Return the part of an address behind the `#`: what `play/link.js` writes for the same set-up."""
    if given.get("scenario"):
        return _encoded([*_of_fixed(given), *_facts_of(run, build, digest)])
    found = [("v", _VERSION), *_differing("session", given, "")]
    found += _differing("application", given.get("application", {}), "application.")
    found += _differing("transport", given.get("transport", {}), "transport.")
    for place, path in enumerate(given["paths"]):
        found.append((f"paths.{place}.name", path["name"]))
        found += [one for one in _differing("path", path, f"paths.{place}.") if not one[0].endswith(".name")]
        if path.get("cut", next(iter(keys.CUTS))) != next(iter(keys.CUTS)):
            found.append((f"paths.{place}.cut", path["cut"]))
        cuts = setup.cuts(path.get("cuts", ()))
        if cuts:
            text = ",".join(f"{begin}-{'' if end is None else end}" for begin, end in cuts)
            found.append((f"paths.{place}.cuts", text))
    return _encoded([*found, *_facts_of(run, build, digest)])


def _of_fixed(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what differs from a scenario with a fixed network and video."""
    shipped = fixed.named(given["scenario"])
    own = {} if shipped is None else shipped.setup()
    yield "v", _VERSION
    yield "scenario", given["scenario"]
    usual = own.get("seed", keys.BY_ID["session", "seed"].default)
    if given.get("seed", usual) != usual:
        yield "seed", _text(given["seed"])
    yield from _differing("transport", given.get("transport", {}), "transport.", own.get("transport"))


def _facts_of(run: int, build: str, digest: str) -> list[tuple[str, str]]:
    """Return the facts about a run that are known."""
    facts = {"run": str(run) if run else "", "build": build, "digest": digest}
    return [(name, value) for name, value in facts.items() if value]


def _encoded(found: Sequence[tuple[str, str]]) -> str:
    """Return keys and values as an address has them."""
    return "&".join(f"{name}={quote(value, safe=_SAFE).replace('%20', '+')}" for name, value in found)


def _differing(
    section: keys.Section, part: Mapping[str, Any], prefix: str, own: Mapping[str, Any] | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the values of a section that are neither the defaults nor the scenario's own."""
    own = own or {}
    for key in keys.of(section):
        usual = own.get(key.id, key.default)
        value = part.get(key.id, usual)
        if value != usual:
            yield prefix + key.id, _text(value)
    if section == "transport":
        plain = [name for name in part if name.startswith(_PLUGINS) and part[name] != own.get(name)]
        yield from ((prefix + name, _text(part[name])) for name in plain)


def _text(value: object) -> str:
    """Return a value as JavaScript writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(setup.number(value)) if isinstance(value, int | float) else str(value)


def setup_of(
    loaded: Loaded, film: Film | None = None, *, where: str, hint: str, run: int = 0
) -> dict[str, Any]:
    """Return the set-up of a scenario. Its film is opened if it is not given.

    Raises
    ------
    InputError
        When the page does not offer all keys of the scenario.
    """
    try:
        return presets.of_loaded(loaded, None if film is None else {film.name: film})
    except presets.NotOfferedError as error:
        shipped = fixed.setup_of(loaded)
        if shipped is not None and not (fixed.is_other_draw(shipped) or (run and fixed.is_drawn(shipped))):
            return shipped
        message = f"the page does not offer all of this scenario: {', '.join(error.reasons)}"
        raise InputError([Fault(message=message, where=where, hint=hint)]) from None
