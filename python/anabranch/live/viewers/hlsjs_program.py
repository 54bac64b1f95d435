"""hls.js in Chromium without a window. It plays one address and reports events as lines of JSON.

It is a separate program: `python -m anabranch.live.viewers.hlsjs_program BROWSER PAGE URL SECONDS USER`. It
prints `ready` and begins when it receives a line. It ends with the film, after SECONDS, or when its input is
closed.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from anabranch.live.viewers.lines import tell

#: The options that keep the browser offline, except for the page's requests, and let it play without a click.
_OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio",
    "--disable-default-apps", "--disable-dev-shm-usage", "--autoplay-policy=no-user-gesture-required",
    "--remote-debugging-pipe",
)  # fmt: skip
_GONE, _SILENT = "the browser has gone", "the page does not start"
#: The browser's descriptors for commands and answers (`--remote-debugging-pipe`).
_HEARS, _ANSWERS = 3, 4


class BrowserError(Exception):
    """The browser did not execute a command."""


class Browser:
    """A browser with one page, driven over its DevTools protocol: JSON, each message ended by a zero byte."""

    def __init__(self, program: str, folder: str, user: str) -> None:
        hears, self._into = os.pipe()
        self._out_of, answers = os.pipe()
        self._rest = b""
        self._waiting: list[dict[str, Any]] = []
        self._number = 0
        self._session: str | None = None

        def pipes() -> None:
            # Copies are made first, so that neither overwrites the other.
            copies = os.dup(hears), os.dup(answers)
            os.dup2(copies[0], _HEARS)
            os.dup2(copies[1], _ANSWERS)

        self.process = subprocess.Popen(
            [program, *_OPTIONS, f"--user-data-dir={folder}", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(_HEARS, _ANSWERS),
            preexec_fn=pipes,
            user=int(user) if user else None,
            group=int(user) if user else None,
            extra_groups=[] if user else None,
            env={**os.environ, "HOME": folder, "XDG_RUNTIME_DIR": folder},
        )
        os.close(hears)
        os.close(answers)

    def call(self, method: str, **given: Any) -> dict[str, Any]:  # noqa: ANN401
        """Call a method of the protocol and return its result; events meanwhile are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": given}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._read(1.0)
            answer = next((one for one in heard if one.get("id") == message["id"]), None)
            self._waiting += [one for one in heard if one is not answer]
            if answer is not None:
                if "error" in answer:
                    said = f"{method}: {answer['error']['message']}"
                    raise BrowserError(said)
                result: dict[str, Any] = answer["result"]
                return result

    def hear(self, patience_s: float) -> list[dict[str, Any]]:
        """Return the browser's events, after waiting at most so long."""
        waiting, self._waiting = self._waiting, []
        return waiting or self._read(patience_s)

    def _read(self, patience_s: float) -> list[dict[str, Any]]:
        """Return the reason why the browser ended."""
        if not select.select([self._out_of], [], [], patience_s)[0]:
            if self.process.poll() is not None:
                raise BrowserError(_GONE)
            return []
        read = os.read(self._out_of, 1 << 20)
        if not read:
            raise BrowserError(_GONE)
        *whole, self._rest = (self._rest + read).split(b"\0")
        return [json.loads(text) for text in whole]

    def open(self, page: str) -> None:
        """Open a page, whose function `tell` reports events."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        self.call("Runtime.enable")
        self.call("Page.enable")
        self.call("Runtime.addBinding", name="tell")
        self.call("Page.navigate", url=Path(page).as_uri())
        until = time.monotonic() + 10.0
        ready = "document.readyState === 'complete' && typeof play === 'function'"
        while not self.value(ready):
            if time.monotonic() > until:
                raise BrowserError(_SILENT)
            time.sleep(0.02)

    def value(self, expression: str) -> Any:  # noqa: ANN401
        """Return the value of an expression in the page."""
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")


def main(program: str, page: str, url: str, seconds: str, user: str) -> None:
    """Play a ladder."""
    with tempfile.TemporaryDirectory(dir=Path(page).parent, ignore_cleanup_errors=True) as folder:
        if user:
            os.chown(folder, int(user), int(user))
        browser = Browser(program, folder, user)
        try:
            version = browser.call("Browser.getVersion")["product"]
            browser.open(page)
            tell("ready", version=version, library=browser.value("Hls.version"), user=user or os.geteuid())
            if sys.stdin.readline():
                browser.value(f"play({json.dumps(url)})")
                tell("play")
                _follow(browser, time.monotonic() + float(seconds))
        finally:
            browser.process.kill()
            browser.process.wait()


def _follow(browser: Browser, until: float) -> None:
    """Pass on the page's reports until it ends."""
    # The page's clock is the wall clock.
    offset_s = time.monotonic() - time.time()
    while time.monotonic() < until and not select.select([sys.stdin], [], [], 0)[0]:
        for heard in browser.hear(0.05):
            if heard.get("method") != "Runtime.bindingCalled":
                continue
            told = json.loads(heard["params"]["payload"])
            times = {
                name.removesuffix("_ms"): None if told[name] is None else told[name] / 1e3 + offset_s
                for name in [*told]
                if name in ("asked_ms", "first_ms", "done_ms")
            }
            at = told.pop("epoch_ms") / 1e3 + offset_s
            tell(**{**told, **times, "t": at})
            if told["what"] == "ended" or (told["what"] == "fault" and told["fatal"]):
                return
    tell("stop")


if __name__ == "__main__":
    main(*sys.argv[1:])
