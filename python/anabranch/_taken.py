"""Where and when the capture of a simulated run is taken."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from anabranch.errors import Fault, InputError


@dataclass(frozen=True, kw_only=True)
class Taken:
    """Where and when the capture of a simulated run is taken.

    Attributes
    ----------
    at
        `client` or `server`.
    start
        The time at which the simulation begins; None is 1970.
    """

    at: str = "client"
    start: datetime | None = None

    def __post_init__(self) -> None:
        """Check the values."""
        if self.at not in ("client", "server"):
            hint = "`client` or `server`"
            raise InputError([Fault(message=f"no such place: `{self.at}`", where="pcapng_at", hint=hint)])
        if self.start is not None and (self.start.tzinfo is None or self.start.timestamp() < 0):
            hint = "for example 2026-11-27T12:00:00Z"
            raise InputError(
                [Fault(message="expected a time since 1970 with a zone", where="pcapng_start", hint=hint)]
            )

    @property
    def start_ns(self) -> int:
        """The start in nanoseconds since 1970."""
        if self.start is None:
            return 0
        since = self.start - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1_000
