"""Whether the gateway needs no more memory over time as clients change: `make soak MINUTES=10`, as root.

Clients over MPTCP and TCP send a megabyte and receive it back, one after the other and several at once.
Meanwhile, the second path goes down and comes back every five seconds. The clients send as fast as they can,
or at `RATE=20` Mbit/s in total in each direction. Memory and file descriptors are sampled all the time. The
run fails if a byte was wrong, if no client joined over the second path, or if more descriptors are open at
the end than at the start. It also fails if the memory of the last quarter exceeds that of the second quarter
by more than 2 %.
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

#: The number of concurrent clients, the data that each sends, and the time that the second path is up or
#: down, s.
_CLIENTS, _SAID, _FLAP_S = 4, uplinks.pattern(1_000_000), 5.0
#: The interval between reports of progress, s.
_TOLD_S = 60.0
#: The largest ratio of the memory in the last quarter to that in the second quarter.
_GROWTH = 1.02


class Clients:
    """Clients that connect one after the other, until they are stopped."""

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
        # A client that falls behind skips no turn, so the total rate is reached in the end.
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
        """Stop new clients, and wait for the last one to end."""
        self._over.set()
        for thread in self._threads:
            thread.join()


def main() -> int:
    """Run the clients, and judge."""
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
    # Half of the time passes between the middles of the two quarters.
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
