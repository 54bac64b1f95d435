"""Conversion of a validated scenario to the plan: plain data with resolved units and all defaults.

The plan's form is described in docs/plan-and-trace.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch import _json, plugins
from anabranch.scenario import _follow, handoff_events, queues
from anabranch.scenario._estimate import delivers as delivers
from anabranch.scenario._estimate import expected_duration_s as expected_duration_s
from anabranch.scenario._estimate import time_limit_ns
from anabranch.scenario.models import (
    DATAGRAM_BYTES,
    DATAGRAMS,
    Corrupt,
    Direction,
    Ecn,
    GilbertElliott,
    Link,
    Path,
    Scenario,
    Transport,
    cross_name,
)

if TYPE_CHECKING:
    from anabranch.media.films import Film
    from anabranch.scenario.models import CrossTraffic, Event

_WAYS = ("down", "up")
_IMPAIRMENTS = ("reorder", "duplicate", "corrupt")
_SECOND = 10**9


def build(scenario: Scenario, film: Film | None, *, run: int = 0) -> dict[str, Any]:
    """Return the plan of a scenario.

    Parameters
    ----------
    scenario
        The validated scenario.
    film
        The film of the application; None for an application without a film.
    run
        The run number, which selects another draw under the same seed.

    Returns
    -------
    dict
        The argument of `_anabranch.simulate`, before its encoding as JSON.
    """
    scenario = handoff_events.with_events(scenario, run=run)
    draw = (scenario.seed, run)
    own = _own_links(scenario)
    paths = [_path(path, has_own=path.name in own) for path in scenario.paths]
    crossing = [_crossing(index, flows, paths) for index, flows in enumerate(scenario.cross_traffic)]
    used = {name for path in paths for way in _WAYS for name in path[way]}
    used |= {name for flows in crossing for way in ("data", "acks") for name in flows[way]}
    links = [link for path in scenario.paths if path.name in own for link in _links_of(path, draw)]
    links += [one_way for link in scenario.links for one_way in _links_of(link, draw)]
    links += [link for index, flows in enumerate(scenario.cross_traffic) for link in _delays(index, flows)]
    application = _application(scenario, film)
    plan: dict[str, Any] = {
        "scenario": scenario.name,
        "seed": scenario.seed,
        "run": run,
        "clients": scenario.clients,
        "application": application,
        "film": film.plan if film is not None and application["kind"] == "progressive" else None,
        "ladder": film.plan if film is not None and application["kind"] == "adaptive" else None,
        "transport": _transport(scenario),
        "host": _host(scenario),
        "links": [link for link in links if link["name"] in used],
        "paths": paths,
        "cross_traffic": crossing,
        "events": [event for event in _events(scenario) if event.get("link") in {None, *used}],
    }
    if scenario.record:
        plan["record"] = list(dict.fromkeys(scenario.record))
    plan["time_limit_ns"] = scenario.time_limit or time_limit_ns(plan, film)
    return plan


def encode(plan: dict[str, Any]) -> str:
    """Return the plan as JSON text. Equal plans give equal texts."""
    return _json.of_plan(plan, allow_nan=False)


def _application(scenario: Scenario, film: Film | None) -> dict[str, Any]:
    """Return the application. Bulk and paced ones take their default size and rate from a film."""
    given = scenario.application
    rate, duration, size = given.rate, given.duration, given.bytes
    plays = given.kind in ("progressive", "adaptive")
    if film is not None and not plays and duration is None and size is None:
        size = film.size_bytes
    if film is not None and given.kind == "paced" and rate is None:
        rate = round(film.size_bytes * 8 * _SECOND / film.duration_ns)
    return {
        "kind": given.kind,
        "rate_bps": rate if given.kind == "paced" else None,
        "duration_ns": duration,
        "bytes": None if plays else size,
        "player": given.player.plan() if given.kind != "adaptive" else {},
        "adaptive": {"abr": given.abr.model_dump(), "player": given.player.plan(adaptive=True)}
        if given.kind == "adaptive"
        else None,
    }


def _host(scenario: Scenario) -> dict[str, int]:
    """Return the properties of hosts: the given keys over the module's defaults."""
    given = scenario.host.model_dump(exclude_none=True)
    for key in ("timer_tick", "clock_phase"):
        if key in given:
            given[f"{key}_ns"] = given.pop(key)
    return {**dict(plugins.module().host_defaults()), **given}


