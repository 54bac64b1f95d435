"""Settings of a study's assumptions: those of a cell, and those that other values of assumptions change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, InputError, did_you_mean
from anabranch.study import assume, ranges
from anabranch.study.assume import said
from anabranch.study.values import is_by_value, of_other_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anabranch.study.models import Assumption, Study

#: The beginning of keys that name a value for `{ as = KEY }` and set nothing themselves.
SHARED = "shared."


@dataclass(frozen=True, kw_only=True)
class Reach:
    """The cells that a change concerns.

    Attributes
    ----------
    rows
        Their rows.
    axes
        By key of the grid the values, as text. A cell must have one of them of each key.
    """

    rows: frozenset[str]
    axes: tuple[tuple[str, frozenset[str]], ...] = ()

    def has(self, labels: Mapping[str, Any]) -> bool:
        """Return whether a cell with these labels is among them."""
        return labels.get("row") in self.rows and all(
            str(labels.get(key)) in values for key, values in self.axes
        )


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A study with other values of one or more assumptions.

    Attributes
    ----------
    name
        The assumption, or the joint assumption.
    label
        How results call it.
    changes
        By assumption the settings over its own.
    whole
        Whether all cells are run, also those that no change concerns.
    """

    name: str
    label: str
    changes: Mapping[str, Mapping[str, Any]] = field(hash=False)
    whole: bool = False

    def reaches(self, study: Study) -> tuple[Reach, ...]:
        """Return the cells that each of its changes concerns."""
        if self.whole:
            return (Reach(rows=frozenset(study.rows())),)
        return tuple(reach(study, name, settings) for name, settings in self.changes.items())


def reach(study: Study, name: str, settings: Mapping[str, Any]) -> Reach:
    """Return the cells that a value of an assumption concerns."""
    one = study.assumptions[name]
    grids = {key for part in study.parts for key in part.grid}
    axes = {
        key: frozenset(value) for key, value in settings.items() if key in grids and is_by_value(value)
    } | {key: frozenset(texts) for key, texts in _at(one).items()}
    rows = frozenset(one.scenarios or study.rows())
    if settings and all(key.startswith(SHARED) for key in settings):
        rows &= _takers(study, settings)
    return Reach(rows=rows, axes=tuple(sorted(axes.items())))


def _takers(study: Study, shared: Iterable[str]) -> frozenset[str]:
    """Return the rows in which some key takes one of these shared values."""
    return frozenset(
        row
        for one in study.assumptions.values()
        if any(of_other_key(value) in set(shared) for value in one.set.values())
        for row in one.scenarios or study.rows()
    )


def variants(study: Study, name: str) -> list[Variant]:
    """Return the study with each other value of an assumption, or with a joint assumption."""
    if name in study.joint:
        return [Variant(name=name, label=name, changes=joined(study, name))]
    return [
        Variant(name=name, label=said(other), changes={name: other})
        for other in study.assumptions[name].others
    ]


def joined(study: Study, name: str) -> dict[str, dict[str, Any]]:
    """Return the values of assumptions that a joint assumption selects.

    Raises
    ------
    InputError
        If it names an assumption or value that does not exist.
    """
    return assume.chosen(study.assumptions, texts(study, [name]), None)


def texts(study: Study, given: Sequence[str]) -> list[str]:
    """Return texts `NAME=TEXT`, with those of a joint assumption instead of its name."""
    return [
        text
        for one in given
        for text in (
            [f"{key}={value}" for key, value in study.joint[one].values.items()]
            if one in study.joint
            else [one]
        )
    ]


