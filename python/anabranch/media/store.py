"""`python -m anabranch.media.store`: make the demo films, and store the tables of their packets."""

from __future__ import annotations

import gzip
import json

from anabranch.media import films, tables


def store(name: str) -> None:
    """Make a film and store its table."""
    film = films.open_film(name, (), played=True)
    assert film is not None
    text = json.dumps(film.plan, separators=(",", ":"))
    # Without a time of modification, the same table gives the same bytes.
    tables.path(name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))


if __name__ == "__main__":
    for film, named in films.NAMED.items():
        if named.synthetic is None:
            store(film)
