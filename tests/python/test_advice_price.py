"""Advice with prices, caps and weights, with too few runs, and compared with the scenario's settings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import anabranch
from anabranch.advice import candidates, known, make, of_path
from anabranch.advice.read import judged
from anabranch.comparison import fidelity, price
from anabranch.scenario.load import load

pytestmark = pytest.mark.module

#: A run of 36 s is a hundredth of an hour, so 10 MB in a run are 1 GB an hour.
HOUR = {"duration_s": 36.0}
MB = 1_000_000


def tables(lte=None, **more):
    return {
        "name": "small",
        "application": {"kind": "bulk", "bytes": "500 kB"},
        "paths": [
            {"name": "wifi", "rtt": "20 ms", "rate": "8 Mbit/s"},
            {"name": "lte", "rtt": "60 ms", "rate": "4 Mbit/s", **(lte or {})},
        ],
        **more,
    }


def asked(raw, controllers, schedulers, trials, budget):
    """Return a question about a scenario, and the evidence before the first run."""
    what = make.asked(
        load(raw),
        raw,
        (),
        controllers=controllers,
        schedulers=schedulers,
        paths=(),
        trials=trials,
        budget=budget,
    )
    return what, make.evidence_of(what, (False,) * len(what.candidates))


def advised(
    raw, wifi, lte, both, *, controllers=("cubic",), schedulers=("linux",), share=0.5, budget=None, trials=30
):
    """Return the advice on candidates, given the goodputs of each one's trials. Each run carries 10 MB."""
    what, seen = asked(raw, controllers, schedulers, trials, budget)
    given = {
        ("wifi",): (wifi, 1.0, 0.0),
        ("lte",): (lte, 0.0, 1.0),
        ("wifi", "lte"): (both, 1 - share, share),
    }
    for place, one in enumerate(what.candidates):
        values, on_wifi, on_lte = given[one.paths]
        for run, value in enumerate(values[one.congestion] if isinstance(values, dict) else values):
            carried = {"bytes_wifi": 10 * MB * on_wifi, "bytes_lte": 10 * MB * on_lte}
            seen.add(place, run, {"scenario": "small", "goodput_mbps": value, **HOUR, **carried})
    return judged(what.sweep, what.candidates, seen)


def around(mean, *, wide=0.1, count=8):
    """Trials around a mean, with random deviations that all candidates share."""
    return [mean + wide * (-1) ** run * (1 + run % 3) for run in range(count)]


def noisy(mean, count=8):
    """Trials around a mean, with separate random deviations."""
    return [mean + (2.0 if run % 4 < 2 else -2.0) for run in range(count)]


def test_the_price_of_a_path_is_set_against_rungs_of_the_ladder():
    heights = (240, 480, 720)
    # 360p is halfway between the first two rungs, 600p between the last two.
    assert [price.place(one, heights) for one in (100, 240, 360, 600, 720, 900)] == [0, 0, 0.5, 1.5, 2, 2]
    terms = price.Terms(prices={"lte": 2.4}, caps={}, weights={}, currency="EUR", heights=heights)

    def use(height, lte):
        row = {"play_time_s": 36.0, "resolution_mean": height, "bytes_wifi": 0, "bytes_lte": lte}
        return terms.use([row], ["wifi", "lte"])

    # 5 MB in a hundredth of an hour are 0.5 GB an hour, at 2.40 a gigabyte. 48 of 240 lines are 0.2 rungs.
    assert terms.added(use(408, 5 * MB), use(360, 0)) == "+0.2 rungs for 1.20 EUR an hour"
    assert terms.added(use(360, 0), use(408, 5 * MB)) == "-0.2 rungs, and it saves 1.20 EUR an hour"
    assert terms.added(use(None, 5 * MB), use(360, 0)) == "it costs 1.20 EUR an hour"


