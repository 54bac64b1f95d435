"""`--grid KEY=VALUE,VALUE`: the axes of a sweep."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

from anabranch._numbers import argument
from anabranch.errors import Fault
from anabranch.scenario._overrides import parse_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: The label of an axis' value in results.
Label = str | bool

_OPEN, _CLOSE = "([{", ")]}"


@dataclass(frozen=True, kw_only=True)
class Axis:
    """A key and its values.

    Attributes
    ----------
    key
        Dotted path of a scenario's key.
    values
        Raw values, as TOML would give them.
    texts
        The values as the user wrote them.
    origin
        How the person gave it, for messages.
    """

    key: str
    values: tuple[Any, ...]
    texts: tuple[str, ...]
    origin: str

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the values in results: flags if all are flags, else the texts."""
        flags = [value for value in self.values if isinstance(value, bool)]
        return tuple(flags) if len(flags) == len(self.values) else self.texts


def parse(text: str) -> Axis | Fault:
    """Read one `KEY=VALUE,VALUE` of the command line. Commas in brackets or quotes do not separate values."""
    key, equals, rest = text.partition("=")
    origin = f"--grid {text}"
    texts = tuple(part.strip() for part in split(rest)) if equals else ()
    if not key.strip() or not texts or not all(texts):
        return Fault(
            message=f"expected KEY=VALUE,VALUE: `{text}`",
            where=origin,
            hint="for example `--grid transport.scheduler=min-rtt,linux`",
        )
    twice = _twice(key.strip(), texts, origin)
    return axis(key.strip(), texts, origin=origin) if twice is None else twice


def given(key: str, values: Sequence[Any]) -> Axis | Fault:
    """Return the axis of values that a call in Python gives.

    A text is parsed as on the command line, so that both make the same runs. Numbers may be NumPy's.
    """
    from anabranch.plugins.cells import placed

    origin = f"grid[{key!r}]"
    if isinstance(values, str) or not len(values):
        hint = f"for example {{{key!r}: ['min-rtt', 'linux']}}"
        return Fault(message=f"expected a list of values: {values!r}", where=origin, hint=hint)
    plain = [placed(value.item() if _is_scalar(value) else value) for value in values]
    texts = tuple(map(_text, plain))
    twice = _twice(key, texts, origin)
    if twice is not None:
        return twice
    read = (parse_value(value) if isinstance(value, str) else value for value in plain)
    return Axis(key=key, values=tuple(read), texts=texts, origin=origin)


def _is_scalar(value: object) -> bool:
    """Return whether a value is a number of NumPy's."""
    return hasattr(value, "item") and not isinstance(value, type)


def _text(value: object) -> str:
    """Return a value as one writes it on a command line."""
    if isinstance(value, dict):
        from anabranch.plugins import label

        return label(value)
    return argument(value)


def _twice(key: str, texts: Sequence[str], origin: str) -> Fault | None:
    """Return the fault of a value that is there more than once."""
    twice = sorted({value for value in texts if texts.count(value) > 1})
    return Fault(message=f"given twice: `{twice[0]}`", where=origin, key=key) if twice else None


def axis(key: str, texts: Sequence[str], *, origin: str) -> Axis:
    """Return an axis of values as they were written."""
    return Axis(key=key, values=tuple(map(parse_value, texts)), texts=tuple(texts), origin=origin)


def split(text: str) -> list[str]:
    """Return the parts between commas, except for commas in brackets or quotes."""
    parts, start, depth, quote = [], 0, 0, ""
    for place, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE:
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def duplicates(axes: Sequence[Axis]) -> Iterator[Fault]:
    """Yield a fault for each axis whose key an earlier axis has."""
    seen: set[str] = set()
    for one in axes:
        if one.key in seen:
            yield Fault(message=f"given twice: `{one.key}`", where=one.origin)
        seen.add(one.key)


def points(axes: Sequence[Axis]) -> Iterator[tuple[tuple[Axis, int], ...]]:
    """Yield every combination as the index of each axis' value. The last axis changes fastest."""
    for places in product(*(range(len(one.values)) for one in axes)):
        yield tuple(zip(axes, places, strict=True))
