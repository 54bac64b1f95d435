"""The count of calls between files reads callgrind's output, and tells steps from accessors."""

from __future__ import annotations

import importlib.util

import pytest

from repository import ROOT

_SPEC = importlib.util.spec_from_file_location("calls", ROOT / "benches" / "calls.py")
calls = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(calls)

OUTPUT = """\
fl=/a/crates/tcp/src/lib.rs
fn=tcp::Tcp::handle_ack
10 5
cfi=/a/crates/tcp/src/sending.rs
cfn=tcp::Sending::acknowledge
calls=3 20
11 100
cfn=tcp::Tcp::wake
calls=7 40
12 9
cfi=/rustc/library/core/src/option.rs
cfn=core::option::Option::map
calls=5 50
13 9
fi=/a/crates/mptcp/src/subflow.rs
cfi=/a/crates/tcp/src/lib.rs
cfn=tcp::Tcp::id
calls=2 60
14 9
"""

SOURCE = """\
#[derive(PartialEq)]
struct A;
impl A {
    fn get(&self) -> u8 {
        // A comment is no code.
        self.0
    }
    fn sum(
        &self,
    ) -> u8 {
        let a = self.0;
        a + 1
    }
    fn nothing(&self) {}
}
"""


def test_only_calls_between_files_of_the_two_crates_count():
    found = calls.calls(OUTPUT.splitlines())
    assert {(it.file, it.called_file, it.called, it.line): count for it, count in found.items()} == {
        ("crates/tcp/src/lib.rs", "crates/tcp/src/sending.rs", "tcp::Sending::acknowledge", 20): 3,
        ("crates/mptcp/src/subflow.rs", "crates/tcp/src/lib.rs", "tcp::Tcp::id", 60): 2,
    }


@pytest.mark.parametrize(("line", "accessor"), [(1, True), (4, True), (8, False), (14, True)])
def test_a_body_of_one_line_is_an_accessor(line, accessor):
    assert calls.is_accessor(SOURCE, line) is accessor
