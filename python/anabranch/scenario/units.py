"""Quantities as people write them: "50 ms", "5 Mbit/s", "0.5 %", "100 packets", "6 MiB".

Every parser takes the raw value of a scenario file and returns a whole number in the plan's unit
(nanoseconds, bits per second, bytes) or, for percentages, a fraction. The arithmetic is decimal, so that "0.1
ms" is exactly 100,000 ns.

Each parser raises `UnitError`, which contains a hint.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from anabranch._numbers import trimmed
from anabranch.errors import did_you_mean, shown

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERM = re.compile(r"\s*([+-]?\s*(?:\d[\d_]*(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)\s*([^\d\s+-][^\d\s]*)\s*")
_NUMBER = re.compile(r"\s*[+-]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?\s*")

TIME_UNITS: Mapping[str, Decimal] = {
    "ns": Decimal(1),
    "us": Decimal(10**3),
    "µs": Decimal(10**3),
    "ms": Decimal(10**6),
    "s": Decimal(10**9),
    "min": Decimal(60 * 10**9),
    "h": Decimal(3600 * 10**9),
}

_SCALES = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9}
_BINARY_SCALES = {"Ki": 10, "Mi": 20, "Gi": 30}

RATE_UNITS: Mapping[str, Decimal] = {
    **{f"{p}{u}": Decimal(10**e) for p, e in _SCALES.items() for u in ("bit/s", "b/s", "bps")},
    **{f"{p}B/s": Decimal(8 * 10**e) for p, e in _SCALES.items()},
    **{f"{p}B/s": Decimal(8 * 2**e) for p, e in _BINARY_SCALES.items()},
}

SIZE_UNITS: Mapping[str, Decimal] = {
    **{f"{p}B": Decimal(10**e) for p, e in _SCALES.items()},
    **{f"{p}B": Decimal(2**e) for p, e in _BINARY_SCALES.items()},
    "byte": Decimal(1),
    "bytes": Decimal(1),
}

PERCENT_UNITS: Mapping[str, Decimal] = {"%": Decimal("0.01")}

PACKET_UNITS: Mapping[str, Decimal] = {"packet": Decimal(1), "packets": Decimal(1), "pkt": Decimal(1)}

FREQUENCY_UNITS: Mapping[str, Decimal] = {"MHz": Decimal(1), "GHz": Decimal(1000)}

_LARGEST = Decimal(2**63 - 1)
#: The largest number of characters of a number, and the largest exponent, that a quantity may have.
_MOST_DIGITS = 60
_MOST_EXPONENT = 4


class UnitError(ValueError):
    """A quantity that cannot be read. `hint` shows the correct form."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        self.hint = hint
        super().__init__(message)


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A kind of quantity, for messages.

    Attributes
    ----------
    noun
        "a time", "a rate", ...
    units
        The value of each unit in the plan's unit.
    example
        An example of such a value.
    suggest
        The unit to propose for a bare number.
    """

    noun: str
    units: Mapping[str, Decimal]
    example: str
    suggest: str


TIME = Quantity(noun="a time", units=TIME_UNITS, example="50 ms", suggest="ms")
RATE = Quantity(noun="a rate", units=RATE_UNITS, example="5 Mbit/s", suggest="Mbit/s")
SIZE = Quantity(noun="a size", units=SIZE_UNITS, example="6 MiB", suggest="B")
PERCENT = Quantity(noun="a percentage", units=PERCENT_UNITS, example="0.5 %", suggest="%")
PICTURES = Quantity(
    noun="a number of pictures",
    units={"picture": Decimal(1), "pictures": Decimal(1)},
    example="0.5 pictures",
    suggest="pictures",
)
DECIBEL = Quantity(noun="a ratio in decibels", units={"dB": Decimal(1)}, example="30 dB", suggest="dB")
WIDTH = Quantity(noun="a channel width", units=FREQUENCY_UNITS, example="80 MHz", suggest="MHz")
QUEUE = Quantity(
    noun="a queue length",
    units={**PACKET_UNITS, **SIZE_UNITS},
    example="100 packets",
    suggest="packets",
)


def _bare(value: float | str, quantity: Quantity) -> UnitError:
    """Return the error for a number without a unit."""
    given, number = str(value).strip(), _float(value)
    if len(given) > _MOST_DIGITS or not math.isfinite(number):
        message = f"expected {quantity.noun}, got {shown(given)}"
        return UnitError(message, hint=f'write for example "{quantity.example}"')
    if number < 0:
        message = f"{quantity.noun} must not be negative: {given}"
        return UnitError(message, hint=f'write for example "{quantity.example}"')
    hint = f'add a unit: {given} -> "{given} {quantity.suggest}"'
    if quantity is PERCENT and 0 < number < 1:
        hint += f', or "{number * 100:g} %" if a share is meant'
    return UnitError(f"a bare number where {quantity.noun} is required: {given}", hint=hint)


def _float(bare: float | str) -> float:
    """Return a number without a unit, which may have underscores and white space that `float` refuses."""
    return float(str(bare).strip().replace("_", ""))


def _terms(value: object, quantity: Quantity) -> list[tuple[Decimal, str]]:
    """Split a value into (number, unit) terms.

    Raises
    ------
    UnitError
        If the value is not a string, or a part of it is not a number with a known unit.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        message = f"expected {quantity.noun}, got {shown(value)}"
        raise UnitError(message, hint=f'write for example "{quantity.example}"')
    if isinstance(value, int | float) or _NUMBER.fullmatch(value):
        raise _bare(value, quantity)
    terms, position = [], 0
    while position < len(value):
        match = _TERM.match(value, position)
        if match is None:
            message = f"cannot read {quantity.noun}: {shown(value)}"
            raise UnitError(message, hint=f'write for example "{quantity.example}"')
        number, unit = match.groups()
        worth = _decimal(number, quantity, value)
        if unit == ",":
            message = f"a comma in {quantity.noun}: {shown(value)}"
            point, none = value.replace(",", "."), value.replace(",", "")
            hint = f'write decimals with a point, "{point}", and thousands without one, "{none}"'
            raise UnitError(message, hint=hint)
        if unit not in quantity.units:
            message = f"unknown unit {shown(unit)} for {quantity.noun}: {shown(value)}"
            raise UnitError(message, hint=_unit_hint(number.lstrip("+- "), unit, quantity))
        terms.append((worth, unit))
        position = match.end()
    if not terms:
        message = f"expected {quantity.noun}, got an empty string"
        raise UnitError(message, hint=f'write for example "{quantity.example}"')
    return terms


