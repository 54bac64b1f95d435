"""The measured kernels: the settings of their hosts and links that apply unless a table has others."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from anabranch.errors import Fault, did_you_mean
from anabranch.scenario.models import Transport
from anabranch.scenario.shipped import display

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

#: The file of a folder that names its kernel: `kernel = "mptcp-0.94"`.
FILE = "kernel.toml"


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """A kernel as it was measured in one laboratory.

    Attributes
    ----------
    name
        The kernel's name in folders, and the name of a scenario's profile if that profile exists.
    schedulers
        The plug-in for each scheduler, by the kernel's name for it.
    receive_buffer, receive_buffer_initial
        The client's largest receive buffer (`tcp_rmem`) and its first one; None is the scenario's default.
    jitter
        The emulator's largest lateness, if a table does not have its own.
    congestion
        Parameters of the congestion controls that run otherwise than by default.
    seeded
        Whether its emulator draws from a row's seed as a path's `emulator_seed` does.
    """

    name: str
    schedulers: Mapping[str, str]
    receive_buffer: str
    receive_buffer_initial: str | None = None
    jitter: str
    congestion: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    seeded: bool = False

    @property
    def profile(self) -> dict[str, str]:
        """The scenario's key for the kernel's generation; empty if scenarios know only one."""
        return {"profile": self.name} if self.name != DEFAULT and "profile" in Transport.model_fields else {}


#: The kernel of a folder that names none.
DEFAULT = "linux-6.18"

_COUPLED = ("lia", "olia", "balia", "wvegas")

#: The kernels that were measured (groundtruth/README.md, groundtruth/papers-kernel/README.md).
KERNELS = {
    kernel.name: kernel
    for kernel in (
        Kernel(
            name=DEFAULT,
            schedulers={"default": "linux"},
            # tcp_rmem max 32 MB.
            receive_buffer="32 MiB",
            # The emulator delivers late by 0.12 ms on average and by less than 0.3 ms in 99 of 100 cases:
            # drawn evenly, a packet is up to twice the mean late. Without jitter, acknowledgements would
            # arrive in a regular rhythm that real networks do not have.
            jitter="0.24 ms",
            seeded=True,
        ),
        Kernel(
            name="mptcp-0.94",
            schedulers={"default": "dft", "roundrobin": "round-robin", "redundant": "redundant"},
            # tcp_rmem 4096 87380 6291456.
            receive_buffer="6291456 B",
            receive_buffer_initial="87380 B",
            # The clock is virtual, and the links are exact.
            jitter="0 ms",
            # The kernel counts acknowledgements and computes with integers.
            congestion={name: {"form": "kernel"} for name in _COUPLED},
        ),
    )
}


def of_folder(folder: Path, columns: Sequence[str], faults: list[Fault]) -> str:
    """Return the name of the kernel that a folder was measured on.

    Parameters
    ----------
    folder
        The folder; its file `kernel.toml` names the kernel.
    columns
        The columns of its tables. Without the file, a folder with counters of the out-of-tree kernel is
            recognised by them.
    faults
        Receives the faults of the file.
    """
    path = folder / FILE
    if not path.exists():
        return "mptcp-0.94" if "opp_reinj_rwnd" in columns else DEFAULT
    try:
        name = tomllib.loads(path.read_text(encoding="utf-8")).get("kernel")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        faults.append(Fault(message=f"not a TOML file: {error}", where=display(path)))
        return DEFAULT
    if name in KERNELS:
        return str(name)
    hint = did_you_mean(str(name), KERNELS)
    faults.append(Fault(message=f"unknown kernel: `{name}`", where=display(path), key="kernel", hint=hint))
    return DEFAULT
