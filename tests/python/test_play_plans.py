"""Plans that the page makes are Python's, byte for byte: set-ups drawn at random, in node."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

import anabranch
from anabranch.errors import InputError
from anabranch.media.ladders import MADE
from anabranch.play import build, fixed, keys, links, presets, setup, templates
from anabranch.scenario import load, plan
from anabranch.scenario.shipped import names

pytestmark = [
    pytest.mark.module,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
]
_HERE = Path(__file__).parent
_PAGE = _HERE.parents[1] / "play"
WASM = _HERE.parents[1] / "build" / "play" / "anabranch.wasm"


@pytest.fixture(scope="module")
def tables():
    """Return the tables of the page."""
    return build.tables()


def drawn(draw):
    """Return a set-up at random: any key of the page, or none, with any of its values."""
    given = part(draw, "session") | {"application": part(draw, "application")}
    given["transport"] = part(draw, "transport")
    if draw.random() < 0.2:
        given["transport"] |= {"scheduler": "blest", "scheduler.lambda": 1.25}
    if draw.random() < 0.2:
        given["transport"] |= {"congestion": "ccp", "congestion.kp": draw.choice([1, 2.5])}
    given["paths"] = [path(draw, place) for place in range(draw.randint(1, keys.MOST_PATHS))]
    return given


def path(draw, place):
    """Return a path at random."""
    made = part(draw, "path") | {"name": f"path {place}"}
    times = sorted(draw.sample(range(1200), 2 * draw.randint(0, 3)))
    cuts = [[begin / 10, end / 10] for begin, end in zip(times[::2], times[1::2], strict=True)]
    if cuts and draw.random() < 0.3:
        cuts[-1][1] = None
    return made | {"cuts": cuts, "cut": draw.choice(list(keys.CUTS))}


def part(draw, section):
    """Return values of some keys of a section; models and kinds are given often."""
    return {key.id: value(draw, key) for key in keys.of(section) if draw.random() < 0.8}


def value(draw, key):
    """Return a permitted value of a key."""
    if key.kind == "choice":
        return draw.choice(key.choices)[0]
    if key.kind == "flag":
        return draw.random() < 0.5
    if key.kind == "text":
        return f"name {draw.randrange(1000)}"
    steps = round((key.most - key.least) / key.step)
    return setup.number(round(key.least + key.step * draw.choice([0, 1, steps, draw.randint(0, steps)]), 3))


def in_node(tmp_path, tables, setups):
    """Return what `play/plan.js` makes of set-ups."""
    names = {given["scenario"] for given, _ in setups if given.get("scenario")}
    made = {name: fixed.named(name).for_plans() for name in names}
    (tmp_path / "fixed.json").write_text(json.dumps(made), encoding="utf-8")
    (tmp_path / "tables.json").write_text(json.dumps(tables), encoding="utf-8")
    (tmp_path / "setups.json").write_text(json.dumps(setups), encoding="utf-8")
    program = [
        "node",
        _HERE / "play_plans.mjs",
        _PAGE,
        tmp_path / "tables.json",
        tmp_path / "setups.json",
        tmp_path / "fixed.json",
    ]
    return json.loads(subprocess.run(program, check=True, capture_output=True, text=True, timeout=60).stdout)


def recorded(loaded, run=0):
    """Return Python's plan of a scenario, with a film's name in place of its table."""
    film = templates.sized(loaded)
    named = film and replace(film, plan={"recorded": film.name})
    return plan.build(loaded.scenario, named, run=run)


def ours(raw, run):
    """Return Python's plan of a scenario's tables as text."""
    return plan.encode(recorded(load.load(raw), run))


def test_two_hundred_set_ups_give_the_plan_of_python(tmp_path, tables):
    draw = random.Random(38)
    setups = [(drawn(draw), draw.randrange(5)) for _ in range(200)]
    for (given, run), made in zip(setups, in_node(tmp_path, tables, setups), strict=True):
        raw = setup.tables(given)
        assert made["plan"] == ours(raw, run)
        # A copied scenario.toml is the same scenario.
        assert tomllib.loads(made["toml"]) == raw


def shipped():
    """Return the plan of each shipped scenario and row of a paper, and its set-up, by name."""
    found = {}
    for name, path in presets.files():
        try:
            loaded = load.load(path)
        except InputError:
            continue  # the definition of a study, or its claims
        one = fixed.named(name)
        if one is not None:
            found[name] = loaded, {"scenario": name}
        elif loaded.scenario.application.ladder_name not in MADE:
            found[name] = loaded, presets.of_loaded(loaded, templates.stand_ins(loaded))
    return found


def test_every_shipped_scenario_is_a_preset_with_the_plan_of_python(tmp_path, tables):
    known = shipped()
    assert set(names()) <= set(known)
    made = in_node(tmp_path, tables, [(given, 0) for _, given in known.values()])
    for (name, (loaded, given)), page in zip(known.items(), made, strict=True):
        theirs, ours = recorded(loaded), json.loads(page["plan"])
        if "scenario" not in given:
            # The page shortens a long name, and its time limit is one of whole seconds.
            for part in ("scenario", "time_limit_ns"):
                theirs.pop(part), ours.pop(part)
        for part in (theirs, ours):
            part.pop("record", None)
        assert plan.encode(ours) == plan.encode(theirs), name
        assert page["returned"], name


def test_a_scenario_with_a_fixed_network_takes_any_transport_and_seed(tmp_path, tables):
    draw = random.Random(40)
    setups = []
    for name in fixed.offered():
        given = {"scenario": name, "transport": part(draw, "transport")}
        seeded = not tables["fixed"][name]["drawn"]
        setups.append((given | ({"seed": draw.randrange(99)} if seeded else {}), draw.randrange(5) * seeded))
    for (given, run), made in zip(setups, in_node(tmp_path, tables, setups), strict=True):
        raw = links.tables(given)
        assert made["plan"] == ours(raw, run), given
        found = links.read(f"#{made['link']}")
        assert made["returned"]
        assert ours(found.tables(), found.run) == made["plan"]
        assert links.write(made["setup"], run=run, build="1", digest="ab") == made["link"]
        copied = tomllib.loads(made["toml"])
        wanted = json.loads(json.dumps(raw).replace(f"{presets.SHIPPED}/", ""))
        assert copied == wanted


def test_a_fixed_network_has_its_reasons(tables):
    reasons = {name: one["reasons"] for name, one in tables["fixed"].items()}
    assert reasons["cross-traffic"] == ["shared links", "cross traffic"]
    assert reasons["shared-bottleneck"] == ["4 clients", "shared links"]
    assert reasons["lossy-wifi"] == ["changes of a link"]
    assert reasons["HO20/cell-handoff"] == ["handoffs"]
    # Middleboxes that remove the options of MPTCP.
    assert reasons["UQ18/jp-stripped"] == ["a detail of a path"]


def test_the_keys_of_a_fixed_network_are_refused_in_a_link(tmp_path, tables):
    link = "#v=1&scenario=HO20/cell-handoff&paths.0.rate=3&application.film=demo&seed=5"
    with pytest.raises(InputError) as caught:
        links.read(link)
    assert [fault.key for fault in caught.value.faults] == ["application.film", "paths.0.rate", "seed"]
    with pytest.raises(InputError) as caught:
        links.read("#v=1&scenario=cross-trafic")
    assert "`cross-traffic`" in caught.value.faults[0].hint


def test_links_return_the_same_run_in_the_page_and_in_python(tmp_path, tables):
    draw = random.Random(39)
    setups = [(drawn(draw), draw.randrange(5)) for _ in range(40)]
    for (given, run), made in zip(setups, in_node(tmp_path, tables, setups), strict=True):
        assert made["returned"]
        found = links.read(f"#{made['link']}")
        assert (found.run, found.build, found.digest) == (run, "1", "ab")
        assert ours(found.tables(), found.run) == ours(setup.tables(given), run)
        assert links.write(made["setup"], run=run, build="1", digest="ab") == made["link"]


def test_a_link_reports_all_its_faults_at_once():
    text = "#v=1&paths.0.rat=5&paths.0.loss=200&transport.scheduler=linx&paths.0.cuts=9-3&run=-1&code=ab"
    with pytest.raises(InputError) as caught:
        links.read(text)
    assert [fault.key for fault in caught.value.faults] == [
        "paths.0.rat", "paths.0.loss", "transport.scheduler", "paths.0.cuts", "code", "run",
    ]  # fmt: skip
    assert "`linux`" in caught.value.faults[2].hint


def test_a_link_of_another_version_is_refused():
    with pytest.raises(InputError, match="not a link of this version"):
        links.read("#v=2&paths.0.name=wifi")


def test_every_key_is_drawn(tables):
    """The drawing reaches every key and every word: another list cannot hide one."""
    draw = random.Random(38)
    seen = set()
    for _ in range(200):
        given = drawn(draw)
        parts = [("session", given), ("application", given["application"]), ("transport", given["transport"])]
        parts += [("path", one) for one in given["paths"]]
        for section, one in parts:
            for key in keys.of(section):
                if key.id in one and key.applies(one):
                    seen.add((section, key.id, one[key.id] if key.choices else None))
    wanted = {
        (key.section, key.id, word) for key in keys.KEYS for word in [w for w, _ in key.choices] or [None]
    }
    assert wanted <= seen


def test_values_out_of_range_become_the_nearest_permitted_ones(tmp_path, tables):
    given = {
        "seed": -4,
        "paths": [{"rate": 1e9, "loss": 0.014, "model": "wimax", "cuts": [[5, 2], [9, 12], [10, 14]]}],
    }
    given["transport"] = {"scheduler": "no-such"}
    (made,) = in_node(tmp_path, tables, [(given, 0)])
    (only,) = made["setup"]["paths"]
    assert made["setup"]["seed"] == 0
    assert (only["rate"], only["loss"], only["model"]) == (1000, 0.01, "")
    assert only["cuts"] == [[9, 14]]
    assert made["setup"]["transport"]["scheduler"] == "linux"


@pytest.mark.slow
@pytest.mark.skipif(not WASM.is_file(), reason="`make wasm` has not built the simulator")
def test_shipped_scenarios_run_in_node_with_the_native_digest(tmp_path, tables):
    known = {name: one for name, one in shipped().items() if "/" not in name}
    made = in_node(tmp_path, tables, [(given, 0) for _, given in known.values()])
    films = templates.films()
    plans = []
    for page in made:
        film = films.get(page["film"])
        table = plan.encode(film.plan) if film else ""
        plans.append(
            page["plan"].replace(json.dumps({"recorded": page["film"]}, separators=(",", ":")), table)
        )
    program = ["node", _HERE / "web_plans.mjs", WASM, _PAGE / "engine.js"]
    done = subprocess.run(program, check=True, capture_output=True, text=True, input="\n".join(plans) + "\n")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert set(known) == set(names())
    for name, answer in zip(known, found, strict=True):
        assert answer.get("digest") == anabranch.run(name).summary["digest"], name
