"""Logs of players: VLC, hls.js, dash.js, and Common Media Client Data in access logs.

`read(file)` gives a `PlayerLog` with rows of a trace's tables. `read_log(file)` gives them as a `Run`, and
`merge` adds them to a captured session. docs/guide/player-logs.md describes the kinds of logs.
"""

from anabranch.logs._merge import alone, merge, read_log
from anabranch.logs._parsed import BadLine, PlayerLog
from anabranch.logs._read import KINDS, read

__all__ = ["KINDS", "BadLine", "PlayerLog", "alone", "merge", "read", "read_log"]
