"""Results of many runs: one folder of Parquet tables, a manifest, and a journal while runs go on.

`load` returns a table as a polars frame, `query` asks DuckDB; `Store` is what sweeps and studies
write to.
"""

from __future__ import annotations

from anabranch.results.read import load, query
from anabranch.results.store import Store

__all__ = ["Store", "load", "query"]
