"""The idle time in the file of a gateway's limits."""

import pytest

from anabranch.live.gateway_limits import KEYS
from anabranch.scenario.units import UnitError


def test_an_idle_time_of_zero_is_refused() -> None:
    _, read = KEYS["idle"]
    assert read("1500 ms") == 1.5
    with pytest.raises(UnitError, match="more than zero"):
        read("0 s")


def test_a_grace_of_zero_is_allowed() -> None:
    _, read = KEYS["grace"]
    assert read("0 s") == 0
