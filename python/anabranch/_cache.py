"""Where made films and probes are kept between runs."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any


def folder() -> Path:
    """Return the cache folder, made if need be.

    `ANABRANCH_CACHE` names it outright; else it is `anabranch` in the XDG cache folder; where that
    cannot be written, `.cache/anabranch` below the current folder.
    """
    named = os.environ.get("ANABRANCH_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    choices = [Path(named)] if named else [base / "anabranch", Path.cwd() / ".cache" / "anabranch"]
    for choice in choices[:-1]:
        try:
            choice.mkdir(parents=True, exist_ok=True)
        except OSError:
            continue
        if os.access(choice, os.W_OK):
            return choice
    choices[-1].mkdir(parents=True, exist_ok=True)
    return choices[-1]


def key(**parts: Any) -> str:  # noqa: ANN401 - anything JSON can say
    """Return a short name that differs whenever any of the parts does."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)
