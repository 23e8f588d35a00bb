"""The tree around the files that are analysed: modules, configurations, requirements, and searches for names."""

from amplint.engine.modules.lookups import Answers, Lookups, is_still_valid
from amplint.engine.modules.modules import Modules

__all__ = ["Answers", "Lookups", "Modules", "is_still_valid"]
