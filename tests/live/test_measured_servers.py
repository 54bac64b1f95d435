"""`anabranch measure` with two uplinks: against nginx on the kernel's MPTCP, and against the gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.live import emulate
from anabranch.live.viewers import VIEWERS, origin
from anabranch.scenario.load import load

sys.path.insert(0, str(Path(__file__).parent / "gateway"))
import uplinks

#: The film: two renditions of four chunks of 2 s.
_CHUNKS, _CHUNK_S = 4, 2.0
WORLD = {
    "name": "measured",
    "application": {"kind": "bulk", "bytes": "1 MB"},
    "paths": [
        {"name": "wifi", "rtt": "20 ms", "rate": "3 Mbit/s"},
        {"name": "lte", "rtt": "40 ms", "rate": "3 Mbit/s"},
    ],
}


@pytest.fixture(scope="module")
def ladder(tmp_path_factory):
    """Return a folder with a short HLS stream."""
    pytest.importorskip("av")
    from anabranch.media.make import make_film
    from anabranch.media.make_ladder import Rung, make_ladder

    folder = tmp_path_factory.mktemp("ladder")
    film = make_film(duration_s=_CHUNKS * _CHUNK_S, rate_bps=1_500_000, size=(320, 180)).path
    rungs = (Rung(height=90, rate_bps=200_000), Rung(height=180, rate_bps=1_000_000))
    made = make_ladder(film, folder / "made", rungs=rungs, chunk_s=_CHUNK_S).master.parent
    # nginx' workers and a browser are other users.
    for place in (folder, made, *made.rglob("*")):
        place.chmod(0o755 if place.is_dir() else 0o644)
    return made


def _nginx(tmp_path: Path, served: Path) -> list[str]:
    """Return the command of nginx over the kernel's MPTCP, which serves a folder on port 8000."""
    configuration = tmp_path / "nginx.conf"
    temporary = "\n".join(
        f"{kind}_temp_path {tmp_path}/{kind};" for kind in ("proxy", "fastcgi", "uwsgi", "scgi")
    )
    configuration.write_text(
        f"""
        user root; daemon off; pid {tmp_path}/pid; error_log stderr warn; events {{}}
        http {{
          access_log off; client_body_temp_path {tmp_path}/body; {temporary}
          server {{ listen 8000; root {served}; }}
        }}
        """,
        encoding="utf-8",
    )
    return [
        "mptcpize",
        "run",
        origin.program(),
        "-c",
        str(configuration),
        "-p",
        str(tmp_path),
        "-e",
        "stderr",
    ]


def _checked(found: dict, paths: tuple[str, str]) -> None:
    """Check each arm: which paths carried its bytes, and that the capture and the kernel agree on them."""
    rows = {row["arm"]: row for row in found["sessions"]}
    assert list(rows) == ["MPTCP", *(f"TCP over {path}" for path in paths)]
    assert [row["error"] for row in rows.values()] == [None] * 3
    assert not any(row["fell_back"] for row in rows.values())
    assert {row["uq18_from"] for row in rows.values()} == {"capture"}
    for path in paths:
        alone = rows[f"TCP over {path}"]
        assert set(alone["capture"]["paths"]) == {path}
        assert alone["shares"][path] == 1.0
    assert set(rows["MPTCP"]["capture"]["paths"]) == set(paths)
    for row in rows.values():
        assert {name: path["bytes"] for name, path in row["capture"]["paths"].items()} == {
            name: path["bytes"] for name, path in row["tcp_info"].items()
        }
        assert row["uq18"]["DB_total"] > row["bytes"] > 0
        assert 90 <= row["height"] <= 180
        assert row["startup_s"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("player", ["vlc", "hlsjs"])
def test_a_player_over_nginx_on_the_kernels_mptcp(tmp_path, ladder, player):
    lacks = VIEWERS[player].lacks() or origin.lacks() or origin.lacks_mptcp()
    if lacks is not None:
        pytest.skip(lacks)
    out = tmp_path / "out.json"
    command = (
        f"{sys.executable} -m anabranch measure http://10.1.0.1:8000/master.m3u8 --trials 1 --json "
        f"--player {player} --captures {tmp_path} > {out}"
    )
    done = emulate(load(WORLD), ["sh", "-c", command], serve=_nginx(tmp_path, ladder))
    assert done.status == 0
    found = json.loads(out.read_text(encoding="utf-8"))
    _checked(found, ("wifi", "lte"))
    assert any(VIEWERS[player].title in name for name in found["players"])
    for row in found["sessions"]:
        # The whole film, in real time.
        assert row["uq18"]["P_total"] > _CHUNKS * _CHUNK_S
        assert row["uq18"]["R_total"] == pytest.approx(row["stalled_s"], abs=0.5)


@pytest.mark.slow
def test_the_model_over_the_gateway(tmp_path, ladder):
    lab = uplinks.Lab()
    try:
        for place in (1, 2):
            # 3 Mb/s to the client.
            lab.host.run(f"tc qdisc add dev up{place} root tbf rate 3mbit burst 10k latency 200ms")
        lab.second_path()
        server = [sys.executable, "-m", "http.server", "--protocol", "HTTP/1.1", "--bind", "127.0.0.1"]
        serves = subprocess.Popen(
            [shutil.which("ip"), "netns", "exec", lab.host.name, *server, "-d", str(ladder), "8080"],
            stderr=subprocess.DEVNULL,
        )
        try:
            with lab.gateway():
                measured = lab.client.run(
                    f"{sys.executable} -m anabranch measure "
                    f"http://{uplinks.V4}:{uplinks.PORT}/master.m3u8 --trials 1 --json --captures {tmp_path}"
                )
        finally:
            serves.terminate()
            serves.wait()
    finally:
        lab.close()
    _checked(json.loads(measured), ("up1", "up2"))
