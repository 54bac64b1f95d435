"""Reading and validating a scenario from a file, a name or a dict, with all faults at once."""

from __future__ import annotations

import copy
import tomllib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from anabranch import _files
from anabranch.errors import Fault, ScenarioError
from anabranch.plugins.load import Finder
from anabranch.scenario import _cross, _doubts, _faults, _follow, _overrides, shipped
from anabranch.scenario._lines import key_lines
from anabranch.scenario.models import Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.plugins import Kind
    from anabranch.plugins.load import Plugged
    from anabranch.scenario._lines import KeyPath
    from anabranch.scenario._overrides import Override

#: The largest scenario file that is read, bytes: more than any scenario needs.
_LARGEST = 16 * 2**20


@dataclass(frozen=True, kw_only=True)
class Loaded:
    """A validated scenario and its source.

    Attributes
    ----------
    scenario
        The values.
    source
        The source of each key, for faults that are found later (for example a film that cannot be read).
    folders
        Folders in which the relative path of a film or ladder is looked up, in order.
    plugins
        The classes in Python that it names, by kind and name.
    warnings
        Warnings about its recordings and ladder, which do not prevent a run.
    """

    scenario: Scenario
    source: _faults.Source
    folders: tuple[Path, ...]
    plugins: Mapping[Kind, Mapping[str, Plugged]] = field(default_factory=dict)
    warnings: tuple[Fault, ...] = ()

    def sources(self) -> dict[str, str]:
        """Return the hash of the sources of each class in Python, by its name."""
        return {
            name: plugged.source.digest
            for kind in sorted(self.plugins)
            for name, plugged in sorted(self.plugins[kind].items())
        }


def load(
    scenario: str | Path | Mapping[str, Any],
    overrides: Sequence[Override | Fault] = (),
    *,
    folder: Path | None = None,
) -> Loaded:
    """Read and validate a scenario.

    Parameters
    ----------
    scenario
        The path of a TOML file, the name of a scenario that comes with the program, or the tables themselves.
    overrides
        Overrides of keys. Their faults are reported with all others.
    folder
        The base of relative paths in tables; None is the working directory.

    Returns
    -------
    Loaded

    Raises
    ------
    ScenarioError
        With every fault found.
    """
    if isinstance(scenario, str | Path):
        path = shipped.resolve(scenario)
        where, folder = shipped.display(path), path.parent
        raw, lines = read(path, where)
        if not raw:
            hint = "`anabranch init FILE` writes one to start from"
            raise ScenarioError([Fault(message="the scenario is empty", where=where, hint=hint)])
    else:
        where, raw, lines = "scenario", dict(scenario), {}
        folder = folder or Path.cwd()
    valid = [override for override in overrides if not isinstance(override, Fault)]
    faults = [override for override in overrides if isinstance(override, Fault)]
    applied = _overrides.apply(raw, valid)
    source = _faults.Source(where=where, raw=applied.raw, lines=lines, origins=applied.origins)
    faults += applied.faults
    finder = Finder(folder)
    told = any(("application", key) in applied.origins for key in ("film", "ladder"))
    folders = (Path.cwd(), folder) if told else (folder,)
    # A recording given on the command line is looked up in the working directory first, like a film.
    overridden = any("trace" in key for key in applied.origins)
    warnings: list[Fault] = []
    beside = (Path.cwd(), folder) if overridden else (folder,)
    located, trace_faults = _follow.locate(source, beside, warnings)
    faults += trace_faults
    value = _validate(source, located, faults, finder)
    warnings += _doubts.warnings(source)
    from anabranch.media.films import check_film

    film_fault = check_film(source, folders)
    if film_fault is not None:
        faults.append(film_fault)
    application = source.raw.get("application")
    if isinstance(application, dict) and "ladder" in application:
        from anabranch.media.ladders import check_ladder

        faults += check_ladder(source, folders, warnings)
    if faults or value is None:
        raise ScenarioError(sorted(_faults.without_misspelt(faults), key=source.order))
    return Loaded(
        scenario=value, source=source, folders=folders, plugins=finder.found, warnings=tuple(warnings)
    )


def tables(path: Path) -> dict[str, Any]:
    """Return the raw tables of a scenario's file.

    Raises
    ------
    ScenarioError
        When the file cannot be read.
    """
    return read(path, shipped.display(path))[0]


def read(path: Path, where: str, *, what: str = "scenario") -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Return a file's tables and the line of each key.

    Parameters
    ----------
    path
        The file; `-` is stdin.
    where
        How messages name it.
    what
        The expected kind of file.

    Raises
    ------
    ScenarioError
        If it cannot be read, is not text or is not TOML.
    """
    try:
        data = shipped.stdin() if path == shipped.STDIN else _files.content(path, _LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ScenarioError([Fault(message=f"cannot read the {what}: {reason}", where=where)]) from None
    try:
        # Editors on Windows begin a file with a byte order mark and end its lines in CR LF.
        text = data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        fault = Fault(message="not UTF-8 text", where=where, line=line, hint=f"is this a {what} file?")
        raise ScenarioError([fault]) from None
    try:
        tables, lines = _parsed(text)
        # The caller may change the result, so it is a copy.
        return copy.deepcopy(tables), dict(lines)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError([_syntax_fault(text, str(error), where)]) from None
    except RecursionError:
        raise ScenarioError([Fault(message="tables are nested too deeply", where=where)]) from None
    except ValueError:
        # Python does not read numbers of more than 4300 digits.
        raise ScenarioError([Fault(message="a number of thousands of digits", where=where)]) from None


@lru_cache(maxsize=32)
def _parsed(text: str) -> tuple[dict[str, Any], dict[KeyPath, int]]:
    """Parse a text into its tables and the line of each key.

    The result is cached, because a sweep reads one file for each of its cells.
    """
    return tomllib.loads(text), key_lines(text)


def _syntax_fault(text: str, message: str, where: str) -> Fault:
    """Return the fault of a text that is no TOML, with line and column."""
    import re

    match = re.search(r"\(at line (\d+), column (\d+)\)", message)
    what = message[: match.start()].strip() if match else message.removesuffix("(at end of document)").strip()
    line = int(match.group(1)) if match else text.count("\n") + 1
    column = f", column {match.group(2)}" if match else ""
    shown = text.splitlines()[line - 1].strip() if line <= len(text.splitlines()) else ""
    hint = f"the line is: {shown}" if shown else "the file ends early"
    if what == "Cannot overwrite a value":
        what, hint = "a key or table is given twice", f"the second time: {shown}"
    message = f"not valid TOML{column}: {what[:1].lower()}{what[1:]}"
    return Fault(message=message, where=where, line=line, hint=hint)


def _validate(
    source: _faults.Source, raw: dict[str, Any], faults: list[Fault], finder: Finder
) -> Scenario | None:
    """Return the scenario of the tables with full paths, or None and the faults."""
    value = None
    try:
        value = Scenario.model_validate(raw)
    except ValidationError as error:
        found = (_faults.from_pydantic(source, detail) for detail in error.errors(include_url=False))
        faults += [fault for fault in found if fault is not None]
    faults += _cross.check(source, finder)
    return value
