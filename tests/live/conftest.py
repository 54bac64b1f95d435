"""Tests over real packets. They need root, /dev/net/tun and a kernel with MPTCP, and print the reason if they
are skipped.
"""

from __future__ import annotations

import shutil

import pytest

from anabranch.live.testbed import missing


def pytest_collection_modifyitems(config, items):
    lacks = missing() or (None if shutil.which("ip") else "iproute2 is not installed")
    if lacks is None:
        return
    for item in items:
        if "tests/live/" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=f"real packets: {lacks}"))
