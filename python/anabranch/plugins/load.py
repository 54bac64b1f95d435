"""Finds a plug-in's class by its file or by an entry point, and reports its faults.

A name with `.py` in it gives file and class: `mine.py:LowestRtt`. Any other name that the simulator's tables
lack may be an entry point of the group `anabranch.schedulers`, `anabranch.congestion` or `anabranch.abr`.
"""

from __future__ import annotations

import importlib.util
import random
import re
import traceback
from dataclasses import dataclass, field, replace
from importlib import metadata
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.errors import Fault, did_you_mean, nearest
from anabranch.plugins import _importing, protocol, reads, sources, tables
from anabranch.plugins.tables import Kind, Parameter, PluginFault

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from types import ModuleType

#: The entry-point groups in which packages announce their plug-ins.
GROUPS: dict[Kind, str] = {
    "scheduler": "anabranch.schedulers",
    "congestion": "anabranch.congestion",
    "abr": "anabranch.abr",
}

_UNKNOWN_NAME = re.compile(r"unknown (?!parameter)")
_PLACE = re.compile(r"(?P<file>.+\.py)(?::(?P<name>.*))?")


class FaultyPluginError(Exception):
    """A class that cannot be used as a plug-in, with all its faults."""

    def __init__(self, *faults: PluginFault) -> None:
        self.faults = faults
        super().__init__("; ".join(fault.message for fault in faults))


@dataclass(frozen=True, kw_only=True)
class Plugged:
    """A class that a run can use.

    Attributes
    ----------
    kind, name
        The kind of plug-in, and its name.
    plugin
        The class.
    source
        Its files.
    load
        A function that returns the class as imported by a session.
    """

    kind: Kind
    name: str
    plugin: type
    source: sources.Sources = field(repr=False)
    load: Callable[[_importing.Session], type] = field(repr=False, compare=False)

    def build(self, parameters: Mapping[str, Any], seed: int) -> object:
        """Return an instance. If the constructor takes `rng`, it receives a seeded `random.Random`."""
        given = dict(parameters)
        if protocol.takes_rng(self.plugin):
            given["rng"] = random.Random(seed)
        return self.plugin(**given)

    def with_data(self, data: Mapping[str, str]) -> Plugged:
        """Return the same class with more data files."""
        return replace(self, source=replace(self.source, data={**self.source.data, **data}))

    def own_files(self) -> set[str]:
        """Return the full paths of its sources."""
        return {str(self.source.root / file) for file in self.source.files}

    def fault(self, method: str, message: str) -> Fault:
        """Return the fault for an invalid return value of one of its methods."""
        where, line = protocol.place(self.plugin, method)
        return Fault(message=message, where=show(where), line=line)


def anew(plugged: Mapping[Kind, Mapping[str, Plugged]]) -> dict[Kind, dict[str, Plugged]]:
    """Return the classes for another run, with their modules executed again.

    Raises
    ------
    FaultyPluginError
        If a module differs when it is executed again.
    """
    session = _importing.Session()
    return {
        kind: {name: replace(one, plugin=one.load(session)) for name, one in found.items()}
        for kind, found in plugged.items()
    }


