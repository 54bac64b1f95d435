"""Three ideas that the papers announce as future work; docs/announced.md has their results.

Admission by running measurements, a soft reading of RTX awareness, and a coupled control that uncouples at
the loss of a path.

anabranch run wifi-lte --scheduler 'examples/python/announced.py:Admitted(delay_range=3)'
"""

from anabranch.plugins import candidates

#: The weight of a new sample in a running mean, as in TCP's smoothed RTT.
_WEIGHT = 1 / 8


class Admitted:
    """UQ18: uses only subflows whose running RTT and throughput, and their variation, are in a range."""

    def __init__(self, delay_range=3.0, rate_range=4.0, variation=1.0):
        self.delay_range = delay_range
        self.rate_range = rate_range
        self.variation = variation
        self.rates = {}  # running mean and mean deviation of the delivery rate by subflow, Mb/s

    def on_event(self, now_ms, subflow, event):
        if event.kind == "closed":
            self.rates.pop(subflow, None)

    def note(self, subflow):
        rate = subflow.delivery_rate_mbps
        if rate > 0:
            mean, deviation = self.rates.get(subflow.id, (rate, 0.0))
            deviation += _WEIGHT * (abs(rate - mean) - deviation)
            self.rates[subflow.id] = mean + _WEIGHT * (rate - mean), deviation

    def is_admitted(self, subflow, nearest_ms, fastest):
        mean, deviation = self.rates.get(subflow.id, (0.0, 0.0))
        if subflow.srtt_ms > self.delay_range * nearest_ms or mean == 0:
            # Without a sample of its rate, a subflow in the range of delays may send.
            return subflow.srtt_ms <= self.delay_range * nearest_ms
        is_steady = (
            deviation <= self.variation * mean and subflow.rttvar_ms <= self.variation * subflow.srtt_ms
        )
        return is_steady and mean * self.rate_range >= fastest

    def schedule(self, request, subflows):
        alive = [one for one in candidates(subflows) if not one.potentially_failed] or candidates(subflows)
        for one in alive:
            self.note(one)
        nearest = min(alive, key=lambda one: one.srtt_ms, default=None)
        if nearest is None:
            return None
        fastest = max(self.rates.get(one.id, (0.0, 0.0))[0] for one in alive)
        admitted = [one for one in alive if one is nearest or self.is_admitted(one, nearest.srtt_ms, fastest)]
        free = [one for one in admitted if one.can_send]
        return min(free, key=lambda one: one.srtt_ms, default=None)


class Prefers:
    """SD18: prefers subflows that do not retransmit, and uses the others if no other one can send."""

    def schedule(self, request, subflows):
        free = [one for one in candidates(subflows) if one.can_send]
        return min(free, key=lambda one: (self.is_repairing(one), one.srtt_ms), default=None)

    def is_repairing(self, subflow):
        return subflow.state in ("Recovery", "Loss") and not subflow.repaired


class Survivor:
    """HO20: LIA (RFC 6356) that grows like Reno while another subflow has failed, if `uncouples`."""

    wants_siblings = True

    def __init__(self, uncouples=True):
        self.uncouples = uncouples
        self.credit = 0.0

    def on_ack(self, ack, window):
        if not (ack.may_grow and ack.cwnd_limited):
            return
        if window.in_slow_start:
            window.cwnd += ack.acked_segments
            return
        self.credit += ack.acked_segments * self.per_segment(ack, window)
        whole = int(self.credit)
        window.cwnd += whole
        self.credit -= whole

    def per_segment(self, ack, window):
        """Return the growth for each acknowledged segment, segments."""
        alone = 1 / window.cwnd
        known = [one for one in ack.siblings if one.usable and one.srtt_ms]
        if self.uncouples and any(self.is_lost(one) for one in known if one.id != ack.id):
            return alone
        total = sum(one.cwnd_segments for one in known)
        if not total:
            return alone
        best = max(one.cwnd_segments / one.srtt_ms**2 for one in known)
        rates = sum(one.cwnd_segments / one.srtt_ms for one in known)
        # alpha / total, with alpha = total * best / rates**2.
        return min(best / rates**2, alone)

    def is_lost(self, sibling):
        return sibling.consecutive_timeouts > 0

    def on_congestion(self, event, window):
        window.ssthresh = max(window.cwnd // 2, 2)
        self.credit = 0.0
