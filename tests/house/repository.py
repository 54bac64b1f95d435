"""The repository as its own tests see it: files, and the functions of a source text."""

from __future__ import annotations

import ast
import functools
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

_SKIPPED = {"target", ".venv", ".git", "build", "dist", "node_modules", "__pycache__"}


@functools.cache
def files() -> tuple[str, ...]:
    """Return every file of the repository, ignored ones left out, by its path from the root."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        names = listed.stdout.rstrip("\0").split("\0")
    except (OSError, subprocess.CalledProcessError):
        # An unpacked archive: everything except built files and tools' caches.
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
        names = [
            str(path)
            for path in paths
            if not any(part in _SKIPPED or part.endswith("_cache") for part in path.parts)
            and path.suffix not in (".so", ".pyc", ".pcapng")
        ]
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def matching(*suffixes: str, under: str = "") -> list[str]:
    """Return the files with one of the suffixes below a folder."""
    return [name for name in files() if name.endswith(suffixes) and name.startswith(under)]


@functools.cache
def text(name: str) -> str:
    """Return a file's text; a file that is no text is empty."""
    try:
        return (ROOT / name).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def is_test(name: str) -> bool:
    """Tell whether a file is test code as a whole."""
    parts = Path(name).parts
    return "tests" in parts or Path(name).stem == "tests"


def before_tests(source: str) -> str:
    """Return a Rust source up to its unit tests."""
    found = re.search(r"^#\[cfg\(test\)\]\s*\n\s*mod ", source, re.MULTILINE)
    return source[: found.start()] if found else source


@dataclass(frozen=True, kw_only=True)
class Function:
    """A function of a source file, from its signature to its last line."""

    name: str
    line: int
    lines: int


def functions(name: str) -> list[Function]:
    """Return the functions of a Rust or Python file, unit tests left out."""
    source = text(name)
    return _python_functions(source) if name.endswith(".py") else rust_functions(before_tests(source))


def _python_functions(source: str) -> list[Function]:
    """Return the functions of a Python source."""
    nodes = ast.walk(ast.parse(source))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        Function(name=node.name, line=node.lineno, lines=(node.end_lineno or node.lineno) - node.lineno + 1)
        for node in nodes
        if isinstance(node, kinds)
    ]


# Text that may hold a brace or the word `fn` without meaning it.
_OPAQUE = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:[^"\\]|\\.)*"|b?\'(?:[^\'\\\n]|\\[^\n]{1,8}?)\'', re.DOTALL
)
_BRACE = re.compile(r"[{}]")
_FN = re.compile(r"\bfn\s+([A-Za-z_]\w*)")


@functools.cache
def bare(source: str) -> str:
    """Return a Rust source with comments, strings and characters blanked, lines kept."""
    return _OPAQUE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), source)


def rust_functions(source: str) -> list[Function]:
    """Return the functions with a body of a Rust source."""
    code = bare(source)
    result = []
    for found in _FN.finditer(code):
        opened = _body(code, found.end())
        if opened is None:
            continue
        end = closed(code, opened + 1)
        first = code.count("\n", 0, found.start()) + 1
        lines = code.count("\n", found.start(), end) + 1
        result.append(Function(name=found.group(1), line=first, lines=lines))
    return result


def closed(code: str, start: int) -> int:
    """Return where what was opened by a brace before `start` has been closed."""
    depth = 1
    for brace in _BRACE.finditer(code, start):
        depth += 1 if brace.group() == "{" else -1
        if depth == 0:
            return brace.end()
    return len(code)


def _body(code: str, start: int) -> int | None:
    """Return where a function's body opens; None for one that is only declared."""
    depth = 0
    for place in range(start, len(code)):
        sign = code[place]
        if sign in "([":
            depth += 1
        elif sign in ")]":
            depth -= 1
        elif depth == 0 and sign == ";":
            return None
        elif depth == 0 and sign == "{":
            return place
    return None
