"""Captures of TCP and MPTCP sessions (pcap, pcapng): what each connection and each path did.

`read(file)` gives a `Capture`, and `sessions(capture)` what each session and path did. docs/guide/capture.md
describes the keys and columns, and the differences between captures at a client and at a server.
"""

from anabranch.capture._paths import Path, Session, sessions
from anabranch.capture._read import Capture, read

__all__ = ["Capture", "Path", "Session", "read", "sessions"]
