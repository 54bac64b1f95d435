"""Loss of quality: why an adaptive player stepped down to a lower rendition.

A player decides by the rate at which chunks arrived, or by the length of its buffer. Both fall from the
moment of the fullest buffer on, if data arrives more slowly than the rate of the current rendition. The
step's causes are those of the data that was missing from that moment until the request of the first lower
chunk. Only times with an open request count. The causes are the same as for freezes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._adaptive import chunks
from anabranch.metrics._rows import rows
from anabranch.why.steps import Causes, Shortage, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from anabranch.why.steps import Steps


@dataclass(frozen=True, kw_only=True)
class Drop(Shortage):
    """A step down: less data arrived than the higher rendition needs.

    Attributes
    ----------
    at_s
        The time of the request for a lower chunk.
    higher, lower
        The renditions, by name.
    """

    at_s: float
    higher: str
    lower: str

    def to_json(self, **own: object) -> dict[str, Any]:
        """Return it as JSON can have it."""
        return super().to_json(**{"at_s": round(self.at_s, 3), "from": self.higher, "to": self.lower, **own})


@dataclass(frozen=True, kw_only=True)
class Held:
    """A chunk that was played below the top rendition, with the reasons against the next higher one.

    Attributes
    ----------
    client
        The client.
    at_s, duration_s
        The time of the request, and the film in it.
    rendition, higher
        The rendition, and the next higher one.
    measured_mbps
        The rate at which the last chunk before the request arrived; None if no candidate can be.
    needs_mbps, declares_mbps
        The mean rate of the higher rendition, and the rate that the playlist declares.
    causes, paths
        The share of each reason, and of each path in it.
    """

    client: int
    at_s: float
    duration_s: float
    rendition: str
    higher: str
    measured_mbps: float | None
    needs_mbps: float
    declares_mbps: float
    causes: Mapping[str, float]
    paths: Mapping[str, Mapping[str, float]]

    def to_json(self) -> dict[str, Any]:
        """Return it as an object for JSON."""
        measured = None if self.measured_mbps is None else round(self.measured_mbps, 3)
        return {
            "client": self.client,
            "at_s": round(self.at_s, 3),
            "duration_s": round(self.duration_s, 3),
            "rendition": self.rendition,
            "higher": self.higher,
            "measured_mbps": measured,
            "needs_mbps": round(self.needs_mbps, 3),
            "declares_mbps": round(self.declares_mbps, 3),
            "causes": rounded(self.causes),
            "paths": {cause: rounded(parts) for cause, parts in self.paths.items()},
        }


def _held(
    client: int,
    row: Mapping[str, Any],
    higher: Mapping[str, Any],
    done: Mapping[str, Any] | None,
    needs_bps: float,
    steps: Steps,
) -> Held:
    """Return the reasons against the next higher rendition for a chunk, by the chunk before it."""
    measured = None if done is None else done["throughput_mbps"]
    if done is None or measured is None:
        found = Causes(shares={"not measured": 1.0})
    elif 1e6 * measured >= needs_bps:
        found = Causes(shares={"rule of the player": 1.0})
    else:
        begin, end = done["t_s"], done["done_s"]
        # If even full use of all paths would not reach the rate, the use of the paths is not a reason.
        could = steps.could_bps(begin, end)
        lacks = could is not None and could < needs_bps
        found = Causes(shares={"capacity": 1.0}) if lacks else steps.causes(begin, begin, end, needs_bps)
    return Held(
        client=client,
        at_s=row["t_s"],
        duration_s=row["duration_s"],
        rendition=row["name"],
        higher=higher["name"],
        measured_mbps=measured,
        needs_mbps=needs_bps / 1e6,
        declares_mbps=higher["bandwidth_bps"] / 1e6,
        causes=found.shares,
        paths=found.paths,
    )


class Asked:
    """The requests of an adaptive player; empty for another player.

    Parameters
    ----------
    own
        A client's tables.
    """

    def __init__(self, own: Mapping[str, Any]) -> None:
        # A player's log may lack the time of a request.
        asked = [row for row in rows(own.get("chunks", {})) if row["t_s"] is not None]
        self._chunks = [row for row in chunks(own) if row["t_s"] is not None]
        self._ladder = [row for row in rows(own.get("renditions", {})) if row["track"] == "video"]
        sound = [row for row in asked if row["track"] == "audio" and row["done_s"] is not None]
        self._rates = {
            rendition: _bps([row for row in self._chunks if row["rendition"] == rendition]) + _bps(sound)
            for rendition in {row["rendition"] for row in self._chunks}
        }
        # An abandoned chunk has no end, so the time of the next request is used.
        after = [row["t_s"] for row in asked[1:]]
        self._wanted = [
            (row["t_s"], end if row["done_s"] is None else row["done_s"])
            for row, end in zip(asked, [*after, float("inf")], strict=False)
        ]

    @property
    def wanted(self) -> Sequence[tuple[float, float]] | None:
        """The times with an open request: from and to, seconds; None for a player without chunks."""
        return self._wanted if self._chunks else None

    def held(self, client: int, steps: Steps) -> Iterator[Held]:
        """Yield the chunks below the top rendition, each with the reasons against the next higher one.

        Parameters
        ----------
        client
            The client.
        steps
            Its samples.
        """
        ladder = {row["rendition"]: row for row in self._ladder}
        done: dict[str, Any] | None = None
        for row in sorted(self._chunks, key=lambda row: row["t_s"]):
            higher = ladder.get(row["rendition"] + 1)
            if done is not None and done["done_s"] > row["t_s"]:
                done = None
            # A player's log may lack rates and lengths.
            if higher is not None and higher["bandwidth_bps"] and row["duration_s"]:
                yield _held(client, row, higher, done, self._above(higher), steps)
            done = row

    def _above(self, row: Mapping[str, Any]) -> float:
        """Return the mean rate of a rendition in bit/s: measured if it was played, else declared."""
        declared = row["average_bps"] or row["bandwidth_bps"]
        return self._rates.get(row["rendition"]) or float(declared)

    def need_bps(self, at_s: float) -> float:
        """Return the rate of the rendition that was requested last by a time; 0 without any."""
        before = [row for row in self._chunks if row["t_s"] <= at_s] or self._chunks[:1]
        return self._rates[before[-1]["rendition"]] if before else 0.0

    def drops(self, client: int, steps: Steps) -> Iterator[Drop]:
        """Yield the steps down with their causes.

        Parameters
        ----------
        client
            Whose they are.
        steps
            Its samples.
        """
        since = self._chunks[0]["t_s"] if self._chunks else 0.0
        for one, other in pairwise(self._chunks):
            if other["rendition"] < one["rendition"]:
                need, at_s = self._rates[one["rendition"]], other["t_s"]
                short = steps.fullest(since, at_s, need)
                found = steps.causes(short, short, at_s, need, self._wanted)
                yield Drop(
                    client=client,
                    short_s=short,
                    at_s=at_s,
                    higher=one["name"],
                    lower=other["name"],
                    causes=found.shares,
                    behind=found.behind,
                    paths=found.paths,
                )
            if other["rendition"] != one["rendition"]:
                since = other["t_s"]


def _bps(rows: list[dict[str, Any]]) -> float:
    """Return the mean rate of the chunks of known size and length; 0 without any."""
    known = [row for row in rows if row["bytes"] is not None and row["duration_s"]]
    lasts_s = sum(row["duration_s"] for row in known)
    return 8.0 * sum(row["bytes"] for row in known) / lasts_s if known else 0.0
