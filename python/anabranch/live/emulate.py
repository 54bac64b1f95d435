"""Runs a user's program over the emulated paths of a scenario."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.live import programs, unsupported

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from anabranch.scenario.load import Loaded


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """The result of an emulation.

    Attributes
    ----------
    status
        The program's exit code; 128 plus the signal's number if a signal ended it.
    summary
        `duration_s`, `lateness` and `refused_packets` of the network.
    links
        The totals of each link, as rows of the trace's table `links`.
    """

    status: int
    summary: dict[str, Any]
    links: list[dict[str, Any]]


def emulate(
    loaded: Loaded,
    command: Sequence[str],
    *,
    serve: Sequence[str] | None = None,
    pcapng: str | Path | None = None,
) -> Emulated:
    """Run a program in the client's namespace, over the paths of a scenario, until the program ends.

    Parameters
    ----------
    loaded
        The scenario: its paths, links and events; its application is not run.
    command
        The program and its arguments. It runs as the user who called sudo, and reaches the server's namespace
        and nothing else.
    serve
        A program to run in the server's namespace meanwhile.
    pcapng
        File to write a capture to.

    Raises
    ------
    ScenarioError
        If the scenario has something that [real packets do not support][anabranch.live.unsupported].
    MissingError
        If this host lacks something, for example the program.
    """
    from anabranch.live import _world
    from anabranch.live.testbed import needed, open_bed
    from anabranch.metrics._rows import rows
    from anabranch.scenario import plan as plans

    unsupported.check(loaded)
    needed()
    plan = plans.build(loaded.scenario, None)
    multipath = plan["transport"]["multipath"]
    plan["time_limit_ns"] = 2**62  # the program says when it is over
    plan["application"] = {**plan["application"], "kind": "bulk", "duration_ns": None}
    written = nullcontext() if pcapng is None else _files.whole(Path(pcapng), "the capture")
    with written as capture, open_bed(plan) as bed:
        started: list[subprocess.Popen[bytes]] = []
        slack = programs.Slack()

        def begun() -> None:
            if serve:
                started.append(programs.start(bed, "server", serve, slack))
            started.append(programs.start(bed, "client", command, slack))

        try:
            trace = _world.go(
                loaded,
                plan,
                client=_world.end(bed, "client", multipath=multipath),
                server=_world.end(bed, "server", multipath=multipath),
                application=False,
                progress=lambda _done, _total: started[-1].poll() is None,
                bed=bed,
                begun=begun,
                pcapng=capture,
            )
        finally:
            for program in started:
                programs.stop(program)
    status = started[-1].returncode
    return Emulated(
        status=status if status >= 0 else 128 - status,
        summary=dict(trace["summary"]),
        links=list(rows(trace["tables"]["links"])),
    )
