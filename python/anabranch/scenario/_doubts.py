"""What a scenario may say, but hardly means."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anabranch.scenario import profiles

if TYPE_CHECKING:
    from anabranch.errors import Fault
    from anabranch.scenario._faults import Source


def retries(source: Source) -> list[Fault]:
    """Return a warning if the longest timeout is given without the number of retries, or vice versa."""
    given = source.raw.get("transport")
    if not isinstance(given, dict) or ("rto_max" in given) == ("retries" in given):
        return []
    of_preset = profiles.preset(given.get("preset")).get("rto_max")
    if of_preset is not None and given.get("rto_max", of_preset) == of_preset:
        return []
    if "rto_max" in given:
        message = "given without retries, so a connection lasts as long as with 120 s"
        hint = (
            "Linux counts retries: with tcp_rto_max_ms = 1000 its 15 end a connection after 14 s of silence; "
            "raise tcp_retries2 (255 at most, 254 s), and set transport.retries to the same number here"
        )
        return [source.fault(("transport", "rto_max"), message, hint=hint)]
    message = "given without rto_max, so timeouts double up to 120 s"
    hint = "15 retries last 924.6 s then; set transport.rto_max too if that is not meant"
    return [source.fault(("transport", "retries"), message, hint=hint)]
