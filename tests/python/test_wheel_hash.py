"""The hash of the sources of the page's engine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("cargo") is None, reason="no cargo")
def test_the_hash_of_the_sources_has_twelve_digits():
    command = ["bash", ROOT / ".ci" / "wasm-sources"]
    result = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert re.fullmatch(r"[0-9a-f]{12}\n", result.stdout)
