"""Reading a trace's tables: columns of plain lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Table = Mapping[str, Sequence[Any]]
Tables = Mapping[str, Table]


def clients(tables: Tables) -> list[int]:
    """Return the clients of a trace, in order."""
    return sorted(set(tables.get("connections", {}).get("client", ())))


def rows(table: Table, *, client: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield a table's rows as dicts, those of one client when asked."""
    names = list(table)
    owners = table.get("client")
    for index in range(len(table[names[0]]) if names else 0):
        if client is None or owners is None or owners[index] == client:
            yield {name: table[name][index] for name in names}


def count_by(table: Table, column: str, *, client: int) -> dict[str, int]:
    """Return how often each value of a column occurs among one client's rows."""
    counts: dict[str, int] = {}
    owners = table.get("client", ())
    for owner, value in zip(owners, table.get(column, ()), strict=True):
        if owner == client:
            counts[value] = counts.get(value, 0) + 1
    return counts


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number without the noise of binary fractions; None stays None."""
    return None if value is None else round(value, digits)
