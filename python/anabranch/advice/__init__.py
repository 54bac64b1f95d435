"""Choice of paths, path scheduler and congestion control for a scenario.

>>> import anabranch
>>> found = anabranch.advise("two-paths", controllers=["cubic", "bbr"])  # doctest: +SKIP
>>> print(found.toml)  # doctest: +SKIP
"""

from anabranch.advice.make import advise
from anabranch.advice.read import Advice

__all__ = ["Advice", "advise"]
