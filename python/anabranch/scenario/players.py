"""The player's settings in a scenario, and their names in the plan."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from anabranch.scenario._base import Pictures, PositiveTime, Size, Table, Time

#: The keys of `[application.player]` that both players have.
BOTH_PLAYERS = frozenset({"cmcd"})
#: The keys that only an adaptive player has; all others are the progressive one's.
ADAPTIVE_PLAYER = frozenset(
    {"model", "start_buffer", "resume_buffer", "max_buffer", "max_buffer_bytes", "append", "requests"}
)
#: The bytes that VLC reads ahead of the demuxer, by version. Version 2 has no thread for this, and reads up
#: to ten times `STREAM_READ_ATONCE` when the demuxer requests data (`stream.c`, `AStreamReadStream`). Version
#: 3 has a ring (`stream_filter/prefetch.c`).
PREFETCH = {2: 10 * 1024, 3: 16 * 2**20}
_PLAYER_NAMES = {"prefetch": "prefetch_bytes", "late_threshold": "late_threshold_pictures"}


class Player(Table):
    """The player's settings.

    The first keys are the progressive player's, named after VLC's; then the adaptive player's follow.
    """

    version: Literal[2, 3] = Field(default=3, description="major version of VLC")
    network_cache: PositiveTime = Field(default=10**9, description="media to buffer before playing")
    prefetch: Size | None = Field(default=None, description="bytes to read ahead of the demuxer")
    jitter_cap: Time | None = Field(default=None, description="how far the network delay may grow")
    delay_max: Time | None = Field(default=None, description="the longest network delay whatever the cache")
    late_threshold: Pictures | None = Field(default=None, description="how late a picture may be shown")
    start_margin: Time | None = Field(default=None, description="from the decision to play to the picture")
    clock_increment: PositiveTime | None = Field(default=None, description="step of an MP4's clock")
    extra_buffer: Time | None = Field(default=None, description="lead of the demuxer over the clock")
    pcr_period: PositiveTime | None = Field(default=None, description="time between an MPEG-TS's clocks")
    pcr_lead: Time | None = Field(default=None, description="lead of an MPEG-TS's clock over its pictures")
    broken_references: Literal["auto", "discard", "show"] | None = Field(
        default=None, description="what becomes of pictures whose references were lost"
    )
    probe_end: bool | None = Field(
        default=None, description="look behind an MP4's pictures before it plays, as VLC does"
    )
    probe_after: Time | None = Field(
        default=None, description="work on an MP4's header before VLC looks behind its pictures"
    )
    probe_for: Time | None = Field(default=None, description="how long VLC stands there; 0 is heard always")
    model: Literal["vlc", "hlsjs"] = Field(default="vlc", description="whose buffer an adaptive player has")
    start_buffer: Time | None = Field(default=None, description="film received before it plays")
    resume_buffer: Time | None = Field(default=None, description="the same after an underflow")
    max_buffer: PositiveTime | None = Field(default=None, description="film received ahead, at most")
    max_buffer_bytes: Size | None = Field(default=None, description="the same in bytes; the larger counts")
    append: Literal["stream", "whole"] | None = Field(
        default=None, description="show a chunk while it comes in, or when all of it is in"
    )
    requests: Literal["one-at-a-time", "one-a-track"] | None = Field(
        default=None, description="fetch pictures and sound by turns, or side by side"
    )
    cmcd: bool | None = Field(
        default=None, description="requests carry the buffer and the deadline (CTA-5004)"
    )

    def plan(self, *, adaptive: bool = False) -> dict[str, Any]:
        """Return the settings of one of the players by the plan's names.

        A missing one keeps the player's default.
        """
        suffixes = {int: "_ns"}
        given = self.model_dump(exclude_none=True)
        given = {name: given[name] for name in player_keys(adaptive=adaptive) if name in given}
        version = given.pop("version", None)
        if not adaptive:
            given.setdefault("prefetch", PREFETCH[version])
            given["closes_before_seek"] = version == 2
            if version == 2:
                # This player reads on demand, so a seek causes a request.
                given.setdefault("probe_after", 0)
        if adaptive:
            return {
                name if name == "max_buffer_bytes" else name + suffixes.get(type(value), ""): value
                for name, value in given.items()
            }
        return {
            _PLAYER_NAMES.get(name, name + suffixes.get(type(value), "")): value
            for name, value in given.items()
        }


def player_keys(*, adaptive: bool) -> list[str]:
    """Return the keys of `[application.player]` that one of the players has."""
    return [
        name for name in Player.model_fields if name in BOTH_PLAYERS or (name in ADAPTIVE_PLAYER) == adaptive
    ]
