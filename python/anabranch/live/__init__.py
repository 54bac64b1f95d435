"""Real packets: network namespaces, an emulated network between them, our endpoint or a kernel at either end.

A scenario runs here as it does in the simulator, in real time. Real packets need root, `/dev/net/tun` and a
Linux kernel. `anabranch doctor` lists what a host has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.live.emulate import emulate
from anabranch.live.parity import parity

if TYPE_CHECKING:
    from anabranch.live.run import run_live

__all__ = ["emulate", "parity", "run_live"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Import `run_live` at its first use: the gateway must start fast, without viewers or metrics."""
    if name == "run_live":
        from anabranch.live.run import run_live

        return run_live
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
