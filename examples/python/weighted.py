"""A scheduler with a parameter, with state and with news: bytes in proportion to weights.

anabranch run bulk-two-paths --scheduler 'examples/python/weighted.py:Weighted(first=0.7)'
"""

from anabranch.plugins import Send, candidates


class Weighted:
    """The first subflow carries a share of the bytes, the others the rest in equal parts."""

    def __init__(self, first=0.5):
        if not 0 < first < 1:
            message = f"first is a share between 0 and 1, not {first}"
            raise ValueError(message)
        self.first = first
        self.sent = {}  # bytes by subflow

    def weight(self, subflow, count):
        return self.first if subflow == 0 else (1 - self.first) / max(count - 1, 1)

    def schedule(self, request, subflows):
        among = candidates(subflows)
        if not among:
            return None
        behind = min(
            among,
            key=lambda subflow: self.sent.get(subflow.id, 0) / self.weight(subflow.id, len(among)),
        )
        # The shares count: when the subflow that is behind has no room, the others wait for it.
        return Send(behind, burst_bytes=behind.mss_bytes) if behind.can_send else None

    def on_sent(self, subflow, from_byte, sent_bytes):
        self.sent[subflow] = self.sent.get(subflow, 0) + sent_bytes
