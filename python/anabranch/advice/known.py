"""Results of earlier measurements, which an advice on films over several paths also states."""

from __future__ import annotations

#: The page with the figures, their sources and the costs.
PAGE = "docs/guide/advice.md#what-is-known"
#: The means of the study `returning-paths`, over its 200 worlds with handovers and the same worlds without.
SENTENCE = (
    "known from 200 drawn worlds with handovers: the picture of a film stood still for 14.39 s with the "
    "kernel's default scheduler and cubic, and for 8.03 s (-44 %) with min-rtt-0.9x and bbr; in the same "
    "worlds without handovers for 6.25 s and 1.64 s (-74 %). The costs are more retransmissions, and little "
    "bandwidth for other flows in short queues. For paths that come and go there is the preset `video` "
    f"({PAGE})"
)
