"""An adaptive-bitrate rule: the rule of `throughput` in Python.

anabranch run adaptive-two-paths --set application.abr=examples/python/throughput.py:Throughput
"""


class Mean:
    """An exponentially weighted mean, whose start at zero is corrected."""

    def __init__(self, half_life_s):
        self.half_life_s = half_life_s
        self.estimate = 0.0
        self.weight_s = 0.0

    def add(self, weight_s, value):
        kept = 0.5 ** (weight_s / self.half_life_s)
        self.estimate = value * (1.0 - kept) + kept * self.estimate
        self.weight_s += weight_s

    def get(self):
        seen = 1.0 - 0.5 ** (self.weight_s / self.half_life_s)
        return self.estimate / seen if seen > 0.0 else 0.0


class Throughput:
    """The highest rate within nine tenths of the throughput."""

    def __init__(self, safety=0.9, fast_s=3.0, slow_s=8.0):
        self.safety = safety
        self.means = (Mean(fast_s), Mean(slow_s))

    def choose(self, player):
        return player.highest_within(self.safety * min(mean.get() for mean in self.means))

    def on_chunk(self, chunk):
        if chunk.throughput_mbps is not None:
            for mean in self.means:
                mean.add(chunk.fetch_s, chunk.throughput_mbps)
