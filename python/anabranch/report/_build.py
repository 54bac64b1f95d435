"""Converts a run to HTML: headline numbers, the comparison, the figure, and the run's inputs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch import _files
from anabranch.metrics._still import FREEZE_S
from anabranch.scenario.link_models import MODELS
from anabranch.scenario.units import show_rate, show_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from anabranch._run import Run
    from anabranch.comparison import Comparison

#: The client whose session is drawn. Drawing all clients would make the file large.
_CLIENT = 0

#: The world of a run that was read from a capture.
_CAPTURED = "captured"
_FATES_OF_PACKETS = ("delivered", "dropped_queue", "dropped_loss")


@dataclass(frozen=True, kw_only=True)
class Tile:
    """A headline number."""

    value: str
    unit: str
    label: str
    bad: bool = False


def write(path: Path, run: Run, *, comparison: Comparison | None = None) -> None:
    """Write the report of a run.

    Parameters
    ----------
    path
        The file.
    run
        The run.
    comparison
        Results of the same scenario with fewer of its paths.

    Raises
    ------
    MissingError
        When it cannot be written.
    """
    _files.write(path, build(run, comparison=comparison), "the report")


def build(run: Run, *, comparison: Comparison | None = None) -> str:
    """Return the report of a run as self-contained HTML.

    Parameters
    ----------
    run, comparison
        As of `write`.
    """
    from anabranch.report import _draw, _page, _panels, _verdict
    from anabranch.why import CAUSES, why

    made = _panels.of_run(run, client=_CLIENT)
    own, tone = _verdict.of_run(run, made.frozen_s)
    compared, whole = _verdict.of_comparison(comparison) if comparison else ([], tone)
    subflows, opening = _subflows(run)
    return _page.rendered(
        "report.html.j2",
        run=run,
        title=run.scenario,
        film=_film(run),
        verdicts=[*compared, _verdict.beside(own)] if compared else own,
        tone=whole,
        tiles=_tiles(run),
        comparison=comparison,
        whose=run.whose_subflows if not opening else "",
        subflows=subflows,
        opening=opening,
        links=_links(run),
        captured=_captured(run),
        facts=_facts(run),
        cross_traffic=_cross_traffic(run),
        figure=_draw.figure(made),
        freezes=made.freezes,
        not_better=why(run, clients=1).sentences,
        causes=[(cause, CAUSES[cause]) for cause in made.frozen_s],
        changes=made.changes,
        constant=made.constant,
        lost=any(panel.title.startswith("Pictures, when") for panel in made.panels),
        clients=run.plan["clients"],
        bars=_panels.CLIENTS,
        plan=json.dumps(_short_plan(run.plan), indent=2),
    )


def _facts(run: Run) -> set[str]:
    """Return the notes of a captured session that are no warnings."""
    return {run.summary.get("evidence", ""), *run.summary.get("log", {}).get("notes", ())}


def _captured(run: Run) -> dict[str, Any] | None:
    """Return the parts of a captured session's report: UQ18's figures and the values that are not visible."""
    if run.summary.get("world") != _CAPTURED:
        return None
    from anabranch.capture import figures

    return {"figures": figures(run), "not_visible": run.summary["not_visible"]}


def _subflows(run: Run) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Return the subflows with their colours. Those of the player's opening connections are combined."""
    from anabranch.report import _panels

    colour = _panels.colour_of(run)
    rows = [{**row, "colour": colour.get(row["path"], "var(--soft)")} for row in run.qos["subflows"]]
    # With several clients, the rows are means by path and include the opening.
    folded = _panels.opening(run, _CLIENT) if run.plan["clients"] == 1 else set()
    numbers = list(run.tables["subflows"]["subflow"])
    if not folded or len(numbers) != len(rows):
        return rows, None
    gone = [row for row, number in zip(rows, numbers, strict=True) if number in folded]
    kept = [row for row, number in zip(rows, numbers, strict=True) if number not in folded]
    return kept, {
        "subflows": len(gone),
        "bytes": sum(row["bytes"] for row in gone),
        "retransmissions": sum(row["retransmissions"] for row in gone),
    }


def _film(run: Run) -> str:
    """Return what was streamed, in words."""
    film, application = run.plan["film"], run.plan["application"]
    if run.plan["ladder"] is not None:
        return _ladder(run)
    if run.summary.get("world") == _CAPTURED:
        count = run.tables["connections"]["bytes_read"][0]
        # Bytes after a gap are not among them; the table on the terminal has all bytes.
        at_server = run.summary.get("captured_at") == "server"
        which = "acknowledged by the client" if at_server else "received in order"
        log = run.summary.get("log")
        parts = [] if log is None else [f"log of {log['kind']}"]
        if count is not None:
            parts.append(f"{count:,.0f} bytes {which}")
        return ", ".join(parts)
    if film is None:
        amount = [f"{application['bytes'] / 1e6:g} MB"] if application["bytes"] else []
        amount += [f"for {show_time(application['duration_ns'])}"] if application["duration_ns"] else []
        amount += [f"at {show_rate(application['rate_bps'])}"] if application["rate_bps"] else []
        return " ".join([application["kind"], *amount])
    if "synthetic" in film:
        return str(film["synthetic"]["name"])
    recorded = film["recorded"]
    seconds = recorded["duration_ns"] / 1e9
    rate = recorded["size_bytes"] * 8e-6 / seconds
    shape = f"{recorded['width']}x{recorded['height']}, {recorded['frame_rate']:g} fps"
    return f"{seconds:.0f} s of film at {rate:.2f} Mb/s ({shape}, {recorded['container']})"


