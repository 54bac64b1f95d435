"""Scenarios as set-ups of the page: those that come with the program, and the papers' rows.

A scenario is offered only if its set-up gives the same plan. Only the name and the time limit may differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError
from anabranch.play import keys
from anabranch.play.setup import number, tables
from anabranch.scenario import units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.media.films import Film
    from anabranch.scenario.load import Loaded

#: The folder of the shipped scenarios and studies.
SHIPPED = Path(__file__).resolve().parents[1]
#: The group of the scenarios that belong to no paper.
SCENARIOS = "Scenarios"
_QUANTITY = re.compile(r"\s*([\d._]+)\s*(\S+)\s*")
_DECIBELS = units.DECIBEL.units
_UNITS = (
    units.TIME_UNITS,
    units.RATE_UNITS,
    units.SIZE_UNITS,
    units.PERCENT_UNITS,
    units.PACKET_UNITS,
    _DECIBELS,
)
_SECOND = 10**9
#: The keys of a scenario that a set-up has, or that do not change the run.
_KNOWN = {"application", "transport", "paths", "events", "name", "seed", "time_limit"}
_KNOWN |= {"description", "expect", "record"}


class NotOfferedError(Exception):
    """A scenario with keys or values that the page does not offer.

    Attributes
    ----------
    reasons
        These keys, or what differs.
    """

    def __init__(self, reasons: Sequence[str]) -> None:
        self.reasons = list(reasons)
        super().__init__(", ".join(self.reasons))


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A scenario that the page offers.

    Attributes
    ----------
    name, group
        Its name, and where it comes from.
    description
        The scenario's own description.
    setup
        The set-up.
    """

    name: str
    group: str
    description: str
    setup: dict[str, Any] = field(default_factory=dict)


def files() -> Iterator[tuple[str, Path]]:
    """Yield the name and the file of each shipped scenario, and of each row of a paper as `UQ18/va-far`."""
    folders = [("", SHIPPED / "_scenarios")]
    folders += [(f"{path.name}/", path) for path in sorted((SHIPPED / "_studies").iterdir()) if path.is_dir()]
    for group, folder in folders:
        for path in sorted(folder.glob("*.toml")):
            yield group + path.stem, path


def offered(films: Mapping[str, Film]) -> list[Preset]:
    """Return the scenarios that the page can edit, the shipped ones first."""
    found = []
    for name, path in files():
        try:
            found.append(of_file(path, films, group=name.rpartition("/")[0] or SCENARIOS))
        except (NotOfferedError, AnabranchError):
            continue  # a grid, claims, or a scenario with more than the page has
    return found


def of_file(path: Path, films: Mapping[str, Film], *, group: str = "") -> Preset:
    """Return the scenario of a file as a preset.

    Raises
    ------
    NotOfferedError
        When the page does not offer one of its keys.
    ScenarioError
        When it is no scenario.
    """
    from anabranch.scenario import load

    loaded = load.load(path)
    setup = of_loaded(loaded, films)
    return Preset(name=path.stem, group=group, description=loaded.scenario.description, setup=setup)


def of_loaded(loaded: Loaded, films: Mapping[str, Film] | None = None) -> dict[str, Any]:
    """Return the set-up of a scenario; a film that is not among the given ones is opened.

    Raises
    ------
    NotOfferedError
        When the page does not offer one of its keys.
    """
    from anabranch.scenario import load, streamed

    scenario = loaded.scenario
    setup = from_tables(loaded.source.raw)
    setup["name"] = re.sub(r"[^A-Za-z0-9 _.-]", "", scenario.name)[:40].strip() or "scenario"
    application = scenario.application
    name = application.ladder_name if application.kind == "adaptive" else application.film
    film = (films or {}).get(name or "") or (streamed.film_of(loaded) if films is None else None)
    theirs = _compared(loaded, film)
    setup["limit"] = number(
        min(-(-theirs.pop("time_limit_ns") // _SECOND), keys.BY_ID["session", "limit"].most)
    )
    ours = _compared(load.load(tables(setup)), film)
    del ours["time_limit_ns"]
    differ = [name for name in theirs if theirs[name] != ours.get(name)]
    if differ:
        raise NotOfferedError(differ)
    return setup


def _compared(loaded: Loaded, film: Film | None) -> dict[str, Any]:
    """Return a plan without its name."""
    from anabranch.scenario import plan

    made = plan.build(loaded.scenario, film)
    for name in ("scenario", "record"):
        made.pop(name, None)
    return made


def from_tables(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a set-up with the values of a scenario's tables.

    Raises
    ------
    NotOfferedError
        When a value has no place in a set-up.
    """
    setup = part_of("session", raw)
    setup["application"] = part_of("application", raw.get("application", {}))
    setup["transport"] = part_of("transport", raw.get("transport", {}))
    # A path without a round trip has none.
    setup["paths"] = [{"rtt": 0, **part_of("path", path)} for path in raw["paths"]]
    reasons = [name for name in raw if name not in _KNOWN]
    if len(setup["paths"]) > keys.MOST_PATHS:
        reasons.append(f"more than {keys.MOST_PATHS} paths")
    reasons += list(_take_events(setup["paths"], raw.get("events", ())))
    if reasons:
        raise NotOfferedError(reasons)
    return setup


def part_of(section: keys.Section, table: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a table of a scenario to part of a set-up. Values that a set-up cannot contain are left out."""
    part: dict[str, Any] = {}
    for key in keys.of(section):
        value: Any = table
        for step in key.toml:
            value = value.get(step) if isinstance(value, dict) else value if step == "name" else None
        if isinstance(value, dict) and "name" in value:
            part |= {f"{key.id}.{name}": one for name, one in value.items() if name != "name"}
            value = value["name"]
        read = None if value is None or not key.applies(part) else _value(key, value)
        if read is not None:
            part[key.id] = read
    return part


def _value(key: keys.Key, value: object) -> float | str | bool | None:
    """Return a value in the key's unit; None if it is of another kind or not permitted."""
    if key.kind != "number":
        words = [word for word, _ in key.choices]
        return value if isinstance(value, str | bool) and (not words or value in words) else None
    if isinstance(value, int | float):
        found = float(value)
    else:
        match = _QUANTITY.fullmatch(str(value))
        worth = next(table for table in _UNITS if key.unit in table)
        if match is None or match[2] not in worth:
            return None
        found = float(match[1].replace("_", "")) * float(worth[match[2]] / worth[key.unit])
    found = round(found, 3)
    return number(found) if key.permits(found) else None


def _take_events(paths: list[dict[str, Any]], events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Put cuts into their paths; yield what is no cut."""
    by_name = {path.get("name"): path for path in paths}
    for event in events:
        path = by_name.get(event.get("path"))
        at = _QUANTITY.fullmatch(str(event.get("at")))
        if (
            path is None
            or at is None
            or at[2] not in units.TIME_UNITS
            or set(event) != {"at", "path", "state"}
        ):
            yield "an event that is no cut"
            continue
        at_s = number(float(at[1]) * float(units.TIME_UNITS[at[2]]) / _SECOND)
        cuts = path.setdefault("cuts", [])
        if event["state"] == "up" and cuts and cuts[-1][1] is None:
            cuts[-1][1] = at_s
        else:
            path["cut"] = event["state"]
            cuts.append([at_s, None])
