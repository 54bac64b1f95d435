"""Reading a capture file."""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch import _files, _progress, plugins
from anabranch.errors import Fault, InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import polars

    from anabranch.metrics._rows import Tables

#: The usual endings of captures.
_ENDINGS = (".pcap", ".pcapng", ".gz")


@dataclass(frozen=True, kw_only=True)
class Capture:
    """The contents of a capture file.

    Attributes
    ----------
    file
        The name of the file.
    found
        Everything that was found: `counts`, `streams`, `connections`,
        `orphan_tokens` (docs/guide/capture.md).
    tables
        `capture_samples`: rates, round-trip times and windows of each TCP connection every 0.1 s.
    damage
        Why the file could be read in part only; empty if all of it was read.
    """

    file: str
    found: Mapping[str, Any] = field(repr=False)
    tables: Tables = field(repr=False)
    damage: str = ""

    @cached_property
    def identity(self) -> str:
        """The hash of the file's bytes; empty for a pipe, which cannot be read twice."""
        path = Path(self.file)
        if not path.is_file():
            return ""
        with path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    @property
    def counts(self) -> Mapping[str, Any]:
        """Counts of the whole file."""
        counts: Mapping[str, Any] = self.found["counts"]
        return counts

    @property
    def streams(self) -> Sequence[Mapping[str, Any]]:
        """The TCP connections, in the order of their first segments."""
        streams: Sequence[Mapping[str, Any]] = self.found["streams"]
        return streams

    @property
    def connections(self) -> Sequence[Mapping[str, Any]]:
        """The MPTCP connections, in the order in which they began."""
        connections: Sequence[Mapping[str, Any]] = self.found["connections"]
        return connections

    def samples(self) -> polars.DataFrame:
        """Return the course of every TCP connection: one row every 0.1 s and direction in which it sent."""
        import polars

        return polars.DataFrame(self.tables["capture_samples"])


def read(file: str | Path, *, progress: _progress.Asked = None) -> Capture:
    """Read a capture: pcap or pcapng, also compressed with gzip.

    Parameters
    ----------
    file
        The file. Its contents decide the format; its name does not.
    progress
        Receives the bytes that were read and the bytes of the file; True or False for a bar or none; None for
        a bar in a terminal.

    Returns
    -------
    Capture
        Its contents. If the file is damaged, the part before the damage.

    Raises
    ------
    InputError
        When the file cannot be read, or is no capture.

    Examples
    --------
    >>> import anabranch.capture
    >>> session = anabranch.capture.read("session.pcapng")  # doctest: +SKIP
    >>> session.counts["tcp_segments"]  # doctest: +SKIP
    """
    with reading(file), _progress.shown(progress, "reading", unit="bytes") as told:
        raw = plugins.module().read_capture(str(file), told)
    return Capture(
        file=str(file),
        found=json.loads(raw["json"]),
        tables=raw["tables"],
        damage=raw["damage"] or "",
    )


@contextmanager
def reading(*files: str | Path) -> Iterator[None]:
    """Turn the module's errors about capture files into faults.

    Raises
    ------
    InputError
        When a file cannot be read, or is no capture.
    """
    where = " and ".join(map(str, files))
    try:
        yield
    except plugins.module().CaptureFileError as error:
        hint = "expected pcap or pcapng, as tcpdump and Wireshark write them"
        raise InputError([Fault(message=str(error), where=where, hint=hint)]) from None
    except FileNotFoundError:
        lacking = [Path(file) for file in files if not _files.is_file(Path(file))]
        raise InputError(_files.missing("capture", file, _ENDINGS) for file in lacking) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError([Fault(message=f"cannot read the capture: {reason}", where=where)]) from None
