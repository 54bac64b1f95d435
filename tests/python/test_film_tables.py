"""The stored tables of the films `demo` and `demo-3min`."""

from __future__ import annotations

import pytest

from anabranch.media import films, tables
from anabranch.media.films import NAMED

STORED = [name for name, named in NAMED.items() if named.synthetic is None]
#: Samples in a frame of AAC (ISO/IEC 14496-3), and in a second of the films' sound.
AAC, SAMPLES = 1024, 48_000


@pytest.mark.parametrize("name", STORED)
def test_a_stored_table_has_the_film_that_its_description_promises(name: str) -> None:
    named, film = NAMED[name], tables.read(name)["recorded"]
    packets = film["packets"]
    seconds = named.duration_ns // 10**9
    assert (film["name"], film["width"], film["height"], film["frame_rate"]) == (name, 1280, 720, 30.0)
    assert (film["size_bytes"], film["duration_ns"]) == (named.size_bytes, named.duration_ns)
    assert film["size_bytes"] * 8 / seconds == pytest.approx(
        named.rate_bps, rel=0.03
    )  # as `make_film` promises
    pictures = sorted(
        pts for pts, kind in zip(packets["pts_ns"], packets["stream"], strict=True) if kind == "video"
    )
    # One picture each thirtieth of a second, from 0 on; the container counts in 1/15360 s.
    assert pictures == pytest.approx([number * 1e9 / 30 for number in range(30 * seconds)], abs=1e9 / 15360)
    # As many whole frames of sound as fit, and the encoder's start and end.
    sounds = packets["stream"].count("audio")
    assert abs(sounds - seconds * SAMPLES / AAC) <= 2
    # The packets follow each other in the file, without a byte twice.
    ends = [at + size for at, size in zip(packets["position"], packets["size"], strict=True)]
    assert all(end <= at for end, at in zip(ends, packets["position"][1:], strict=False))
    assert ends[-1] <= film["size_bytes"]


def test_a_simulated_run_makes_no_film(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a film was made")

    monkeypatch.setattr("anabranch.media.make.make_film", refused)
    film = films.open_film("demo", ())
    assert film is not None
    assert film.plan == tables.read("demo")
    with pytest.raises(AssertionError, match="a film was made"):
        films.open_film("demo", (), played=True)


@pytest.mark.slow
def test_the_film_that_is_made_here_is_like_its_stored_table() -> None:
    made = films.open_film("demo", (), played=True)
    assert made is not None
    assert made.plan is not None
    here, there = made.plan["recorded"]["packets"], tables.read("demo")["recorded"]["packets"]
    # Another version of the encoder may distribute the bytes differently. The times are those of the film.
    assert sorted(here["pts_ns"]) == sorted(there["pts_ns"])
    assert sum(here["size"]) == pytest.approx(sum(there["size"]), rel=0.03)
