"""What makes a run this run: the plan with its seed, the program, and the plug-ins' sources.

A run's digest tells what happened; its identity tells, before it has happened, whether it would be the
same run.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def identity(plan: Mapping[str, Any], plugins: Mapping[str, str]) -> str:
    """Return the identity of a run, as SHA-256 in hex.

    Parameters
    ----------
    plan
        What the simulator is given: the scenario with every default, the seed and the run.
    plugins
        The hash of each Python plug-in's sources, by its name.
    """
    from anabranch import __version__

    whole = {"plan": plan, "plugins": plugins, "version": __version__}
    text = json.dumps(whole, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