def _ladder(run: Run) -> str:
    """Return the ladder, the rule and the player, in words."""
    from anabranch import plugins

    adaptive = run.plan["application"]["adaptive"]
    video = [row for row in run.rows("renditions") if row["track"] == "video"]
    (origin, ladder), *_ = run.plan["ladder"].items()
    rates = f"{len(video)} renditions to {video[-1]['bandwidth_bps'] / 1e6:.2f} Mb/s, {origin}"
    rule, player = plugins.label(adaptive["abr"]), adaptive["player"]["model"]
    return f"{ladder['name']} ({rates}) · ABR {rule}, player {player}"


def _tiles(run: Run) -> list[Tile]:
    """Return the headline numbers: the viewer's if there is a viewer, else the network's."""
    qoe, qos = run.qoe, run.qos
    if run.summary.get("log") is not None:
        return _log_tiles(run)
    goodput = Tile(value=f"{qos['goodput_mbps']:.2f}", unit="Mb/s", label="goodput")
    if qoe is None and run.summary.get("world") == _CAPTURED:
        return [goodput, *_captured_tiles(run)]
    if qoe is None:
        drops = "packets dropped by queues" + (", in all" if run.plan["clients"] > 1 else "")
        again = sum(subflow["retransmissions"] for subflow in qos["subflows"])
        return [
            goodput,
            Tile(value=f"{run.duration_s:,.1f}", unit="s", label="duration"),
            Tile(value=f"{again:,.0f}", unit="", label="segments retransmitted"),
            Tile(value=f"{qos['queue_drops']:,.0f}", unit="", label=drops),
            Tile(value=f"{qos['max_read_gap_s']:.2f}", unit="s", label="longest wait for a byte"),
        ]
    if "frames" not in qoe:
        return [*_adaptive_tiles(qoe), goodput]
    frames = qoe["frames"]
    shown = 100 * frames["displayed"] / max(frames["total"], 1)
    startup = qoe["startup_delay_s"]
    return [
        Tile(value="–" if startup is None else f"{startup:.2f}", unit="s", label="startup delay"),
        Tile(
            value=f"{qoe['buffer_underflows']:g}",
            unit="",
            label="buffer underflows",
            bad=qoe["buffer_underflows"] > 0,
        ),
        _still_tile(qoe),
        Tile(
            value=f"{qoe['picture_discards']:,.4g}",
            unit="",
            label="pictures discarded",
            bad=qoe["picture_discards"] > 0,
        ),
        Tile(
            value=f"{shown:.1f}" if shown < 100 else "100",
            unit="%",
            label=f"of {frames['total']:,.0f} pictures shown",
        ),
        goodput,
    ]


def _log_tiles(run: Run) -> list[Tile]:
    """Return the headline numbers of a session that is known from a player's log."""
    from anabranch.report import _log

    return [
        Tile(value=value, unit=unit, label=label, bad=bad) for value, unit, label, bad in _log.headline(run)
    ]


def _captured_tiles(run: Run) -> list[Tile]:
    """Return the headline numbers of a captured session besides its goodput."""
    again = [row["retransmissions"] for row in run.qos["subflows"]]
    tiles = [Tile(value=f"{run.duration_s:,.1f}", unit="s", label="from the first segment to the last byte")]
    if None not in again:
        tiles.append(Tile(value=f"{sum(again):,.0f}", unit="", label="segments retransmitted"))
    if run.qos["rtt_diff_ms"] is not None:
        tiles.append(Tile(value=f"{run.qos['rtt_diff_ms']:,.1f}", unit="ms", label="between the paths' RTTs"))
    wait = Tile(value=f"{run.qos['max_read_gap_s']:.2f}", unit="s", label="longest wait for a byte")
    return [*tiles, wait]


def _still_tile(qoe: Mapping[str, Any]) -> Tile:
    """Return the time without a new picture."""
    still, longest = qoe["still_s"], qoe["still_longest_s"]
    return Tile(
        value="–" if still is None else f"{still:.1f}",
        unit="s",
        label="without a new picture",
        bad=longest is None or longest >= FREEZE_S,
    )


def _adaptive_tiles(qoe: Mapping[str, Any]) -> list[Tile]:
    """Return the headline numbers of an adaptive player."""
    startup, resolution = qoe["startup_delay_s"], qoe["resolution_mean"]
    underflows = qoe["buffer_underflows"]
    return [
        Tile(value="–" if startup is None else f"{startup:.2f}", unit="s", label="startup delay"),
        Tile(value=f"{underflows:g}", unit="", label="buffer underflows", bad=underflows > 0),
        _still_tile(qoe),
        Tile(value="–" if resolution is None else f"{resolution:.0f}", unit="p", label="mean resolution"),
        Tile(value=f"{qoe['resolution_changes']:g}", unit="", label="changes of rendition"),
        Tile(value=f"{100 * qoe['top_share']:.0f}", unit="%", label="of the time at the top"),
    ]


