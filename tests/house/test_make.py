"""The recipes of the Makefile, as make prints them without running them."""

from __future__ import annotations

import os
import subprocess

from repository import ROOT


def printed(*words):
    """Return the commands of a recipe in a clone where nothing is built."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    command = ("make", "--dry-run", *words, "STAMPS=/nonexistent/stamps")
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_a_fresh_demo_installs_the_base_and_builds_without_link_time_optimisation():
    recipe = printed("demo")
    assert "--profile quick" in recipe
    assert "base.txt" in recipe
    assert "--release" not in recipe
    assert "requirements.txt" not in recipe


def test_a_build_installs_every_extra_and_builds_the_released_module():
    recipe = printed("build")
    assert "--release" in recipe
    assert "requirements.txt" in recipe
    assert "--profile quick" not in recipe
