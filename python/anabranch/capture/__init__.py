"""Captures of TCP and MPTCP sessions (pcap, pcapng): what each connection and each path did.

`read(file)` gives a `Capture`, and `sessions(capture)` what each session and path did. `read_capture(file)`
gives the largest session as a `Run`. docs/guide/capture.md
describes the keys and columns, and the differences between captures at a client and at a server.
"""

from anabranch.capture._http import Exchange, exchanges
from anabranch.capture._http import tables as http_tables
from anabranch.capture._pair import Connection, Pair, Way, match
from anabranch.capture._paths import NEEDS_LOG, Path, Session, sessions
from anabranch.capture._read import Capture, read
from anabranch.capture._rule import Rule
from anabranch.capture._scenario import PathFound, Written, paths
from anabranch.capture._scenario import write as write_scenario
from anabranch.capture._trace import Traced, joined, read_capture, traced
from anabranch.capture._uq18 import FIGURES, figures, uq18

__all__ = [
    "FIGURES",
    "NEEDS_LOG",
    "Capture",
    "Connection",
    "Exchange",
    "Pair",
    "Path",
    "PathFound",
    "Rule",
    "Session",
    "Traced",
    "Way",
    "Written",
    "exchanges",
    "figures",
    "http_tables",
    "joined",
    "match",
    "paths",
    "read",
    "read_capture",
    "sessions",
    "traced",
    "uq18",
    "write_scenario",
]
