"""Reading a trace's tables: columns by name, which are the simulator's or lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: Seconds between two samples.
SAMPLE_S = 0.1
#: The states in which a subflow repairs a loss.
REPAIR = ("Recovery", "Loss")

Table = Mapping[str, Sequence[Any]]
Tables = Mapping[str, Table]


def clients(tables: Tables) -> list[int]:
    """Return the clients of a trace, in order."""
    return sorted(set(tables.get("connections", {}).get("client", ())))


def of_each(tables: Tables) -> Iterator[tuple[int, Tables]]:
    """Yield each client's own tables, in order. Tables without a client are included for every client.

    Every table is read once, however many clients there are.
    """
    whole = {name: table for name, table in tables.items() if "client" not in table}
    parts = {name: _split(table) for name, table in tables.items() if "client" in table}
    nothing = {name: dict.fromkeys(table, ()) for name, table in tables.items()}
    for client in clients(tables):
        own = {name: part.get(client, nothing[name]) for name, part in parts.items()}
        yield client, {**whole, **own}


def of_one(tables: Tables, client: int) -> Tables:
    """Return one client's own tables, as `of_each` does."""
    return dict(of_each(tables))[client]


def _split(table: Table) -> dict[int, Table]:
    """Return a table's rows by client."""
    if hasattr(table, "split"):  # the simulator's, which does it many times as fast
        return dict(table.split("client"))
    places: dict[int, list[int]] = {}
    for place, client in enumerate(table["client"]):
        places.setdefault(client, []).append(place)
    return {
        client: {name: [column[place] for place in own] for name, column in table.items()}
        for client, own in places.items()
    }


def rows(table: Table, *, client: int | None = None) -> Iterator[dict[str, Any]]:
    """Yield a table's rows as dicts, if requested only those of one client."""
    names = list(table)
    owners = table.get("client") if client is not None else None
    each = zip(*(table[name] for name in names), strict=True)
    if owners is None:
        for values in each:
            yield dict(zip(names, values, strict=True))
        return
    for owner, values in zip(owners, each, strict=True):
        if owner == client:
            yield dict(zip(names, values, strict=True))


def rounded(value: float | None, digits: int = 6) -> float | None:
    """Return a number without the noise of binary fractions; None stays None."""
    return None if value is None else round(value, digits)
