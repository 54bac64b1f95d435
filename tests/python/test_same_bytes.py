"""The output of x264 depends neither on the host nor on earlier work of the process."""

from __future__ import annotations

import os

import pytest

from anabranch.media.make import make_film
from anabranch.media.make_ladder import Rung, make_ladder


@pytest.mark.parametrize("times", [2, pytest.param(6, marks=pytest.mark.slow)])
def test_a_film_made_again_has_the_same_bytes(tmp_path, times):
    made = [
        make_film(tmp_path / f"{n}.mp4", duration_s=3.0, rate_bps=700_000, size=(160, 90)).path
        for n in range(times)
    ]
    assert len({film.read_bytes() for film in made}) == 1


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="the host has one core")
def test_one_core_and_all_cores_make_the_same_ladder(tmp_path):
    film = make_film(tmp_path / "f.mp4", duration_s=3.0, rate_bps=700_000, size=(320, 180)).path
    mine = os.sched_getaffinity(0)
    made = []
    try:
        for cores in (mine, {min(mine)}) * 2:
            os.sched_setaffinity(0, cores)
            folder = tmp_path / str(len(made))
            make_ladder(film, folder, rungs=[Rung(height=180, rate_bps=300_000)], chunk_s=1.0)
            made.append([file.read_bytes() for file in sorted(folder.rglob("*.ts"))])
    finally:
        os.sched_setaffinity(0, mine)
    assert len(made[0]) > 3
    assert made[1:] == made[:1] * 3
