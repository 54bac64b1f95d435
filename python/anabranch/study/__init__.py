"""Runs by the thousand: sweeps over a grid, and the studies that repeat the papers."""
