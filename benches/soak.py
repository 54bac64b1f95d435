"""Whether the gateway stays as it is under clients that come and go: `make soak MINUTES=10`, as root.

Clients over MPTCP and TCP say a megabyte and hear it again, one after the other and several at once, while
the second path goes down and comes back every five seconds. They do so as fast as they can, or at
`RATE=20` Mbit/s each way and all together. Memory and descriptors are looked at all the
while. The run fails if a byte was wrong, if no client joined over the second path, if more descriptors
are open in the end than in the beginning, or where the memory of the last quarter is above that of the second
by more than one part in fifty.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "live" / "gateway"))

import uplinks
from throughput import say

from anabranch.live.testbed import missing

#: Clients at one time, what each says, and how long the second path is up and down, s.
_CLIENTS, _SAID, _FLAP_S = 4, uplinks.pattern(1_000_000), 5.0
#: The interval between reports of progress, s.
_TOLD_S = 60.0
#: How much of the memory may be new in the last quarter.
_GROWTH = 1.02


class Clients:
    """Clients that come and go, until they are stopped."""

    def __init__(self, bench: uplinks.Lab, rate: float | None) -> None:
        self._bench = bench
        self._every = 0.0 if rate is None else _CLIENTS * len(_SAID) * 8 / (rate * 1e6)
        self._over = threading.Event()
        self.served, self.faults = 0, []
        self._threads = [threading.Thread(target=self._come_and_go, args=(at,)) for at in range(_CLIENTS)]
        self._threads.append(threading.Thread(target=self._flap))
        for thread in self._threads:
            thread.start()

    def _come_and_go(self, number: int) -> None:
        expected = uplinks.digest(_SAID)
        luck = random.Random(number)
        # A client that is slower than its turns skips none: the rate is that of all of them in the end.
        turn = time.monotonic() + luck.uniform(0, self._every)
        while not self._over.wait(max(0.0, turn - time.monotonic())):
            turn += luck.uniform(0.5, 1.5) * self._every
            try:
                with self._bench.connect(mptcp=number > 0) as client:
                    heard = uplinks.digest(uplinks.exchange(client, _SAID))
                if heard != expected:
                    self.faults.append("what was heard is not what was said")
                self.served += 1
            except OSError as error:
                self.faults.append(str(error))

    def _flap(self) -> None:
        while not self._over.wait(_FLAP_S):
            self._bench.host.run("ip link set up2 down")
            self._over.wait(_FLAP_S)
            self._bench.host.run("ip link set up2 up")

    def stop(self) -> None:
        """Let no more come, and wait until the last has gone."""
        self._over.set()
        for thread in self._threads:
            thread.join()


def main() -> int:
    """Let clients come and go, and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, help="Mbit/s each way of all; unlimited by default")
    given = parser.parse_args()
    lacks = missing()
    if lacks is not None:
        sys.stderr.write(f"soak: skipped: {lacks}\n")
        return 4
    memory: list[int] = []
    bench = uplinks.Lab()
    try:
        bench.second_path()
        with uplinks.Origin(bench.host, uplinks.echo), bench.gateway("--idle", "20 s") as running:
            opened = running.descriptors()
            clients = Clients(bench, given.rate)
            began = time.monotonic()
            until = began + given.minutes * 60
            told = began + _TOLD_S
            try:
                while time.monotonic() < until:
                    time.sleep(min(2.0, given.minutes))
                    memory.append(running.memory_kib())
                    if time.monotonic() >= told:
                        told += _TOLD_S
                        passed = (time.monotonic() - began) / 60
                        sys.stderr.write(
                            f"{passed:.0f} min: {clients.served} connections, {memory[-1]:,} KiB\n"
                        )
            finally:
                clients.stop()
            gone = 'connections{protocol="mptcp"}', 'connections{protocol="tcp"}'
            uplinks.wait(lambda: not any(running.metrics()[name] for name in gone), "all are gone")
            left, joined = running.descriptors(), running.metrics()["joined_subflows_total"]
    finally:
        bench.close()
    quarter = max(1, len(memory) // 4)
    before = statistics.median(memory[quarter : 2 * quarter] or memory)
    after = statistics.median(memory[-quarter:])
    # Between the middles of the two quarters half of the time passes.
    slope = (after - before) / (given.minutes / 2)
    say(
        f"{given.minutes:g} min: {clients.served} connections, {joined} joins, {len(clients.faults)} faults; "
        f"KiB {before:,.0f} in the second quarter, {after:,.0f} in the last, {max(memory):,} at most, "
        f"{slope:+.1f} a minute; descriptors {opened} before, {left} after"
    )
    for fault in clients.faults[:5]:
        sys.stderr.write(f"soak: {fault}\n")
    wrong = clients.faults or not joined or left > opened or after > _GROWTH * before
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
