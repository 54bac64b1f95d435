"""anabranch: design, run and measure video streaming over Multipath TCP.

>>> import anabranch
>>> result = anabranch.run("two-paths", scheduler="min-rtt", seed=7)  # doctest: +SKIP
>>> result.qoe["buffer_underflows"], result.qos["goodput_mbps"]  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch._run import Run, run
    from anabranch.advice import advise
    from anabranch.capture import read_capture
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
    from anabranch.experiments.make import run_study, sweep
    from anabranch.experiments.read import Results
    from anabranch.logs import read_log
    from anabranch.report import write as write_report
    from anabranch.results import load, query
    from anabranch.study.stored import open_run
    from anabranch.why import Why
    from anabranch.why import why as explain

__all__ = [
    "AnabranchError",
    "DefectError",
    "Fault",
    "InputError",
    "MediaError",
    "MissingError",
    "Results",
    "Run",
    "ScenarioError",
    "Why",
    "__version__",
    "advise",
    "compare",
    "explain",
    "load",
    "open_run",
    "query",
    "read_capture",
    "read_log",
    "run",
    "run_study",
    "sweep",
    "write_report",
]

_HOMES = {
    "Run": "anabranch._run",
    "run": "anabranch._run",
    "advise": "anabranch.advice",
    "compare": "anabranch.comparison",
    "read_capture": "anabranch.capture",
    "read_log": "anabranch.logs",
    "load": "anabranch.results",
    "query": "anabranch.results",
    "open_run": "anabranch.study.stored",
    "Results": "anabranch.experiments.read",
    "run_study": "anabranch.experiments.make",
    "sweep": "anabranch.experiments.make",
    "write_report": "anabranch.report",
    "Why": "anabranch.why",
    "explain": "anabranch.why",
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

#: Public names whose name in their own module differs.
_NAMES = {"write_report": "write", "explain": "why"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name at its first use, so that the command line starts fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("anabranch")
    from importlib import import_module

    if name == "study":  # the package, which can still be called (see its `__init__.py`)
        return import_module("anabranch.study")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
