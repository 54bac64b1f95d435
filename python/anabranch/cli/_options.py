"""Arguments and options that several commands have."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
R = TypeVar("R")

Scenario = Annotated[
    str, typer.Argument(help="A scenario file, a name (`anabranch list scenarios`), or - for stdin.")
]
ScenarioOrLink = Annotated[
    str,
    typer.Argument(
        help="A scenario file, a name (`anabranch list scenarios`), a link of the page, or - for stdin.",
    ),
]
Scheduler = Annotated[str | None, typer.Option(help="Path scheduler, instead of the scenario's.")]
Congestion = Annotated[str | None, typer.Option(help="Congestion control, instead of the scenario's.")]
Preset = Annotated[
    str | None,
    typer.Option(
        metavar="kernel|video", help="A named set of plug-ins and timeouts, instead of the scenario's."
    ),
]
Seed = Annotated[int | None, typer.Option(min=0, help="Seed of every draw, instead of the scenario's.")]
RunNumber = Annotated[
    int, typer.Option("--run", min=0, max=2**63 - 1, help="Another draw of the same seed, by number.")
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Any key of the scenario, e.g. paths.wifi.rtt=80ms."),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
JsonArray = Annotated[bool, typer.Option("--json", help="Print one JSON array instead of a table.")]


def rooted(command: Callable[P, R]) -> Callable[P, R]:
    """Run a command in new namespaces if it is not run as root."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        from anabranch.live import rootless

        rootless.enter()
        return command(*args, **kwargs)

    return wrapper


CmcdFile = Annotated[
    Path | None,
    typer.Option(
        "--cmcd", help="Write a CMCD report (CTA-5004) for each request to this file (adaptive playback)."
    ),
]
CmcdForm = Annotated[
    str,
    typer.Option("--cmcd-form", metavar="json|query|headers", help="Form of the CMCD reports."),
]
CmcdVersion = Annotated[
    int,
    typer.Option("--cmcd-version", min=1, max=2, help="CMCD version; 2 adds the player's state and stalls."),
]