def _decimal(number: str, quantity: Quantity, value: object) -> Decimal:
    """Return a number, refusing one with more digits or a larger exponent than any quantity has."""
    exponent = number.lower().partition("e")[2].lstrip("+-")
    if len(number) > _MOST_DIGITS or len(exponent) > _MOST_EXPONENT:
        message = f"{quantity.noun} with more digits than it can have: {shown(value)}"
        raise UnitError(message, hint=f'write for example "{quantity.example}"')
    return Decimal(number.replace("_", "").replace(" ", ""))


#: A rate or an amount of data as people may write it: scale, bits or bytes, and over which time.
_DATA = re.compile(
    r"(?P<scale>ki|mi|gi|kilo|mega|giga|[kmgt])?(?P<what>bits?|bytes?|octets?|[bo])"
    r"(?P<per>/s|ps|/sec|/second|persecond)?",
    re.IGNORECASE,
)
_WORDS = {"kilo": "k", "mega": "M", "giga": "G", "ki": "Ki", "mi": "Mi", "gi": "Gi"}
#: Other words for time units, in lower case and without a plural s.
_TIMES = {
    "sec": "s", "second": "s", "msec": "ms", "millisecond": "ms", "usec": "us", "microsecond": "us",
    "\N{GREEK SMALL LETTER MU}": "us", "nsec": "ns", "nanosecond": "ns",
    "minute": "min", "hour": "h", "hr": "h",
}  # fmt: skip


def _unit_hint(number: str, unit: str, quantity: Quantity) -> str:
    """Return the hint for an unknown unit. If bits and bytes may be confused, it has both."""
    data = _DATA.fullmatch(unit)
    if data is not None and quantity in (RATE, SIZE, QUEUE):
        return _data_hint(number, data, quantity)
    if quantity is TIME and unit in ("m", "M"):
        return f'"{number} min" is minutes, "{number} ms" milliseconds'
    if quantity is TIME and unit.lower().removesuffix("s") in _TIMES:
        return f'write "{number} {_TIMES[unit.lower().removesuffix("s")]}"'
    return did_you_mean(unit, quantity.units)


def _data_hint(number: str, data: re.Match[str], quantity: Quantity) -> str:
    """Return the correct form for an amount of data: bits for a rate, bytes for a size."""
    given = (data["scale"] or "").lower()
    number = number.replace("_", "").replace(" ", "")
    tera = given == "t"
    if tera:
        number, given = _digits(Decimal(number) * 1000), "g"
    scale = _WORDS.get(given, given if given in ("", "k") else given.upper())
    in_bytes = data["what"] == "B" or data["what"].lower()[:2] in ("by", "oc", "o")
    worth = 2 ** _BINARY_SCALES[scale] if scale in _BINARY_SCALES else 10 ** _SCALES[scale]
    bits = Decimal(number) * worth * (8 if in_bytes else 1)
    as_bytes = f'"{number} {scale}B{"/s" if quantity is RATE else ""}"'
    if quantity is not RATE:
        as_bits = f'a byte is 8 bits: write "{_scaled(bits / 8)}B", or {as_bytes} if bytes are meant'
        return f"write {as_bytes}" if in_bytes else as_bits
    meant = f'"{_scaled(bits)}bit/s"'
    if in_bytes:
        return f"a byte is 8 bits: write {meant}, or {as_bytes}"
    # In lower case alone, as in `5 mb/s`, the unit may mean bits or bytes.
    unsure = data["what"] == "b" and data["scale"] in ("m", "g") and data["per"] != "ps"
    if unsure:
        return f"write {meant} if bits are meant, {as_bytes} if bytes"
    same = f"{scale}bit/s"
    return f"did you mean `{same}`?" if same in RATE_UNITS and not tera else f"write {meant}"


