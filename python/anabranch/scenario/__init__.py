"""Scenarios: TOML files with units in strings, which are validated once and converted to a plan."""
