"""The commands `live` and `parity`, and the options that commands for real packets share."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import _console
from anabranch.cli._console import guarded
from anabranch.cli._options import (
    CmcdFile,
    CmcdForm,
    CmcdVersion,
    Congestion,
    Json,
    Preset,
    Scenario,
    ScenarioOrLink,
    Scheduler,
    Set,
    rooted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from anabranch.errors import Fault
    from anabranch.live.page import Page
    from anabranch.scenario._overrides import Override
    from anabranch.scenario.load import Loaded

#: Applications of the client that replace the scenario's, as keys of a scenario.
APPLICATIONS: dict[str, dict[str, str]] = {
    "bulk": {"kind": "bulk", "duration": "10 s"},
    "paced": {"kind": "paced", "rate": "5 Mbit/s", "duration": "10 s"},
    "player": {"kind": "progressive", "film": "demo", "duration": "20 s"},
}

Watched = Annotated[
    bool,
    typer.Option("--watch", help="Serve a page on a loopback address that shows the run while it runs."),
]
WatchedAt = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS:PORT",
        help="Like --watch, at this loopback address and port (default: a free port).",
    ),
]
Asked = Annotated[
    str | None,
    typer.Option(
        metavar="bulk|paced|player|vlc|hlsjs",
        help="Replace the scenario's application: bulk (10 s), paced (10 s at 5 Mbit/s) or player (20 s of a "
        "film). --set application.KEY=VALUE then changes this application. vlc and hlsjs: VLC, or hls.js "
        "in Chromium, plays the scenario's own film or ladder from an nginx server.",
    ),
]
Pcapng = Annotated[Path | None, typer.Option(help="Write every packet at the client to this file.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (live, parity):
        app.command(command.__name__)(guarded(rooted(command)))


def live(
    scenario: ScenarioOrLink,
    server: Annotated[str, typer.Option(help="The server: gateway (our endpoint) or kernel.")] = "gateway",
    client: Annotated[str, typer.Option(help="The client: kernel or anabranch (our endpoint).")] = "kernel",
    application: Asked = None,
    scheduler: Scheduler = None,
    congestion: Congestion = None,
    preset: Preset = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the links' random draws.")] = None,
    set_: Set = None,
    as_json: Json = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    pcapng: Pcapng = None,
    cmcd: CmcdFile = None,
    cmcd_form: CmcdForm = "json",
    cmcd_version: CmcdVersion = 1,
    watch: Watched = False,
    watch_at: WatchedAt = None,
) -> None:
    """Run a scenario over real packets, in real time: our endpoint against this host's kernel.

    This needs root, or a host that permits user namespaces. The network between the two is emulated as in the
    scenario. Nothing on the host is changed. For example:

      anabranch live bulk-two-paths --set application.bytes=5MB
      anabranch live wifi-lte --application bulk --set application.duration=20s
      anabranch live two-paths --server kernel --set application.duration=20s --json
      anabranch live two-paths --application vlc --report vlc.html
      anabranch live wifi-lte --application player --watch
    """
    from anabranch.cli import _commands
    from anabranch.live import page, run_live

    given = _commands.Given(
        scenario=scenario,
        scheduler=scheduler,
        congestion=congestion,
        preset=preset,
        seed=seed,
        set=tuple(set_ or ()),
        first=tuple(_asked(application, set_ or ())),
    )
    reports = _commands.Cmcd.asked(cmcd, cmcd_form, cmcd_version)
    files = _commands.Files(report=report, pcapng=pcapng, cmcd=reports)
    place = page.chosen(watch_at, free=watch)
    loaded = _commands.opened(given, files, list(_unknown(server, client, application, place)))
    viewer = _viewer(loaded, server, client, application)
    with watched(place) as shown:
        film = _commands.prepare_film(loaded, played=viewer is not None)
        with _console.progress("live") as progress:
            result = run_live(
                loaded,
                server=server,  # type: ignore[arg-type] # checked above
                client=client,  # type: ignore[arg-type] # checked above
                pcapng=pcapng,
                progress=progress,
                film=film,
                viewer=viewer,
                watch=shown,
            )
        _commands.tell(result, files, as_json=as_json)


def _viewer(loaded: Loaded, server: str, client: str, application: str | None) -> str | None:
    """Check that the host has everything for the run, and return the name of the external player.

    The check comes first because making a film takes minutes.

    Raises
    ------
    MissingError
        If this host lacks something.
    """
    from anabranch.live.run import possible
    from anabranch.live.viewers import VIEWERS

    viewer = application if application in VIEWERS else None
    possible(loaded, server, client, (), viewer)  # type: ignore[arg-type] # checked by `_unknown`
    return viewer


def _unknown(
    server: str, client: str, application: str | None, place: tuple[str, int] | Fault | None
) -> Iterator[Fault]:
    """Yield what is wrong with the options of `live`."""
    from anabranch.errors import Fault, did_you_mean
    from anabranch.live.viewers import VIEWERS

    for option, value, known in (
        ("--server", server, ("gateway", "kernel")),
        ("--client", client, ("kernel", "anabranch")),
        ("--application", application, (*APPLICATIONS, *VIEWERS)),
    ):
        if value is not None and value not in known:
            message = f"unknown: {value}; it is {' or '.join(known)}"
            yield Fault(message=message, where=option, hint=did_you_mean(value, known))
    if isinstance(place, Fault):
        yield place


@contextmanager
def watched(place: tuple[str, int] | Fault | None) -> Iterator[Page | None]:
    """Serve a page inside the block and print its address, if one is requested."""
    from anabranch.errors import MissingError
    from anabranch.live import page, rootless

    if not isinstance(place, tuple):
        yield None
        return
    if rootless.entered():
        message = (
            "--watch needs root: without it, the program has a separate network that no browser can reach"
        )
        raise MissingError(message)
    with page.served(place) as shown:
        _console.note(f"watch it at {shown.url}")
        yield shown


def _asked(application: str | None, given: Sequence[str]) -> Iterator[Override]:
    """Yield the keys that an application sets.

    If its bytes are `given`, it lasts until they are transferred.
    """
    from anabranch.scenario._overrides import Override

    if application not in APPLICATIONS:
        return
    table = dict(APPLICATIONS[application])
    if any(text.partition("=")[0].strip() == "application.bytes" for text in given):
        del table["duration"]
    origin = f"--application {application}"
    yield Override(key="application", value=table, origin=origin)
    # The scenario's expectations concern its own application.
    yield Override(key="expect", value={}, origin=origin)


def parity(
    scenario: Scenario,
    trials: Annotated[
        int,
        typer.Option(
            min=1,
            max=1000,
            help="Runs of each kind: simulated, with our endpoint and with the kernel as the server.",
        ),
    ] = 5,
    set_: Set = None,
    as_json: Json = False,
) -> None:
    """Compare simulated runs of a scenario with runs over real packets.

    This needs root. Two of the three kinds of runs take as long as the scenario says. For example:

      anabranch parity bulk-two-paths --set application.bytes=5MB --trials 3
    """
    from anabranch.cli import _commands
    from anabranch.live import parity as run
    from anabranch.live.parity import WORLDS

    loaded = _commands.opened(_commands.Given(scenario=scenario, set=tuple(set_ or ())), _commands.Files())
    with _console.progress("parity", unit="runs") as progress:
        count = 0

        def heard(_world: str, _trial: int) -> None:
            nonlocal count
            progress(count, trials * len(WORLDS))
            count += 1

        figures = run(loaded, trials=trials, heard=heard)
    if as_json:
        told = {figure.name: {world: list(figure.values[world]) for world in WORLDS} for figure in figures}
        _console.out(json.dumps({"scenario": scenario, "trials": trials, "figures": told}, indent=2))
        return
    rows = [
        (
            figure.name,
            *(_mean(figure.mean(world), figure.half_width(world)) for world in WORLDS),
            _apart(figure.apart("gateway", "simulator")),
            _apart(figure.apart("gateway", "kernel")),
        )
        for figure in figures
    ]
    _console.table(("", *WORLDS, "gateway to simulator", "gateway to kernel"), rows)


def _mean(mean: float | None, half_width: float | None) -> str:
    """Return a mean with half its interval, as a table has it."""
    if mean is None:
        return "-"
    return f"{mean:,.4g}" + ("" if half_width is None else f" +- {half_width:.2g}")


def _apart(share: float | None) -> str:
    """Return a difference in percent, as a table has it."""
    return "-" if share is None else f"{share:+.1%}"
