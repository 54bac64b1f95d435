"""A congestion control: additive increase, multiplicative decrease, as `reno` does it.

anabranch run bulk-two-paths --congestion examples/python/aimd.py:Aimd
anabranch run bulk-two-paths --congestion 'examples/python/aimd.py:Aimd(keep=0.7)'
"""


class Aimd:
    """One segment more a round trip, and a share of the window kept after a loss."""

    def __init__(self, keep=0.5):
        if not 0 < keep < 1:
            message = f"keep is between 0 and 1, not {keep}"
            raise ValueError(message)
        self.keep = keep
        self.counter = 0  # segments acknowledged towards the next increase

    def on_ack(self, ack, window):
        if not (ack.may_grow and ack.cwnd_limited):
            return
        acked = ack.acked_segments
        if window.in_slow_start:
            grown = min(window.cwnd + acked, window.ssthresh)
            acked -= grown - window.cwnd
            window.cwnd = grown
        if acked:
            self.increase(window, acked)

    def increase(self, window, acked):
        per = window.cwnd  # so many acknowledged segments make one more
        if self.counter >= per:
            self.counter = 0
            window.cwnd += 1
        self.counter += acked
        whole, self.counter = divmod(self.counter, per)
        window.cwnd += whole

    def on_congestion(self, event, window):
        self.counter = 0
        window.ssthresh = max(int(window.cwnd * self.keep), 2)