def test_quality_comes_first_and_its_price_is_stated():
    priced = tables({"price_per_gb": 2.4}, cost={"currency": "EUR"})
    found = advised(priced, around(8.0), around(4.0), around(10.0))
    assert found.choice.candidate.paths == ("wifi", "lte")
    # Half of 1 GB an hour, at 2.40 a gigabyte.
    assert found.choice.use.per_hour == pytest.approx(1.2)
    assert found.sentences[0].endswith("; 1.20 EUR an hour")
    (of_lte,) = (one for one in found.of_paths if one.path == "lte")
    assert of_lte.sentence == (
        "use lte beside wifi: +2 Mb/s over 8 trials; it costs 1.20 EUR an hour "
        "(wifi + lte, linux, cubic instead of wifi, cubic)"
    )
    heads, lines = found.table()
    assert heads[-1] == "EUR an hour"
    assert lines[0][-1] == "1.20"
    made = found.to_json()
    assert made["choice"]["cost_per_hour"] == pytest.approx(1.2)
    # 5 % for two paths together.
    assert [one["difference"]["level"] for one in made["paths"]] == [0.975] * 2


def test_compare_and_advise_name_the_same_measured_setting():
    # The advice is to use wifi with BBR; the scenario has two paths, linux and cubic, as `compare` runs it.
    values = {"cubic": around(5.0), "bbr": around(10.0)}, around(4.0), around(9.0)
    found = advised(tables(), *values, controllers=("bbr",))
    compared = anabranch.compare(tables(), trials=2, workers=1, progress=False)
    assert found.choice.candidate.name == "wifi, bbr"
    assert found.fidelity == compared.fidelity
    assert found.fidelity.nearest.congestion == "cubic"
    assert len(found.fidelity.nearest.legs) == 2


def test_the_measured_setting_is_that_of_the_presets_congestion_control():
    raw = tables(transport={"congestion": "bbr"})
    assert fidelity.of_scenario(raw).nearest.congestion == "bbr"
    assert fidelity.of_scenario(tables()).nearest.congestion == "cubic"
    # The preset `video` has BBRv3, which was measured at no setting.
    assert ", not bbr3" in fidelity.of_scenario(tables(transport={"preset": "video"})).sentence


def test_of_equal_choices_the_kernels_defaults_are_advised():
    # BBR is 0.02 Mb/s better in each trial, and 1 % of 8 Mb/s matters.
    alike = {"cubic": around(8.0), "bbr": around(8.02)}
    found = advised(tables(), alike, around(4.0), around(4.0), controllers=("bbr", "cubic"))
    assert found.choice.candidate.name == "wifi, cubic"
    rule = (
        "of equal ones, the lowest number of paths comes first, then the least change of the host's defaults"
    )
    assert found.sentences[1] == f"not distinguishable from it: wifi, bbr; {rule}"
    assert "modprobe" not in found.settings


def test_a_gain_that_does_not_matter_is_no_reason_to_change_the_host():
    # 0.06 Mb/s with deviations of 0.04: more than one standard error of 0.015, less than 1 % of 8 Mb/s, but the
    # interval of 99 % by t(7) = 3.50 reaches 0.11.
    better = [value + 0.06 + (0.04 if run % 2 else -0.04) for run, value in enumerate(around(8.0))]
    both = {"cubic": around(8.0), "bbr": better}
    found = advised(tables(), both, around(2.0), around(3.0), controllers=("cubic", "bbr"))
    assert found.choice.candidate.name == "wifi, cubic"


@pytest.mark.parametrize(("more", "controller"), [(0.6, "cubic"), (1.6, "bbr")])
def test_a_change_of_the_host_needs_more_than_one_standard_error(more, controller):
    # The differences are 0, -4, 0 and 4, twice, and `more`. Their standard error is (64 / 7 / 8)**0.5 = 1.07.
    both = {"cubic": noisy(8.0), "bbr": [value + more for value in 2 * [10.0, 6.0, 6.0, 10.0]]}
    found = advised(tables(), both, around(2.0), around(3.0), controllers=("cubic", "bbr"))
    assert found.choice.candidate.congestion == controller
    if controller == "bbr":
        doubt = next(one for one in found.sentences if one.startswith("with less change of the host"))
        assert "wifi, cubic (the choice has -2.14 to +5.34 Mb/s at 99 % over 8 trials, " in doubt
        assert "trials would decide" in doubt


