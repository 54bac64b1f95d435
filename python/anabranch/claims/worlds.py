"""Claims in random worlds: where each holds, what decides it, and the value of choosing a world.

All of this goes by means of a few runs in each world. Only the chosen world is tested, on another seed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from anabranch._distributions import beta_below, discoveries
from anabranch.claims import around
from anabranch.claims.judge import ALPHA
from anabranch.study.joint_worlds import factors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch.claims.statement import Stated
    from anabranch.claims.stored import Runs
    from anabranch.results.paired import Values
    from anabranch.study.joint_worlds import World
    from anabranch.study.models import Study

#: The number of random permutations behind a p-value, and their seed.
_PERMUTATIONS = 999
_SEED = 41
#: The share of the worlds that are the best ones, besides the single best.
_TENTH = 0.1


@dataclass(frozen=True, kw_only=True)
class Effect:
    """The share of a variance that an assumption explains.

    Attributes
    ----------
    factor
        The assumption, with those that are drawn like it.
    share
        Of the variance over the worlds, corrected for the number of values (epsilon squared).
    decided
        Whether it is there: by an F-test, adjusted over all assumptions and claims.
    """

    factor: str
    share: float
    decided: bool


@dataclass(frozen=True, kw_only=True)
class Skill:
    """Outcome of a claim that is left out, where the other claims hold.

    Attributes
    ----------
    best, tenth
        The share of claims that hold in the world, or in the tenth of the worlds, that the other claims
        select.
    apart, apart_prior
        The share in the tenth of the worlds that claims about other rows select, and in a random world. Only
        claims count that some other claim shares no row with; None if there are none.
    prior
        The share of claims that hold in a random world.
    p_best, p_tenth, p_apart
        The probability of at least this share if claims held independently of each other.
    """

    best: float
    tenth: float
    apart: float | None
    prior: float
    apart_prior: float | None
    p_best: float
    p_tenth: float
    p_apart: float | None

    @property
    def is_there(self) -> bool:
        """Return whether claims select worlds for other claims better than chance.

        If possible, this goes by claims about other rows: claims about the same runs agree without skill.
        """
        if self.p_apart is not None:
            return self.p_apart <= ALPHA
        return min(self.p_best, self.p_tenth) * 2 <= ALPHA


@dataclass(frozen=True, kw_only=True)
class Found:
    """The claims of a study in random worlds.

    Attributes
    ----------
    study
        The study.
    claims
        The claims that can be tested.
    worlds
        The worlds with runs.
    holds
        By claim whether it holds in each world; None if the world's runs do not say.
    effects
        By claim the effect of each assumption, largest first; under an empty name those on the number of
        claims that hold.
    skill
        The outcome of claims that are left out.
    """

    study: Study
    claims: Sequence[Stated]
    worlds: Sequence[World]
    holds: Mapping[str, Sequence[bool | None]]
    effects: Mapping[str, Sequence[Effect]]
    skill: Skill

    def counts(self) -> list[int]:
        """Return how many claims hold in each world."""
        return [sum(own[place] is True for own in self.holds.values()) for place in range(len(self.worlds))]

    def best(self) -> World:
        """Return the world in which the most claims hold, the first one if there are several."""
        counts = self.counts()
        return self.worlds[counts.index(max(counts))]

    def share(self, claim: str) -> float | None:
        """Return the share of worlds in which a claim holds; None if no world says."""
        known = [one for one in self.holds[claim] if one is not None]
        return sum(known) / len(known) if known else None


def judged(
    study: Study, stated: Sequence[Stated], worlds: Sequence[World], runs: Mapping[str, Runs]
) -> Found:
    """Return the claims of a study in random worlds.

    Parameters
    ----------
    study, stated
        The study and its claims.
    worlds
        The worlds.
    runs
        Their runs by the world's label; worlds without runs are left out.
    """
    present = [one for one in worlds if one.label in runs]
    claims = [one for one in stated if one.claim.missing is None]
    holds = {one.claim.id: [around.by_means(one, runs[world.label]) for world in present] for one in claims}
    return Found(
        study=study,
        claims=claims,
        worlds=present,
        holds=holds,
        effects=effects(study, present, holds),
        skill=skill(holds, {one.claim.id: _rows(one) for one in claims}),
    )


def _rows(one: Stated) -> frozenset[str]:
    """Return the rows that a claim is about."""
    return frozenset(str(dict(cell.labels).get("row")) for cell in one.cells())


def _matrix(holds: Mapping[str, Sequence[bool | None]]) -> Values:
    """Return a row for each world with 1 where a claim holds; a claim that is unknown does not."""
    import numpy as np

    return np.array([[one is True for one in own] for own in holds.values()], dtype=float).T


def effects(
    study: Study, worlds: Sequence[World], holds: Mapping[str, Sequence[bool | None]]
) -> dict[str, list[Effect]]:
    """Return the effect of each assumption on each claim, and under an empty name on their number."""
    import numpy as np

    matrix = _matrix(holds)
    values = np.column_stack([matrix, matrix.sum(axis=1)])
    found: list[tuple[str, str, float, float]] = []
    for head, members in factors(study).items():
        levels = [one.levels[head] for one in worlds]
        table = np.array([[level == one for one in dict.fromkeys(levels)] for level in levels], dtype=float)
        ratios = explained(table, values)
        for name, ratio in zip((*holds, ""), ratios, strict=True):
            share, p = tested(float(ratio), len(worlds), table.shape[1])
            found.append((name, ", ".join(members), share, p))
    adjusted = discoveries([p for *_, p in found])
    result: dict[str, list[Effect]] = {name: [] for name in (*holds, "")}
    for (name, factor, share, _), p in zip(found, adjusted, strict=True):
        result[name].append(Effect(factor=factor, share=share, decided=p <= ALPHA))
    return {name: sorted(own, key=lambda one: -one.share) for name, own in result.items()}


def explained(table: Values, values: Values) -> Values:
    """Return the share of each column's variance that groups explain; 0 if nothing varies.

    Parameters
    ----------
    table
        A row for each world, a column for each group, with 1 for the world's group.
    values
        A row for each world.
    """
    import numpy as np

    around_mean = values - values.mean(axis=0)
    total = (around_mean**2).sum(axis=0)
    sums = table.T @ around_mean
    between = (sums**2 / table.sum(axis=0)[:, None]).sum(axis=0)
    shares: Values = np.divide(between, total, out=np.zeros_like(total), where=total > 1e-9)
    return shares


def tested(ratio: float, count: int, groups: int) -> tuple[float, float]:
    """Return the explained share corrected for the number of groups (epsilon squared), and its p-value.

    Parameters
    ----------
    ratio
        The explained share.
    count, groups
        The number of worlds and of groups.
    """
    if count <= groups or groups < 2:
        return 0.0, 1.0
    corrected = 1 - (1 - ratio) * (count - 1) / (count - groups)
    # The F-test: without an effect, the share that is not explained has this beta distribution.
    p = beta_below(1 - ratio, ratio, (count - groups) / 2, (groups - 1) / 2)
    return max(corrected, 0.0), p


def skill(holds: Mapping[str, Sequence[bool | None]], rows: Mapping[str, frozenset[str]]) -> Skill:
    """Return how well the claims select a world for the claim that is left out.

    Parameters
    ----------
    holds
        By claim whether it holds in each world.
    rows
        By claim the rows that it is about.
    """
    import numpy as np

    matrix = _matrix(holds)
    every = 1 - np.eye(len(holds))
    apart = np.array([[float(not rows[one] & rows[other]) for other in holds] for one in holds])
    found = _left_out(matrix, every, apart)
    chance = np.random.default_rng(_SEED)
    others = [_left_out(chance.permuted(matrix, axis=0), every, apart) for _ in range(_PERMUTATIONS)]
    beaten = (np.array(others) >= np.array(found) - 1e-12).sum(axis=0)
    p_best, p_tenth, p_apart = ((1 + float(one)) / (1 + _PERMUTATIONS) for one in beaten)
    counted = apart.any(axis=1)
    return Skill(
        best=found[0],
        tenth=found[1],
        apart=found[2] if counted.any() else None,
        prior=float(matrix.mean()),
        apart_prior=float(matrix[:, counted].mean()) if counted.any() else None,
        p_best=p_best,
        p_tenth=p_tenth,
        p_apart=p_apart if counted.any() else None,
    )


def _left_out(matrix: Values, every: Values, apart: Values) -> tuple[float, float, float]:
    """Return the mean outcome of claims that are left out.

    The values are those in the best world and in the best tenth by all other claims, and in the best tenth by
    claims about other rows.

    Parameters
    ----------
    matrix
        A row for each world, a column for each claim.
    every, apart
        A row for each claim, with 1 in the columns of all others, and of those about other rows.
    """
    others = matrix @ every.T
    first = others == others.max(axis=0)
    best = (matrix * first).sum(axis=0) / first.sum(axis=0)
    counted = apart.any(axis=1)
    far = _in_the_best(matrix, matrix @ apart.T)[counted]
    return (
        float(best.mean()),
        float(_in_the_best(matrix, others).mean()),
        float(far.mean()) if far.size else 0.0,
    )


def _in_the_best(matrix: Values, others: Values) -> Values:
    """Return the mean of each column in the tenth of the worlds in which the most others hold."""
    import numpy as np

    few = max(1, round(_TENTH * len(matrix)))
    many = others >= np.sort(others, axis=0)[-few]
    means: Values = (matrix * many).sum(axis=0) / many.sum(axis=0)
    return means
