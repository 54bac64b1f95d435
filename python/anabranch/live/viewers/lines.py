"""The reports of a player: each is a line of JSON with the time of the monotonic clock."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def tell(what: str, **more: Any) -> None:  # noqa: ANN401
    """Write a line, in one piece: several threads may write."""
    line = json.dumps({"t": time.monotonic(), "what": what, **more}) + "\n"
    os.write(sys.stdout.fileno(), line.encode())
