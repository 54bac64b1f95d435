"""The names of what can be plugged in, read from the Rust module's tables."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from anabranch.errors import MissingError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Each kind of plug-in by name, with the first sentence of its documentation."""

    schedulers: Mapping[str, str]
    congestion: Mapping[str, str]
    path_managers: Mapping[str, str]


def module() -> ModuleType:
    """Return the Rust module.

    Raises
    ------
    MissingError
        When it has not been built.
    """
    try:
        from anabranch import _anabranch
    except ImportError as error:
        message = "the simulator module `anabranch._anabranch` is not built"
        raise MissingError(message, hint="run `make build`") from error
    return _anabranch


@cache
def catalogue() -> Catalogue:
    """Return what the Rust module offers."""
    rust = module()
    return Catalogue(
        schedulers=dict(rust.schedulers()),
        congestion=dict(rust.congestion_controls()),
        path_managers=dict(rust.path_managers()),
    )
