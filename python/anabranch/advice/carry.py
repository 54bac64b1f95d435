"""Ways to carry out an advice: a scenario, a kernel's settings, a command of the gateway."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.advice.candidates import KERNEL_CONTROLLERS, KERNEL_SCHEDULERS
from anabranch.traces._facts import FILE_KEYS

if TYPE_CHECKING:
    from anabranch.advice.candidates import Candidate
    from anabranch.study.sweep import Cell

#: The note for rules that the gateway has no options for.
_PRESET = (
    "# The rules for outages are the preset's, not those that were run: timeouts of at most 1 s, and DSACK."
)


def toml(cell: Cell) -> str:
    """Return a candidate's scenario as a file for `anabranch run`; files that it names have full paths."""
    import tomli_w

    raw = tables(cell)
    _absolute(raw, Path(cell.folder))
    return tomli_w.dumps({**_first(raw), **raw})


def tables(cell: Cell) -> dict[str, Any]:
    """Return the tables of a candidate's scenario, with its scheduler, congestion control and rules."""
    raw: dict[str, Any] = json.loads(cell.raw)
    for key, value, _ in cell.settings:
        *parents, name = key.split(".")
        table = raw
        for word in parents:
            table = table.setdefault(word, {})
        table[name] = value
    return raw


def _first(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the tables with plain keys first, as TOML requires."""
    return {key: value for key, value in raw.items() if not isinstance(value, dict | list)}


def _absolute(raw: dict[str, Any], folder: Path) -> None:
    """Make the scenario's file names absolute, so that the scenario works in any folder."""
    from anabranch.scenario import _follow

    def full(name: object) -> object:
        found = isinstance(name, str) and (folder / name).is_file()
        return str((folder / str(name)).resolve()) if found else name

    for _, table in _follow.places(raw):
        given = table.get("trace")
        if isinstance(given, dict):
            given |= {key: full(given[key]) for key in FILE_KEYS if key in given}
        elif given is not None:
            table["trace"] = full(given)
    application = raw.get("application")
    for key in ("film", "ladder"):
        if isinstance(application, dict) and key in application:
            application[key] = full(application[key])
            if isinstance(application[key], dict) and "master" in application[key]:
                application[key] = {**application[key], "master": full(application[key]["master"])}


def kernel(candidate: Candidate, cell: Cell) -> str:
    """Return the commands that configure hosts with a mainline kernel as a candidate, with comments.

    Parameters
    ----------
    candidate
        One that a mainline kernel can carry out.
    cell
        Its scenario.
    """
    raw = json.loads(cell.raw)
    congestion = KERNEL_CONTROLLERS[candidate.congestion]
    load = ["modprobe tcp_bbr"] if congestion == "bbr" else []
    lines = [
        "# As root on the server, which sends; Linux 6.6 or newer. Nothing of this has been done.",
        *load,
        f"sysctl -w net.ipv4.tcp_congestion_control={congestion}",
        *_buffer(raw, "send_buffer", "net.ipv4.tcp_wmem", 4096, 16384),
        *candidate.outages.sysctl(),
    ]
    if candidate.scheduler is None:
        name = candidate.paths[0]
        return "\n".join(
            [
                *lines,
                "sysctl -w net.mptcp.enabled=0   # plain TCP",
                f"# As root on the client: let its default route go over {name}.",
                *_buffer(raw, "receive_buffer", "net.ipv4.tcp_rmem", 4096, 131072),
            ]
        )
    more = len(candidate.paths) - 1
    lines += [
        "sysctl -w net.mptcp.enabled=1",
        f"sysctl -w net.mptcp.scheduler={KERNEL_SCHEDULERS[candidate.scheduler]}",
        f"ip mptcp limits set subflow {more}",
        "# nginx: set `tcp_nopush off`. TCP_CORK delays the last segment of a subflow by a timeout.",
        "# As root on the client, which begins with the path of its default route.",
        "sysctl -w net.mptcp.enabled=1",
        *_buffer(raw, "receive_buffer", "net.ipv4.tcp_rmem", 4096, 131072),
        f"ip mptcp limits set subflow {more}",
    ]
    backups = {path["name"] for path in raw["paths"] if path.get("backup")}
    for number, name in enumerate(candidate.paths, start=1):
        word = re.sub(r"\W", "_", name).upper()
        flag = " backup" if name in backups else ""
        lines += [
            f"ip mptcp endpoint add {word}_ADDRESS dev {word}_DEVICE subflow{flag}",
            f"ip route add default via {word}_GATEWAY dev {word}_DEVICE table {100 + number}",
            f"ip rule add from {word}_ADDRESS table {100 + number}",
        ]
    return "\n".join([*lines, "# Programs that do not ask for MPTCP themselves: mptcpize run PROGRAM"])


def _buffer(raw: dict[str, Any], key: str, setting: str, least: int, first: int) -> list[str]:
    """Return the command for a buffer whose size differs from the kernel's default."""
    from anabranch.scenario import units

    given = raw.get("transport", {}).get(key)
    if given is None:
        return []
    return [f'sysctl -w {setting}="{least} {first} {units.size_bytes(given)}"']


def gateway(candidate: Candidate) -> str:
    """Return the gateway's command for a candidate, for a server with any kernel."""
    words = ["anabranch", "gateway", "--listen", "10.9.0.1:443", "--origin", "127.0.0.1:8443"]
    words += ["--no-mptcp"] if candidate.scheduler is None else ["--scheduler", candidate.scheduler]
    rules = candidate.outages
    if rules.are_set:
        words[2:2] = ["--preset", "video"]
    command = shlex.join([*words, "--congestion", candidate.congestion])
    return command if rules.are_video or not rules.are_set else f"{_PRESET}\n{command}"


def lacking(candidate: Candidate) -> str:
    """Return the parts of a candidate that mainline kernels lack, in words."""
    found = []
    if candidate.scheduler is not None and candidate.scheduler not in KERNEL_SCHEDULERS:
        found.append(f"the scheduler {candidate.scheduler}")
    if candidate.congestion not in KERNEL_CONTROLLERS:
        found.append(f"the congestion control {candidate.congestion}")
    return " and ".join([*found, *candidate.outages.lacking()])
