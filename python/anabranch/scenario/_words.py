"""Messages about wrong values, one for each kind of error that pydantic reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import shown
from anabranch.scenario import units

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The expected kind of value, by the kind of error.
EXPECTED = {
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a string",
    "string_unicode": "a string of Unicode",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "tuple_type": "an array",
    "list_type": "an array",
    "dict_type": "a table",
    "mapping_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}

#: The words for a bound of a number, and pydantic's name for it.
_BOUNDS = {
    "greater_than_equal": ("at least", "ge"),
    "greater_than": ("above", "gt"),
    "less_than_equal": ("at most", "le"),
    "less_than": ("below", "lt"),
}


def message(kind: str, value: object, context: Mapping[str, Any]) -> str:
    """Return a message about a wrong value.

    Parameters
    ----------
    kind
        The error's type as pydantic names it.
    value
        The raw value.
    context
        pydantic's context: bounds and lengths.
    """
    if kind in EXPECTED:
        return f"expected {EXPECTED[kind]}, got {shown(value)}"
    if kind in _BOUNDS:
        word, name = _BOUNDS[kind]
        return f"must be {word} {_bound(value, context[name])}: {shown(value)}"
    if kind == "string_too_short":
        return "an empty string where a name is required"
    if kind == "string_too_long":
        return f"longer than {context['max_length']} characters: {shown(value)}"
    if kind == "string_pattern_mismatch":
        return f"a line break, a tab or another control character in a name: {shown(value)}"
    if kind == "too_short":
        return f"at least {context['min_length']} needed, got {context['actual_length']}"
    if kind == "too_long":
        return f"at most {context['max_length']} allowed, got {context['actual_length']}"
    return f"not a value of this key: {shown(value)}"


def _bound(value: object, bound: float) -> str:
    """Return a bound in the unit in which the value was given."""
    unit = str(value).strip("+-.eE_0123456789 \t") if isinstance(value, str) else ""
    if unit in units.TIME_UNITS:
        return units.show_time(int(bound))
    if unit in units.PERCENT_UNITS:
        return f"{100 * bound:g} %"
    plain = f"{bound:,}" if isinstance(bound, int) else f"{bound:g}"
    return f"{plain} B" if unit in units.SIZE_UNITS else plain
