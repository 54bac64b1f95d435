"""Comparison of sets of paths: each path alone, every pair and all together, with the same random draws.

>>> import anabranch
>>> found = anabranch.compare("two-paths", trials=5)  # doctest: +SKIP
>>> print(found.sentences[0])  # doctest: +SKIP
"""

from anabranch.comparison.make import compare
from anabranch.comparison.read import Comparison, read

__all__ = ["Comparison", "compare", "read"]