class Finder:
    """Finds the classes of one scenario, and keeps them for its run.

    Parameters
    ----------
    folder
        The scenario's folder, to which file names in the scenario are relative. File names on the command
        line are relative to the working directory, and otherwise to this folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session = _importing.Session()
        self.found: dict[Kind, dict[str, Plugged]] = {kind: {} for kind in GROUPS}

    def check(self, kind: Kind, given: str | Mapping[str, Any], *, typed: bool = False) -> list[PluginFault]:
        """Return the faults of a plug-in, which is given as in a scenario: by name, short form or table.

        Parameters
        ----------
        kind
            The kind of plug-in.
        given
            The plug-in.
        typed
            Whether it was given on the command line.

        Raises
        ------
        ValueError
            If it cannot be a plug-in: a table without a name, or a value without a JSON type.
        """
        text = tables.encode(given)
        folders = (Path.cwd(), self._folder) if typed else (self._folder,)
        faults: list[PluginFault] = []
        sound: dict[str, Plugged] = {}
        faulty: set[tuple[str, ...]] = set()
        places: dict[str, tuple[str, ...]] = {}
        for keys, name, parameters in tables.module().plugin_parts(text):
            data: dict[str, str] = {}
            try:
                plugged = self._find(kind, name, folders)
                if plugged is None:
                    continue
                with _watched(plugged.source, data):
                    _check_parameters(plugged, parameters)
            except FaultyPluginError as error:
                faulty.add(tuple(keys))
                faults += [_below(tuple(keys), fault) for fault in error.faults]
            else:
                # A module is executed once for a scenario. An instance reads the files that its parameters
                # name.
                before = sound.get(name) or self.found.get(kind, {}).get(name) or plugged
                sound[name] = plugged.with_data({**before.source.data, **data})
                places[name] = tuple(keys)
        found, unfit = _built(kind, text, sound)
        for name, fault in unfit.items():
            faulty.add(places[name])
            faults.append(_below(places[name], fault))
        for path, message, known in found:
            if tuple(path) not in faulty:
                also = names(kind) if _UNKNOWN_NAME.match(message) else []
                faults.append(PluginFault(path=tuple(path), message=message, known=(*known, *also)))
        if kind in self.found:
            self.found[kind].update(sound)
        return faults

    def _find(self, kind: Kind, name: str, folders: Sequence[Path]) -> Plugged | None:
        """Return the Python class of a name; None if the name is no Python class."""
        if kind not in GROUPS or name in _tables(kind):
            return None
        place = _PLACE.fullmatch(name)
        if place is None:
            return entry_point(kind, name, self._session)
        file = next((path for folder in folders if (path := folder / place["file"]).is_file()), None)
        if file is None:
            raise FaultyPluginError(_no_file(place["file"], folders))
        read = _read(file.resolve().parent, file.resolve())

        def load(session: _importing.Session) -> type:
            loaded = _imported(read, lambda: session.load(read))
            return _class(loaded, place["name"] or "", kind, place["file"])

        return _loaded(kind, name, read, load, self._session)


def _built(
    kind: Kind, text: str, sound: dict[str, Plugged]
) -> tuple[list[tuple[list[str], str, list[str]]], dict[str, PluginFault]]:
    """Return the faults that the simulator finds in a composition, and in each Python class by name.

    Refused classes are removed from `sound`.
    """
    rust = tables.module()
    unfit: dict[str, PluginFault] = {}
    while True:
        try:
            return rust.check_plugin(kind, text, {kind: sound} if sound else None), unfit
        except rust.AnswerError as wrong:
            _, name, method, message = wrong.args
            fault = sound.pop(name).fault(method, message)
            unfit[name] = PluginFault(path=(), message=message, where=fault.where, line=fault.line)
        except rust.RaisedError as error:
            _, name, own = error.args
            plugged = sound.pop(name)
            unfit[name] = raised(f"cannot make a {plugged.plugin.__name__}", own, plugged.own_files())


def _tables(kind: Kind) -> Mapping[str, str]:
    """Return the names of a kind in the simulator's own tables."""
    return tables.catalogue().of(kind)


def names(kind: Kind) -> list[str]:
    """Return the names of a kind's entry points, without those of the simulator's own plug-ins."""
    if kind not in GROUPS:
        return []
    return sorted({point.name for point in metadata.entry_points(group=GROUPS[kind])} - set(_tables(kind)))


def entry_point(kind: Kind, name: str, session: _importing.Session | None = None) -> Plugged | None:
    """Return the class of an entry point; None if there is no entry point with that name.

    Parameters
    ----------
    kind, name
        The kind of plug-in, and its name.
    session
        The session that imports it; None for a new one.

    Raises
    ------
    FaultyPluginError
        If it cannot be imported, or is not a plug-in of this kind.
    """
    point = next(iter(metadata.entry_points(group=GROUPS[kind], name=name)), None)
    if point is None:
        return None
    place = f"the entry point {point.value}"
    spec = _imported(None, lambda: importlib.util.find_spec(point.module), place)
    origin = Path(spec.origin) if spec is not None and spec.origin else None
    if origin is None or origin.suffix != ".py":
        message = f"cannot import {place}: no module in Python has that name"
        raise FaultyPluginError(PluginFault(path=(), message=message))
    depth = point.module.count(".") + (origin.name == "__init__.py")
    read = _read(origin.parents[depth], origin, below=point.module.partition(".")[0])

    def load(session: _importing.Session) -> type:
        module = _imported(read, lambda: session.installed(point.module, read), place)
        plugin = _imported(read, lambda: attrgetter(point.attr)(module) if point.attr else module, place)
        if not isinstance(plugin, type):
            raise FaultyPluginError(PluginFault(path=(), message=f"not a class: {place}"))
        return plugin

    return _loaded(kind, name, read, load, session or _importing.Session())


def listed(kind: Kind) -> list[tuple[str, str, list[Parameter]]]:
    """Return each entry point's name, the first sentence of its class and its parameters."""
    rows: list[tuple[str, str, list[Parameter]]] = []
    for name in names(kind):
        try:
            plugged = entry_point(kind, name)
        except FaultyPluginError as error:
            rows.append((name, f"does not load: {error}", []))
            continue
        if plugged is not None:
            plugin = plugged.plugin
            rows.append((name, protocol.summary(plugin), protocol.parameters(plugin)))
    return rows


def show(file: Path) -> str:
    """Return a file's name relative to the working directory, if it is below it."""
    try:
        return str(file.relative_to(Path.cwd()))
    except ValueError:
        return str(file)


