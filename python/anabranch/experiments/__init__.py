"""Sweeps and studies from Python: run them, read and draw their results, and write them on a page.

>>> import anabranch
>>> grid = {"transport.scheduler": ["min-rtt", "linux"]}
>>> found = anabranch.sweep("bulk-two-paths", grid=grid)  # doctest: +SKIP
>>> found.versus("linux")  # doctest: +SKIP
"""
