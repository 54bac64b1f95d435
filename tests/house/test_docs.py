"""The documentation names what the code has, all of it, and its links lead somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import typer

from anabranch.cli import _app
from anabranch.metrics import METRICS, SUBFLOW_METRICS
from anabranch.plugins import module
from anabranch.scenario import link_models, models, queues, units

if TYPE_CHECKING:
    from pathlib import Path
from repository import ROOT, files, matching, text

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_NAME = re.compile(r'PluginName::new\(\s*"([^"]+)"')
_ROWS = re.compile(r'\w+Rows, "(\w+)" \{(.*?)\n    \}', re.DOTALL)

PAGES = [name for name in matching(".md") if name.startswith("docs/") or "/" not in name]
#: Queues have pages of their own.
_ROOMS = tuple(f"crates/{name}/src/" for name in ("congestion", "scheduler", "tcp", "mptcp", "media"))
PLUGINS = sorted(
    {name for room in _ROOMS for file in matching(".rs", under=room) for name in _NAME.findall(text(file))}
)
TABLES = {name: re.findall(r"(\w+):", body) for name, body in _ROWS.findall(text("crates/trace/src/rows.rs"))}


def _links(page: str) -> list[Path]:
    """Return what a page links to inside the repository."""
    targets = (target.partition("#")[0] for target in _LINK.findall(text(page)))
    inside = (target for target in targets if target and "://" not in target)
    return [(ROOT / page).parent.joinpath(target).resolve() for target in inside]


def _section(page: str, heading: str) -> str:
    """Return what a page says under a heading, up to the next of any level."""
    found = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#|\Z)", text(page), re.MULTILINE | re.DOTALL)
    return found.group(1) if found else ""


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    assert [str(path) for path in _links(page) if not path.exists()] == []


def test_every_page_is_in_the_index():
    linked = set(_links("docs/index.md"))
    pages = [name for name in files() if name.startswith("docs/") and name.endswith(".md")]
    assert [name for name in pages if name != "docs/index.md" and ROOT / name not in linked] == []


def test_every_picture_is_shown():
    shown = {path for page in PAGES for path in _links(page)}
    assert [name for name in matching(".png", ".svg", under="docs/") if ROOT / name not in shown] == []


@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_plugin_has_a_paragraph(plugin):
    assert len(_section("docs/reference/plugins.md", f"`{plugin}`")) > 80


def test_plugins_are_found():
    assert {"linux", "min-rtt", "cubic", "reno", "full-mesh", "hlsjs"} <= set(PLUGINS)


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_column_of_the_trace_is_explained(name):
    section = _section("docs/reference/trace.md", f"`{name}`")
    assert [column for column in TABLES[name] if f"`{column}`" not in section] == []


@pytest.mark.parametrize("name", sorted(TABLES))
def test_every_column_of_the_trace_is_in_the_contract(name):
    row = re.search(rf"^\| {name} \|.*$", text("docs/plan-and-trace.md"), re.MULTILINE)
    assert row is not None
    assert [column for column in TABLES[name] if not re.search(rf"\b{column}\b", row.group())] == []


def test_every_key_of_the_plan_is_in_the_contract():
    source = text("crates/plan/src/plan.rs")
    source += "".join(map(text, matching(".rs", under="crates/plan/src/plan/")))
    keys = set(re.findall(r"^    pub (\w+):", source, re.MULTILINE))
    assert {"rate_bps", "scheduler", "acks", "time_limit_ns"} <= keys
    assert [key for key in sorted(keys) if f'"{key}"' not in text("docs/plan-and-trace.md")] == []


def test_tables_of_the_trace_are_found():
    assert {"connections", "subflows", "samples", "frames", "links"} <= set(TABLES)


def test_every_metric_is_explained():
    page = text("docs/reference/trace.md")
    assert [name for name in (*METRICS, *SUBFLOW_METRICS) if f"`{name}`" not in page] == []


_KEYS = {
    "The scenario": models.Scenario,
    "`[application]`": models.Application,
    "`[application.player]`": models.Player,
    "`[[paths]]`": models.Path,
    "A direction": models.Direction,
    "Bursty loss": models.GilbertElliott,
    "Queues": queues.Queue,
    "Reordering": models.Reorder,
    "Corruption": models.Corrupt,
    "`[[links]]`": models.Link,
    **{f'`model = {{ name = "{name}" }}`': model for name, model in link_models.MODELS.items()},
    "Recordings": link_models.Recording,
    "`[transport]`": models.Transport,
    "`[host]`": models.Host,
    "`[[cross_traffic]]`": models.CrossTraffic,
    "`[[events]]`": models.Event,
    "`[[handoffs]]`": models.Handoff,
    "`[expect]`": models.Bounds,
}


@pytest.mark.parametrize("heading", _KEYS)
def test_every_key_of_a_scenario_is_explained(heading):
    section = _section("docs/reference/scenario-keys.md", heading)
    assert [key for key in _KEYS[heading].model_fields if f"`{key}`" not in section] == []


def test_every_kind_of_queue_is_explained_with_its_parameters_and_their_defaults():
    keys = _section("docs/reference/scenario-keys.md", "Queues")
    concepts = _section("docs/concepts/link-model.md", "Queues")
    for kind in queues.disciplines().values():
        assert f"**`{kind.name}`" in concepts
        row = re.search(rf"^\| `{kind.name}` \|.*$", keys, re.MULTILINE)
        assert row is not None
        assert all(f"`{key}`" in row.group() for key in kind.parameters)
        limit = (
            "unlimited"
            if kind.limit is None
            else f"{next(iter(kind.limit.values()))} {next(iter(kind.limit))}"
        )
        assert f'| `"{limit}"` |' in row.group()
        for parameter in kind.parameters.values():
            shown = parameter.show(parameter.default)
            shown = f'`"{shown}"`' if parameter.unit in ("size", "time") else shown
            assert f"| `{parameter.key}` | {shown} | {parameter.meaning}" in keys


def test_the_defaults_of_hosts_are_those_that_they_have():
    section = _section("docs/reference/scenario-keys.md", "`[host]`")
    for key, value in module().host_defaults():
        shown = f"{value // 10**6} ms" if key.endswith("_ns") else f"{value} B"
        assert f'| `{key.removesuffix("_ns")}` | `"{shown}"`' in section


def test_the_defaults_of_a_transport_are_those_that_it_has():
    section = _section("docs/reference/scenario-keys.md", "`[transport]`")
    rows = dict(re.findall(r'^\| `(\w+)` \| `"([^"]+)"`', section, re.MULTILINE))
    for key, value in module().transport_defaults():
        assert units.size_bytes(rows[key]) == value, key
    for kind, name in module().plugin_defaults():
        assert rows[kind] == name
    page = text("docs/reference/scenario-keys.md")
    ((unit, count),) = queues.USUAL_LIMIT.items()
    assert f'| `queue` | `"{count} {unit}"` |' in page
    congestion = dict(module().plugin_defaults())["congestion"]
    assert f'| `congestion` | `"{congestion}"` |' in _section(
        "docs/reference/scenario-keys.md", "`[[cross_traffic]]`"
    )


def test_every_command_and_option_is_explained():
    page = text("docs/reference/cli.md")
    group = typer.main.get_command(_app.app)
    missing = []
    for name, command in group.commands.items():
        inner = getattr(command, "commands", {"": command})
        for sub, leaf in inner.items():
            full = f"anabranch {name} {sub}".strip()
            section = _section("docs/reference/cli.md", f"`{full}`")
            options = [option for parameter in leaf.params for option in parameter.opts if option[:1] == "-"]
            missing += [f"{full} {option}" for option in options if f"`{option}" not in section]
            missing += [full] if not section else []
    assert missing == []
    assert "`--version`" in page


_VIEWS = (
    "SubflowView",
    "SubflowEvent",
    "SendRequest",
    "AckSample",
    "SiblingView",
    "CongestionEvent",
    "LostSegment",
    "TransmitStart",
    "PlayerView",
    "Rendition",
    "ChunkSample",
    "Loading",
)


@pytest.mark.parametrize("name", _VIEWS)
def test_every_attribute_of_a_view_is_in_its_table(name):
    from anabranch import _anabranch

    told = re.findall(r"^\| `(\w+)` \|", _section("docs/reference/plugins.md", name), re.MULTILINE)
    assert sorted(told) == [attribute for attribute in dir(getattr(_anabranch, name)) if attribute[:1] != "_"]


@pytest.mark.parametrize(
    ("kind", "heading"),
    [("scheduler", "A scheduler"), ("congestion", "A congestion control"), ("abr", "An ABR rule")],
)
def test_every_method_of_a_python_plugin_is_in_its_table(kind, heading):
    from anabranch.plugins import protocol

    section = _section("docs/reference/plugins.md", heading)
    methods = {**protocol.NEEDED[kind], **protocol.OPTIONAL[kind]}
    rows = [f"| `{name}` | `{', '.join(arguments)}` |" for name, arguments in methods.items()]
    rows += [f"| `{name}` | an attribute |" for name in protocol.ATTRIBUTES[kind]]
    assert [row for row in rows if row not in section] == []
    assert len(re.findall(r"^\| `\w+` \| (?:`|an attribute)", section, re.MULTILINE)) == len(rows)
