"""Why a picture froze, was discarded or lost in resolution: shares of causes, from a run's trace."""

from anabranch.why.attribute import CAUSES, Why, why

__all__ = ["CAUSES", "Why", "why"]
