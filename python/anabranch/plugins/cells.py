"""Turns a class that was defined in a notebook or at a prompt into a plug-in.

A run loads a plug-in from its source, in any process and again for each run. A class of a notebook is in no
file. Its source is therefore written into a file of the cache, with the imports, classes, functions and
constants of the notebook that it uses. The folder is named after the content, so an edited cell is another
plug-in.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import hashlib
import inspect
import linecache
import symtable
import sys
import textwrap
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from anabranch import _cache, _files
from anabranch.errors import Fault, InputError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MAIN = "__main__"
#: The types of constants and of their elements.
_CONSTANTS = (str, bytes, int, float, bool, type(None), tuple, list, dict, set, frozenset)


def placed(value: object) -> Any:  # noqa: ANN401 - any value of a key
    """Return a key's value with every class replaced by its file and name, `file.py:Name`.

    Raises
    ------
    InputError
        If a class has no source, or uses an object of the notebook that no source can express.
    MissingError
        If the cache cannot be written.
    """
    if isinstance(value, type):
        return place(value)
    if isinstance(value, dict):
        return {key: placed(one) for key, one in value.items()}
    return value


def place(plugin: type) -> str:
    """Return the file and name of a class, `file.py:Name`; see `placed` for the errors."""
    if plugin.__module__ != _MAIN:
        source = inspect.getsourcefile(plugin)
        if source is not None and "." not in plugin.__qualname__:
            return f"{source}:{plugin.__name__}"
        raise _unplaced(plugin, "it is not at the top level of a file")
    text = _Written(plugin).text()
    folder = _cache.folder() / "notebook" / hashlib.sha256(text.encode()).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{plugin.__name__}.py"
    if not file.exists():
        with _files.whole(file, "the class of the notebook") as part:
            part.write_text(text, encoding="utf-8")
    return f"{file}:{plugin.__name__}"


def _unplaced(plugin: type, why: str) -> InputError:
    """Return the error for a class that is in no file and has no source."""
    hint = f"write it into a file, and name it by its place: `mine.py:{plugin.__name__}`"
    message = f"the class `{plugin.__name__}` cannot be loaded in another process: {why}"
    return InputError([Fault(message=message, hint=hint)])


class _Written:
    """The source of a class, with that of everything it uses.

    Parameters
    ----------
    plugin
        The class.
    """

    def __init__(self, plugin: type) -> None:
        self._plugin = plugin
        self._imports: dict[str, str] = {}
        self._parts: dict[str, str] = {}
        self._deferred = False

    def text(self) -> str:
        """Return the text of a module that defines the class."""
        self._add(self._plugin.__name__, self._plugin)
        head = ["from __future__ import annotations"] if self._deferred else []
        return "\n".join([*head, *self._imports.values(), "", "\n\n".join(self._parts.values()), ""])

    def _add(self, name: str, value: type | FunctionType) -> None:
        """Add a class or a function of the notebook after everything that it uses."""
        if name in self._parts:
            return
        source, spaces = _source(value)
        if source is None:
            raise _unplaced(self._plugin, f"Python has no source of `{name}`")
        function = next(_functions(value))
        self._deferred |= bool(function.__code__.co_flags & __future__.annotations.compiler_flag)
        # A class and a function may use each other.
        self._parts[name] = ""
        for used in _globals(source):
            if used != name and used in spaces:
                self._use(used, spaces[used])
        del self._parts[name]
        alias = "" if value.__name__ == name else f"\n{name} = {value.__name__}"
        self._parts[name] = source + alias

    def _use(self, name: str, value: object) -> None:
        """Add the object that a name of the notebook refers to."""
        home, own = getattr(value, "__module__", None), getattr(value, "__name__", None)
        if isinstance(value, ModuleType):
            self._imports[name] = f"import {value.__name__} as {name}"
        elif isinstance(value, type | FunctionType) and home == _MAIN:
            self._add(name, value)
        elif isinstance(home, str) and isinstance(own, str) and _is_in(home, own, value):
            self._imports[name] = f"from {home} import {own} as {name}"
        elif _is_constant(value):
            self._parts.setdefault(name, f"{name} = {value!r}")
        elif getattr(builtins, name, self) is not value:
            why = f"it uses `{name}` of the notebook, which is no module, class, function or constant"
            raise _unplaced(self._plugin, f"{why}: {shown(repr(value))}")


def _is_in(home: str, name: str, value: object) -> bool:
    """Return whether a module that was imported has an object under a name."""
    return home != _MAIN and getattr(sys.modules.get(home), name, None) is value


def _is_constant(value: object) -> bool:
    """Return whether evaluating the value's `repr` gives the value."""
    if not isinstance(value, _CONSTANTS):
        return False
    try:
        return bool(ast.literal_eval(repr(value)) == value)
    except (ValueError, SyntaxError):
        return False


def _functions(value: type | FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that belong to a class, or the function itself."""
    if isinstance(value, FunctionType):
        yield value
        return
    for one in vars(value).values():
        one = getattr(one, "fget", None) or getattr(one, "__func__", None) or one
        if isinstance(one, FunctionType):
            yield one


def _source(value: type | FunctionType) -> tuple[str | None, Mapping[str, Any]]:
    """Return the source of a class or a function, and its enclosing namespace; None without a source."""
    for function in _functions(value):
        text = "".join(linecache.getlines(function.__code__.co_filename))
        try:
            found = [
                node
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == value.__name__
            ]
        except SyntaxError:
            continue
        if found:
            node = found[-1]
            first = min(node.lineno, *(one.lineno for one in node.decorator_list), node.lineno)
            lines = text.splitlines()[first - 1 : node.end_lineno]
            return textwrap.dedent("\n".join(lines)), function.__globals__
    return None, {}


def _globals(source: str) -> list[str]:
    """Return the names that a source uses without defining them, sorted."""
    names: set[str] = set()
    waiting = [symtable.symtable(source, "<cell>", "exec")]
    while waiting:
        table = waiting.pop()
        waiting += table.get_children()
        outermost = table.get_type() == "module"
        names |= {
            symbol.get_name()
            for symbol in table.get_symbols()
            if symbol.is_referenced() and (symbol.is_global() or outermost)
        }
    return sorted(names)
