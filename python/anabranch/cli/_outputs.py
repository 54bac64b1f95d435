"""Checks of output files before any work is done.

An output has an ending that fits its kind, so it does not replace a file of another kind. It never replaces
an input of the command or a file that belongs to a folder of results.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import Fault, shown
from anabranch.traces._facts import FILE_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from anabranch.scenario.load import Loaded

#: An output file, and the option or word that names it in messages.
Named = tuple[Path, str]

_PAGE = (".html", ".htm")
#: The endings that an output may have, by its option.
_ENDINGS: Mapping[str, Sequence[str]] = {
    "--report": _PAGE,
    "--out": _PAGE,
    "--pcapng": (".pcapng", ".pcap"),
    "--scenario": (".toml",),
    "--samples": (".csv",),
    "--p1203": (".json",),
    "--cmcd": (".json", ".jsonl", ".txt", ".log"),
    "--docs": (".md",),
}
#: The files that a folder of results consists of; each folder has the first.
_OF_RESULTS = ("manifest.json", "SHA256SUMS", "*.parquet", "*.jsonl", "cost.json")


def unwritable(path: Path, option: str) -> Fault | None:
    """Return what is wrong with a file to be written, before any work is done for it."""
    try:
        if path.is_dir():
            return Fault(message=f"a folder, not a file: `{path}`", where=option)
        if not path.resolve().parent.is_dir():
            return Fault(message=f"no such folder: `{path.parent}`", where=option, hint="make it first")
        if not os.access(path if path.exists() else path.resolve().parent, os.W_OK):
            return Fault(message=f"no permission to write: `{path}`", where=option)
        if path.exists() and not path.is_file():
            return None  # a device, such as /dev/null
        found = _unfit(path, option) or _of_results(path, option)
    except (OSError, ValueError, RuntimeError) as error:
        # Names that are too long or contain a NUL, or links in a ring.
        reason = getattr(error, "strerror", None) or "not the name of a file"
        return Fault(message=f"cannot write a file of that name: {reason}: {shown(path)}", where=option)
    return found


def _unfit(path: Path, option: str) -> Fault | None:
    """Return the fault of an ending that outputs of an option do not have."""
    endings = _ENDINGS.get(option, ())
    if not endings or path.suffix.lower() in endings:
        return None
    hint = f"the name ends in {' or '.join(endings)}"
    return Fault(message=f"not a name for this output: `{path}`", where=option, hint=hint)


def _of_results(path: Path, option: str) -> Fault | None:
    """Return the fault of an output that would replace a file of a folder of results."""
    folder = path.resolve().parent
    if not (folder / _OF_RESULTS[0]).is_file() or not any(map(path.match, _OF_RESULTS)):
        return None
    message = f"would be written over a file of a folder of results: `{path}`"
    return Fault(message=message, where=option, hint="name another file")


def exists(path: Path, *, force: bool) -> Fault | None:
    """Return the fault of an existing file that would be overwritten without `--force`."""
    if force or not path.exists():
        return None
    return Fault(message=f"the file exists: `{path}`", hint="--force overwrites it")


def twice(outputs: Sequence[Named]) -> list[Fault]:
    """Return a fault for each output that is also named before; devices may be named repeatedly."""
    return [
        Fault(message=f"two outputs into one file: `{path}`", where=f"{before}, {option}")
        for place, (path, option) in enumerate(outputs)
        for other, before in outputs[:place]
        if _same(path, other)
    ]


def over_inputs(outputs: Iterable[Named], inputs: Iterable[Named]) -> list[Fault]:
    """Return a fault for each output that would be written over an input."""
    written = list(outputs)
    if not written:
        return []  # without finding the inputs, which takes time
    read = list(inputs)
    faults = []
    for path, option in written:
        what = next((what for other, what in read if _same(path, other)), None)
        if what is not None:
            message = f"would be written over {what}: `{path}`"
            faults.append(Fault(message=message, where=option, hint="name another file"))
    return faults


def inputs(loaded: Loaded, scenario: str) -> Iterator[Named]:
    """Return every file that a scenario is read from.

    Parameters
    ----------
    loaded
        The scenario.
    scenario
        The scenario as the user named it.
    """
    from anabranch.media import films, ladders
    from anabranch.play import is_link
    from anabranch.scenario import _follow, shipped

    if not is_link(scenario):
        path = shipped.resolve(scenario)
        if path != shipped.STDIN:
            yield path, "the scenario"
    application = loaded.scenario.application
    for name, known, locate, what in (
        (application.film, films.NAMED, films.locate, "the film"),
        (application.ladder_name, ladders.NAMED, films.locate, "the ladder"),
    ):
        found = locate(name, loaded.folders) if name is not None and name not in known else None
        if found is not None:
            yield found, what
    for _, table in _follow.places(loaded.scenario.model_dump(mode="json")):
        trace = table.get("trace")
        if isinstance(trace, dict):
            for file in filter(None, (trace[key] for key in FILE_KEYS)):
                yield Path(file), "a recording that the scenario follows"
    for named in loaded.plugins.values():
        for plugged in named.values():
            for file in plugged.source.files:
                yield plugged.source.root / file, f"the plug-in {plugged.name}"


def _same(one: Path, other: Path) -> bool:
    """Return whether two names are the same file, which need not exist yet.

    Devices and other non-files never count as the same.
    """
    try:
        if one.exists() and other.exists():
            return one.is_file() and one.samefile(other)
        return one.resolve() == other.resolve()
    except (OSError, ValueError, RuntimeError):
        return False
