"""An honest client that reads a stream while other clients attack the gateway."""

from __future__ import annotations

import itertools
import os
import threading
import time

from uplinks import wait

#: The rate of the stream, and the least rate at which the client must receive it, Mb/s.
RATE_MBPS, LEAST_MBPS = 50, 45
#: Time between two chunks of the stream, s.
_STEP_S = 0.01
#: The shortest time for a meaningful rate: a hundred chunks of the stream, s.
_LEAST_S = 1.0


def streams_first(talk):
    """Return a handler for an origin: a paced stream on its first connection, and `talk` on all others."""
    numbers = itertools.count()

    def either(connected):
        if next(numbers):
            return talk(connected)
        piece = os.urandom(int(RATE_MBPS * 1e6 / 8 * _STEP_S))
        began, sent = time.monotonic(), 0
        while True:
            connected.sendall(piece)
            sent += 1
            time.sleep(max(0.0, began + sent * _STEP_S - time.monotonic()))

    return either


class Bystander:
    """The honest client. It connects before all others, and reads inside `with`."""

    def __init__(self, lab, *, mptcp=True):
        self._socket = lab.connect(mptcp=mptcp)
        self._read = 0
        self._fault = None
        self._over = False
        self._thread = threading.Thread(target=self._reads, daemon=True)

    def _reads(self):
        try:
            self._socket.sendall(b"x")
            while not self._over:
                piece = self._socket.recv(1 << 16)
                if not piece:
                    self._fault = "the stream has ended"
                    return
                self._read += len(piece)
        except OSError as error:
            self._fault = self._fault or repr(error)

    def __enter__(self):
        self._thread.start()
        wait(lambda: self._read or self._fault, "the stream has begun")
        return self

    def __exit__(self, *_):
        self._over = True
        self._thread.join()
        self._socket.close()

    def meter(self):
        """Return a function that returns the rate in Mb/s since now, over at least `_LEAST_S`."""
        began, before = time.monotonic(), self._read

        def rate():
            time.sleep(max(0.0, began + _LEAST_S - time.monotonic()))
            assert self._fault is None, self._fault
            return (self._read - before) * 8e-6 / (time.monotonic() - began)

        return rate
