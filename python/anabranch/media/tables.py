"""The packets of the films `demo` and `demo-3min`, stored with the program.

The simulator needs the size and the times of each packet of a film, not its bytes. A simulated run therefore
needs no encoder, and its result does not depend on the encoder's version. `python -m anabranch.media.tables`
makes the films and writes their tables again.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "_tables"


def read(name: str) -> dict[str, Any]:
    """Return the plan's `film` of a film with a stored table."""
    with gzip.open(_FOLDER / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        plan: dict[str, Any] = json.load(file)
    return plan


def write(name: str) -> Path:
    """Make a film and store its table; return the file."""
    from anabranch.media.films import file_of
    from anabranch.media.probe import probe

    plan = probe(file_of(name, ())).plan()
    # The cache's name of the file depends on its settings.
    plan["recorded"]["name"] = name
    path = _FOLDER / f"{name}.json.gz"
    # Without a time of modification, the same table gives the same bytes.
    path.write_bytes(gzip.compress(json.dumps(plan, separators=(",", ":")).encode(), 9, mtime=0))
    return path


if __name__ == "__main__":
    from anabranch.media.films import NAMED

    for film, named in NAMED.items():
        if named.synthetic is None:
            write(film)
