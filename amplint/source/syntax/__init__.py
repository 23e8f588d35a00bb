"""The nodes that a file is read as: those of libcst by name and fields, without white space and punctuation.

They are made from what Python's own `ast` gives, which costs a tenth of what libcst takes to parse the same text.
"""

from __future__ import annotations

from amplint.source.syntax.base import *  # noqa: F403
from amplint.source.syntax.expressions import *  # noqa: F403
from amplint.source.syntax.operators import *  # noqa: F403
from amplint.source.syntax.patterns import *  # noqa: F403
from amplint.source.syntax.statements import *  # noqa: F403
