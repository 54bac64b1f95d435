"""The cache for made films and for descriptions of video files."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from anabranch.errors import MissingError

_HINT = "ANABRANCH_CACHE=DIR names another folder"


def place() -> Path:
    """Return the cache folder, which need not exist.

    It is `ANABRANCH_CACHE` if set; otherwise `anabranch` in the XDG cache folder: `XDG_CACHE_HOME` (an
    absolute path, as the specification requires) or `~/.cache`.

    Raises
    ------
    MissingError
        When neither HOME nor one of these variables is set.
    """
    named = os.environ.get("ANABRANCH_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    try:
        return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "anabranch"
    except RuntimeError:
        message = "no cache folder: neither HOME nor XDG_CACHE_HOME is set"
        raise MissingError(message, hint=_HINT) from None


def folder() -> Path:
    """Return the cache folder, and create it if necessary.

    Raises
    ------
    MissingError
        When it cannot be made or written to.
    """
    found = place()
    try:
        found.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        message = f"cannot make the cache folder `{found}`: {error.strerror or error}"
        raise MissingError(message, hint=_HINT) from None
    if not os.access(found, os.W_OK | os.X_OK):
        message = f"no permission to write to the cache folder `{found}`"
        raise MissingError(message, hint=_HINT)
    return found


def key(**parts: Any) -> str:  # noqa: ANN401 - anything JSON can say
    """Return a file name made from a hash of all parts."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def recall(name: str) -> str | None:
    """Return the text stored under a key, or None."""
    try:
        return (place() / name).read_text(encoding="utf-8")
    except (OSError, ValueError, MissingError):
        return None


def keep(name: str, text: str) -> None:
    """Store a text completely or not at all. If the cache folder is unusable, do nothing."""
    with suppress(OSError, MissingError):
        path = folder() / name
        part = path.with_name(f"{name}.{os.getpid()}.part")
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
