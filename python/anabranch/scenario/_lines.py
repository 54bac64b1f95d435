"""The line number of each key of a TOML text, which tomllib does not keep.

tomllib reads the values of the text; tree-sitter's grammar of TOML only gives their positions.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

KeyPath = tuple[str | int, ...]


def key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every key, table and array element of a valid TOML text.

    Parameters
    ----------
    text
        A text that tomllib has accepted.

    Returns
    -------
    dict
        Key path to line. Elements of arrays go by index: `("paths", 0, "rtt")`.
    """
    import tree_sitter

    index = _Index()
    for node in tree_sitter.Parser(_toml()).parse(text.encode()).root_node.named_children:
        if node.type == "pair":
            index.pair(node, ())
        elif node.type == "table":
            index.table(node)
        elif node.type == "table_array_element":
            index.array_element(node)
    return index.lines


@cache
def _toml() -> Language:
    """Return the grammar. It is imported only when a file is read."""
    import tree_sitter
    import tree_sitter_toml

    return tree_sitter.Language(tree_sitter_toml.language())


class _Index:
    """The key paths found so far, and the number of elements of each array of tables."""

    def __init__(self) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.counts: dict[KeyPath, int] = {}

    def table(self, node: Node) -> None:
        """Record `[a.b]` and its content."""
        header, *body = node.named_children
        self.body(body, self.record((), self.resolve(_key(header)), header))

    def array_element(self, node: Node) -> None:
        """Record `[[a.b]]` and its content."""
        header, *body = node.named_children
        path = self.resolve(_key(header), whole=False)
        self.record((), path, header)
        count = self.counts.get(path, 0)
        self.counts[path] = count + 1
        self.body(body, self.record(path, (count,), header))

    def body(self, nodes: list[Node], prefix: KeyPath) -> None:
        """Record the pairs under a header."""
        for node in nodes:
            if node.type == "pair":
                self.pair(node, prefix)

    def pair(self, node: Node, prefix: KeyPath) -> None:
        """Record `key = value`."""
        key, value = (child for child in node.named_children if child.type != "comment")
        self.value(value, self.record(prefix, _key(key), key))

    def value(self, node: Node, path: KeyPath) -> None:
        """Record the content of an inline table or an array."""
        children = [child for child in node.named_children if child.type != "comment"]
        if node.type == "inline_table":
            self.body(children, path)
        elif node.type == "array":
            for position, child in enumerate(children):
                self.value(child, self.record(path, (position,), child))

    def record(self, prefix: KeyPath, keys: KeyPath, node: Node) -> KeyPath:
        """Record the line of every key along a path, and return the whole path."""
        for length in range(1, len(keys) + 1):
            self.lines.setdefault(prefix + keys[:length], node.start_point[0] + 1)
        return prefix + keys

    def resolve(self, keys: KeyPath, *, whole: bool = True) -> KeyPath:
        """Return a header's path with the current index of every array of tables in it."""
        path: KeyPath = ()
        for position, key in enumerate(keys):
            path = (*path, key)
            if path in self.counts and (whole or position < len(keys) - 1):
                path = (*path, self.counts[path] - 1)
        return path


def _key(node: Node) -> KeyPath:
    """Return a key's parts, without quotes."""
    if node.type == "dotted_key":
        return tuple(part for child in node.named_children for part in _key(child))
    text = (node.text or b"").decode()
    return (_unquoted(text),)


def _unquoted(text: str) -> str:
    """Return a key as tomllib would name it."""
    if text[:1] not in ("'", '"'):
        return text
    import tomllib

    return next(iter(tomllib.loads(f"{text} = 0")))
