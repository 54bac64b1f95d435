"""anabranch: design, run and measure video streaming over Multipath TCP.

>>> import anabranch
>>> result = anabranch.run("two-paths", scheduler="min-rtt", seed=7)  # doctest: +SKIP
>>> result.qoe["buffer_underflows"], result.qos["goodput_mbps"]  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch._run import Run, run
    from anabranch.comparison import compare
    from anabranch.errors import (
        AnabranchError,
        DefectError,
        Fault,
        InputError,
        MediaError,
        MissingError,
        ScenarioError,
    )
    from anabranch.results import load, query
    from anabranch.study.stored import open_run

__all__ = [
    "AnabranchError",
    "DefectError",
    "Fault",
    "InputError",
    "MediaError",
    "MissingError",
    "Run",
    "ScenarioError",
    "__version__",
    "compare",
    "load",
    "open_run",
    "query",
    "run",
]

_HOMES = {
    "Run": "anabranch._run",
    "run": "anabranch._run",
    "compare": "anabranch.comparison",
    "load": "anabranch.results",
    "query": "anabranch.results",
    "open_run": "anabranch.study.stored",
    **dict.fromkeys(
        (
            "AnabranchError",
            "DefectError",
            "Fault",
            "InputError",
            "MediaError",
            "MissingError",
            "ScenarioError",
        ),
        "anabranch.errors",
    ),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name when it is first asked for: the command line must start fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("anabranch")
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
