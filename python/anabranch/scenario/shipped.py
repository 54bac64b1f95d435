"""Scenarios by name: those in a folder `scenarios` here or above, then those of the program."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

from anabranch import _files
from anabranch.errors import Fault, ScenarioError, did_you_mean, nearest_file

#: The scenarios of the installed program (in a checkout, a link to its `scenarios` folder).
_PACKAGED = Path(__file__).resolve().parent.parent / "_scenarios"


#: The hint with the command that lists the names.
_SHOWN = "`anabranch list scenarios` shows all"
#: The name of stdin in place of a file.
STDIN = Path("-")


@cache
def stdin() -> bytes:
    """Read all of stdin. Later calls return the same data.

    Raises
    ------
    OSError
        When it cannot be read, or is closed.
    """
    if sys.stdin is None:
        message = "stdin is closed"
        raise OSError(message)
    return sys.stdin.buffer.read()


def folders() -> list[Path]:
    """Return the folders with named scenarios, nearest first."""
    here = Path.cwd()
    found = [folder / "scenarios" for folder in (here, *here.parents)]
    unique: dict[Path, None] = {}
    for folder in [*found, _PACKAGED]:
        if _files.is_folder(folder):
            unique.setdefault(folder.resolve())
    return list(unique)


def files() -> dict[str, Path]:
    """Return every named scenario. If a name occurs twice, the nearer folder's is used."""
    result: dict[str, Path] = {}
    for folder in folders():
        for path in sorted(folder.glob("*.toml")):
            result.setdefault(path.stem, path)
    return dict(sorted(result.items()))


def names() -> list[str]:
    """Return the names of all scenarios."""
    return list(files())


def resolve(scenario: str | Path) -> Path:
    """Return the file of a scenario given by path or by name; `-` is stdin.

    Raises
    ------
    ScenarioError
        If there is neither such a file nor such a name.
    """
    if str(scenario) == str(STDIN):
        return STDIN
    if not str(scenario).strip():
        raise ScenarioError([Fault(message="an empty name where a scenario is required", hint=_SHOWN)])
    path = Path(scenario)
    path = path.absolute() if path == STDIN else path  # `./-` is a file
    if _files.is_file(path):
        return path
    if _files.is_folder(path):
        raise ScenarioError([Fault(message=f"a scenario is a file, not a folder: `{scenario}`")])
    if _files.is_device(path):
        message = f"a scenario is a file, not a device or a pipe: `{scenario}`"
        raise ScenarioError([Fault(message=message, hint="- reads it from stdin")])
    if _files.is_ring(path):
        raise ScenarioError([Fault(message=f"symbolic links in a ring: `{scenario}`", hint=_SHOWN)])
    name = str(scenario)
    known = files()
    if name in known:
        return known[name]
    near = path.suffix and _files.is_folder(path.parent)
    beside = [str(file) for file in sorted(path.parent.glob("*.toml"))] if near else []
    hint = did_you_mean(name, [*known, *beside], otherwise=_SHOWN, close_to=nearest_file)
    raise ScenarioError([Fault(message=f"no such scenario: `{scenario}`", hint=hint)])


def display(path: Path) -> str:
    """Return a file's path in its shortest form."""
    if path == STDIN:
        return "stdin"
    absolute = path.resolve()
    here = Path.cwd()
    return str(absolute.relative_to(here)) if absolute.is_relative_to(here) else str(path)


def description(path: Path) -> str:
    """Return the description in a scenario file; empty for a file that is not TOML."""
    import tomllib

    try:
        value = tomllib.loads(path.read_text(encoding="utf-8-sig")).get("description", "")
    except (OSError, ValueError):
        return "(not a valid scenario file)"
    return value if isinstance(value, str) else ""
