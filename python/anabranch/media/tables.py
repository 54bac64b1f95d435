"""The packets of the films `demo` and `demo-3min`, stored with the program.

The simulator needs the size and the times of each packet of a film, not its bytes. A simulated run therefore
needs no encoder, and its result does not depend on the encoder's version. `python -m anabranch.media.store`
makes the films and writes their tables again.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "_tables"


def path(name: str) -> Path:
    """Return the file of a film's table."""
    return _FOLDER / f"{name}.json.gz"


def read(name: str) -> dict[str, Any]:
    """Return the plan's `film` of a film with a stored table."""
    with gzip.open(path(name), "rt", encoding="utf-8") as file:
        plan: dict[str, Any] = json.load(file)
    return plan
