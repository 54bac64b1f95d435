"""The progress of making a film, which several commands show."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from anabranch.cli import _console

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def making_film() -> Iterator[Callable[[float, float], None]]:
    """Show the progress of making a film, if one has to be made, and print its folder."""
    from anabranch import _cache

    announced = False
    with _console.progress("making the film", unit="s of film") as progress:

        def heard(done_s: float, whole_s: float) -> None:
            nonlocal announced
            if not announced:
                announced = True
                _console.note(f"making a film of {whole_s:g} s, once; it is kept in {_cache.place()}")
            progress(done_s, whole_s)

        yield heard
