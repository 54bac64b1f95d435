"""Translate the simulator's faults of a plan into faults at the scenario's keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean
from anabranch.scenario import handoff_events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath
    from anabranch.scenario.models import Event, Scenario

#: A fault from the simulator: the path of keys in the plan, the message, and the nearest valid names.
Refused = tuple["KeyPath", str, "Sequence[str]"]

#: Keys of a plan whose name in a scenario differs by more than the unit at its end.
_NAMES = {"receive_buffer_max": "receive_buffer", "send_buffer_max": "send_buffer", "interface": "state"}
_UNITS = ("_ns", "_bps")
#: Keys of a scenario's event by the changed property of a link in a plan.
_CHANGES = {"rate_bps": ("rate",), "delay_ns": ("delay", "rtt"), "loss": ("loss",), "mtu": ("mtu",)}


def faults(
    refused: Sequence[Refused], plan: Mapping[str, Any], scenario: Scenario, source: Source
) -> list[Fault]:
    """Return the faults of a refused plan, each at the scenario's key from which it comes.

    Parameters
    ----------
    refused
        The simulator's faults.
    plan
        The plan.
    scenario, source
        The scenario of the plan, and the lines of its keys.
    """
    return [
        source.fault(
            of_scenario(path, plan, scenario), message, hint=did_you_mean("", known) if known else ""
        )
        for path, message, known in refused
    ]


def of_scenario(path: KeyPath, plan: Mapping[str, Any], scenario: Scenario) -> KeyPath:
    """Return the scenario's keys for keys of a plan, as far as they correspond."""
    match path:
        case ("film" | "ladder" as what, *_):
            return ("application", what)
        case ("application", "adaptive", "abr", *rest):
            return ("application", "abr", *rest)
        case ("application", "adaptive", "player", *rest):
            return ("application", "player", *map(_plain, rest))
        case ("transport", "scheduler" | "congestion" | "path_manager" | "stack", *_):
            return path  # a plug-in's parameters are its own
        case ("cross_traffic", int() as index, "congestion", *_):
            return path
        case ("cross_traffic", int() as index, "data" | "acks", *_):
            given = scenario.cross_traffic[index]
            return ("cross_traffic", index, "path" if given.links is None else "links")
        case ("paths", int() as index, "down" | "up" as way, *_):
            own = scenario.paths[index]
            return ("paths", index, *(["links" if own.links is not None else f"links_{way}"]))
        case ("events", int() as index, *rest):
            return _event(plan["events"][index], rest[:1], scenario, run=plan["run"])
        case ("links", int() as index, *rest):
            return _link(str(plan["links"][index]["name"]), [_plain(step) for step in rest[:1]], scenario)
    return tuple(map(_plain, path))


def _event(planned: Mapping[str, Any], rest: Sequence[str | int], scenario: Scenario, *, run: int) -> KeyPath:
    """Return the event or handoff from which an event of the plan was made, and the key in it.

    One event of a scenario becomes several of a plan, in another order. It is therefore found by its time,
    its target and its changed property.
    """
    change = planned.get("change")
    keys = _CHANGES[next(iter(change))] if isinstance(change, dict) else ("state",)
    name = planned["path"] if "path" in planned else planned["link"].rpartition(".")[0]

    def is_of(event: Event) -> bool:
        return event.at == planned["at_ns"] and name in (event.path, event.link)

    for index, event in enumerate(scenario.events):
        given = [key for key in keys if key in event.model_fields_set]
        if is_of(event) and given:
            target = "link" if event.path is None else "path"
            return ("events", index, *([target if step in ("link", "path") else given[0] for step in rest]))
    for index in range(len(scenario.handoffs)):
        if any(map(is_of, handoff_events.events_of(scenario, index, run=run))):
            return ("handoffs", index)
    return ("events",)


def _link(name: str, rest: Sequence[str | int], scenario: Scenario) -> KeyPath:
    """Return the table from which a one-way link of a plan was made, and the key in it."""
    table, _, way = name.rpartition(".")
    groups = (
        ("paths", [path.name for path in scenario.paths]),
        ("links", [link.name for link in scenario.links]),
        ("cross_traffic", [flows.name for flows in scenario.cross_traffic]),
    )
    for group, names in groups:
        if table in names:
            index = names.index(table)
            if group == "cross_traffic":
                return (group, index, "rtt")
            given = getattr(scenario, group)[index]
            own = getattr(given, way)
            if rest and rest[0] in own.model_fields_set:
                return (group, index, way, *rest)
            return (group, index, *(rest if rest and rest[0] in given.model_fields_set else ()))
    return ()


def _plain(step: str | int) -> str | int:
    """Return the scenario's name for a plan's key, which has a unit at its end."""
    if isinstance(step, int):
        return step
    unit = next((unit for unit in _UNITS if step.endswith(unit)), "")
    return _NAMES.get(step, step.removesuffix(unit))
