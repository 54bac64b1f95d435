"""Why a picture froze, was discarded or lost in resolution, and why a run was not better, from its trace."""

from anabranch.why.attribute import Why, why
from anabranch.why.words import CAUSES

__all__ = ["CAUSES", "Why", "why"]
