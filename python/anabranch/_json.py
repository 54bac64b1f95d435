"""The JSON text of plans.

A film or ladder is by far the largest part of a plan, and all runs of a cell share it, so it is encoded once.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The parts of a plan whose text is kept.
_LARGE = ("film", "ladder")
#: The kept texts by the identity of their object. An entry holds the object, so that its identity stays its
#: own.
_TEXTS: OrderedDict[int, tuple[object, str]] = OrderedDict()
_MOST_TEXTS = 64


def of_plan(plan: Mapping[str, Any], *, allow_nan: bool = True) -> str:
    """Return a plan as JSON text without spaces and with sorted keys: equal plans give equal texts.

    A film or ladder that was encoded before must not have been changed since. A changed copy is safe.

    Raises
    ------
    ValueError
        If a number is not finite and `allow_nan` is False.
    """
    rest = {key: value for key, value in plan.items() if key not in _LARGE}
    texts = {key: _large(plan[key]) for key in _LARGE if key in plan}
    texts |= {key: text(value, allow_nan=allow_nan) for key, value in rest.items()}
    return "{" + ",".join(f"{json.dumps(key)}:{texts[key]}" for key in sorted(texts)) + "}"


def text(value: object, *, allow_nan: bool = True) -> str:
    """Return a value as JSON text without spaces and with sorted keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=allow_nan)


def _large(value: object) -> str:
    """Return the text of a film or ladder, encoded at its first use."""
    if value is None:
        return "null"
    kept = _TEXTS.get(id(value))
    if kept is None:
        kept = _TEXTS[id(value)] = (value, text(value, allow_nan=False))
        while len(_TEXTS) > _MOST_TEXTS:
            _TEXTS.popitem(last=False)
    return kept[1]