@pytest.mark.parametrize(
    ("more", "controller"),
    [
        # A mean of 2.67 with a standard error of (60.67 / 2 / 3)**0.5 = 3.18.
        ((-1.0, 0.0, 9.0), "cubic"),
        # A mean of 4 with a standard error of (38 / 2 / 3)**0.5 = 2.52.
        ((1.0, 2.0, 9.0), "bbr"),
    ],
)
def test_three_trials_distinguish_only_differences_beyond_their_standard_error(more, controller):
    both = {"cubic": [8.0, 8.0, 8.0], "bbr": [8.0 + one for one in more]}
    few = around(2.0, count=3)
    found = advised(tables(), both, few, few, controllers=("cubic", "bbr"))
    assert found.choice.candidate.congestion == controller


def test_of_equal_choices_the_cheapest_is_advised():
    # Both single paths differ by 0.02 Mb/s in each trial, and 1 % of 8 Mb/s matters.
    values = around(8.0), around(8.02), around(4.0)
    free = advised(tables(), *values)
    assert free.choice.candidate.paths == ("lte",)
    priced = advised(tables({"price_per_gb": 2.4}), *values)
    assert priced.choice.candidate.paths == ("wifi",)
    assert priced.sentences[1] == (
        "not distinguishable from it: lte, cubic (2.40 an hour); of equal ones, the least change of the host's "
        "defaults comes first, then the lowest cost"
    )
    assert priced.undecided == ()


def test_a_cheaper_choice_that_may_be_worse_is_not_advised():
    # 4.2 Mb/s less with a standard deviation of 2 over three trials: 4.2 +- 7.2 for two comparisons.
    values = [3.8, 5.8, 7.8], around(4.0), around(10.0, count=30)
    found = advised(tables({"price_per_gb": 2.4}), *values)
    assert found.choice.candidate.paths == ("wifi", "lte")
    assert [one.candidate.paths for one in found.undecided] == [("wifi",)]
    # sd 2 of three: at least five trials, as the sentence of lte has.
    assert (
        "cheaper, but undecided whether as good: wifi, cubic (0.00 an hour; the choice has -2.59 to +11.1 Mb/s at "
        "97.5 % over 3 trials, about 5 trials would decide) (--budget, --trials)" in found.sentences
    )
    assert found.to_json()["undecided"] == ["wifi, cubic"]
    assert found.equal == (), "a candidate is in one sentence only"


def test_every_cheaper_candidate_that_is_undecided_is_named_as_such():
    # wifi with bbr is neither the best over its path nor the last rival, and as undecided as with cubic.
    varied = {"cubic": noisy(8.2), "bbr": noisy(8.0)}
    found = advised(
        tables({"price_per_gb": 2.4}), varied, around(4.0), around(8.8), controllers=("cubic", "bbr")
    )
    assert found.choice.candidate.paths == ("wifi", "lte")
    assert [one.candidate.name for one in found.undecided] == ["wifi, cubic", "wifi, bbr"]
    assert not {one.candidate.name for one in found.equal} & {"wifi, cubic", "wifi, bbr"}


def test_a_doubt_leaves_no_path_out():
    # With both paths, goodput is 0.8 Mb/s higher, with a standard error of about the same size.
    values = noisy(8.0), around(4.0), around(8.8)
    free = advised(tables(), *values)
    assert free.choice.candidate.paths == ("wifi", "lte")
    assert free.undecided == (), "nothing is cheaper"
    priced = advised(tables({"price_per_gb": 2.4}), *values)
    assert priced.choice.candidate.paths == ("wifi", "lte")
    assert not priced.is_recommendation
    (of_lte,) = (one for one in priced.of_paths if one.path == "lte")
    assert of_lte.verdict == of_path.UNDECIDED
    assert "trials would decide" in of_lte.sentence
    assert "; it costs 1.20 an hour" in of_lte.sentence


def test_a_weight_is_a_price_without_money():
    found = advised(tables({"weight": 1}), around(8.0), around(8.02), around(4.0))
    assert found.choice.candidate.paths == ("wifi",)
    assert found.choice.use.per_hour is None
    # If the path is needed, it is used.
    needed = advised(tables({"weight": 1}), around(8.0), around(4.0), around(10.0))
    assert needed.choice.candidate.paths == ("wifi", "lte")