def _transport(scenario: Scenario) -> dict[str, Any]:
    """Return the transport's part of the plan."""
    given = scenario.transport
    return {
        "multipath": len(scenario.paths) > 1 if given.multipath is None else given.multipath,
        "scheduler": plugins.encode(given.scheduler.model_dump()),
        "congestion": plugins.encode(given.congestion.model_dump()),
        "path_manager": plugins.encode(given.path_manager.model_dump()),
        "receive_buffer_initial": min(given.receive_buffer_initial, given.receive_buffer),
        "receive_buffer_max": given.receive_buffer,
        "send_buffer_max": given.send_buffer,
        "mss": given.mss,
        "checksum": given.checksum,
        "pacing": given.pacing,
        "profile": given.profile,
        "stack": given.stack.model_dump(exclude_none=True, exclude={"outage"}),
        **_ecn(given),
        **_outages(given),
        **({"attempt_delay_ns": given.attempt_delay} if given.first_path == "race" else {}),
    }


def _outages(given: Transport) -> dict[str, Any]:
    """Return the rules for outages that differ from the kernel's."""
    said = {"outage": given.stack.outage, "rto_max_ns": given.rto_max, "retries": given.retries}
    return {key: value for key, value in said.items() if value not in (None, "kernel")}


def _ecn(given: Transport) -> dict[str, Any]:
    """Return the ECN settings of the two sides that differ from the default."""
    word = given.ecn
    sides = Ecn(client=word, server=word) if isinstance(word, str) else word
    return {} if sides == Ecn() else {"ecn": sides.model_dump()}


def _own_links(scenario: Scenario) -> set[str]:
    """Return the paths that need a link of their own: described by their keys, or changed by an event."""
    keys = {"rtt", "rate", "jitter", "loss", "queue", "down", "up", "model", "trace", "mtu", "emulator_seed"}
    keys |= {*_IMPAIRMENTS}
    own = {path.name for path in scenario.paths if path.model_fields_set & keys or not _shares(path)}
    return own | {event.path for event in scenario.events if event.path is not None and _touches_link(event)}


def _touches_link(event: Event) -> bool:
    """Return whether an event of a path changes a link, not only the client's interface."""
    return event.state == "down" or bool(event.model_fields_set & {"rate", "rtt", "delay", "loss", "mtu"})


def _shares(path: Path) -> bool:
    """Return whether a path runs over shared links in both directions."""
    return bool(path.links or (path.links_down and path.links_up))


def _path(path: Path, *, has_own: bool) -> dict[str, Any]:
    """Return a path as chains of one-way links. Its own link is on the client's side."""
    down = [f"{name}.down" for name in (path.links if path.links is not None else path.links_down or ())]
    up = [f"{name}.up" for name in reversed(path.links if path.links is not None else path.links_up or ())]
    if has_own:
        down, up = [*down, f"{path.name}.down"], [f"{path.name}.up", *up]
    result: dict[str, Any] = {"name": path.name, "down": down, "up": up, "backup": path.backup}
    middleboxes = {"strips_mptcp": path.strips_mptcp, "drops_mptcp": path.drops_mptcp}
    return result | {key: value for key, value in middleboxes.items() if value} | _family(path.family)


def _family(family: str | None) -> dict[str, str]:
    """Return the plan's key for the address family; empty for the default family."""
    return {} if family in (None, "ipv4") else {"family": family}


