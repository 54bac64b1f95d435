"""Chromium without a window, driven over its DevTools protocol.

The protocol is JSON over a WebSocket. Tornado, a dependency of `distributed`, has a client for both. A driver
such as playwright would need a separate Node.js of a hundred megabytes for the ten calls of these tests.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import asynccontextmanager

from anabranch.live.viewers.hlsjs import browser as found

#: The longest time for a call, in seconds. Only a call that hangs takes longer.
_PATIENCE_S = 120.0


class Page:
    """A page of a browser, with its requests to the network and its errors.

    Attributes
    ----------
    requests
        The addresses of everything that the page loaded or requested.
    errors
        Exceptions, errors and warnings of the console.
    """

    def __init__(self, socket):
        self._socket, self._session, self._number = socket, None, 0
        self.requests, self.errors, self._events = [], [], []

    async def call(self, method, **given):
        """Call a method of the protocol and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": given}
        if self._session is not None:
            message["sessionId"] = self._session
        await self._socket.write_message(json.dumps(message))
        while True:
            heard = await self._hear()
            if heard.get("id") == self._number:
                if "error" in heard:
                    raise RuntimeError(f"{method}: {heard['error']['message']}")
                return heard["result"]

    async def _hear(self):
        """Return the next message. Events of the page are recorded."""
        text = await asyncio.wait_for(self._socket.read_message(), _PATIENCE_S)
        if text is None:
            raise RuntimeError("the browser has gone")
        heard = json.loads(text)
        method, given = heard.get("method"), heard.get("params", {})
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.errors.append(given["exceptionDetails"])
        elif method == "Runtime.consoleAPICalled" and given["type"] in ("error", "warning", "assert"):
            self.errors.append(given)
        elif method == "Log.entryAdded" and given["entry"]["level"] in ("error", "warning"):
            self.errors.append(given["entry"])
        return heard

    async def attach(self):
        """Open a new page."""
        target = await self.call("Target.createTarget", url="about:blank")
        answer = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def open(self, address, *, width, dark=False):
        """Show a page of a width in CSS pixels, and wait until it is loaded."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.call("Emulation.setEmulatedMedia", features=scheme)
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._events.clear()
        await self.call("Page.navigate", url=address)
        while "Page.loadEventFired" not in self._events:
            await self._hear()

    async def value(self, expression):
        """Return the value of an expression in the page."""
        answer = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def mouse(self, kind, x, y, *, clicks=0):
        """Move the mouse, or press or release its left button, at a place of the window."""
        button = "none" if kind == "mouseMoved" and not clicks else "left"
        await self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=clicks)

    async def key(self, key):
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            await self.call("Input.dispatchKeyEvent", type=kind, key=key)

    async def pdf(self, width, height):
        """Return the page on paper of a size in inches, as the bytes of a PDF."""
        size = {"paperWidth": width, "paperHeight": height}
        answer = await self.call("Page.printToPDF", **size, printBackground=True)
        return base64.b64decode(answer["data"])

    async def picture(self, path, *, width):
        """Write the whole page as a picture."""
        height = await self.value("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        answer = await self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(answer["data"]))


@asynccontextmanager
async def page(folder):
    """Yield a page of a browser that stores its files in a folder."""
    from tornado.websocket import websocket_connect

    program = subprocess.Popen(
        [
            found(), "--headless", "--disable-gpu", "--no-first-run", "--disable-extensions", "--no-sandbox",
            "--disable-dev-shm-usage", "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        ],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        address = None
        for line in program.stderr:
            told = re.search(r"listening on (ws://\S+)", line)
            if told:
                address = told.group(1)
                break
        if address is None:
            raise RuntimeError(f"{found()} did not start")
        # The output is read, because it would otherwise fill the pipe.
        drained = asyncio.get_running_loop().run_in_executor(None, program.stderr.read)
        socket = await websocket_connect(address, max_message_size=1 << 28)
        made = Page(socket)
        await made.attach()
        yield made
        socket.close()
    finally:
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    await drained
    program.stderr.close()


def in_page(folder, what):
    """Return the result of a coroutine function that drives a page."""

    async def run():
        async with page(folder) as made:
            return await what(made)

    return asyncio.run(run())


if __name__ == "__main__":
    # Takes a screenshot of a report: browser.py report.html out.png 360 [dark]
    from pathlib import Path
    from tempfile import TemporaryDirectory

    source, out, wide, *more = sys.argv[1:]

    async def look(made):
        await made.open(Path(source).resolve().as_uri(), width=int(wide), dark="dark" in more)
        await made.picture(Path(out), width=int(wide))

    with TemporaryDirectory(ignore_cleanup_errors=True) as space:
        in_page(space, look)