def test_a_choice_beyond_a_monthly_cap_is_not_advised():
    # 0.5 GB an hour on lte: 30 hours carry 15 GB, and 10 hours 5 GB.
    values = around(8.0), around(4.0), around(10.0)
    found = advised(tables({"cap_gb_per_month": 6}), *values)
    assert found.choice.candidate.paths == ("wifi",)
    (beyond,) = (one for one in found.sentences if "is not advised" in one)
    assert beyond.startswith("wifi + lte, linux, cubic (9.99 ± ")
    assert beyond.endswith(
        "lte would carry 15 GB in the 30 hours of a month, of 6 GB: the cap lasts 12 hours"
    )
    within = tables({"cap_gb_per_month": 6}, cost={"hours_per_month": 10})
    assert advised(within, *values).choice.candidate.paths == ("wifi", "lte")


def test_a_path_that_the_choice_does_not_need_is_not_advised():
    """The leader, both paths with BBR, is 0.06 ± 0.1 Mb/s ahead, so 1 % of 8 Mb/s more is possible.

    Both paths with cubic are close to it. They are exactly as good as wifi with cubic, which costs nothing.
    """
    leader = [one + (0.1 if run % 4 < 2 else -0.1) for run, one in enumerate(around(8.06))]
    found = advised(
        tables({"price_per_gb": 2.4}),
        {"cubic": around(8.0), "bbr": around(4.0)},
        around(4.0),
        {"cubic": around(8.0), "bbr": leader},
        controllers=("cubic", "bbr"),
    )
    assert found.choice.candidate.name == "wifi, cubic"
    (of_lte,) = (one for one in found.of_paths if one.path == "lte")
    assert of_lte.verdict != of_path.USE


def test_a_path_that_only_keeps_another_within_its_cap_is_used():
    # lte alone is as good as both, but all of its 1 GB an hour costs 2.40.
    found = advised(tables({"price_per_gb": 2.4}), around(4.0), around(8.0), around(8.0), share=0.25)
    assert found.choice.candidate.paths == ("lte",), "a second path is a change of the host"
    # lte alone would carry 30 GB a month.
    capped = tables({"price_per_gb": 2.4, "cap_gb_per_month": 10})
    found = advised(capped, around(4.0), around(8.0), around(8.0), share=0.25)
    assert found.choice.candidate.paths == ("wifi", "lte")
    (of_wifi,) = (one for one in found.of_paths if one.path == "wifi")
    assert of_wifi.verdict == of_path.USE
    assert of_wifi.sentence == (
        "use wifi beside lte: without it, lte would carry 30 GB in the 30 hours of a month, of 10 GB: the cap "
        "lasts 10 hours; quality: no difference over 8 trials; it saves 1.80 an hour (wifi + lte, linux, cubic "
        "instead of lte, cubic)"
    )


@pytest.mark.parametrize(
    ("controllers", "schedulers", "trials", "budget"),
    [
        (("cubic",), ("linux",), 30, 60),
        # The default budget of 92 candidates: 92 + 2 * (4 + 2 * 3 + 3).
        (candidates.CONTROLLERS, candidates.SCHEDULERS, 5, 118),
    ],
)
def test_the_runs_decide_every_path_of_a_choice_that_differs_from_the_leader(
    controllers, schedulers, trials, budget
):
    """All three paths lead, but exceed the cap. The advised pair is compared with each of its paths alone.

    One trial shows that a path alone is far behind, so only the question about the pair gives it more.
    """
    raw = tables({"cap_gb_per_month": 100})
    raw["paths"].append({"name": "sat", "rtt": "600 ms", "rate": "8 Mbit/s", "cap_gb_per_month": 1})
    given = None if trials == 5 else budget
    what, seen = asked(raw, controllers, schedulers, trials, given)
    means = {("wifi", "lte", "sat"): 9.0, ("wifi", "lte"): 8.0, ("wifi", "sat"): 7.0, ("lte", "sat"): 7.0}
    luck = [0.09, -0.07, 0.04, -0.08, 0.02, 0.05, -0.01, 0.03]
    for step in make.steps(what, seen):
        for place, run in step:
            if not seen.has(place, run):
                names = what.candidates[place].paths
                value = means.get(names, 1.0) + luck[(run * (place + 1) + place) % 8]
                carried = {f"bytes_{name}": 10 * MB / len(names) for name in names}
                seen.add(place, run, {"scenario": "small", "goodput_mbps": value, **HOUR, **carried})
    found = judged(what.sweep, what.candidates, seen)
    assert found.choice.candidate.paths == ("wifi", "lte")
    assert found.is_recommendation
    verdicts = {one.path: one.verdict for one in found.of_paths}
    assert verdicts == {"wifi": of_path.USE, "lte": of_path.USE, "sat": of_path.LEAVE}
    (of_sat,) = (one for one in found.of_paths if one.path == "sat")
    assert of_sat.sentence.startswith("do not add sat to wifi + lte: it helps, +1")
    # 3.33 Mb of 10 in a hundredth of an hour: 0.333 GB an hour.
    assert of_sat.sentence.endswith(
        "but sat would carry 10 GB in the 30 hours of a month, of 1 GB: the cap lasts 3 hours"
    )
    assert seen.runs == budget


