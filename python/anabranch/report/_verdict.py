"""The verdict on a run, in a sentence or two, for the top of its page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.metrics._still import FREEZE_S
from anabranch.report import _log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from anabranch._run import Run
    from anabranch.comparison import Comparison

#: The kinds of verdict, which colour the edge of the box.
GOOD, BAD, OPEN = "good", "bad", ""


def of_run(run: Run, frozen_s: Mapping[str, float]) -> tuple[list[str], str]:
    """Return the sentences about a run, and their kind of verdict.

    Parameters
    ----------
    run
        The run.
    frozen_s
        Seconds frozen by cause, of the clients that were looked at.
    """
    if run.summary.get("log") is not None:
        return _log.verdict(run)
    if run.qoe is None:
        return [f"{_carried(run)}."], OPEN
    started = run.qoe["startup_delay_s"]
    if started is None:
        never = f"Nothing was played in {run.duration_s:.1f} s: the player never started"
        return [f"{never}. {_carried(run)}."], BAD
    froze = run.qoe["buffer_underflows"] > 0 or (run.qoe["still_longest_s"] or 0.0) >= FREEZE_S
    lost = run.qoe.get("picture_discards", 0) > 0
    begun = _frozen(run.qoe, frozen_s) if froze else "Played without a freeze"
    parts = [f"started after {started:.2f} s", *_quality(run.qoe)]
    short = not run.qoe["reached_end"]
    if short:
        parts.append(f"did not reach the end: {run.qoe['unplayed_s']:,.1f} s of film were not shown")
    if run.plan["clients"] > 1:
        parts.insert(0, f"means over {run.plan['clients']} clients")
    tone = BAD if froze or lost or short else GOOD
    return [f"{begun}: {'; '.join(parts)}.", f"{_carried(run)}."], tone


def of_comparison(comparison: Comparison) -> tuple[list[str], str]:
    """Return the sentences about a comparison of paths, and their kind of verdict."""
    from anabranch.comparison import verdict

    found = {one.verdict for one in comparison.added}
    tone = GOOD if found == {verdict.HELPS} else BAD if verdict.HURTS in found else OPEN
    sentences = [f"{sentence}." for sentence in comparison.sentences]
    return [*sentences, f"{comparison.fidelity.sentence}."], tone


def beside(sentences: Sequence[str]) -> str:
    """Return the sentences about a run as a single line, which is shown below those about a comparison."""
    first, *rest = sentences
    return " ".join((f"This run: {first[0].lower()}{first[1:].replace(': ', ', ', 1)}", *rest))


def _frozen(qoe: Mapping[str, Any], frozen_s: Mapping[str, float]) -> str:
    """Return a text with the time without a new picture and its main cause."""
    still, longest = qoe["still_s"] or 0.0, qoe["still_longest_s"] or 0.0
    text = f"Stood still for {still:.1f} s in all, for {longest:.1f} s at most"
    whole = sum(frozen_s.values())
    if whole <= 0:
        return text
    from anabranch.why import CAUSES

    cause, most = next(iter(frozen_s.items()))
    reason = "for no cause that is seen" if cause == "unexplained" else f"because {CAUSES[cause]}"
    return f"{text}, {100 * most / whole:.0f} % of it {reason}"


def _quality(qoe: Mapping[str, Any]) -> list[str]:
    """Return sentences about the quality of the pictures."""
    if "frames" in qoe:
        frames = qoe["frames"]
        missed = frames["total"] - frames["displayed"]
        # If a session ends before the film, some pictures were never due.
        if missed <= 0:
            return [f"all {frames['total']:,.0f} pictures shown"]
        if not qoe["finished"]:
            return [f"{frames['displayed']:,.0f} pictures shown, {frames['discarded']:,.0f} discarded"]
        return [f"{missed:,.4g} of {frames['total']:,.0f} pictures not shown"]
    parts = []
    if qoe["resolution_mean"] is not None:
        parts.append(f"{qoe['resolution_mean']:.0f}p in the mean")
    parts.append(f"{100 * qoe['top_share']:.0f} % of the time at the top")
    switches = qoe["resolution_changes"]
    return [*parts, f"{switches:.3g} change{'' if switches == 1 else 's'} of rendition"]


def _carried(run: Run) -> str:
    """Return a sentence about the delivered data and its paths."""
    rate = f"{run.qos['goodput_mbps']:.2f} Mb/s of goodput"
    shares = _shares(run.qos["subflows"])
    return f"{rate}, {', '.join(shares)}" if len(shares) > 1 else rate


def _shares(subflows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the share of the bytes that each path carried."""
    carried: dict[str, float] = {}
    for row in subflows:
        carried[row["path"]] = carried.get(row["path"], 0.0) + row["bytes"]
    whole = sum(carried.values())
    return (
        [f"{100 * count / whole:.0f} % of the bytes on {path}" for path, count in carried.items()]
        if whole
        else []
    )
