"""The claims of papers, as statements that stored results can reproduce or refute.

A study's `claims.toml` states each claim of its paper; `statement` reads it and `judge` gives verdicts.
"""
