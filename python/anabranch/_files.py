"""Checks of paths from users. A name that no file can have counts as a missing file."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import Fault, MissingError, ScenarioError, did_you_mean, nearest_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from av.error import FFmpegError


#: A file's device, inode number, size, and the times of change of its content and its state.
State = tuple[int, int, int, int, int]


def state(path: Path) -> State:
    """Return file attributes that change whenever the file is rewritten.

    Unlike the time of change of the content, that of the state (`st_ctime_ns`) cannot be set by a program.

    Raises
    ------
    OSError
        If the file does not exist.
    """
    found = path.stat()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def is_file(path: Path) -> bool:
    """Return whether a file exists. Overlong names, names with a NUL and symlink loops are no files."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def missing(what: str, file: Path, endings: Collection[str]) -> Fault:
    """Return the fault of a missing input file, with the nearest name in its folder.

    Parameters
    ----------
    what
        The kind of file, such as `capture`.
    file
        The file.
    endings
        The endings that files of this kind usually have.
    """
    try:
        beside = [str(one) for one in sorted(file.parent.iterdir()) if one.suffix in endings]
    except (OSError, ValueError):
        beside = []
    hint = did_you_mean(str(file), beside, otherwise=" ", close_to=nearest_file).strip()
    return Fault(message=f"no such {what}: `{file}`", hint=hint)


def is_folder(path: Path) -> bool:
    """Return whether a folder exists."""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def is_ring(path: Path) -> bool:
    """Return whether symbolic links lead from a path back to themselves."""
    try:
        path.stat()
    except OSError as error:
        return error.errno == errno.ELOOP
    except ValueError:
        return False
    return False


def is_device(path: Path) -> bool:
    """Return whether the path is a device, a pipe or a socket."""
    try:
        return path.exists() and not path.is_file() and not path.is_dir()
    except (OSError, ValueError):
        return False


def expanded(name: str) -> Path:
    """Return a path with `~` expanded if possible."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def write(file: Path, text: str, what: str) -> None:
    """Write a text.

    Raises
    ------
    MissingError
        When it cannot be written.
    """
    write_bytes(file, text.encode(), what)


def write_bytes(file: Path, data: bytes, what: str) -> None:
    """Write bytes. After a failure, the file is as it was before.

    Raises
    ------
    MissingError
        When it cannot be written.
    """
    target, part = _beside(file)
    try:
        part.write_bytes(data)
        if part != target:
            part.replace(target)
    except OSError as error:
        raise unwritable(what, file, error) from None
    finally:
        _discard(part, target)


def unwritable(what: str, file: Path, error: OSError | FFmpegError) -> MissingError:
    """Return the error for a file that cannot be written."""
    message = f"cannot write {what}: {error.strerror or error}: `{file}`"
    return MissingError(message, hint="is the disk full?" if error.errno == errno.ENOSPC else "")


@contextmanager
def whole(file: Path, what: str) -> Iterator[Path]:
    """Yield a temporary name next to a file. At the end it replaces the file; after a failure it is deleted.

    A device or a pipe is written directly.

    Raises
    ------
    ScenarioError
        If the name is not possible.
    MissingError
        When it cannot be written.
    """
    target, part = _beside(file)
    beside = part != target
    try:
        try:
            if beside:
                part.touch()
            yield part
            if beside:
                part.replace(target)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            fault = Fault(message=f"cannot write {what}: {error.strerror or error}", where=str(file))
            raise ScenarioError([fault]) from None
        except OSError as error:
            raise unwritable(what, file, error if error.errno else refusal(part) or error) from None
    finally:
        _discard(part, target)


def _beside(file: Path) -> tuple[Path, Path]:
    """Return a file without links in its path, and the temporary name under which it is written.

    A device or a pipe is written under its own name, and so is a file in a folder that permits no new ones.
    """
    target = file.resolve()
    beside = not target.exists() or (target.is_file() and os.access(target.parent, os.W_OK))
    return target, target.with_name(f"{target.name[:200]}.{os.getpid()}.part") if beside else target


def _discard(part: Path, target: Path) -> None:
    """Delete a temporary file that did not replace its target."""
    if part != target:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def refusal(file: Path) -> OSError | None:
    """Write to a file, and return the system's error. Some libraries hide write errors.

    The bytes written for the check stay in the file.
    """
    try:
        opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
    except OSError as error:
        return error
    try:
        for _ in range(16):
            os.write(opened, bytes(65_536))
    except OSError as error:
        return error
    finally:
        os.close(opened)
    return None


def content(file: Path, most: int) -> bytes:
    """Return the content of a file of at most `most` bytes.

    Raises
    ------
    OSError
        When it cannot be read.
    ValueError
        If the file is larger, or no file can have this name.
    """
    with file.open("rb") as opened:
        # A read allocates the requested size. A pipe has the size 0.
        size = os.fstat(opened.fileno()).st_size or most
        data = opened.read(min(size, most) + 1)
    if len(data) > most:
        message = f"larger than {most >> 20} MiB"
        raise ValueError(message)
    return data
