"""Checks that involve several keys of a link's model."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from anabranch.plugins import module
from anabranch.scenario.link_models import expanded, model_class
from anabranch.scenario.queues import PLAIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.errors import Fault
    from anabranch.scenario._faults import Source
    from anabranch.scenario._lines import KeyPath

#: The keys of a path that the laboratory's emulator does not support.
_NOT_EMULATED = ("model", "trace", "reorder", "duplicate", "corrupt")


def follows(table: dict[str, Any]) -> bool:
    """Return whether the rate of a raw path, link or direction changes in time."""
    return "model" in table or "trace" in table


def brings_delay(table: dict[str, Any]) -> bool:
    """Return whether the model or recording of a raw path may include delays.

    A recording is read to find out.
    """
    model = model_class(table.get("model"))
    ways = [table.get(way) for way in ("down", "up")]
    return (model is not None and model.delays) or any(
        "trace" in part for part in (table, *ways) if isinstance(part, dict)
    )


def check(source: Source) -> Iterator[Fault]:
    """Return the faults between the keys of models."""
    for kind in ("paths", "links"):
        tables = source.raw.get(kind)
        for index, table in enumerate(tables if isinstance(tables, list) else []):
            if isinstance(table, dict):
                yield from _table(source, (kind, index), table)


def _table(source: Source, here: KeyPath, table: dict[str, Any]) -> Iterator[Fault]:
    """Check one path or link."""
    given = table.get("model")
    ways = [way for way in ("down", "up") if isinstance(table.get(way), dict)]
    parts: list[tuple[KeyPath, dict[str, Any]]] = [(here, table)]
    parts += [((*here, way), table[way]) for way in ways]
    for place, part in parts:
        if given is not None and "trace" in part:
            message = "both `trace` and `model` are given"
            yield source.fault((*place, "trace"), message, hint="keep one of the two")
    if "trace" in table and all("trace" in table.get(way, {}) for way in ways) and len(ways) == 2:
        message = "`trace` is given for the whole and for each direction"
        yield source.fault((*here, "trace"), message, hint="keep one of the two forms")
    if "emulator_seed" in table:
        yield from _emulator(source, parts)
    yield from _model(source, (*here, "model"), given)


def _emulator(source: Source, parts: Sequence[tuple[KeyPath, dict[str, Any]]]) -> Iterator[Fault]:
    """Check that a path with `emulator_seed` has a fixed rate and a drop-tail queue, and nothing else."""
    for place, part in parts:
        queue = part.get("queue")
        kind = queue.get("name", PLAIN) if isinstance(queue, dict) else PLAIN
        beside = [key for key in _NOT_EMULATED if key in part] + (["queue"] if kind != PLAIN else [])
        for key in beside:
            message = f"both `emulator_seed` and `{key}` are given"
            hint = "the emulator has a set rate, a drop-tail queue, delay, jitter and loss"
            yield source.fault((*place, key), message, hint=hint)


def _model(source: Source, here: KeyPath, given: object) -> Iterator[Fault]:
    """Check a model's parameters together. A parameter with a fault counts as missing."""
    kind, settings = model_class(given), expanded(given)
    if kind is None or settings is None:
        return
    try:
        model = kind.model_validate(settings)
    except ValidationError as error:
        wrong = {fault["loc"][0] for fault in error.errors()}
        if any(it.key in wrong for it in kind.parameters if it.form == "word"):
            return
        model = kind.model_validate({key: value for key, value in settings.items() if key not in wrong})
    plan = {settings["name"]: model.plan("down", "")}
    for key, message, hint in module().link_model_faults(json.dumps(plan)):
        yield source.fault((*here, key), message, hint=hint)
