"""Results of many runs: a folder with Parquet tables and a manifest, and with a journal during runs.

`load` returns a table as a polars frame, `query` asks DuckDB; `Store` is what sweeps and studies
write to.
"""

from __future__ import annotations

from anabranch.results.read import load, query
from anabranch.results.store import Store

__all__ = ["Store", "load", "query"]
