"""The rule of adaptation of a captured film: the built-in rule whose run agrees best with the session.

A capture and a log of CMCD do not show which rule a player had, and the renditions depend on it. The scenario
is run once with each built-in rule and its player. The runs are compared by the renditions of the same
chunks, and then by goodput.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from anabranch import _run
from anabranch.errors import Fault, InputError, MissingError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from pathlib import Path

    from anabranch._run import Run

#: The built-in rules, each with the player that has it. Of rules that agree equally, the first is taken.
_RULES = (
    ("hlsjs", "hlsjs"),
    ("vlc-nearoptimal", "vlc"),
    ("vlc-rate", "vlc"),
    ("throughput", "hlsjs"),
    ("bola", "hlsjs"),
    ("mpc", "hlsjs"),
)
#: Goodputs that differ by less than this share agree equally.
_NEAR = 0.05
#: A rule repeats a session if this share of the chunks has the same rendition.
_LEAST_SHARE = 0.8
#: A rule repeats a session if its goodput differs by no more than this share.
_MOST_APART = 0.1


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """The agreement of a rule's run with the session.

    Attributes
    ----------
    rule, player
        The rule of adaptation, and the model of the player.
    same, chunks
        The chunks with the session's rendition, and all chunks that the session or the run requested.
    apart
        The run's goodput over the session's, less 1.
    """

    rule: str
    player: str
    same: int
    chunks: int
    apart: float

    @property
    def order(self) -> tuple[float, float]:
        """The key by which agreements are sorted, the best first."""
        return -self.same / self.chunks, max(abs(self.apart), _NEAR)

    @property
    def repeats(self) -> bool:
        """Whether the run repeats the session."""
        return self.same >= _LEAST_SHARE * self.chunks and abs(self.apart) <= _MOST_APART

    def __str__(self) -> str:
        """Return the agreement in words."""
        return (
            f"`{self.rule}` with the player `{self.player}`: {self.same} of {self.chunks} chunks "
            f"have the session's rendition, goodput {round(100 * self.apart) + 0:+d} %"
        )


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The built-in rule that agrees best with a session, and the next one."""

    best: Agreement
    next: Agreement | None

    def sentences(self) -> Iterator[str]:
        """Yield what was compared."""
        if self.best.repeats:
            yield f"The rule of adaptation agrees best with the session: {self.best}."
        else:
            yield f"No built-in rule of adaptation repeats the session. The closest: {self.best}."
        if self.next is not None:
            equal = " agrees equally" if self.next.order == self.best.order else ""
            yield f"The next{equal}: {self.next}."

    @property
    def fault(self) -> Fault | None:
        """The warning if no rule repeats the session."""
        if self.best.repeats:
            return None
        message = f"no built-in rule of adaptation repeats the session. The closest: {self.best}"
        hint = "do not rely on what-ifs of this film; give its ladder with --ladder, or set `abr` yourself"
        return Fault(message=message, hint=hint)


def best(scenario: Path, session: Run) -> Rule | None:
    """Return the rule that agrees best with a session; None if no chunk of it has a rendition.

    Parameters
    ----------
    scenario
        The scenario of the session, with any rule.
    session
        The session.
    """
    chosen = renditions(session)
    goodput = session.qos["goodput_mbps"]
    if not chosen or not goodput:
        return None
    found = []
    for rule, player in _RULES:
        keys = {"application.abr": rule, "application.player.model": player}
        try:
            run = _run.run(scenario, set=keys, progress=False)
        except (InputError, MissingError):
            # The same error ends a run of the scenario, and is explained there.
            return None
        same, chunks = compared(chosen, renditions(run), _rates(run).values())
        apart = run.qos["goodput_mbps"] / goodput - 1
        found.append(Agreement(rule=rule, player=player, same=same, chunks=chunks, apart=apart))
    return ranked(found)


def ranked(found: list[Agreement]) -> Rule:
    """Return the best of the agreements and the next one."""
    first, *others = sorted(found, key=lambda one: one.order)
    return Rule(best=first, next=next(iter(others), None))


def renditions(run: Run) -> dict[int, float]:
    """Return the declared rate of the rendition of each chunk with pictures, in bit/s, by number from 0."""
    rates = _rates(run)
    found: dict[int, float] = {}
    for at, row in enumerate(one for one in run.rows("chunks") if one["track"] == "video"):
        rate = rates.get(row["rendition"])
        if rate and not row["abandoned"]:
            found[_number(row, at)] = rate
    first = min(found, default=0)
    return {number - first: rate for number, rate in found.items()}


def _rates(run: Run) -> dict[int, float]:
    """Return the declared rate of each rendition with pictures, in bit/s."""
    return {
        row["rendition"]: rate
        for row in run.rows("renditions")
        if row["track"] == "video" and (rate := row["bandwidth_bps"] or row["average_bps"])
    }


def _number(row: Mapping[str, Any], at: int) -> int:
    """Return the number of a chunk; its place if the log does not number chunks."""
    return at if row["index"] is None else int(row["index"])


def compared(
    session: Mapping[int, float], run: Mapping[int, float], rungs: Collection[float]
) -> tuple[int, int]:
    """Return how many chunks have the same rendition in both, and how many either has.

    A rendition of the session is the one of the run's `rungs` whose rate is nearest: one rate may include
    the sound.
    """
    names = {rate: min(rungs, key=lambda one: abs(log(one / rate))) for rate in set(session.values())}
    same = sum(run.get(number) == names[rate] for number, rate in session.items())
    return same, len(session.keys() | run.keys())
