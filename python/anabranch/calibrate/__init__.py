"""Holding the simulator against what was measured."""
