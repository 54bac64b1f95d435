"""The report's parts about a session that is known from a player's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from anabranch._run import Run

#: Counts of messages, in words.
WORDS: Mapping[str, str] = {
    "requests": "requests",
    "stalls": "stalls",
    "stalled_s": "seconds of stalls",
    "events": "reports of events",
    "switches": "changes of rendition",
    "dropped_pictures": "pictures dropped by the browser",
    "lost_pictures": "pictures lost, too late to be displayed",
    "late_pictures": "pictures that might be late",
    "hurried_pictures": "messages of a decoder in haste",
    "late_sound": "messages of late sound",
    "rebuffers": "times of buffering again",
    "ignored_jitters": "delays that VLC ignored",
    "first_fill_s": "seconds of the first buffering",
    "refill_s": "seconds of buffering again",
}


def verdict(run: Run) -> tuple[list[str], str]:
    """Return the sentences about a session, and the kind of verdict: `bad`, `good`, or empty."""
    log, qoe = run.summary["log"], run.qoe
    first = f"Log of {log['kind']}: {', '.join(counts(log['counts']))}."
    more = [f"The log is {log['aligned_by']}."] if "aligned_by" in log else []
    if qoe is None:
        return [first, *more], ""
    stalls = qoe["buffer_underflows"]
    if stalls:
        begun = f"Stalled {stalls:g} time{'s' if stalls != 1 else ''}, for {qoe['rebuffer_s']:.1f} s in all"
    else:
        begun = "Played without a stall that the log shows"
    started = qoe["startup_delay_s"]
    latest = " at the latest" if log.get("starts_by") else ""
    start = "" if started is None else f"; started after {started:.2f} s{latest}"
    lost = qoe.get("picture_discards") or 0
    seen = qoe["finished"] is not None
    return [f"{begun}{start}.", first, *more], "bad" if stalls or lost else "good" if seen else ""


def counts(found: Mapping[str, Any]) -> list[str]:
    """Return the counts of a log in words. Those of rare messages are left out if they are 0."""
    kept = {"stalls", "rebuffers", "requests", "lost_pictures"}
    given = {name: value for name, value in found.items() if value or name in kept}
    return [f"{value:,g} {WORDS[name]}" for name, value in given.items()]


def headline(run: Run) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the headline numbers: value, unit, label, and whether the value is bad."""
    qoe = run.qoe
    if qoe is None:
        for name, value in run.summary["log"]["counts"].items():
            yield f"{value:,g}", "", WORDS[name], False
        return
    startup, stalls = qoe["startup_delay_s"], qoe["buffer_underflows"]
    yield (
        "–" if startup is None else f"{startup:.2f}",
        "s",
        f"startup delay{', at the latest' if run.summary['log'].get('starts_by') else ''}",
        False,
    )
    yield f"{stalls:g}", "", "stalls", stalls > 0
    yield f"{qoe['rebuffer_s']:.1f}", "s", "of stalls", qoe["rebuffer_s"] > 0
    if (lost := qoe.get("picture_discards")) is not None:
        yield f"{lost:,g}", "", "pictures discarded", lost > 0
    if (changes := qoe.get("resolution_changes")) is not None:
        yield f"{changes:g}", "", "changes of rendition", False
    if (top := qoe.get("top_share")) is not None:
        yield f"{100 * top:.0f}", "%", "of the time at the top", False
    if run.qos["goodput_mbps"] is not None:
        yield f"{run.qos['goodput_mbps']:.2f}", "Mb/s", "goodput", False
