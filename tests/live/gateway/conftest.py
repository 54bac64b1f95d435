"""Tests of the gateway against this host's kernel; skipped, with the reason, where it has not what they need."""

from __future__ import annotations

import pytest
from lab import Lab, missing

_LACKS = missing()


def pytest_collection_modifyitems(items):
    for item in items:
        if _LACKS is not None and "live/gateway" in str(item.path):
            item.add_marker(pytest.mark.skip(reason=f"real packets: {_LACKS}"))


@pytest.fixture
def lab():
    made = Lab()
    yield made
    made.close()
