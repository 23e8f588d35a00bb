"""The treatment of each dispatcher operator by PyTorch's autocast, as data, for several versions of PyTorch."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from amplint.records import dataclass

FOLDER = Path(__file__).with_name("autocast")
_PREFIX, _SUFFIX = "torch-", ".json"


@dataclass(frozen=True)
class Policy:
    """Device type -> default dtype, and device type -> operators by treatment.

    `torch` is the version it was derived from. Operators have their dispatcher names (`linalg_vecdot`, `grid_sampler`),
    without overload if autocast treats all known overloads alike. Operators in no set run in the dtype of their
    operands.
    """

    torch: str
    default_dtype: Mapping[str, str]
    lower: Mapping[str, frozenset[str]]
    """Floating operands are cast to the region's dtype."""
    float32: Mapping[str, frozenset[str]]
    """Floating operands are cast to float32."""
    float32_set_dtype: Mapping[str, frozenset[str]]
    """Half operands are not cast, and `dtype=torch.float32` is set if no dtype is given."""
    float32_append_dtype: Mapping[str, frozenset[str]]
    """The same with another overload, which has a dtype."""
    promote: Mapping[str, frozenset[str]]
    """Operands are cast to the widest dtype among them."""
    banned: Mapping[str, frozenset[str]]
    """Refused with a RuntimeError."""


TREATMENTS = ("lower", "float32", "float32_set_dtype", "float32_append_dtype", "promote", "banned")
"""The fields of `Policy` that contain operators."""


class UnknownVersion(Exception):
    """There is no table for the requested version of PyTorch; the message is one line for the user."""


def versions() -> list[str]:
    """The versions of PyTorch with a table, oldest first."""
    names = (path.name for path in FOLDER.glob(f"{_PREFIX}*{_SUFFIX}"))
    return sorted((name[len(_PREFIX) : -len(_SUFFIX)] for name in names), key=_order)


def require(version: str) -> None:
    """Raise UnknownVersion if there is no table for `version`."""
    known = versions()
    if version not in known:
        raise UnknownVersion(f'no autocast policy of torch "{version}"; there is one of {", ".join(known)}')


@functools.cache
def policy(version: str | None = None) -> Policy:
    """The policy of a version of PyTorch, the newest known if None. Raises UnknownVersion."""
    table = _table(version)
    devices: dict[str, dict[str, list[str]]] = table["operators"]
    named = {device: _without_overloads(treated) for device, treated in devices.items()}
    by_treatment = {
        treatment: {device: frozenset(treated.get(treatment, ())) for device, treated in named.items()}
        for treatment in TREATMENTS
    }
    return Policy(table["torch"], table["default_dtype"], **by_treatment)


def operators(device: str, version: str | None = None) -> Mapping[str, list[str]]:
    """Treatment -> operators of `device`, each with its overload (`pow.Scalar`). Raises UnknownVersion."""
    treated: dict[str, list[str]] = _table(version)["operators"][device]
    return {treatment: treated.get(treatment, []) for treatment in TREATMENTS}


def _table(version: str | None) -> Any:
    import json  # importing it would slow down the start

    version = versions()[-1] if version is None else version
    require(version)
    return json.loads((FOLDER / f"{_PREFIX}{version}{_SUFFIX}").read_text(encoding="utf-8"))


def _without_overloads(treated: Mapping[str, Iterable[str]]) -> dict[str, set[str]]:
    """Treatment -> operators, with overloads in their names only if these are treated differently."""
    treatments = defaultdict(set)
    for treatment, operators in treated.items():
        for operator in operators:
            treatments[_base(operator)].add(treatment)
    return {
        treatment: {_base(name) if len(treatments[_base(name)]) == 1 else name for name in operators}
        for treatment, operators in treated.items()
    }


def _base(operator: str) -> str:
    return operator.partition(".")[0]


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]
