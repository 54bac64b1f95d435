"""The report: one self-contained HTML file about a run."""

from __future__ import annotations

from anabranch.report._build import build, write

__all__ = ["build", "write"]
