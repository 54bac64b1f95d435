"""Texts with drawn values in them: `"{rate:.2f} Mbit/s"`, with arithmetic between the braces."""

from __future__ import annotations

import ast
import operator
from dataclasses import dataclass
from string import Formatter
from typing import TYPE_CHECKING, Any

from anabranch._numbers import six_digits

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

#: The parts of an expression, for error messages.
FORM = "drawn names, numbers, + - * / and brackets, sum(NAME), min(A, B), max(A, B)"
_SIGNS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_CALLS: Mapping[str, Callable[..., float]] = {"min": min, "max": max}
SUM = "sum"


class TemplateError(ValueError):
    """A text that is no template, or has no value in a world."""


@dataclass(frozen=True, kw_only=True)
class Template:
    """A text with expressions between braces.

    Attributes
    ----------
    text
        As it was written.
    """

    text: str
    _parts: tuple[tuple[str, ast.expr | None, str], ...]

    def names(self) -> set[str]:
        """Return the names that it needs, without those that it sums over the paths."""
        return {
            name for _, tree, _ in self._parts if tree is not None for name, sums in _names(tree) if not sums
        }

    def summed(self) -> set[str]:
        """Return the names that it sums over the paths."""
        return {name for _, tree, _ in self._parts if tree is not None for name, sums in _names(tree) if sums}

    def value(self, values: Mapping[str, Any], paths: Mapping[str, list[Any]]) -> Any:  # noqa: ANN401 - TOML
        """Return the text with its values, or the value itself if it is all of the text.

        Parameters
        ----------
        values
            Drawn values by name.
        paths
            The values of every path, by name, for `sum`.

        Raises
        ------
        TemplateError
            If it divides by zero or calculates with a text.
        """
        if len(self._parts) == 1 and not self._parts[0][0] and not self._parts[0][2]:
            tree = self._parts[0][1]
            return self.text if tree is None else self._number(tree, values, paths)
        text = ""
        for literal, tree, form in self._parts:
            text += literal
            if tree is not None:
                text += self._shown(self._number(tree, values, paths), form)
        return text

    def _number(self, tree: ast.expr, values: Mapping[str, Any], paths: Mapping[str, list[Any]]) -> Any:  # noqa: ANN401
        try:
            return _value(tree, values, paths)
        except (ZeroDivisionError, OverflowError):
            message = f"no number: `{self.text}`"
            raise TemplateError(message) from None
        except TypeError:
            message = f"calculates with a text: `{self.text}`"
            raise TemplateError(message) from None

    def _shown(self, value: object, form: str) -> str:
        """Return a value as a part of a text: a number with six digits if no form is given."""
        if not form and isinstance(value, float):
            return six_digits(value)
        try:
            return format(value, form)
        except (ValueError, TypeError, OverflowError):
            message = f"`{form}` does not fit `{value}`: `{self.text}`"
            raise TemplateError(message) from None


def parse(text: str) -> Template:
    """Return the template of a text.

    Raises
    ------
    TemplateError
        If braces are left open, or an expression has anything but arithmetic.
    """
    parts: list[tuple[str, ast.expr | None, str]] = []
    try:
        for literal, field, form, conversion in Formatter().parse(text):
            if conversion is not None:
                message = f"expected {FORM}: `{text}`"
                raise TemplateError(message)
            parts.append((literal, None if field is None else _tree(field, text), form or ""))
    except ValueError as error:
        if isinstance(error, TemplateError):
            raise
        message = f"braces do not match: `{text}`"
        raise TemplateError(message) from None
    return Template(
        text=text if len(parts) != 1 or parts[0][1] is not None else parts[0][0], _parts=tuple(parts)
    )


def _tree(field: str, text: str) -> ast.expr:
    """Return the tree of an expression."""
    try:
        tree = ast.parse(field.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        message = f"expected {FORM}: `{text}`"
        raise TemplateError(message) from None
    if not _sound(tree):
        message = f"expected {FORM}: `{text}`"
        raise TemplateError(message)
    return tree


def _sound(node: ast.AST) -> bool:
    """Return whether an expression has only names, numbers, the operators + - * / and the permitted calls."""
    if isinstance(node, ast.BinOp):
        return type(node.op) in _SIGNS and _sound(node.left) and _sound(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _sound(node.operand)
    if isinstance(node, ast.Call):
        if not isinstance(node.func, ast.Name) or node.keywords:
            return False
        if node.func.id == SUM:
            return len(node.args) == 1 and isinstance(node.args[0], ast.Name)
        return node.func.id in _CALLS and len(node.args) >= 2 and all(map(_sound, node.args))
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return isinstance(node, ast.Name)


def _names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Yield the names in a tree, and whether each is summed over the paths."""
    if isinstance(node, ast.Name):
        yield node.id, False
    elif isinstance(node, ast.Call):
        summed = isinstance(node.func, ast.Name) and node.func.id == SUM
        for argument in node.args:
            yield from ((name, summed) for name, _ in _names(argument))
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


def _value(node: ast.AST, values: Mapping[str, Any], paths: Mapping[str, list[Any]]) -> Any:  # noqa: ANN401
    """Return the value of a tree."""
    if isinstance(node, ast.Name):
        return values[node.id]
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return -_value(node.operand, values, paths)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == SUM:
            return _sum(node, paths)
        return _CALLS[node.func.id](*(_value(one, values, paths) for one in node.args))
    assert isinstance(node, ast.BinOp)
    left, right = _value(node.left, values, paths), _value(node.right, values, paths)
    if isinstance(left, str) or isinstance(right, str):
        raise TypeError
    return _SIGNS[type(node.op)](left, right)


def _sum(node: ast.Call, paths: Mapping[str, list[Any]]) -> Any:  # noqa: ANN401
    """Return the sum of a name over the paths."""
    (one,) = node.args
    return sum(paths[one.id]) if isinstance(one, ast.Name) else None
