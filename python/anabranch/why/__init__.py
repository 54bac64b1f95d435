"""Why a viewer's picture froze or was discarded: shares of causes, from a run's trace."""

from anabranch.why.attribute import CAUSES, Why, why

__all__ = ["CAUSES", "Why", "why"]
