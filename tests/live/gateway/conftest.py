"""Fixtures that the tests of the gateway against this host's kernel share."""

from __future__ import annotations

import pytest
from uplinks import Lab


@pytest.fixture
def lab():
    made = Lab()
    yield made
    made.close()
