"""The ABR rule `hlsjs-node`: the controller of hls.js itself, run by node in virtual time.

It is found by its entry point, as the rule of another package is. The module imports nothing of this package,
because a plug-in's sources are hashed and executed again for each run.
"""

from __future__ import annotations

import difflib
import json
import os
import select
import shutil
import subprocess
import tempfile
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anabranch.plugins import ChunkSample, Loading, PlayerView

#: The program that runs in node.
_SCRIPT = Path(__file__).with_suffix(".js")
#: Where npm puts hls.js, below the folder that it is given.
_LIBRARY = Path("node_modules", "hls.js", "dist", "hls.js")
#: The longest real time for an answer, s. A controller that needs more never ends.
_LONGEST_S = 60
_INSTALL = "npm install --prefix {folder} hls.js@1"


class HlsjsNode:
    """The AbrController of the installed hls.js, run by node in virtual time.

    Parameters
    ----------
    folder
        The folder in which `npm install hls.js` was run; by default `viewers` in the program's cache folder.
    version
        The version of hls.js that must be installed; by default any.
    settings
        Settings of hls.js by their own names, for example `abrBandWidthUpFactor`.
    """

    def __init__(self, folder: str = "", version: str = "", **settings: float | str | bool) -> None:
        place = Path(folder).expanduser() if folder else _cache() / "viewers"
        self._node = _Node(place)
        found = self._node.request("open", {"config": settings})["version"]
        if version and found != version:
            message = f"hls.js {found} is installed in {place}, not {version}"
            raise _unusable(message, f"npm install --prefix {place} hls.js@{version}")
        self._settings = settings
        self._opened = False
        self._abandoned = False

    def choose(self, player: PlayerView) -> int:
        """Return the level that the controller loads next."""
        if not self._opened:
            levels = [
                {
                    "bps": one.peak_mbps * 1e6,
                    "mean_bps": one.mean_mbps * 1e6,
                    "width": one.width,
                    "height": one.height,
                    "chunk_s": one.chunk_s,
                }
                for one in player.renditions
            ]
            self._node.request("open", {"config": self._settings, "levels": levels})
            self._opened = True
        level: int = self._node.request("choose", {"buffer_s": player.buffer_s})["level"]
        return level

    def abandons(self, player: PlayerView, loading: Loading) -> bool:
        """Return whether the controller's timer has ended the download of a chunk."""
        if loading.rendition == 0:  # the controller never abandons the lowest level
            return False
        given = {
            "buffer_s": player.buffer_s,
            "level": loading.rendition,
            "duration_s": loading.duration_s,
            "size": loading.size_bytes,
            "received": loading.received_bytes,
            "since_s": loading.since_s,
            "first_byte_s": loading.first_byte_s,
        }
        self._abandoned = self._node.request("loading", given)["abandon"]
        return self._abandoned

    def on_chunk(self, chunk: ChunkSample) -> None:
        """Report a chunk. The controller has already measured an abandoned one."""
        if self._abandoned:
            self._abandoned = False
            return
        given = {
            "level": chunk.rendition,
            "duration_s": chunk.duration_s,
            "received": chunk.received_bytes,
            "fetch_s": chunk.fetch_s,
            "first_byte_s": chunk.first_byte_s,
        }
        self._node.request("loaded", given)


class _Node:
    """A process of node that runs the script, and one line of JSON in each direction for each call."""

    def __init__(self, place: Path) -> None:
        program, library = shutil.which("node"), place / _LIBRARY
        if program is None:
            message = "node is not installed"
            raise _unusable(message, "apt install nodejs")
        if not library.is_file():
            message = f"no hls.js in {place}"
            raise _unusable(message, _INSTALL.format(folder=place))
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `_end`
        self._process = subprocess.Popen(
            [program, "-e", _SCRIPT.read_text(encoding="utf-8"), str(library.absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        weakref.finalize(self, _end, os.getpid(), self._process, self._errors)

    def request(self, verb: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request.

        Raises
        ------
        RuntimeError
            When hls.js raised an exception or gave no answer, or when node has ended.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        line = b""
        if stdin is not None and stdout is not None:
            try:
                stdin.write(json.dumps({verb: given}).encode() + b"\n")
                stdin.flush()
                if not select.select([stdout], [], [], _LONGEST_S)[0]:
                    message = f"hls.js gave no answer in {_LONGEST_S} s"
                    raise _unusable(message)
                line = stdout.readline()
            except BrokenPipeError:
                pass  # the reason is in what node has written
        if not line:
            self._process.wait()
            self._errors.seek(0)
            words = self._errors.read().decode(errors="replace").split("\n")
            reason = next((one for one in words if "Error" in one), "no reason was given")
            message = f"node ended with status {self._process.returncode}: {reason}"
            raise _unusable(message)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            close = difflib.get_close_matches(answer.get("unknown", ""), answer.get("settings", ()), n=1)
            raise _unusable(answer["error"], f"did you mean `{close[0]}`?" if close else "")
        return answer


def _end(owner: int, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """End a process, unless this process is only a fork of the one that started it."""
    if os.getpid() != owner:
        return
    # A fork may hold the other end of its input open, so the end of its input is not enough.
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, errors):
        if pipe is not None:
            pipe.close()


def _unusable(message: str, hint: str = "") -> RuntimeError:
    """Return an exception with a hint in its notes."""
    error = RuntimeError(message)
    if hint:
        error.add_note(hint)
    return error


def _cache() -> Path:
    """Return the program's cache folder, as the rest of the package finds it."""
    named = os.environ.get("ANABRANCH_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "anabranch"
