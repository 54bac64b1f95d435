"""Real packets without root: in a user namespace, in which the caller is root."""

from __future__ import annotations

import os
import shutil
import sys

from anabranch import _pieces

#: The variable that marks a program inside its new namespace.
_INSIDE = "ANABRANCH_ROOTLESS"
#: The namespaces: of users, in which the caller is root; of networks; of mounts, for the names of namespaces.
_UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount")


def possible() -> bool:
    """Return whether this host permits user namespaces and TUN devices."""
    if shutil.which("unshare") is None or not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return False
    return _pieces.fails([*_UNSHARE, "true"]) is None


def entered() -> bool:
    """Return whether the program runs in namespaces that `enter` made."""
    return bool(os.environ.get(_INSIDE))


def enter() -> None:
    """Start the program again in new namespaces, if it is not root and the host permits it.

    Return if no new namespaces are needed, or if they are not possible.
    """
    if os.geteuid() == 0 or entered() or not possible():
        return
    # Names of namespaces are files below /run, which belongs to the host, so a private /run is mounted.
    script = 'mount -t tmpfs tmpfs /run && exec "$@"'
    again = [sys.executable, "-m", "anabranch", *sys.argv[1:]]
    os.environ[_INSIDE] = "1"
    sys.stdout.flush()
    os.execvp(_UNSHARE[0], [*_UNSHARE, "sh", "-c", script, "sh", *again])
