"""The Rust side: the simulator and the tables of plug-ins."""

from collections.abc import Callable
from typing import Any

class PlanError(ValueError):
    """The plan is refused: a parameter that its plug-in does not know, a value out of range."""

class SimulationError(RuntimeError):
    """A checker found the simulation to be wrong: a bug, never the user's fault."""

def schedulers() -> list[tuple[str, str]]: ...
def congestion_controls() -> list[tuple[str, str]]: ...
def path_managers() -> list[tuple[str, str]]: ...
def plugin_parameters(kind: str, name: str) -> list[tuple[str, str, str]]: ...
def check_plugin(kind: str, text: str) -> list[tuple[list[str], str, list[str]]]: ...
def simulate(
    plan_json: str,
    pcapng: str | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> dict[str, Any]: ...
def record_link(
    plan_json: str, link: str, window_ns: int, windows: int, ping_ns: int
) -> tuple[list[float], list[float]]: ...
