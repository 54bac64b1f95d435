"""The sources of a plug-in and their hash: its own file, every local file that it imports, and data files.

Local files are found by the import statements anywhere in a file, without running it: modules in the
folder of the plug-in's file, or in packages below it.
"""

from __future__ import annotations

import ast
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.plugins import reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

Module = tuple[str, ...]


@dataclass(frozen=True)
class Sources:
    """A plug-in's files, read once, so that the hashed text is the text that runs.

    Attributes
    ----------
    root
        The folder from which local modules are imported.
    files
        Contents by path from the root; the plug-in's own file is first.
    below
        The only package or module of the root that is local; None if all are.
    data
        Hashes of the data files that it reads, by path from the root.
    """

    root: Path
    files: Mapping[str, bytes]
    below: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)

    @property
    def first(self) -> str:
        """The path of the plug-in's own file from the root."""
        return next(iter(self.files))

    @cached_property
    def digest(self) -> str:
        """SHA-256 over relative names and contents, in hex."""
        found = hashlib.sha256()
        for name in sorted(self.files):
            for part in (name.encode(), self.files[name]):
                found.update(len(part).to_bytes(8, "big") + part)
        for name in sorted(self.data):
            found.update(f"\0{name}\0{self.data[name]}".encode())
        return found.hexdigest()

    def has(self, module: Module) -> bool:
        """Return whether a module, or a folder of modules, is among the files."""
        place = "/".join(module)
        return any(name == f"{place}.py" or name.startswith(f"{place}/") for name in self.files)


def read(root: Path, first: Path, *, below: str | None = None, data: Iterable[str] = ()) -> Sources:
    """Return the sources of the plug-in in a file.

    Parameters
    ----------
    root
        The folder from which local modules are imported.
    first
        The plug-in's file, in or below the root.
    below
        Only this package or module of the root is local; None makes all of them local.
    data
        The known data files, as paths from the root.

    Raises
    ------
    OSError
        When a file cannot be read.
    SyntaxError
        When one is not Python; its `filename` names the file.
    """
    files: dict[str, bytes] = {}
    todo = [first.relative_to(root).as_posix()]
    while todo:
        name = todo.pop()
        if name in files:
            continue
        files[name] = (root / name).read_bytes()
        for module in _imports(ast.parse(files[name], filename=str(root / name)), _package(name)):
            if below is None or module[0] == below:
                todo += _places(root, module)
    hashes = {name: reads.digest(root / name) for name in data}
    return Sources(root=root, files=files, below=below, data=hashes)


def _package(name: str) -> Module:
    """Return the package that contains a file, or that a file defines."""
    return tuple(name.split("/")[:-1])


def _imports(tree: ast.Module, package: Module) -> Iterator[Module]:
    """Return every name that a source may import, including names inside modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level > len(package) + 1:
                continue
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = above + tuple(node.module.split(".") if node.module else ())
            if base:
                yield base
            yield from ((*base, alias.name) for alias in node.names)


def _places(root: Path, module: Module) -> Iterator[str]:
    """Return the files that the import of a module executes: those of its packages, and its own."""
    for length in range(1, len(module) + 1):
        place = "/".join(module[:length])
        if (root / place / "__init__.py").is_file():
            yield f"{place}/__init__.py"
        elif (root / f"{place}.py").is_file():
            yield f"{place}.py"
            return
        elif not (root / place).is_dir():
            return
