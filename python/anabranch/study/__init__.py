"""Sweeps and the papers' studies: grids, cells, drawn worlds, and the processes that make the runs."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """Lets `anabranch.study("SD18")` work until version 0.3, as an alias of `anabranch.run_study`."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:  # noqa: ANN401 - as the function has them
        """Run a study, with a warning that this name is deprecated."""
        # Imported from the package: `experiments` is a higher layer than this package.
        import anabranch

        message = "`anabranch.study(...)` will be removed in version 0.3: call `anabranch.run_study(...)`"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return anabranch.run_study(*arguments, **named)


sys.modules[__name__].__class__ = _Callable
