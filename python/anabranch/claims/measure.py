"""A claim's metric: a column of the results, or arithmetic over columns."""

from __future__ import annotations

import ast
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import did_you_mean
from anabranch.metrics import METRICS, SUBFLOW_METRICS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

#: Columns of `runs` that are not in a list of metrics. They are computed when a run's row is made.
_OF_RUNS = ("retransmissions", "unfinished_sessions", "unstarted_sessions", "unreached_sessions")
_SIGNS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_FORM = "columns, numbers, + - * / and brackets, for example `bytes_F2 / (bytes_F1 + bytes_F2)`"


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A number of a run.

    Attributes
    ----------
    text
        The text in the file.
    """

    text: str
    _tree: ast.expr

    def value(self, row: Mapping[str, Any]) -> float | None:
        """Return the value in a run; None if the run lacks one of its columns, or if it divides by zero.

        Parameters
        ----------
        row
            The run's columns by name, those of subflows as `subflows.PATH.NAME`.
        """
        found = _value(self._tree, row)
        return found if found is not None and math.isfinite(found) else None

    def columns(self) -> list[str]:
        """Return the columns that it needs."""
        return list(_columns(self._tree))


def parse(text: str) -> Metric | str:
    """Return a metric, or the reason why the text is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return f"expected {_FORM}"
    if not _sound(tree):
        return f"expected {_FORM}"
    return Metric(text=text, _tree=tree)


def unknown(metric: Metric, paths: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the columns of a metric that runs with these paths do not have, each with a hint."""
    known = {*METRICS, *_OF_RUNS, *(f"bytes_{path}" for path in paths)}
    known |= {f"subflows.{path}.{name}" for path in paths for name in SUBFLOW_METRICS}
    for name in dict.fromkeys(metric.columns()):
        if name not in known:
            yield name, did_you_mean(name, known, otherwise="docs/reference/cli.md lists them")


def _sound(node: ast.AST) -> bool:
    """Return whether a tree contains only columns, numbers and the four operators."""
    if isinstance(node, ast.BinOp):
        return type(node.op) in _SIGNS and _sound(node.left) and _sound(node.right)
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return _name(node) is not None


def _name(node: ast.AST) -> str | None:
    """Return the column that a node names; None when it names none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        before = _name(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _columns(node: ast.AST) -> Iterator[str]:
    """Yield the columns in a tree."""
    if isinstance(node, ast.BinOp):
        yield from _columns(node.left)
        yield from _columns(node.right)
        return
    name = _name(node)
    if name is not None:
        yield name


def _value(node: ast.AST, row: Mapping[str, Any]) -> float | None:
    """Return the value of a tree in a row."""
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, row), _value(node.right, row)
        if left is None or right is None or (isinstance(node.op, ast.Div) and right == 0):
            return None
        return _SIGNS[type(node.op)](left, right)
    if isinstance(node, ast.Constant):
        return float(node.value)  # type: ignore[arg-type] # `_sound` lets only numbers in
    found = row.get(_name(node) or "")
    return None if found is None else float(found)