def _crossing(index: int, flows: CrossTraffic, paths: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a group of background flows with its links in the order in which packets cross them.

    A flow's own delay is on the client's side, like a path's own link.
    """
    name, family = cross_name(index, flows.name), flows.family
    if flows.links is not None:
        route = {way: [f"{link}.{way}" for link in flows.links] for way in _WAYS}
        route["up"].reverse()
    else:
        path = next(path for path in paths if path["name"] == flows.path)
        route, family = {way: path[way] for way in _WAYS}, family or path.get("family")
    if flows.rtt:
        route = {"down": [*route["down"], f"{name}.down"], "up": [f"{name}.up", *route["up"]]}
    back = "up" if flows.direction == "down" else "down"
    own: dict[str, Any]
    if flows.kind in DATAGRAMS:
        own = {"size": DATAGRAM_BYTES if flows.size is None else flows.size}
        own |= {"on_ns": flows.on, "off_ns": flows.off} if flows.kind == "on-off" else {}
    else:
        own = {"congestion": plugins.encode(flows.congestion.model_dump())}
        own |= {"gap_ns": flows.gap} if flows.kind == "transfers" else {}
    return {
        "name": name,
        "data": route[flows.direction],
        "acks": route[back],
        "kind": flows.kind,
        "rate_bps": flows.rate,
        **own,
        "count": flows.count,
        "start_ns": flows.start,
        "duration_ns": flows.duration,
        "bytes": flows.bytes,
        **_family(family),
    }


def _delays(index: int, flows: CrossTraffic) -> list[dict[str, Any]]:
    """Return the links that only delay background flows; used only if a delay is set."""
    name, half = cross_name(index, flows.name), flows.rtt // 2
    plain = {"rate_bps": None, "queue": None, "jitter_ns": 0, "loss": None, "loss_at": "exit"}
    return [
        {"name": f"{name}.{way}", "delay_ns": delay, **plain}
        for way, delay in (("down", half), ("up", flows.rtt - half))
    ]


def _links_of(table: Path | Link, draw: tuple[int, int]) -> list[dict[str, Any]]:
    """Return the one-way links, down then up, that a path's own keys or a link describe.

    Parameters
    ----------
    table
        The path or link.
    draw
        Seed and number of the run, for random values of the plan.
    """
    return [_one_way(table, way, draw) for way in _WAYS]


def _one_way(table: Path | Link, way: str, draw: tuple[int, int]) -> dict[str, Any]:
    """Return one direction: its own keys over those given once."""
    own: Direction = table.down if way == "down" else table.up
    given = own.model_fields_set
    plain = isinstance(table, Path) and not table.model_fields_set & {
        "rate",
        "queue",
        "down",
        "up",
        "model",
        "trace",
    }
    queue = None if plain and "rate" not in given else table.queue
    loss = table.loss if way == "down" else None
    model = _follow.model(table, way, seed=draw[0], run=draw[1])
    return {
        "name": f"{table.name}.{way}",
        "rate_bps": own.rate if "rate" in given else table.rate,
        **queues.plan(own.queue if "queue" in given else queue),
        "delay_ns": own.delay if own.delay is not None else _delay(table, way),
        "jitter_ns": own.jitter if own.jitter is not None else table.jitter,
        "loss": _loss(own.loss if "loss" in given else loss),
        "loss_at": own.loss_at or table.loss_at,
        **_impairments(table, own, way),
        **_mtu(table, own),
        **({"model": model} if model is not None else {}),
        **_emulator(table, way),
    }


def _emulator(table: Path | Link, way: str) -> dict[str, Any]:
    """Return which draws of the laboratory's emulator one direction uses; empty if it has its own draws."""
    if isinstance(table, Link) or table.emulator_seed is None:
        return {}
    return {"emulator": {"seed": table.emulator_seed, "down": way == "down"}}


def _impairments(table: Path | Link, own: Direction, way: str) -> dict[str, Any]:
    """Return the impairments of one direction besides loss; only those that are set."""
    whole = _IMPAIRMENTS if way == "down" else ()
    given = {key: getattr(table, key) for key in whole}
    given |= {key: getattr(own, key) for key in _IMPAIRMENTS if key in own.model_fields_set}
    reorder = given.pop("reorder", None)
    given |= _corruption(given.get("corrupt"))
    result: dict[str, Any] = {key: share for key, share in given.items() if share}
    if reorder is not None and reorder.share:
        result["reorder"] = {"share": reorder.share, "by_ns": reorder.delay, "gap": reorder.gap}
    return result


def _corruption(corrupt: float | Corrupt | None) -> dict[str, float]:
    """Return the share of corrupted packets, and the share of those that arrive nevertheless."""
    if not isinstance(corrupt, Corrupt):
        return {"corrupt": corrupt or 0.0}
    return {"corrupt": corrupt.share, "corrupt_passes": corrupt.passes if corrupt.share else 0.0}


def _mtu(table: Path | Link, own: Direction) -> dict[str, Any]:
    """Return the MTU of one direction and whether ICMP reports it; empty if there is no limit."""
    mtu = own.mtu if own.mtu is not None else table.mtu
    icmp = own.icmp if own.icmp is not None else table.icmp
    return ({"mtu": mtu} if mtu is not None else {}) | ({} if icmp else {"icmp": False})


def _delay(table: Path | Link, way: str) -> int:
    """Return the delay of one direction, computed from a value for both."""
    if isinstance(table, Link):
        return table.delay
    rtt = table.rtt or 0
    return rtt // 2 if way == "down" else rtt - rtt // 2


def _loss(loss: float | GilbertElliott | None) -> dict[str, Any] | None:
    """Return a loss model; None if there is no loss."""
    if isinstance(loss, GilbertElliott):
        return {"gilbert_elliott": {"p": loss.p, "r": loss.r, "h": loss.h, "k": loss.k}}
    return {"bernoulli": loss} if loss else None


def _ordered_events(scenario: Scenario) -> list[Event]:
    """Return the events by time. Events at the same time keep the file's order."""
    return sorted(scenario.events, key=lambda event: event.at)


def _events(scenario: Scenario) -> list[dict[str, Any]]:
    """Return the events as changes of one-way links and of the clients' interfaces.

    When a path comes back, everything that was down is restored: its links, the interface, or both.
    """
    result: list[dict[str, Any]] = []
    cut: set[str] = set()
    gone: set[str] = set()
    for event in _ordered_events(scenario):
        path, links = event.path, event.state in ("down", "up")
        if path is not None and event.state == "up":
            links = path in cut or path not in gone
            cut.discard(path)
        elif path is not None and event.state == "down":
            cut.add(path)
        result += _changes(event, state=links)
        if path is not None and event.state in ("link-down", "removed"):
            gone.add(path)
            interface = event.state.removeprefix("link-")
            result.append({"at_ns": event.at, "path": path, "interface": interface})
        elif path in gone and event.state == "up":
            gone.discard(path)
            result.append({"at_ns": event.at, "path": path, "interface": "up"})
    return result


def _changes(event: Event, *, state: bool) -> list[dict[str, Any]]:
    """Return the changes of one-way links by an event, with their new state if it changes."""
    name = event.path if event.path is not None else event.link
    ways = _WAYS if event.direction in (None, "both") else (event.direction,)
    result: list[dict[str, Any]] = []

    def add(way: str, change: object) -> None:
        result.append({"at_ns": event.at, "link": f"{name}.{way}", "change": change})

    for way in ways:
        if event.rate is not None:
            add(way, {"rate_bps": event.rate})
        if event.delay is not None:
            add(way, {"delay_ns": event.delay})
        if event.rtt is not None:
            add(way, {"delay_ns": event.rtt // 2 if way == "down" else event.rtt - event.rtt // 2})
        if "loss" in event.model_fields_set and (event.direction is not None or way == "down"):
            add(way, {"loss": _loss(event.loss)})
        if event.mtu is not None:
            add(way, {"mtu": event.mtu})
        if state:
            add(way, event.state)
    return result
