"""Plain values of the command line, which need no validator.

The library builds a pydantic validator for each parameter of a command, which takes longer than many commands
do. This module builds no validator for missing values, text, and whole numbers in their usual form. All other
values are checked, and refused, by the library.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_WHOLE = re.compile(r"-?[1-9][0-9]{0,17}|0", re.ASCII)
#: Returned for a value that the library must check.
_UNJUDGED = object()


def lighten(command: Any) -> None:  # noqa: ANN401 - the library has its own copy of click's classes
    """Make a command and its subcommands take plain values without a validator.

    Parameters
    ----------
    command
        A command or a group. Parameters without a validator do not change.
    """
    listed = command.get_params

    def get_params(context: Any) -> list[Any]:  # noqa: ANN401 - as above
        """Return the parameters; the library adds `--help` in this call."""
        return [_light(one) for one in listed(context)]

    command.get_params = get_params
    for below in getattr(command, "commands", {}).values():
        lighten(below)


def _light(parameter: Any) -> Any:  # noqa: ANN401 - as above
    """Return a parameter that builds a validator only for values that the library must check."""
    build = getattr(parameter, "get_runtime_param", None)
    if build is not None and not isinstance(getattr(build, "__self__", None), _Light):
        parameter.get_runtime_param = _Light(build).itself
    return parameter


class _Light:
    """A type that converts plain values, and leaves all others to the library."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self._build = build

    def itself(self) -> _Light:
        """Return what the library asks to take a value."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # noqa: ANN401 - as the library has it
        """Convert a value to the form that the command receives."""
        taken = plain(value, param)
        return self._build().coerce(value, param=param, ctx=ctx) if taken is _UNJUDGED else taken


def plain(value: Any, param: Any) -> Any:  # noqa: ANN401 - as above
    """Convert a plain value as the library would, or return `_UNJUDGED` if the library must check it."""
    described = param.type_descriptor
    kind, declared = described.annotation, described.parameter_info
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    if declared.parser is not None or declared.clamp:
        return _UNJUDGED
    if kind is str and type(value) is str:
        return value
    if kind == list[str] and type(value) in (list, tuple) and all(type(one) is str for one in value):
        return list(value)
    if kind is int and type(value) is str and _WHOLE.fullmatch(value):
        value = int(value)
    if kind is int and type(value) is int and _inside(value, declared.min, declared.max):
        return value
    return _UNJUDGED


def _inside(value: int, least: float | None, most: float | None) -> bool:
    """Return whether a number is inside its bounds."""
    return (least is None or value >= least) and (most is None or value <= most)
