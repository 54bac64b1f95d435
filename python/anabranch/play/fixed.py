"""Shipped scenarios with more than the page can edit: their network and video are fixed.

The page gets Python's plan of such a scenario as differences from its own base plan (`templates`). A set-up
names the scenario and has only the keys of the transport and the seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import tomli_w

from anabranch.errors import AnabranchError
from anabranch.play import keys, presets, setup, templates
from anabranch.traces._facts import FILE_KEYS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anabranch.scenario.load import Loaded

#: The runs and seeds that are tried to learn whether a plan depends on them.
_TRIED = ((1, 0), (0, 1), (5, 3))


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A scenario with a fixed network and video.

    Attributes
    ----------
    name
        Its name in a set-up: `cross-traffic`, or `UQ18/va-far` for a row of a paper.
    path
        Its file.
    """

    name: str
    path: Path

    @property
    def group(self) -> str:
        """Return where it comes from."""
        return self.name.rpartition("/")[0] or presets.SCENARIOS

    @property
    def file(self) -> str:
        """Return the file of its differences, within the page."""
        return f"scenarios/{self.name.replace('/', '-')}.json"

    def raw(self) -> dict[str, Any]:
        """Return the tables of the file, with the full paths of recordings."""
        from anabranch.scenario import _follow, load

        raw = load.tables(self.path)
        for _, table in _follow.places(raw):
            given = table.get("trace")
            if isinstance(given, str):
                table["trace"] = str(self.path.parent / given)
            elif isinstance(given, dict):
                files = {key: str(self.path.parent / given[key]) for key in FILE_KEYS if key in given}
                table["trace"] = {**given, **files}
        return raw

    def setup(self) -> dict[str, Any]:
        """Return the set-up of the scenario as it is: what the page shows, and its defaults."""
        raw = self.raw()
        made = presets.part_of("session", raw)
        made["application"] = presets.part_of("application", raw.get("application", {}))
        made["transport"] = presets.part_of("transport", raw.get("transport", {}))
        made["paths"] = [{"name": path["name"]} for path in raw["paths"]]
        return made

    def tables(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tables of the scenario with the seed and the transport of a set-up."""
        raw, own = self.raw(), self.setup()
        transport = {**own["transport"], **given.get("transport", {})}
        for plugin in setup.PLUGINS:
            # The parameters belong to the scenario's plug-in.
            if transport.get(plugin) != own["transport"].get(plugin):
                kept = given.get("transport", {})
                transport = {
                    name: value
                    for name, value in transport.items()
                    if not name.startswith(f"{plugin}.") or name in kept
                }
        raw["transport"] = {**raw.get("transport", {}), **setup.transport(transport)}
        raw["seed"] = given.get("seed", own.get("seed", keys.BY_ID["session", "seed"].default))
        return raw

    def films(self) -> list[str]:
        """Return its film, unless that is a ladder."""
        application = self._loaded().scenario.application
        return [application.film] if application.kind == "progressive" and application.film else []

    def film(self) -> str | None:
        """Return the name of its film or ladder."""
        application = self._loaded().scenario.application
        return application.ladder_name if application.kind == "adaptive" else application.film

    def reasons(self) -> list[str]:
        """Return what the page cannot edit, in words."""
        from anabranch.scenario import _follow

        raw = self.raw()
        words = {
            "clients": f"{raw.get('clients')} clients",
            "links": "shared links",
            "cross_traffic": "cross traffic",
            "handoffs": "handoffs",
        }
        found = [text for name, text in words.items() if name in raw]
        if any("trace" in table for _, table in _follow.places(raw)):
            found.append("recordings")
        if any(event.get("state") not in ("up", *keys.CUTS) for event in raw.get("events", ())):
            found.append("changes of a link")
        if found:
            return found
        has_more = raw.get("application", {}).keys() - {key.toml[0] for key in keys.of("application")}
        return ["a detail of the video" if has_more else "a detail of a path"]

    def description(self) -> str:
        """Return its own description."""
        return self._loaded().scenario.description

    def for_page(self) -> dict[str, Any]:
        """Return what the page shows before the scenario is chosen."""
        return {
            "setup": self.setup(),
            "reasons": self.reasons(),
            "film": self.film(),
            "drawn": self.is_drawn(),
            "file": self.file,
        }

    def for_plans(self) -> dict[str, Any]:
        """Return what turns the page's plan into that of the scenario, and its text without the transport."""
        loaded, raw = self._loaded(), self.raw()
        extra = {name: value for name, value in raw.pop("transport", {}).items() if name not in _own_keys()}
        raw.pop("seed", None)
        return {
            "sets": templates.differences(
                self._base(), templates.plan_of(loaded, film=templates.sized(loaded))
            ),
            "toml": _portable(tomli_w.dumps(raw)),
            "transport": extra,
        }

    def _base(self) -> dict[str, Any]:
        """Return the plan of a set-up of the page, made with the page's keys only."""
        own = self.setup()
        return templates.plan({name: own[name] for name in (*_session_keys(), "transport") if name in own})

    def _loaded(self) -> Loaded:
        from anabranch.scenario import load

        return load.load(self.path)

    def is_drawn(self) -> bool:
        """Return whether the network depends on the seed or on the number of the run."""
        loaded = self._loaded()
        first = _network(loaded, 0)
        tried = (_network(loaded, run, loaded.scenario.seed + seed) for seed, run in _TRIED)
        return any(found != first for found in tried)


def offered() -> dict[str, Fixed]:
    """Return the shipped scenarios that the page cannot edit, by name; those of the program first."""
    found = (named(name) for name, _ in presets.files())
    return {one.name: one for one in found if one is not None}


@cache
def named(name: str) -> Fixed | None:
    """Return the scenario of a name; None for an unknown name, or if the page can edit it."""
    from anabranch.media.ladders import MADE
    from anabranch.scenario import load

    path = dict(presets.files()).get(name)
    if path is None:
        return None
    try:
        loaded = load.load(path)
        presets.of_loaded(loaded, templates.stand_ins(loaded))
    except presets.NotOfferedError:
        # A ladder that is encoded first has no place in static files.
        return None if loaded.scenario.application.ladder_name in MADE else Fixed(name=name, path=path)
    except AnabranchError:
        pass  # a grid or claims
    return None


def setup_of(loaded: Loaded) -> dict[str, Any] | None:
    """Return the set-up of a scenario if it is one of these, or differs from it in seed or transport only."""
    from anabranch.scenario import load

    source = loaded.source.raw
    for name, path in presets.files():
        one = named(name) if path.stem == source.get("name") else None
        if one is None:
            continue
        own = one.setup()
        given: dict[str, Any] = {"scenario": name, "seed": loaded.scenario.seed}
        given["transport"] = presets.part_of("transport", source.get("transport", {}))
        made = load.load(one.tables(given))
        if templates.plan_of(made) == templates.plan_of(loaded):
            return {**own, **given, "transport": {**own["transport"], **given["transport"]}}
    return None


def is_drawn(given: Mapping[str, Any]) -> bool:
    """Return whether the network of a set-up depends on the seed and on the number of the run."""
    one = named(given["scenario"])
    return one is not None and one.is_drawn()


def is_other_draw(given: Mapping[str, Any]) -> bool:
    """Return whether a set-up has another seed than a scenario whose network is drawn from it."""
    one = named(given["scenario"])
    usual = keys.BY_ID["session", "seed"].default
    return one is not None and one.is_drawn() and given["seed"] != one.setup().get("seed", usual)


def _network(loaded: Loaded, run: int, seed: int | None = None) -> dict[str, Any]:
    """Return the plan of a run without seed and number."""
    made = templates.plan_of(loaded, run=run, seed=seed)
    return {name: part for name, part in made.items() if name not in ("seed", "run")}


def _session_keys() -> list[str]:
    return [key.id for key in keys.of("session")]


def _own_keys() -> set[str]:
    return {key.toml[0] for key in keys.of("transport")}


def _portable(text: str) -> str:
    """Return a text without the folder of the installed program."""
    return text.replace(f"{presets.SHIPPED}/", "")
