"""The nodes of a syntax tree: libcst's by name and fields, without white space and punctuation.

They are built from Python's own `ast`, at a tenth of the cost of libcst's parser.
"""

from __future__ import annotations

from amplint.source.syntax.base import *  # noqa: F403
from amplint.source.syntax.expressions import *  # noqa: F403
from amplint.source.syntax.operators import *  # noqa: F403
from amplint.source.syntax.patterns import *  # noqa: F403
from amplint.source.syntax.statements import *  # noqa: F403