def _below(keys: tuple[str, ...], fault: PluginFault) -> PluginFault:
    """Return a fault with its plug-in's keys before its own key."""
    return PluginFault(**{**vars(fault), "path": (*keys, *fault.path)})


def _no_file(file: str, folders: Sequence[Path]) -> PluginFault:
    """Return the fault for a missing file."""
    if any(_files.is_folder(folder / file) for folder in folders):
        return PluginFault(path=(), message=f"a folder, not a file: `{file}`")
    there = {path.name for folder in folders for path in (folder / file).parent.glob("*.py")}
    close = nearest(Path(file).name, there)
    looked = " and ".join(dict.fromkeys(str(folder) for folder in folders))
    hint = f"did you mean `{Path(file).with_name(close)}`?" if close else f"looked in {looked}"
    return PluginFault(path=(), message=f"no such file: `{file}`", hint=hint)


def _read(root: Path, file: Path, *, below: str | None = None) -> sources.Sources:
    """Return a plug-in's sources; errors in them become faults."""
    try:
        return sources.read(root, file, below=below)
    except SyntaxError as error:
        where = show(Path(error.filename or file))
        fault = PluginFault(path=(), message=f"not valid Python: {error.msg}", where=where, line=error.lineno)
        raise FaultyPluginError(fault) from None
    except (OSError, ValueError) as error:
        message = f"cannot read the plug-in: {getattr(error, 'strerror', None) or error}"
        raise FaultyPluginError(PluginFault(path=(), message=message, where=show(file))) from None


def _imported(read: sources.Sources | None, load: Any, what: str = "") -> Any:  # noqa: ANN401
    """Import a plug-in. An exception becomes a fault at the line of the plug-in."""
    try:
        return load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a person's source may raise anything, or exit
        name = what or (read.first if read is not None else "")
        own = {str(read.root / file) for file in read.files} if read is not None else set()
        raise FaultyPluginError(raised(f"cannot import {name}", error, own)) from None


def raised(what: str, error: BaseException, own: set[str]) -> PluginFault:
    """Return the fault of an exception that a plug-in's source raised before a run.

    Parameters
    ----------
    what
        The step that failed.
    error
        The exception.
    own
        The plug-in's files. The fault is placed at the innermost line in one of them. The first note of the
        exception (`BaseException.add_note`) is the fault's hint.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in own]
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    where, line = (show(Path(frames[-1].filename)), frames[-1].lineno) if frames else ("", None)
    hint = next(iter(getattr(error, "__notes__", ())), "")
    return PluginFault(path=(), message=f"{what}: {said}", where=where, line=line, hint=hint)


def _check_parameters(plugged: Plugged, given: Mapping[str, Any]) -> None:
    """Check parameters against the constructor, then make an instance and discard it.

    Raises
    ------
    FaultyPluginError
        With every fault.
    """
    found = list(protocol.parameter_faults(plugged.plugin, plugged.name, given))
    if found:
        raise FaultyPluginError(*found)
    try:
        plugged.build(given, seed=0)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a person's source may raise anything, or exit
        what = f"cannot make a {plugged.plugin.__name__}"
        raise FaultyPluginError(raised(what, error, plugged.own_files())) from None


def _class(loaded: ModuleType, name: str, kind: Kind, file: str) -> type:
    """Return a class of a module by its name."""
    found = vars(loaded).get(name)
    if isinstance(found, type):
        return found
    own = {
        key: value
        for key, value in vars(loaded).items()
        if isinstance(value, type) and value.__module__ == loaded.__name__
    }
    if not name:
        fitting = [key for key, value in own.items() if protocol.is_one(value, kind)]
        hint = f"for example `{file}:{(fitting or ['Mine'])[0]}`"
        raise FaultyPluginError(PluginFault(path=(), message=f"a file without a class: `{file}`", hint=hint))
    if found is not None:
        raise FaultyPluginError(PluginFault(path=(), message=f"not a class: `{name}` in {file}"))
    hint = did_you_mean(name, own) if own else "the file has no class"
    raise FaultyPluginError(PluginFault(path=(), message=f"no class `{name}` in {file}", hint=hint))


def _loaded(
    kind: Kind,
    name: str,
    read: sources.Sources,
    load: Callable[[_importing.Session], type],
    session: _importing.Session,
) -> Plugged:
    """Import a class's module, and return the class with the data files that the import reads."""
    data: dict[str, str] = {}
    with _watched(read, data):
        plugin = load(session)
    return _sound(Plugged(kind=kind, name=name, plugin=plugin, source=read, load=load)).with_data(data)


def _watched(source: sources.Sources, data: dict[str, str]) -> AbstractContextManager[None]:
    """Add the data files that a plug-in reads inside the block to `data`."""
    return reads.watched(source.root, source.files, source.below, data)


def _sound(plugged: Plugged) -> Plugged:
    """Return a class after checking its methods."""
    faults = protocol.faults(plugged.plugin, plugged.kind)
    if faults:
        raise FaultyPluginError(*faults)
    return plugged
