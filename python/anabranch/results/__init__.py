"""Results of many runs: a folder with Parquet tables and a manifest, and with a journal during runs.

`load` returns a table as a polars frame, `query` asks DuckDB; `Store` is what sweeps and studies
write to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.results.read import load, query
    from anabranch.results.store import Store

__all__ = ["Store", "load", "query"]

_HOMES = {
    "Store": "anabranch.results.store",
    "load": "anabranch.results.read",
    "query": "anabranch.results.read",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a name at its first use: a single run needs only the identity of runs."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