def test_a_cap_that_is_never_reached_changes_nothing():
    for values in (
        (noisy(8.0), around(4.0), around(8.8)),
        (around(8.0), around(8.02), around(4.0)),
        ([3.8, 5.8, 7.8], around(4.0), around(10.0)),
    ):
        free, capped = (advised(tables(lte), *values) for lte in ({}, {"cap_gb_per_month": 1e6}))
        assert capped.choice == free.choice
        assert capped.sentences == free.sentences


def test_two_trials_are_no_recommendation_even_if_no_more_are_set():
    found = advised(tables(), [8.0] * 2, [4.0] * 2, [10.0] * 2, trials=2)
    # The third trial of each of three candidates.
    assert found.missing == 3
    assert not found.is_recommendation
    assert found.steps() == []


def test_one_trial_of_each_is_no_recommendation():
    found = advised(tables(), [8.0], [4.0], [10.0], budget=3)
    assert found.missing > 0
    assert not found.is_recommendation
    assert found.sentences[0].startswith(f"no recommendation yet, {found.missing} more runs are needed")
    assert found.steps() == []
    assert not any(one.startswith("use ") for one in found.sentences)
    # Two more runs of each compared candidate are enough.
    assert found.missing == 6


def test_the_scenarios_own_settings_have_their_verdict_where_the_advice_differs():
    # With cubic the second path helps; with bbr wifi alone is as good.
    found = advised(
        tables(),
        {"cubic": around(5.0), "bbr": around(10.0)},
        {"cubic": around(4.0), "bbr": around(4.0)},
        {"cubic": around(8.0), "bbr": around(10.0)},
        controllers=("cubic", "bbr"),
    )
    assert found.choice.candidate.name == "wifi, bbr"
    (of_lte,) = (one for one in found.of_paths if one.path == "lte")
    assert of_lte.verdict == of_path.LEAVE
    assert of_lte.own == "helps"
    own = "with linux and cubic, which the scenario has, adding lte to wifi helps: +3 Mb/s over 8 trials"
    assert of_lte.own_sentence == own
    assert own in found.sentences


def test_advice_for_a_film_cites_known_results():
    from dataclasses import replace

    from anabranch.metrics import score

    found = advised(tables(), around(8.0), around(4.0), around(10.0))
    assert found.known == "", "a transfer has no freezes"
    alone = advised(tables(), around(8.0), around(4.0), around(5.0))
    alone = replace(alone, score=score.Score(kind="progressive", film_s=60.0))
    assert (alone.choice.candidate.paths, alone.known) == (("wifi",), ""), "it is about several paths"
    steady = replace(found, score=score.Score(kind="progressive", film_s=60.0))
    assert steady.known == "", "no path may fall silent"
    film = replace(steady, may_fall_silent=True)
    for words in ("min-rtt-0.9x and bbr", "retransmissions", "preset `video`"):
        assert words in film.known
    assert film.to_json()["known"] == film.known


def test_only_a_path_that_may_fall_silent_is_marked_as_such():
    event = {"at": "1 s", "path": "lte", "state": "down"}
    values = around(8.0), around(4.0), around(10.0)
    assert not advised(tables(), *values).may_fall_silent
    assert advised(tables(events=[event]), *values).may_fall_silent


def test_the_waiting_of_a_film_is_positive_in_the_sentences():
    from dataclasses import replace

    from anabranch.metrics import score

    found = advised(tables(), around(-1.9), around(-4.0), around(-1.91))
    film = replace(found, score=score.Score(kind="progressive", film_s=60.0))
    assert film.sentences[0].startswith("use wifi, cubic: the viewer waits 1.91 ± ")
    # The deviations of `around` sum to -0.1 over 8 trials. A table has the score itself.
    assert film.table()[1][0][3].startswith("-1.91 ± ")


