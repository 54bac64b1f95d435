"""Loss of quality: why an adaptive player stepped down to a lower rendition.

A player decides by how fast chunks came in, or by the length of its buffer. Both fall from the moment at
which the most was in hand, at the rate of the rendition that it leaves. The data missing from then on to the
request of the first lower chunk, while a request was open, is divided among the causes of freezes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from anabranch.metrics._adaptive import chunks
from anabranch.metrics._rows import rows
from anabranch.why.steps import Shortage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch.why.steps import Steps


@dataclass(frozen=True, kw_only=True)
class Drop(Shortage):
    """A step down: less came than the higher rendition takes.

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


class Asked:
    """The requests of an adaptive player; empty for another player.

    Parameters
    ----------
    own
        A client's tables.
    """

    def __init__(self, own: Mapping[str, Any]) -> None:
        asked = list(rows(own.get("chunks", {})))
        self._chunks = chunks(own)
        sound = [row for row in asked if row["track"] == "audio" and row["done_s"] is not None]
        self._rates = {
            rendition: _bps([row for row in self._chunks if row["rendition"] == rendition]) + _bps(sound)
            for rendition in {row["rendition"] for row in self._chunks}
        }
        # A chunk that was given up has no end: the next request is used.
        after = [row["t_s"] for row in asked[1:]]
        self._wanted = [
            (row["t_s"], end if row["done_s"] is None else row["done_s"])
            for row, end in zip(asked, [*after, float("inf")], strict=False)
        ]

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
                shares, behind = steps.causes(short, short, at_s, need, self._wanted)
                yield Drop(
                    client=client,
                    short_s=short,
                    at_s=at_s,
                    higher=one["name"],
                    lower=other["name"],
                    causes=shares,
                    behind=behind,
                )
            if other["rendition"] != one["rendition"]:
                since = other["t_s"]


def _bps(rows: list[dict[str, Any]]) -> float:
    """Return the mean rate of chunks."""
    return 8.0 * sum(row["bytes"] for row in rows) / sum(row["duration_s"] for row in rows) if rows else 0.0
