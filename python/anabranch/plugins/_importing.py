"""Imports a plug-in from its file, under a unique module name.

A plug-in and its local modules are in a separate package named after their contents. Two plug-ins that both
have a `helper.py` are therefore independent. The program's modules and `sys.path` do not change, and a
changed file is another module. Only hashed sources can be run: the loader has these sources and never reads
the disk.

The state of a module or a class ends with its run. Every `Session` executes the modules again, so that
earlier runs in the process have no effect.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib
import sys
import threading
from functools import lru_cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.plugins.sources import Sources

_ROOT = "_anabranch_plugins"


class Session:
    """One load of a scenario, or one run. It executes each module once.

    The modules can be imported by their names until the next session executes them again. Runs in threads of
    one process do not share earlier imports. If a method imports a module while it runs, it gets the module
    of the latest session.
    """

    def __init__(self) -> None:
        self._begun: set[str] = set()
        self._installed: dict[str, ModuleType] = {}

    def load(self, sources: Sources) -> ModuleType:
        """Return the module of a plug-in.

        Raises
        ------
        BaseException
            Any exception of its source.
        """
        key = hashlib.sha256(f"{sources.root / sources.first}\0{sources.digest}".encode()).hexdigest()[:16]
        package = f"{_ROOT}.p{key}"
        name = sources.first.removesuffix(".py").replace("/", ".")
        with _LOCK:
            _install()
            if package not in self._begun:
                _forget(package)
                _FINDER.plugged[package] = _Plugged(package, sources)
                sys.modules[package] = _empty_package(package)
                self._begun.add(package)
            return importlib.import_module(f"{package}.{name}")

    def installed(self, module: str, sources: Sources) -> ModuleType:
        """Return a module of an installed package; those of the program itself stay as they are.

        Parameters
        ----------
        module
            Its full name.
        sources
            The package's files. Only modules among them are executed again.

        Raises
        ------
        BaseException
            Any exception of its source.
        """
        own = {_module_name(file) for file in sources.files}
        with _LOCK:
            kept = {name: sys.modules.pop(name) for name in own & sys.modules.keys()}
            sys.modules.update(self._installed)
            try:
                return importlib.import_module(module)
            finally:
                self._installed |= {name: sys.modules[name] for name in own & sys.modules.keys()}
                sys.modules.update(kept)


def _module_name(file: str) -> str:
    """Return the name of the module in a file."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _forget(package: str) -> None:
    """Remove a plug-in's modules from the interpreter's table."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


@lru_cache(maxsize=256)
def _compiled(source: bytes, origin: str) -> CodeType:
    """Compile a source. The result is cached, so that a run only executes its modules."""
    return compile(source, origin, "exec", dont_inherit=True)


class _Plugged(Loader):
    """The modules of one plug-in."""

    def __init__(self, package: str, sources: Sources) -> None:
        self.package = package
        self.sources = sources
        self.builtins = {**vars(builtins), "__import__": self.import_}

    def import_(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - as `__import__` has them
        locals: Mapping[str, object] | None = None,  # noqa: A002
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Import as `__import__` does, local modules first."""
        top = name.partition(".")[0]
        if level or not self.sources.has((top,)):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{self.package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{self.package}.{top}"]

    def spec(self, name: str) -> ModuleSpec | None:
        """Return the specification of a module, if there is one of that name."""
        place = name.removeprefix(f"{self.package}.").replace(".", "/")
        for file, is_package in ((f"{place}/__init__.py", True), (f"{place}.py", False)):
            if file in self.sources.files:
                origin = str(self.sources.root / file)
                spec = ModuleSpec(name, self, origin=origin, loader_state=file, is_package=is_package)
                spec.has_location = True
                return spec
        if self.sources.has(tuple(place.split("/"))):
            return ModuleSpec(name, None, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> None:  # noqa: ARG002 - the protocol's
        """Return None, so that the interpreter creates the module."""
        return

    def exec_module(self, module: ModuleType) -> None:
        """Execute a module's source. Its imports prefer the plug-in's own modules."""
        spec = module.__spec__
        if spec is None or spec.origin is None:
            message = "a module without a place"
            raise ImportError(message)
        code = _compiled(self.sources.files[spec.loader_state], spec.origin)
        space: dict[str, Any] = vars(module)
        space["__builtins__"] = self.builtins
        exec(code, space)


class _Finder(MetaPathFinder):
    """Finds the modules of every plug-in that was loaded, and no others."""

    def __init__(self) -> None:
        self.plugged: dict[str, _Plugged] = {}

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,  # noqa: ARG002 - the protocol's
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return how to make a module of a plug-in."""
        if not fullname.startswith(f"{_ROOT}."):
            return None
        plugged = self.plugged.get(".".join(fullname.split(".")[:2]))
        return None if plugged is None else plugged.spec(fullname)


_FINDER = _Finder()
#: The lock around imports, which change the interpreter's table of modules that all threads share.
_LOCK = threading.RLock()


def _install() -> None:
    """Add the finder to the interpreter's finders, once."""
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
        sys.modules[_ROOT] = _empty_package(_ROOT)


def _empty_package(name: str) -> ModuleType:
    """Return a package that contains only the modules that the finder knows."""
    module = ModuleType(name, "Plug-ins, each under a name of its own.")
    module.__path__ = []
    return module
