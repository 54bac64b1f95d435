"""Results of earlier measurements that an advice on films over several paths states beside its own."""

from __future__ import annotations

#: The page with the figures, their sources and the costs.
PAGE = "docs/guide/advice.md#what-is-known"
#: Freeze seconds and a thirtieth of a second for each lost picture, means over 36 worlds: 7.54 and 2.32.
SENTENCE = (
    "known from 36 random worlds: a film had 7.5 s of freezes and lost pictures with linux and cubic, the "
    "kernel's default and ours, and 2.3 s (-69 %) with min-rtt-0.9x and bbr. The costs are more "
    "retransmissions, and little bandwidth for other flows in short queues. For paths that come and go there "
    f"is the preset `video` ({PAGE})"
)
