"""The manifest of a folder of results: the cells of its last sweep, those of earlier sweeps, and checksums.

A cell of the manifest is an *entry*. It has the labels of its results (`labels`), the changes to its scenario
(`settings`), the files that its runs depend on (`inputs`), and the hash of its plan. `cells` has the entries
of the last sweep. `earlier` has the entries of former sweeps whose runs are kept. The file contains its own
checksum.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import Fault, InputError
from anabranch.results import sealed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

#: The version of the folder's format. A folder of version 2 is read, and upgraded when runs are added.
FORMAT = 3
_UPGRADED = 2
MANIFEST = "manifest.json"


class DamagedError(InputError):
    """The manifest is damaged. A sweep into the folder writes it again."""


#: A manifest, or one of its entries.
Table = dict[str, Any]

_REPEAT = "repeat the command that made the folder: it writes the manifest again"


def text(found: Mapping[str, Any]) -> bytes:
    """Return the text of a manifest's file, with its checksum."""
    rest = {name: value for name, value in found.items() if name not in ("format", "sha256")}
    return _plain({"format": found["format"], "sha256": _checksum(found), **rest})


def _checksum(found: Mapping[str, Any]) -> str:
    """Return the checksum of a manifest, whichever one it lists."""
    rest = {name: value for name, value in found.items() if name not in ("format", "sha256")}
    return sealed.digest(_plain({"format": found["format"], "sha256": "", **rest}))


def _plain(found: Mapping[str, Any]) -> bytes:
    """Return a manifest as JSON."""
    return (json.dumps(found, indent=1) + "\n").encode()


def parsed(folder: Path) -> Table:
    """Return the content of a manifest of any version.

    Raises
    ------
    InputError
        If the manifest is missing, damaged, or of a later version.
    """
    file = folder / MANIFEST
    try:
        if _files.is_ring(file):
            raise InputError([Fault(message=f"symbolic links in a ring: `{folder}`")])
        if not file.exists():
            made = "`anabranch sweep` and `anabranch study run` make them"
            hint = f"the folder has no {MANIFEST}: {made}" if folder.is_dir() else made
            raise InputError([Fault(message=f"no folder of results: `{folder}`", hint=hint)])
        content = file.read_bytes()
        found = json.loads(content.decode("utf-8"))
    except PermissionError as error:
        message = f"cannot read the results: {error.strerror}"
        raise InputError([Fault(message=message, where=str(file))]) from None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"no JSON: {str(error)[:1].lower()}{str(error)[1:]}"
        raise _unreadable(file, reason) from None
    if not isinstance(found, dict) or "format" not in found:
        raise _unreadable(file, "it says no `format`")
    form = found["format"]
    is_later = isinstance(form, int) and form > FORMAT
    # Version 2 has no checksum, and one that fits `FORMAT` only is of a manifest whose `format` has changed.
    is_changed = form != FORMAT and found.get("sha256") == _checksum({**found, "format": FORMAT})
    has_sum = form == FORMAT or ("sha256" in found and not is_later)
    if is_changed or (has_sum and not _is_sealed(content, found)):
        raise _unreadable(file, "its checksum is another")
    if is_later:
        message = f"results of a later version of this program: format {form}, this one reads up to {FORMAT}"
        raise InputError([Fault(message=message, where=str(file), hint="use that version")])
    return found


def _is_sealed(content: bytes, found: Mapping[str, Any]) -> bool:
    """Return whether the checksum that a manifest lists is that of its file."""
    # Much faster than to write it again: a sweep may have thousands of cells.
    check = found.get("sha256")
    return isinstance(check, str) and check == sealed.digest(content.replace(f'"{check}"'.encode(), b'""', 1))


def _unreadable(file: Path, reason: str) -> DamagedError:
    """Return the error for a damaged manifest."""
    hint = f"put it back, or {_REPEAT}"
    return DamagedError([Fault(message=f"cannot read the manifest: {reason}", where=str(file), hint=hint)])


def read(folder: Path) -> Table:
    """Return a folder's manifest in the present format, upgraded from version 2 if necessary.

    Raises
    ------
    InputError
        If the folder has no results, or results of another version.
    """
    return present(parsed(folder), folder)


