"""Deliberate faults in Python sources. Each is one small change of the text at one position.

Texts for people are not changed (docstrings, messages, annotations, comments). Code that cannot affect a
result is not changed either (`strict=`, decorators, imports for types).
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPARED = {
    ast.Lt: ("<", "<="), ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"), ast.NotIn: ("not in", "in"),
}  # fmt: skip
_COMPUTED = {
    ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"), ast.Mod: ("%", "//"), ast.Pow: ("**", "*"), ast.BitOr: ("|", "&"),
    ast.BitAnd: ("&", "|"),
}  # fmt: skip
_CALLED = {
    "min": "max", "max": "min", "any": "all", "all": "any", "ceil": "floor", "floor": "ceil",
    "fmean": "median", "median": "fmean", "pstdev": "stdev", "stdev": "pstdev",
    "sorted": "list", "sum": "max",
}  # fmt: skip
# Keywords whose values do not affect a result.
_IDLE_KEYWORDS = {"strict", "kw_only", "repr", "frozen", "hint", "message"}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A change at one position of one file.

    Attributes
    ----------
    file
        The path of the source, relative to the repository's root.
    line
        The number of the line.
    key
        The name of the fault in journals and arguments. It does not contain the line number.
    start, end, text
        The range of bytes that is replaced, and the replacement.
    body
        The range of bytes of the function's body in Rust with its braces, if the fault can be chosen at run
        time.
    """

    file: str
    line: int
    key: str
    start: int
    end: int
    text: str
    body: tuple[int, int] | None = None

    def apply(self, source: bytes) -> bytes:
        """Return the source with the fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def _short(text: str) -> str:
    """Return a piece of source on one line, long enough to identify it."""
    line = " ".join(text.split())
    return line if len(line) <= 40 else line[:37] + "..."


class _Finder(ast.NodeVisitor):
    """Collects (start, end, old, new, function) of every change."""

    def __init__(self, source: str) -> None:
        lines = source.encode().splitlines(keepends=True)
        self._starts = [0]
        for line in lines:
            self._starts.append(self._starts[-1] + len(line))
        self._source = source.encode()
        self._within: list[str] = []
        self.found: list[tuple[int, int, int, str, str, str]] = []

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode()

    def _change(self, node: ast.AST, new: str, told: str = "") -> None:
        start, end = self._span(node)
        told = told or f"replace {_short(self._text(node))} with {_short(new)}"
        self.found.append((start, end, node.lineno, told, new, ".".join(self._within)))

    def _between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Change the operator between two operands."""
        start, end = self._span(left)[1], self._span(right)[0]
        at = self._source.find(old.encode(), start, end)
        if at >= 0:
            told = f"replace {old} with {new} before {_short(self._text(right))}"
            self.found.append((at, at + len(old.encode()), right.lineno, told, new, ".".join(self._within)))

    def _function(self, node: ast.FunctionDef | ast.ClassDef) -> None:
        self._within.append(node.name)
        if isinstance(node, ast.FunctionDef):
            for default in (*node.args.defaults, *(one for one in node.args.kw_defaults if one is not None)):
                self.visit(default)
        body = node.body
        if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            body = body[1:]
        for statement in body:
            self.visit(statement)
        self._within.pop()

    visit_FunctionDef = _function  # noqa: N815 - the base class names them
    visit_ClassDef = _function  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if not isinstance(node.test, ast.UnaryOp):
            self._change(node.test, f"not ({self._text(node.test)})")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._change(node.test, f"(not ({self._text(node.test)}))")
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        left = node.left
        for operator, right in zip(node.ops, node.comparators, strict=True):
            self._between(left, right, *_COMPARED[type(operator)])
            left = right
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if type(node.op) in _COMPUTED:
            self._between(node.left, node.right, *_COMPUTED[type(node.op)])
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right, old, new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not | ast.USub):
            self._change(node, f"({self._text(node.operand)})")
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if type(node.op) in _COMPUTED:
            old, new = _COMPUTED[type(node.op)]
            self._between(node.target, node.value, f"{old}=", f"{new}=")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._change(node, "return None")
        self.generic_visit(node)

    def visit_Continue(self, node: ast.Continue) -> None:
        self._change(node, "break")

    def visit_Break(self, node: ast.Break) -> None:
        self._change(node, "continue")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._change(node, "pass")
        self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._change(node, "pass")

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name in _CALLED and not node.keywords:
            text = self._text(node.func)
            self._change(node.func, text[: len(text) - len(name)] + _CALLED[name])
        self.visit(node.func)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg not in _IDLE_KEYWORDS:
                self.visit(keyword.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Ignore f-strings, which are texts for people."""

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._change(node, str(not value))
        elif isinstance(value, int):
            self._change(node, str(value + 1))
        elif isinstance(value, float):
            self._change(node, repr(value * 1.1) if value else "1.0")
        elif isinstance(value, str) and value and " " not in value and not value.startswith("\n"):
            self._change(node, repr(f"no_{value}"))


def of_file(file: str, source: str) -> Iterator[Fault]:
    """Yield every fault of a source, in the order of positions."""
    finder = _Finder(source)
    for statement in ast.parse(source).body:
        # The module's docstring is an expression without a call, and must be ignored like any text.
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)):
            finder.visit(statement)
    seen: Counter[str] = Counter()
    for start, end, line, told, text, within in sorted(finder.found):
        key = f"{file}: {told}" + (f" in {within}" if within else "")
        seen[key] += 1
        number = f" #{seen[key]}" if seen[key] > 1 else ""
        yield Fault(file=file, line=line, key=key + number, start=start, end=end, text=text)
