"""Runs a program under a systemd unit's restrictions, without systemd.

Usage: sandbox.py UNIT DENIED... -- COMMAND...

DENIED names further system calls to deny. A forbidden call kills the program, so a call is noticed even if
the program would survive its failure.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
from pathlib import Path

#: Actions of libseccomp (seccomp.h).
_KILL, _ALLOW, _ERRNO = 0x8000_0000, 0x7FFF_0000, 0x0005_0000
#: libseccomp's comparisons: equal, and equal under a mask.
_EQUAL, _MASKED = 4, 7
_PROT_WRITE, _PROT_EXEC = 2, 4


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp`."""

    _fields_ = [
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("first", ctypes.c_uint64),
        ("second", ctypes.c_uint64),
    ]


class Filter:
    """A filter of system calls. A call that is not allowed kills the program."""

    def __init__(self):
        self._library = ctypes.CDLL("libseccomp.so.2")
        self._library.seccomp_init.restype = ctypes.c_void_p
        self._context = ctypes.c_void_p(self._library.seccomp_init(_KILL))

    def add(self, action, name, *comparisons):
        """Add a rule. Calls that this architecture does not have are skipped."""
        number = self._library.seccomp_syscall_resolve_name(name.encode())
        if number < 0:
            return
        array = (Comparison * len(comparisons))(*comparisons)
        code = self._library.seccomp_rule_add_array(
            self._context, ctypes.c_uint32(action), number, len(comparisons), array
        )
        if code:
            sys.exit(f"no rule for {name}: {os.strerror(-code)}")

    def load(self):
        """Activate the filter."""
        if code := self._library.seccomp_load(self._context):
            sys.exit(f"no filter: {os.strerror(-code)}")


def service(text):
    """Return the settings of a unit's `[Service]` section, each with its values."""
    found = {}
    for line in text.partition("[Service]")[2].partition("[Install]")[0].splitlines():
        key, equals, value = line.partition("=")
        if equals:
            found.setdefault(key, []).append(value)
    return found


def expanded(words):
    """Return the system calls in a list of calls and systemd's call sets."""
    calls = set()
    for word in words:
        if not word.startswith("@"):
            calls.add(word)
            continue
        command = ["systemd-analyze", "syscall-filter", word]
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[1:]
        calls |= expanded(
            line.strip() for line in listed if line.strip() and not line.strip().startswith("#")
        )
    return calls


def allowed(settings):
    """Return the system calls that a unit allows."""
    calls = expanded(["@default"])
    for value in settings["SystemCallFilter"]:
        if value.startswith("~"):
            calls -= expanded(value[1:].split()) - expanded(["@default"])
        else:
            calls |= expanded(value.split())
    return calls


def restrict(settings, denied):
    """Activate the unit's filters."""
    made, calls = Filter(), allowed(settings) - set(denied)
    special = {"socket", "clone3", "unshare", "setns", "mmap", "mprotect", "pkey_mprotect", "shmat"}
    for name in sorted(calls - special):
        made.add(_ALLOW, name)
    for name in settings["RestrictAddressFamilies"][0].split():
        made.add(_ALLOW, "socket", Comparison(0, _EQUAL, getattr(socket, name), 0))
    assert settings["RestrictNamespaces"] == ["yes"]
    # Like systemd: seccomp cannot inspect the arguments of `clone3`, so the C library must use `clone`.
    made.add(_ERRNO | errno.ENOSYS, "clone3")
    assert settings["MemoryDenyWriteExecute"] == ["yes"]
    for bit, other in ((0, _PROT_WRITE), (_PROT_EXEC, 0)):
        made.add(_ALLOW, "mmap", Comparison(2, _MASKED, _PROT_EXEC | _PROT_WRITE, bit | other))
    made.add(_ALLOW, "mmap", Comparison(2, _MASKED, _PROT_EXEC | _PROT_WRITE, 0))
    for name in ("mprotect", "pkey_mprotect"):
        made.add(_ALLOW, name, Comparison(2, _MASKED, _PROT_EXEC, 0))
    made.load()


def main(unit, *words):
    """Apply the restrictions and run the program."""
    denied, command = words[: words.index("--")], words[words.index("--") + 1 :]
    settings = service(Path(unit).read_text(encoding="utf-8"))
    os.umask(int(settings["UMask"][0], 8))
    restrict(settings, denied)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
