"""Runs by the thousand: sweeps and the papers' studies. Called, `anabranch.study("SD18")`, it runs one."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Room(ModuleType):
    """A module that is called as well: the package offers a function of the name that this room has."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function has them
        """Run a study; see `anabranch.experiments.make.study`."""
        # By the package's door: running a study stands above what it is.
        import anabranch

        return anabranch.run_study(*arguments, **named)


sys.modules[__name__].__class__ = _Room
