"""The commands for one run, for names and for the host (`run`, `check`, `list` and others)."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from anabranch.cli._console import guarded
from anabranch.cli._options import (
    CmcdFile,
    CmcdForm,
    CmcdVersion,
    Congestion,
    Json,
    JsonArray,
    Preset,
    ScenarioOrLink,
    Scheduler,
    Seed,
    Set,
)


def register(app: typer.Typer) -> None:
    """Add the commands."""
    for command in (run, check, init, list_, doctor, demo, calibrate):
        app.command(command.__name__.rstrip("_"))(guarded(command))


def run(
    scenario: ScenarioOrLink,
    scheduler: Scheduler = None,
    congestion: Congestion = None,
    preset: Preset = None,
    seed: Seed = None,
    run: Annotated[
        int | None,
        typer.Option(min=0, max=2**63 - 1, help="Another draw of the same seed (default: 0, or the link's)."),
    ] = None,
    set_: Set = None,
    as_json: Json = False,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    pcapng: Annotated[
        Path | None, typer.Option(help="Write every packet to this capture file (pcapng).")
    ] = None,
    pcapng_at: Annotated[
        str, typer.Option(metavar="client|server", help="The host at which that capture is taken.")
    ] = "client",
    pcapng_start: Annotated[
        datetime | None,
        typer.Option(
            formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"],
            help="The time with zone at which that capture begins (default: 1970).",
        ),
    ] = None,
    p1203: Annotated[
        Path | None, typer.Option(help="Write the input of ITU-T P.1203 to this file (adaptive playback).")
    ] = None,
    cmcd: CmcdFile = None,
    cmcd_form: CmcdForm = "json",
    cmcd_version: CmcdVersion = 1,
    link: Annotated[
        bool, typer.Option("--link", help="Print a link that repeats the run in the browser page.")
    ] = False,
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Then serve the page that plays the run in slow motion, until Ctrl-C."),
    ] = False,
) -> None:
    """Simulate a scenario, and print the metrics of viewer and network.

    A link of the page (`anabranch play`) is a scenario too. The exit code is 1 if the run has another digest
    than the link.

    For example:

      anabranch run two-paths
      anabranch run two-paths --scheduler round-robin --set paths.wifi.rtt=80ms --report report.html
      anabranch run two-paths --set application.kind=bulk --set application.duration=60s --json
    """
    from anabranch._taken import Taken
    from anabranch.cli import _commands

    given = _commands.Given(
        scenario=scenario,
        scheduler=scheduler,
        congestion=congestion,
        preset=preset,
        seed=seed,
        set=tuple(set_ or ()),
    )
    reports = _commands.Cmcd.asked(cmcd, cmcd_form, cmcd_version)
    taken = Taken(at=pcapng_at, start=pcapng_start)
    files = _commands.Files(
        report=report, pcapng=pcapng, taken=taken, p1203=p1203, cmcd=reports, link=link, watch=watch
    )
    _commands.run(given, run=run, as_json=as_json, files=files)


def check(
    scenario: ScenarioOrLink,
    scheduler: Scheduler = None,
    congestion: Congestion = None,
    preset: Preset = None,
    set_: Set = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print the plan, that is, the simulator's complete input.")
    ] = False,
) -> None:
    """Check a scenario, and report all its faults at once.

    For example:

      anabranch check two-paths --set paths.wifi.rtt=80ms
    """
    from anabranch.cli import _commands

    given = _commands.Given(
        scenario=scenario, scheduler=scheduler, congestion=congestion, preset=preset, set=tuple(set_ or ())
    )
    _commands.check(given, show_plan=plan)


def init(
    file: Annotated[Path, typer.Argument(help="The file to write; - is stdout.")] = Path("scenario.toml"),
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")] = False,
) -> None:
    """Write a commented scenario to start from.

    For example:

      anabranch init my.toml
      anabranch run my.toml
    """
    from anabranch.cli import _commands

    _commands.init(file, force=force)


def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            help="schedulers, congestion, path-managers, abr, queues, profiles, scenarios, films or ladders; "
            "without it, these kinds are printed."
        ),
    ] = None,
    as_json: JsonArray = False,
) -> None:
    """List the names that a scenario may use: plug-ins, profiles, films and others.

    For example:

      anabranch list
      anabranch list schedulers
    """
    from anabranch.cli import _commands

    _commands.list_names(what, as_json=as_json)


def doctor(
    as_json: JsonArray = False,
    fix: Annotated[
        bool, typer.Option("--fix", help="Install missing programs; asks before each command.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="With --fix: do not ask.")] = False,
) -> None:
    """Check which programs and kernel features this host has, and what each is needed for.

    For example:

      anabranch doctor
      anabranch doctor --fix
    """
    from anabranch.cli import _doctor

    _doctor.doctor(as_json=as_json, fix=fix, agreed=yes)


def demo(
    report: Annotated[Path, typer.Option(help="The report file to write.")] = Path("report.html"),
    scenario: Annotated[str, typer.Option(help="The scenario to show.")] = "two-paths",
    scheduler: Scheduler = None,
    congestion: Congestion = None,
    preset: Preset = None,
    seed: Seed = None,
    set_: Set = None,
) -> None:
    """Stream a film over two paths together and over each path alone, and write a report.

    For example:

      anabranch demo --scheduler min-rtt
    """
    from anabranch.cli import _commands, _demo

    given = _commands.Given(
        scenario=scenario,
        scheduler=scheduler,
        congestion=congestion,
        preset=preset,
        seed=seed,
        set=tuple(set_ or ()),
    )
    _demo.demo(given, report=report)


def calibrate(
    against: Annotated[
        Path | None,
        typer.Option(help="Folder of measurements (default: the folder that comes with the program)."),
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Kernel that was measured (default: from kernel.toml in the folder)."
        ),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only settings whose name contains this text; repeatable."),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs of each setting with random loss.")] = 100,
    same_losses: Annotated[
        bool,
        typer.Option(
            "--same-losses",
            help="Only settings with loss; the simulator then loses the same packets as the kernel's trials.",
        ),
    ] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Number of processes (default: one per core).")
    ] = None,
    docs: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the calibration page and its figures.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Repeat measurements of a Linux kernel in the simulator, and compare value by value.

    The exit code is 1 if a value misses its target. It is 2 if a part of the folder was not understood; the
    message names that part, and the rest is judged. For example:

      anabranch calibrate
      anabranch calibrate --only P1/cubic --only handoff --runs 20
      anabranch calibrate --only bulk/P1 --json
      anabranch calibrate --same-losses
    """
    from anabranch.cli import _calibrate

    asked = _calibrate.Asked(
        against=against,
        only=tuple(only or ()),
        runs=runs,
        workers=workers,
        docs=docs,
        kernel=kernel,
        same_losses=same_losses,
    )
    _calibrate.calibrate(asked, as_json=as_json)
