"""Records of runs and configuration files made at random: right ones with something else in a few places."""

from __future__ import annotations

import copy
import functools
import json
import tempfile
from pathlib import Path
from typing import Any

from tests.chance import Numbers
from tests.trace import records

_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 10**400, 1.5, -0.0, 1e308, "", "x", "\x1b[31m", "a\nb", "::error::x"),
    *("##[error]x", "<script>alert(1)</script>", "\u202e", "float16", "/dev/zero", "../" * 9, "x" * 5_000, [], {}),
    *([[]], ["x"], {"x": 1}, {"0": "x"}, {"-3": -1}, [None], "NaN", "2.13.0", "cuda", "forward", "nan"),
)
_LINES = (
    *('select = ["ALL"]', 'select = ["AMP2", ""]', 'ignore = ["x"]', 'exclude = ["*a*a*a*b", "[z-a]"]', "exclude = 1"),
    *('min-severity = "error"', 'min-severity = ""', "unsafe-fixes = 1", 'torch-version = "2.13"', 'extend = "."'),
    *(
        'torch-version = "9"',
        'extend = "amplint.toml"',
        'extend = "/dev/zero"',
        "[per-file-ignores]",
        '"**/a/*" = ["AMP4"]',
    ),
    *(
        "max-seconds = inf",
        "max-seconds = -1",
        "max-file-size = 1e9",
        "max-file-size = 99999999999999999999",
        "x" * 200,
    ),
    *("[tool.amplint]", "[[a]]", "a = [" * 500, "\x00", "\ufeff", 'a = "\\u0000"', "a.b.c = 1", "# é", "'' = ''", "="),
)


@functools.cache
def _written() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return records.record(Path(folder)).to_json()


def record(numbers: Numbers) -> bytes:
    """A record with other values, keys or bytes in a few places."""
    data = json.loads(_written())
    for _ in range(1 + numbers(2)):
        _change(data, numbers)
    raw = json.dumps(data).encode()
    if numbers(9) == 0:
        at = numbers(len(raw) - 1)
        raw = raw[:at] + bytes([numbers(255)]) + raw[at + numbers(30) :]
    return raw


def _change(data: Any, numbers: Numbers) -> None:
    place = data
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = keys[numbers(len(keys) - 1)]
        if isinstance(place[key], (dict, list)) and place[key] and numbers(5):
            place = place[key]
            continue
        kind = numbers(9)
        if kind == 0:
            del place[key]
        elif kind == 1 and isinstance(place, dict):
            place[f"{_VALUES[numbers(len(_VALUES) - 1)]}"] = place[key]
        elif kind == 2 and isinstance(place, list):
            place.extend(place[key : key + 1] * numbers(50))
        else:
            alike = [value for value in _VALUES if type(value) is type(place[key])] if numbers(2) else []
            values = alike or _VALUES  # of another type, a value is mostly refused before it is read
            place[key] = copy.deepcopy(values[numbers(len(values) - 1)])  # a later change may reach into it
        return


def configuration(numbers: Numbers) -> bytes:
    """A configuration file of lines that are right and wrong."""
    found = [_LINES[numbers(len(_LINES) - 1)] for _ in range(numbers(6))]
    return "\n".join(found).encode(errors="surrogatepass")
