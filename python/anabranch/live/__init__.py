"""Real packets: network namespaces, an emulated network between them, our endpoint or a kernel at either end.

A scenario runs here as it does in the simulator, in real time. It takes root, `/dev/net/tun` and a Linux
kernel; `anabranch doctor` says what a host has.
"""

from anabranch.live.emulate import emulate
from anabranch.live.parity import parity
from anabranch.live.run import run_live

__all__ = ["emulate", "parity", "run_live"]
