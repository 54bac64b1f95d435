"""The workflow of a release: what it runs exists, and what it uses is pinned."""

from __future__ import annotations

import re

import pytest

from repository import ROOT, text

yaml = pytest.importorskip("yaml", reason="no PyYAML: the workflow is not read")

WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_every_action_has_a_whole_version():
    used = {step["uses"] for step in STEPS if "uses" in step}
    assert used
    assert [one for one in sorted(used) if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", one)] == []


def test_every_recipe_exists():
    phony = re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.MULTILINE)[1].split()
    named = {
        word
        for step in STEPS
        for line in step.get("run", "").splitlines()
        if line.startswith("make ")
        for word in line.split()[1:]
    }
    assert {"wheel", "wasm", "sdist", "docs", "play"} <= named
    assert named <= set(phony)


def test_jobs_that_attest_may_do_so_and_only_the_draft_may_write():
    for name, job in WORKFLOW["jobs"].items():
        attests = any("attest-build-provenance" in step.get("uses", "") for step in job["steps"])
        rights = job.get("permissions", WORKFLOW["permissions"])
        assert (rights.get("id-token"), rights.get("attestations")) == (
            ("write", "write") if attests else (None, None)
        )
        assert (rights["contents"] == "write") == (name == "draft")
    assert WORKFLOW["permissions"] == {"contents": "read"}
    attested = {
        name
        for name, job in WORKFLOW["jobs"].items()
        if any("attest-build-provenance" in step.get("uses", "") for step in job["steps"])
    }
    assert attested == {"engine", "wheel", "archive", "site"}


def test_both_processors_have_a_wheel():
    assert WORKFLOW["jobs"]["wheel"]["strategy"]["matrix"]["runner"] == ["ubuntu-24.04", "ubuntu-24.04-arm"]