def names(study: Study) -> list[str]:
    """Return the assumptions with other values, and the joint ones."""
    return [*(name for name, one in study.assumptions.items() if one.sweep), *study.joint]


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """The settings of the assumptions in one row.

    Attributes
    ----------
    labels
        The labels that all its cells share.
    """

    labels: tuple[tuple[str, str], ...]
    _given: tuple[tuple[Reach, Mapping[str, Any]], ...]
    _changed: tuple[Reach, ...] | None

    def concerns(self, labels: Mapping[str, Any]) -> bool:
        """Return whether a cell differs from that of the unchanged study; any does if nothing is changed."""
        return self._changed is None or any(one.has(labels) for one in self._changed)

    def settings(self, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Return the settings of a cell.

        Parameters
        ----------
        labels
            Its values of the grid's keys.
        """
        found: dict[str, Any] = {}
        for one, settings in self._given:
            if one.has({**labels, **dict(self.labels)}):
                found |= settings
        for key, value in found.items():
            if (other := of_other_key(value)) is not None:
                if other not in found:
                    row = dict(self.labels)["row"]
                    raise InputError(
                        [Fault(message=f"no assumption sets this key in row {row}: `{other}`", key=key)]
                    )
                found[key] = found[other]
        return {key: value for key, value in found.items() if not key.startswith(SHARED)}


def fixed(study: Study, row: str, variant: Variant | None, *, quick: bool) -> Fixed:
    """Return the settings of the assumptions in a row.

    Parameters
    ----------
    study, row
        The study and its row.
    variant
        Other values of assumptions; None changes nothing.
    quick
        With the changes of the study's `quick`.
    """
    whole = Reach(rows=frozenset([row]))
    given: list[tuple[Reach, Mapping[str, Any]]] = []
    for name, one in study.assumptions.items():
        own = reach(study, name, {})
        given.append((own, one.set))
        if variant is not None and name in variant.changes:
            given.append((own, variant.changes[name]))
    if quick:
        given.append((whole, study.quick.set))
    labels = [("row", row)] + ([] if variant is None else [("varied", variant.label)])
    changed = None if variant is None else variant.reaches(study)
    return Fixed(labels=tuple(labels), _given=tuple(given), _changed=changed)


def _at(one: Assumption) -> dict[str, list[str]]:
    """Return by key of the grid the values that an assumption applies to, as text."""
    return {
        key: [str(value) for value in (values if isinstance(values, list) else [values])]
        for key, values in one.at.items()
    }


def faults(study: Study, where: str) -> Iterator[Fault]:
    """Yield the faults of assumptions: values of the grid that no cell has, ranges, joint assumptions."""
    axes: dict[str, dict[str, None]] = {}
    for part in study.parts:
        for key, values in part.grid.items():
            axes.setdefault(key, {}).update(dict.fromkeys(_texts(key, values)))
    for name, one in study.assumptions.items():
        place = f"assumptions.{name}"
        for key, texts in _at(one).items():
            known: Sequence[str] = list(axes.get(key, ()))
            if key not in axes:
                message, hint = f"no such key of the grid: `{key}`", did_you_mean(key, axes)
                yield Fault(message=message, where=where, key=place, hint=hint)
            for text in texts if known else ():
                if text not in known:
                    message, hint = f"no such value of `{key}`: `{text}`", did_you_mean(text, known)
                    yield Fault(message=message, where=where, key=place, hint=hint)
        for value in one.sweep:
            for message, hint in ranges.faults(value):
                yield Fault(message=message, where=where, key=place, hint=hint)
        yield from _others(study, name, one, where)
    for name in study.joint:
        yield from _joint(study, name, where)


def _texts(key: str, values: Sequence[Any]) -> Sequence[str]:
    """Return the values of an axis as text."""
    from anabranch.study.values import axis_of

    return axis_of(key, values).texts


def _others(study: Study, name: str, one: Assumption, where: str) -> Iterator[Fault]:
    """Yield the faults of keys and assumptions that an assumption refers to."""
    place = f"assumptions.{name}"
    known = {key for other in study.assumptions.values() for key in other.set}
    for value in (one.set, *one.sweep):
        for other in map(of_other_key, value.values()):
            if other is not None and other not in known:
                message = f"no assumption sets this key: `{other}`"
                yield Fault(message=message, where=where, key=place, hint=did_you_mean(other, known))
    if one.like is not None and (
        one.like not in study.assumptions or len(study.assumptions[one.like].sweep) < len(one.sweep)
    ):
        message = f"no assumption with as many other values or more: `{one.like}`"
        hint = did_you_mean(one.like, study.assumptions)
        yield Fault(message=message, where=where, key=f"{place}.like", hint=hint)


def _joint(study: Study, name: str, where: str) -> Iterator[Fault]:
    """Yield the faults of a joint assumption."""
    place = f"joint.{name}"
    if name in study.assumptions:
        yield Fault(message=f"an assumption has this name: `{name}`", where=where, key=place)
    try:
        joined(study, name)
    except InputError as error:
        for fault in error.faults:
            yield Fault(message=fault.message, where=where, key=place, hint=fault.hint)