def present(found: Table, folder: Path) -> Table:
    """Return a folder's parsed manifest in the present format, upgraded from version 2 if necessary.

    Raises
    ------
    InputError
        If it is of another version, or has parts missing.
    """
    form = found["format"]
    if form not in (FORMAT, _UPGRADED):
        message = f"results of another version: format {form!r}, this program adds to {FORMAT}"
        hint = f"`anabranch results {folder} --earlier` shows them; run again into another folder"
        raise InputError([Fault(message=message, where=str(folder), hint=hint)])
    if form == _UPGRADED and _is_sound(found, {"folders": dict}):
        found = _modern(found)
    if not _is_sound(found, {}) or not all(map(_is_entry, entries(found))):
        message = "a manifest with parts missing"
        raise DamagedError([Fault(message=message, where=str(folder / MANIFEST), hint=_REPEAT)])
    return found


def _is_sound(found: Mapping[str, Any], more: Mapping[str, type]) -> bool:
    """Return whether a manifest has all parts that are used."""
    kinds = {
        "code": str,
        "trials": int,
        "keep": list,
        "notes": dict,
        "scenarios": dict,
        "cells": list,
        **more,
    }
    return all(isinstance(found.get(name), kind) for name, kind in kinds.items())


def _is_entry(cell: object) -> bool:
    """Return whether a cell has all parts that are used."""
    kinds = {"cell": str, "scenario": str, "labels": dict, "settings": dict, "text": str, "folder": str}
    return isinstance(cell, dict) and all(isinstance(cell.get(name), kind) for name, kind in kinds.items())


def _modern(found: Table) -> Table:
    """Upgrade a manifest of version 2.

    It has no hashes of plans, so none of its runs is known to have the present inputs.
    """
    folders = found["folders"]
    # Runs over real packets do not depend on the build, so they remain valid.
    none: Table = {"hash": ""} if found["code"] else {}
    cells = [
        {**cell, "text": cell.get("scenario"), "folder": folders.get(cell.get("scenario")), **none}
        for cell in found["cells"]
        if isinstance(cell, dict)
    ]
    rest = {name: value for name, value in found.items() if name != "folders"}
    return {**rest, "cells": cells, "earlier": []}


def entries(found: Mapping[str, Any]) -> Iterator[Table]:
    """Yield all entries, each with the build that ran it. The entries of the last sweep are first."""
    for cell in found.get("cells", ()):
        yield {"code": found["code"], **cell} if isinstance(cell, dict) else cell
    yield from found.get("earlier", ())


def tables_of(found: Mapping[str, Any], entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of an entry's scenario."""
    tables: dict[str, Any] = found["scenarios"].get(entry["text"], {})
    return tables


def merged(before: Table | None, wanted: Mapping[str, Any]) -> Table:
    """Return the manifest of a folder at the start of another sweep.

    Parameters
    ----------
    before
        The folder's manifest; None if it is missing or damaged.
    wanted
        The manifest of the new sweep.
    """
    now: Table = json.loads(json.dumps(wanted))
    known = list(entries(before)) if before is not None else []
    trials = {_name(one): int(one.get("trials", 0)) for one in known}
    for cell in now["cells"]:
        name = _name({"code": now["code"], **cell})
        cell["trials"] = max(now["trials"], trials.get(name, 0))
    own = {_name(one) for one in entries(now)}
    earlier = [one for one in known if _name(one) not in own]
    texts = {one["text"]: tables_of(before, one) for one in earlier if before is not None}
    return {
        "format": FORMAT,
        "sha256": "",
        "tables": dict(before.get("tables", {})) if before is not None else {},
        "made_for": before.get("made_for", "") if before is not None else "",
        **now,
        "trials": max((cell["trials"] for cell in now["cells"]), default=now["trials"]),
        "scenarios": {**texts, **now["scenarios"]},
        "earlier": earlier,
        **({"partial": before["partial"]} if before is not None and "partial" in before else {}),
    }


def _name(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the key of an entry. A cell may have several entries, run from different sources."""
    return entry["cell"], entry.get("hash"), entry["code"]


def selection(found: Mapping[str, Any]) -> str:
    """Return a hash of the cells whose runs belong in the tables: those of the last sweep, in order."""
    names = [[entry["cell"], entry.get("hash")] for entry in found["cells"]]
    return sealed.digest(json.dumps([found["code"], names]).encode())


def labels(cells: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the columns that distinguish cells."""
    own = [cell.get("labels") for cell in cells if isinstance(cell, dict)]
    return tuple(dict.fromkeys(str(key) for one in own if isinstance(one, dict) for key in one))