def test_a_short_table_has_the_candidates_that_a_sentence_names():
    many = {"cubic": around(8.0), "bbr": around(8.0), "reno": around(8.0), "balia": around(8.0)}
    last = {name: around(4.0) for name in many}
    raw = tables()
    found = advised(raw, last, many, last, controllers=(*many,), schedulers=("linux", "blest", "ecf"))
    _, lines = found.short_table()
    rows = {", ".join(word for word in line[:3] if word != "-") for line in lines}
    named = {one.candidate.name for one in found.ranked if one.candidate.name in "\n".join(found.sentences)}
    assert named <= rows
    assert len(lines) < len(found.ranked)


def test_equal_candidates_that_mainline_linux_lacks_are_marked():
    alike = {"cubic": around(8.0), "balia": around(8.0)}
    found = advised(tables(), alike, around(4.0), around(4.0), controllers=("cubic", "balia"))
    assert found.sentences[1].startswith("not distinguishable from it: wifi, balia (not in mainline Linux); ")


def test_known_results_quote_the_means_of_the_study():
    # The rows of docs/returning-paths.md with the kernel's defaults and with min-rtt-0.9x and BBR.
    page = (Path(__file__).parents[2] / "docs" / "returning-paths.md").read_text(encoding="utf-8")
    table = re.findall(
        r"^\| (?:with handovers|without)? *\| (?:the profile's own|`min-rtt-0.9x` and BBR) \| ([\d.]+) s \|",
        page.split("## In the simulator, with a viewer")[1].split("## ")[0],
        re.MULTILINE,
    )
    handover, best, steady, best_steady = map(float, table)
    for before, after in ((handover, best), (steady, best_steady)):
        assert f"{before:.2f} s" in known.SENTENCE
        assert f"{after:.2f} s ({100 * after / before - 100:.0f} %)" in known.SENTENCE


def test_the_data_of_a_film_is_by_the_hour_of_film():
    terms = price.Terms(prices={"lte": 2.0}, caps={}, weights={})
    # 450 MB in 900 s of film. Playback took longer than 900 s.
    played = {"duration_s": 1000.0, "play_time_s": 890.0, "unplayed_s": 10.0}
    use = terms.use([{**played, "bytes_lte": 450 * MB}], ["lte"])
    assert use.gb_per_hour["lte"] == pytest.approx(1.8)
    assert use.per_hour == pytest.approx(3.6)


@pytest.mark.parametrize(
    ("lte", "helps"),
    [
        ({"rtt": "30 ms", "rate": "8 Mbit/s"}, True),
        # A path that holds the small receive buffer: it does not help.
        ({"rtt": "700 ms", "rate": "600 kbit/s", "loss": "2 %"}, False),
    ],
)
def test_compare_and_advise_give_one_verdict_on_the_same_runs(lte, helps):
    world = {
        "name": "one",
        "application": {"kind": "bulk", "bytes": "1 MB"},
        "transport": {"receive_buffer": "256 KiB"},
        "paths": [
            {"name": "wifi", "rtt": "20 ms", "rate": "6 Mbit/s", "jitter": "1 ms"},
            {"name": "lte", "jitter": "1 ms", **lte},
        ],
    }
    compared = anabranch.compare(world, trials=6, workers=1, progress=False)
    (of_lte,) = (one for one in compared.added if one.path == "lte")
    few = {"controllers": ["cubic"], "schedulers": ["linux"], "trials": 6, "budget": 18, "workers": 1}
    found = anabranch.advise(world, **few)
    (advised_of_lte,) = (one for one in found.of_paths if one.path == "lte")
    assert (of_lte.verdict == "helps") == helps
    meaning = {"helps": of_path.USE, "undecided": of_path.UNDECIDED}
    assert advised_of_lte.verdict == meaning.get(of_lte.verdict, of_path.LEAVE)
    assert advised_of_lte.own == of_lte.verdict
    assert advised_of_lte.own_sentence is None
    # The same runs, the same difference, the same interval.
    assert advised_of_lte.effect == of_lte.judgement.effect
