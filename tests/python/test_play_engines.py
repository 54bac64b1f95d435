"""The page's two engines give tables of one form."""

from __future__ import annotations

import json
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")


def test_a_missing_number_of_the_native_engine_is_no_number():
    """In JavaScript `null >= 0` is true, and `NaN >= 0` is not, so null must not reach the page."""
    tables = {"frames": {"due_s": [1.5, None], "fate": ["shown", "discarded"], "kept": [True, False]}}
    program = (
        f"import {{ decoded }} from {json.dumps((ROOT / 'play' / 'native.js').as_uri())};"
        f"const {{ frames }} = decoded({json.dumps(tables)});"
        "console.log(JSON.stringify([frames.due_s[1] >= 0, frames.due_s.constructor.name,"
        " [...frames.kept], frames.fate]));"
    )
    done = subprocess.run(
        ["node", "--input-type=module", "-e", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [False, "Float64Array", [1, 0], ["shown", "discarded"]]