def _scaled(number: Decimal) -> str:
    """Return a number with all its digits and a suitable scale prefix for the unit."""
    scale, exponent = next(
        (scale, exponent)
        for scale, exponent in (("G", 9), ("M", 6), ("k", 3), ("", 0))
        if number >= 10**exponent or not exponent
    )
    return f"{_digits(number / 10**exponent)} {scale}"


def _digits(number: Decimal) -> str:
    """Return a number without an exponent and without trailing zeros."""
    return trimmed(f"{number:f}")


def _total(value: object, quantity: Quantity) -> Decimal:
    """Return the sum of a value's terms in the plan's unit.

    Negative and absurdly large values are refused.
    """
    terms = _terms(value, quantity)
    if len(terms) > 1 and quantity is not TIME:
        message = f"cannot read {quantity.noun}: {shown(value)}"
        raise UnitError(message, hint=f'write for example "{quantity.example}"')
    if any(number < 0 for number, _ in terms):
        message = f"{quantity.noun} must not be negative: {shown(value)}"
        raise UnitError(message)
    total = sum((number * quantity.units[unit] for number, unit in terms), Decimal(0))
    if total > _LARGEST:
        message = f"{quantity.noun} is too large: {shown(value)}"
        raise UnitError(message)
    return total


def time_ns(value: object) -> int:
    """Return a time in nanoseconds; "10 min 24 s" may have several terms."""
    return int(_total(value, TIME).to_integral_value())


def positive_time_ns(value: object) -> int:
    """Return a time above zero in nanoseconds."""
    return _positive_total(value, TIME, "a time")


def rate_bps(value: object) -> int | None:
    """Return a rate above zero in bits per second; "unlimited" is None."""
    if value == "unlimited":
        return None
    return _positive_total(value, RATE, "a rate")


def limited_rate_bps(value: object) -> int:
    """Return a rate above zero in bits per second."""
    return _positive_total(value, RATE, "a rate")


def size_bytes(value: object) -> int:
    """Return a size above zero in bytes."""
    return _positive_total(value, SIZE, "a size")


def fraction(value: object) -> float:
    """Return a percentage as a fraction between 0 and 1."""
    share = _total(value, PERCENT)
    if share > 1:
        message = f"a percentage must not be above 100 %: {shown(value)}"
        raise UnitError(message)
    return float(share)


def pictures(value: object) -> float:
    """Return a number of picture periods, which need not be whole."""
    return float(_total(value, PICTURES))


def decibels(value: object) -> float:
    """Return a ratio of at least 1 in decibels."""
    return float(_total(value, DECIBEL))


def width_mhz(value: object) -> int:
    """Return a channel's width in MHz."""
    return _positive_total(value, WIDTH, "a channel width")


def queue(value: object) -> dict[str, int] | None:
    """Return a queue's limit as `{"packets": n}` or `{"bytes": n}`; "unlimited" is None."""
    if value == "unlimited":
        return None
    count = _positive_total(value, QUEUE, "a queue")
    unit = _terms(value, QUEUE)[0][1]
    return {"packets" if unit in PACKET_UNITS else "bytes": count}


def _positive_total(value: object, quantity: Quantity, noun: str) -> int:
    """Return a total as a whole number above zero.

    For a zero without a unit, the error does not ask for a unit.
    """
    if _is_bare_zero(value):
        _positive(0, noun, value)
    return _positive(int(_total(value, quantity).to_integral_value()), noun, value)


def _is_bare_zero(value: object) -> bool:
    """Return whether a value is zero, as a number or as text, without a unit."""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or len(str(value)) > _MOST_DIGITS:
        return False
    return (not isinstance(value, str) or bool(_NUMBER.fullmatch(value))) and not _float(value)


def _positive(number: int, noun: str, value: object) -> int:
    """Return `number`, refusing zero."""
    if number <= 0:
        message = f"{noun} must be more than zero: {shown(value)}"
        raise UnitError(message)
    return number


def show_time(ns: int) -> str:
    """Return a time in a readable unit."""
    for unit in ("min", "s", "ms", "us"):
        worth = int(TIME_UNITS[unit])
        if ns and ns % worth == 0 and (unit != "min" or ns >= 2 * worth):
            return f"{ns // worth} {unit}"
    return f"{ns} ns" if ns else "0 s"


def show_rate(bps: int | None) -> str:
    """Return a rate in a readable unit."""
    if bps is None:
        return "unlimited"
    for unit in ("Gbit/s", "Mbit/s", "kbit/s"):
        worth = int(RATE_UNITS[unit])
        if bps >= worth:
            return f"{bps / worth:g} {unit}"
    return f"{bps} bit/s"