def _cross_traffic(run: Run) -> list[dict[str, Any]]:
    """Return the groups of background flows: their settings and their results."""
    done = {group["name"]: group for group in run.qos.get("cross_traffic", ())}
    return [
        {
            **done[group["name"]],
            "kind": f"{group['kind']}, {show_rate(group['rate_bps'])}"
            if group["rate_bps"]
            else group["kind"],
            # The flows' own delay is not listed here, because it is in the table of links.
            "links": ", ".join(link for link in group["data"] if link.rpartition(".")[0] != group["name"]),
            "when": _when(group),
        }
        for group in run.plan["cross_traffic"]
        if group["name"] in done
    ]


def _when(group: Mapping[str, Any]) -> str:
    """Return the start and the end condition of background flows, in words."""
    words = [f"from {show_time(group['start_ns'])}"]
    words += [f"for {show_time(group['duration_ns'])}"] if group["duration_ns"] else []
    words += [f"{group['bytes'] / 1e6:g} MB each"] if group["bytes"] else []
    return ", ".join(words)


def _links(run: Run) -> list[dict[str, Any]]:
    """Return the links: their settings, and the fates of their packets."""
    counts = {row["link"]: row for row in run.rows("links")}
    return [
        {
            "name": link["name"],
            "rate": _rate(link),
            "delay": _with_own(show_time(link["delay_ns"]), link, "delays_ns"),
            "loss": _with_own(_loss(link["loss"]) if link["loss"] else "", link, "losses") or "none",
            "queue": _kind_of_queue(link) + _queue(link["queue"]),
            **{key: _count(counts.get(link["name"], {}), key) for key in _FATES_OF_PACKETS},
        }
        for link in run.plan["links"]
    ]


def _count(row: Mapping[str, Any], key: str) -> int | None:
    """Return how many packets of a link had a fate.

    Drops by a full queue and by its algorithm are added up.
    """
    more = row.get("dropped_aqm", 0) if key == "dropped_queue" else 0
    return row[key] + more if key in row else None


_RECORDING = "recording"


def _model(link: Mapping[str, Any]) -> str:
    """Return the name of a link's model or recording; empty if it has none."""
    names = list(link.get("model") or ())
    if not names:
        return ""
    return MODELS[names[0]].called if names[0] in MODELS else _RECORDING


def _rate(link: Mapping[str, Any]) -> str:
    """Return a link's rate. With a model, the rate is an upper limit."""
    model, rate = _model(link), link["rate_bps"]
    if not model:
        return show_rate(rate)
    return model if rate is None else f"{model}, at most {show_rate(rate)}"


def _with_own(text: str, link: Mapping[str, Any], column: str) -> str:
    """Return a link's settings, with the properties that its model or its recording replaces.

    Recordings of delivery opportunities have neither delays nor losses of their own.
    """
    word = _model(link)
    if not word:
        return text
    recorded: Mapping[str, Any] = next(iter(link["model"].values()))
    if word == _RECORDING and not any(recorded.get(column, ())):
        return text
    owner = f"the {word}'s" if word == _RECORDING else "the model's"
    return f"{text} and {owner}" if text else owner


def _loss(loss: Mapping[str, Any]) -> str:
    """Return a loss model in words."""
    if "bernoulli" in loss:
        return f"{100 * loss['bernoulli']:g} %"
    model = loss["gilbert_elliott"]
    bad = model["p"] / (model["p"] + model["r"]) if model["p"] + model["r"] else 0.0
    mean = bad * (1 - model["h"]) + (1 - bad) * (1 - model["k"])
    return f"bursts, {100 * mean:.2g} % in the mean"


def _kind_of_queue(link: Mapping[str, Any]) -> str:
    """Return the name of a queue that is not drop-tail, to be placed before its length."""
    kind = link.get("discipline")
    return f"{kind['name']}, " if kind else ""


def _queue(queue: Mapping[str, int] | None) -> str:
    """Return a queue's length in words."""
    if queue is None:
        return "unlimited"
    return f"{queue['packets']} packets" if "packets" in queue else f"{queue['bytes']:,} bytes"


def _short_plan(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan without the film's columns, which would fill the page."""
    film, ladder = plan["film"], plan["ladder"]
    if ladder is not None and "recorded" in ladder:
        kept = {key: ladder["recorded"][key] for key in ("name", "master")}
        ladder = {
            "recorded": {**kept, "renditions": f"{len(ladder['recorded']['renditions'])}, left out here"}
        }
    if film is not None and "recorded" in film:
        kept = {key: value for key, value in film["recorded"].items() if key != "packets"}
        count = len(film["recorded"]["packets"]["size"])
        film = {"recorded": {**kept, "packets": f"{count} packets, left out here"}}
    return {**plan, "film": film, "ladder": ladder}
