"""`--assume NAME=TEXT`: other values of assumptions instead of a study's own."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol

from anabranch.errors import Fault, InputError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Assumed(Protocol):
    """An assumption, as far as its values go."""

    @property
    def set(self) -> dict[str, Any]:
        """Keys and their values."""
        ...

    @property
    def others(self) -> list[dict[str, Any]]:
        """Other values."""
        ...


def chosen(
    assumptions: Mapping[str, Assumed], assume: Sequence[str], vary: str | None
) -> dict[str, dict[str, Any]]:
    """Return the selected other values of each assumption."""
    faults: list[Fault] = []
    result: dict[str, dict[str, Any]] = {}
    for text in assume:
        where = f"--assume {text}"
        name, equals, wanted = (part.strip() for part in text.partition("="))
        known = assumptions.get(name)
        if known is None or not equals or not wanted:
            message = (
                f"expected NAME=TEXT: `{text}`" if known is not None else f"no such assumption: `{name}`"
            )
            faults.append(Fault(message=message, where=where, hint=did_you_mean(name, assumptions)))
            continue
        if name in result or name == vary:
            faults.append(Fault(message=f"given twice: `{name}`", where=where))
            continue
        found = [other for other in known.others if wanted in said(other)]
        exact = [other for other in found if said(other) == wanted]
        exact = exact or [other for other in found if any(str(value) == wanted for value in other.values())]
        one = exact if len(exact) == 1 else found
        if len(one) != 1:
            values = "; ".join(map(said, known.others)) or "none"
            message = f"{len(found)} other values of `{name}` have this: `{wanted}`"
            faults.append(Fault(message=message, where=where, hint=f"there are: {values}"))
            continue
        result[name] = one[0]
    if faults:
        raise InputError(faults)
    return result


def short(settings: Mapping[str, Any]) -> str:
    """Return a short hash of settings for a folder's name."""
    return hashlib.sha256(said(settings).encode()).hexdigest()[:6]


def said(settings: Mapping[str, Any]) -> str:
    """Return settings in a line."""
    return ", ".join(f"{key} = {_plain(value)}" for key, value in settings.items()) or "nothing is set"


def _plain(value: object) -> str:
    """Return a value in words.

    A table is written with one value for each value of an axis: `spdx(hold=1) for spdx`.
    """
    if isinstance(value, dict) and value.keys() == {"as"}:
        return f"as {value['as']}"
    if isinstance(value, bool):
        return str(value).lower()
    if (
        isinstance(value, dict)
        and all(isinstance(one, str) for one in value.values())
        and "name" not in value
    ):
        return ", ".join(f"{other} for {one}" for one, other in value.items())
    return str(value)
