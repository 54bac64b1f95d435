"""The exceptions of the package, as one family.

AnabranchError
├── InputError            a person's input is at fault; carries every `Fault` found (exit code 2)
│   ├── ScenarioError     a scenario, an override or a plug-in name
│   └── MediaError        a film: missing, unreadable, truncated
├── PluginError           a plug-in in Python raised; `anabranch.run` raises that itself (exit code 2)
├── MissingError          this host lacks something that the request needs (exit code 4)
└── DefectError           the simulator broke one of its own rules: a defect of the program (exit code 70)
"""

from __future__ import annotations

import difflib
import traceback
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

#: The most characters of a value that messages show.
_MOST_SHOWN = 60


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A fault of an input.

    Attributes
    ----------
    message
        The fault: lower case, no full stop, ending in the value if there is one.
    where
        The file or the command-line option with the value.
    line
        Line in that file, from 1.
    key
        Dotted key, with array elements by their name: `paths.wifi.rtt`.
    hint
        The way to fix it.
    """

    message: str
    where: str = ""
    line: int | None = None
    key: str = ""
    hint: str = ""

    def __str__(self) -> str:
        """Return the fault as a person reads it: message, place, key and hint."""
        return self.shown("error")

    def shown(self, kind: str) -> str:
        """Return the fault as text that begins with `kind`, such as `error` or `warning`."""
        place = self.where
        if self.line is not None:
            place = f"{place}, line {self.line}" if place else f"line {self.line}"
        lines = [f"{kind}: {self.message} ({place})" if place else f"{kind}: {self.message}"]
        if self.key:
            lines.append(f"  key: {self.key}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        # Names come from files. Control characters, which would move a terminal's cursor, are escaped.
        return "\n".join(line if line.isprintable() else escaped(line) for line in lines)

    def sentence(self) -> str:
        """Return the message with its place and hint in one line, for the notes of a run."""
        place = f" ({self.where})" if self.where else ""
        line = f"{self.message[:1].upper()}{self.message[1:]}{place}" + (
            f": {self.hint}" if self.hint else ""
        )
        return line if line.isprintable() else escaped(line)


class AnabranchError(Exception):
    """The root of the family."""


class InputError(AnabranchError):
    """A person's input is at fault.

    Parameters
    ----------
    faults
        Every fault found, in the order of the input.
    """

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n\n".join(str(fault) for fault in self.faults))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that make the error again in another process."""
        return type(self), (self.faults,)


class ScenarioError(InputError):
    """A scenario, or an override of it, is at fault."""


class MediaError(InputError):
    """A film is missing, unreadable or truncated."""


class PluginError(AnabranchError):
    """A plug-in that is written in Python raised an exception while it ran.

    Attributes
    ----------
    error
        The exception; None in another process than the one in which it was raised.

    Parameters
    ----------
    raised
        The exception, or its traceback as text.
    """

    def __init__(self, raised: BaseException | str) -> None:
        self.error = raised if isinstance(raised, BaseException) else None
        if isinstance(raised, BaseException):
            raised = _traceback(raised)
        super().__init__(raised)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that make the error again in another process."""
        return type(self), (str(self),)


class MissingError(AnabranchError):
    """Something that the request needs is missing on this host.

    Parameters
    ----------
    what
        The missing thing.
    hint
        How to get it.
    """

    def __init__(self, what: str, *, hint: str = "") -> None:
        self.fault = Fault(message=what, hint=hint)
        super().__init__(str(self.fault))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that make the error again in another process."""
        return partial(type(self), hint=self.fault.hint), (self.fault.message,)


class DefectError(AnabranchError):
    """The simulator broke one of its rules.

    Parameters
    ----------
    rule
        The checker's message.
    replay
        The inputs that reproduce it, in words.
    """

    def __init__(self, rule: str, *, replay: str) -> None:
        message = f"a defect of the simulator, not of the scenario: {rule}"
        self.fault = Fault(message=message, hint=f"please report it with {replay}")
        self._given = (rule, replay)
        super().__init__(str(self.fault))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the arguments that make the error again in another process."""
        rule, replay = self._given
        return partial(type(self), replay=replay), (rule,)


def _traceback(raised: BaseException) -> str:
    """Return an exception's traceback, and the nearest valid name if it asked a view for an unknown one."""
    text = "".join(traceback.format_exception(raised)).rstrip("\n")
    # Python names the nearest attribute itself from 3.12 on.
    if not isinstance(raised, AttributeError) or raised.name is None or "Did you mean" in text:
        return text
    if not type(raised.obj).__module__.startswith("anabranch."):
        return text
    hint = did_you_mean(raised.name, [name for name in dir(raised.obj) if not name.startswith("_")])
    return f"{text}\n  hint: {hint}"


def escaped(text: str) -> str:
    """Return a text with invisible characters escaped."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def shown(value: object) -> str:
    """Return a value for messages: in backquotes, and shortened if it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "an array"
    text = escaped(str(value))
    return f"`{text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 1] + '…'}`"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the valid name that is closest to `name`, or None when none is close."""
    return _closest(name, {one: one for one in names})


def nearest_file(name: str, names: Iterable[str]) -> str | None:
    """Return the file name that is closest to `name`, or None when none is close.

    A folder and an ending that both have, as in `runs/a.toml`, do not make two file names close.
    """
    place = PurePath(name)
    folder, ending = name.removesuffix(place.name), place.suffix
    return _closest(place.stem, {one: one.removeprefix(folder).removesuffix(ending) for one in names})


def _closest(name: str, compared: Mapping[str, str]) -> str | None:
    """Return the key whose value is closest to `name`, whatever the case, or None when none is close."""
    lowered = {text.lower(): key for key, text in sorted(compared.items())}
    # A name without its unit, as `price` for `price_per_gb`, is closer than its letters show.
    longer = [text for text in lowered if text.startswith(f"{name.lower()}_")] if name else []
    if len(longer) == 1 and name.lower() not in lowered:
        return lowered[longer[0]]
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else None


def did_you_mean(
    name: str,
    names: Iterable[str],
    *,
    otherwise: str = "",
    close_to: Callable[[str, Iterable[str]], str | None] = nearest,
) -> str:
    """Return the hint for an unknown name: the nearest valid one, and where to see all.

    Parameters
    ----------
    name
        The unknown name.
    names
        The valid names.
    otherwise
        Where to see all; the names themselves unless given.
    close_to
        The comparison: `nearest`, or `nearest_file` for names of files.
    """
    valid = sorted(set(names))
    close = close_to(name, valid)
    if close is not None:
        return f"did you mean `{close}`?" + (f" {otherwise}" if otherwise else "")
    return otherwise or "valid: " + ", ".join(f"`{candidate}`" for candidate in valid)
