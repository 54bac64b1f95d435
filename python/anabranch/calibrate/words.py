"""Texts for values, numbers and verdicts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from anabranch._numbers import four_digits
from anabranch.calibrate.model import QUEUE_PACKETS

if TYPE_CHECKING:
    from anabranch.calibrate.compare import Comparison, Modes
    from anabranch.calibrate.model import Setting

_NAMES = {
    "goodput_mbps": "goodput, Mb/s",
    "max_read_gap_s": "largest gap between reads, s",
    "split_1_percent": "bytes on path 1, % of all",
    "stalls": "stalls",
    "resume_after_cut_s": "cut until data again, s",
    "startup_s": "startup, s",
    "rebuffer_count": "rebuffers",
    "rebuffer_s": "rebuffering, s",
    "lost_pictures": "lost pictures",
    "displayed_pictures": "displayed pictures",
    "bytes_acked": "bytes",
    "retrans_segs": "retransmissions",
    "cwnd_mean": "cwnd mean, segments",
    "cwnd_median": "cwnd median, segments",
    "srtt_mean_ms": "srtt mean, ms",
}
_SUBFLOW = re.compile(r"sf(\d)_(.*)")


def figure_name(figure: str) -> str:
    """Return a figure's name for people; `sf1_` becomes the path's number."""
    found = _SUBFLOW.fullmatch(figure)
    return f"path {found.group(1)}: {_NAMES[found.group(2)]}" if found else _NAMES[figure]


def path_words(setting: Setting) -> str:
    """Return the words for a setting's paths. A queue of the usual length is omitted."""
    return " | ".join(
        f"{leg.rtt_ms:g} ms, {leg.rate_mbps:g} Mb/s"
        + (f", {leg.loss:.2%} loss" if leg.loss else "")
        + (f", {leg.loss_up:.2%} loss of acknowledgements" if leg.loss_up else "")
        + (f", queue {leg.queue_packets}" if leg.queue_packets != QUEUE_PACKETS else "")
        for leg in setting.legs
    )


def error_words(comparison: Comparison) -> str:
    """Return the simulator's error in percent, or as a difference if the kernel's value is zero."""
    error = comparison.error
    if error is None:
        return ""
    return f"{error / comparison.kernel:+.1%}" if comparison.kernel else four_digits(error)


def verdict_words(comparison: Comparison) -> str:
    """Return the verdict with its reason, or with the shares and places of the modes."""
    if comparison.modes is None:
        return comparison.verdict + (f" ({comparison.why})" if comparison.why else "")
    return f"{comparison.verdict} ({mode_words(comparison.modes)})"


def mode_words(modes: Modes) -> str:
    """Return two modes' shares and places on both sides."""
    places = [
        f"{four_digits(mode.simulator)} beside {four_digits(mode.kernel)} ± {four_digits(mode.allowed)}"
        for mode in (modes.lower, modes.upper)
        if mode.simulator is not None
    ]
    return (
        f"two modes: below {four_digits(modes.split)} are {modes.kernel:.0%} of the kernel's, "
        f"{modes.low:.0%} to {modes.high:.0%}, and {modes.simulator:.0%} of the simulator's; "
        f"means {', '.join(places)}"
    )
