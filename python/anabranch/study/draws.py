"""Values drawn from a distribution that a file states: `{ uniform = [5, 20] }`.

Each value has a separate random number, made from the seed, the number of the world and the value's name.
A new value in a file therefore changes no other value.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anabranch.errors import did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The forms of a draw and their values.
FORMS = {
    "uniform": "two numbers, the lower first",
    "log_uniform": "two positive numbers, the lower first",
    "integer": "two whole numbers, the lower first; both can be drawn",
    "choice": "a list of values, each of which can be a draw",
    "path": '"any", or "other" with `than`, the name of a drawn path',
}
_BESIDE = {"choice": ("weights",), "path": ("than",)}


def chance(seed: int, world: int) -> Callable[[str], float]:
    """Return the random numbers of a world, by name."""

    def number(name: str) -> float:
        text = f"{seed}/{world}/{name}"
        # As many bits as a float has.
        return (int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 11) * 2.0**-53

    return number


@dataclass(frozen=True, kw_only=True)
class Draw:
    """A constant or a distribution.

    Attributes
    ----------
    form
        One of `FORMS`, or `constant`.
    values
        The two ends, or the values of a choice.
    weights
        The weights of a choice, which add up to 1.
    than
        The drawn path that another one differs from.
    """

    form: Literal["constant", "uniform", "log_uniform", "integer", "choice", "path"]
    values: tuple[Any, ...] = ()
    weights: tuple[float, ...] = ()
    than: str = ""

    def value(
        self, name: str, chance: Callable[[str], float], known: dict[str, Any], paths: Sequence[str]
    ) -> Any:  # noqa: ANN401
        """Return the drawn value.

        Parameters
        ----------
        name
            The name of its random number.
        chance
            The random numbers of the world.
        known
            The values that were drawn before.
        paths
            The names of the world's paths.
        """
        if self.form == "constant":
            return self.values[0]
        if self.form == "choice":
            place = picked(self.weights, chance(name))
            return self.values[place].value(f"{name}.{place}", chance, known, paths)
        if self.form == "path":
            left = [one for one in paths if one != known.get(self.than)] or list(paths)
            return left[int(chance(name) * len(left))]
        low, high = self.values
        if self.form == "integer":
            return low + int(chance(name) * (high - low + 1))
        if self.form == "log_uniform":
            return low * math.exp(chance(name) * math.log(high / low))
        return low + chance(name) * (high - low)


def picked(weights: Sequence[float], number: float) -> int:
    """Return the index that a random number selects."""
    passed = 0.0
    for place, weight in enumerate(weights):
        passed += weight
        if number < passed:
            return place
    return len(weights) - 1


def parse(raw: object) -> Draw | list[tuple[str, str, str]]:
    """Return a draw, or its faults: the key within it, a message and a hint."""
    if isinstance(raw, str | int | float | bool):
        return Draw(form="constant", values=(raw,))
    if not isinstance(raw, dict):
        return [("", f"expected a value or a draw, got {shown(raw)}", _forms())]
    forms = [key for key in raw if key in FORMS]
    if len(forms) != 1:
        wrong = next((key for key in raw if key not in FORMS), "")
        message = "several forms of a draw: " + ", ".join(forms) if forms else "no form of a draw"
        return [("", message, did_you_mean(wrong, FORMS) if wrong and not forms else _forms())]
    form = forms[0]
    beside = _BESIDE.get(form, ())
    faults = [
        (key, f"unknown key: `{key}`", did_you_mean(key, (form, *beside)))
        for key in raw
        if key != form and key not in beside
    ]
    found = _choice(raw) if form == "choice" else _path(raw) if form == "path" else _ends(form, raw[form])
    if isinstance(found, list):
        return faults + found
    return faults or found


def _forms() -> str:
    """Return a hint with the forms."""
    return "a draw is one of: " + ", ".join(FORMS)


def _ends(form: str, ends: object) -> Draw | list[tuple[str, str, str]]:
    """Return a draw between two ends."""
    whole = (int,) if form == "integer" else (int, float)
    fault = [(form, f"expected {FORMS[form]}, got {shown(ends)}", "")]
    if not isinstance(ends, list) or len(ends) != 2:
        return fault
    if any(isinstance(one, bool) or not isinstance(one, whole) or not _is_finite(one) for one in ends):
        return fault
    low, high = ends
    if low > high or (form == "log_uniform" and low <= 0):
        return fault
    # Two finite ends can have an infinite difference or quotient.
    if not _is_finite(high / low if form == "log_uniform" else high - low):
        return [(form, f"expected ends that are less far apart, got {shown(ends)}", "")]
    return Draw(form=form, values=(low, high))  # type: ignore[arg-type] # one of the forms


def _choice(raw: dict[str, Any]) -> Draw | list[tuple[str, str, str]]:
    """Return a choice."""
    values = raw["choice"]
    if not isinstance(values, list) or not values:
        return [("choice", f"expected {FORMS['choice']}, got {shown(values)}", "")]
    faults: list[tuple[str, str, str]] = []
    draws = []
    for one in values:
        found = parse(one)
        if isinstance(found, list):
            faults += [("choice", message, hint) for _, message, hint in found]
        else:
            draws.append(found)
    weights = raw.get("weights", [1] * len(values))
    if not is_weights(weights):
        faults.append(
            ("weights", f"expected numbers of zero or more that are not all zero, got {shown(weights)}", "")
        )
    elif len(weights) != len(values):
        faults.append(
            ("weights", f"{len(weights)} weights of {len(values)} values", "one weight for each value")
        )
    if faults:
        return faults
    total = sum(weights)
    return Draw(form="choice", values=tuple(draws), weights=tuple(one / total for one in weights))


def is_weights(raw: object) -> bool:
    """Return whether a value is a list of weights with a finite sum."""
    return (
        isinstance(raw, list)
        and all(isinstance(one, int | float) and not isinstance(one, bool) for one in raw)
        and all(_is_finite(one) and one >= 0 for one in raw)
        and _is_finite(sum(raw))
        and sum(raw) > 0
    )


def _is_finite(number: float) -> bool:
    """Return whether a number is finite as a floating-point number."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


def _path(raw: dict[str, Any]) -> Draw | list[tuple[str, str, str]]:
    """Return the draw of a path."""
    word, than = raw["path"], raw.get("than")
    if word not in ("any", "other"):
        return [("path", f'expected "any" or "other", got {shown(word)}', "")]
    if (word == "other") != isinstance(than, str):
        return [("path", f"expected {FORMS['path']}", "")]
    return Draw(form="path", than=than or "")
