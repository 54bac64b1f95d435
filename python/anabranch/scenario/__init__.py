"""Scenarios: TOML with units in strings, validated once, turned into a plan."""
