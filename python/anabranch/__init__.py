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
    from anabranch.experiments.make import study, sweep
    from anabranch.experiments.make import study as run_study
    from anabranch.experiments.read import Results
    from anabranch.report import write as write_report
    from anabranch.results import load, query
    from anabranch.study.stored import open_run

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
    "__version__",
    "advise",
    "compare",
    "load",
    "open_run",
    "query",
    "run",
    "run_study",
    "study",
    "sweep",
    "write_report",
]

_HOMES = {
    "Run": "anabranch._run",
    "run": "anabranch._run",
    "advise": "anabranch.advice",
    "compare": "anabranch.comparison",
    "load": "anabranch.results",
    "query": "anabranch.results",
    "open_run": "anabranch.study.stored",
    "Results": "anabranch.experiments.read",
    "run_study": "anabranch.experiments.make",
    "sweep": "anabranch.experiments.make",
    "write_report": "anabranch.report",
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

#: The names in their homes, where those are others.
_NAMES = {"run_study": "study", "write_report": "write"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import a public name when it is first asked for: the command line must start fast."""
    if name == "__version__":
        from importlib.metadata import version

        return version("anabranch")
    from importlib import import_module

    if name == "study":  # a room that is called: its name is taken as soon as anything imports it
        return import_module("anabranch.study")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), _NAMES.get(name, name))
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
