"""Rule selection: codes, prefixes, names and ALL; the more specific selector of `select` and `ignore` wins."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping

from amplint.engine.diagnostics import ALWAYS_ON
from amplint.rule import Rule

Rules = Mapping[str, type[Rule]]

_NAMED = 1000


class UnknownSelector(ValueError):
    """A selector that matches no known rule."""


def matches(selector: str, rules: Rules) -> dict[str, int]:
    """The specificity of the match by code, for every rule that `selector` covers; empty if none."""
    wanted = selector.strip()
    if wanted.upper() == "ALL":
        return dict.fromkeys(rules, 0)
    if wanted.upper() in rules:
        return {wanted.upper(): _NAMED}
    if named := [code for code, rule in rules.items() if rule.name == wanted.lower()]:
        return {named[0]: _NAMED}
    if re.fullmatch(r"[A-Za-z]+\d*", wanted) is None:
        return {}
    prefix = wanted.upper()
    family = prefix.rstrip("0123456789")
    return {code: len(prefix) for code in rules if code.startswith(prefix) and code.rstrip("0123456789") == family}


def hint(word: str, known: Iterable[str]) -> str:
    """`(did you mean "...")` with the nearest known word, or an empty string."""
    near = difflib.get_close_matches(word, list(known), n=1)
    return f' (did you mean "{near[0]}"?)' if near else ""


def require(selectors: Iterable[str], rules: Rules) -> None:
    """Check that every selector covers a rule. Raises UnknownSelector naming the first that does not."""
    for selector in selectors:
        if not matches(selector, rules):
            raise UnknownSelector(f'no rule has the code, prefix or name "{selector}"{nearest_rule(selector, rules)}')


def nearest_rule(selector: str, rules: Rules) -> str:
    """A `hint` at the rule whose name is most similar to `selector`, or whose code shares its digits or extends it."""
    word = selector.upper()
    codes = [code for code in rules if word.startswith(code) or _digits(word) == _digits(code)]
    return hint(word, codes) or hint(selector.lower(), [rule.name for rule in rules.values()])


def _digits(code: str) -> str:
    return code.lstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def resolve(
    rules: Rules, select: Iterable[str] | None, extend_select: Iterable[str], ignore: Iterable[str]
) -> frozenset[str]:
    """The codes that are on. `select` None means every rule that is on by default."""
    chosen = {code: 0 for code, rule in rules.items() if rule.default} if select is None else {}
    for selector in [*(select or ()), *extend_select]:
        _raise_to(chosen, matches(selector, rules))
    ignored: dict[str, int] = {}
    for selector in ignore:
        _raise_to(ignored, matches(selector, rules))
    on = {code for code, weight in chosen.items() if weight > ignored.get(code, -1)}
    return frozenset(on | (ALWAYS_ON & rules.keys()))


def _raise_to(weights: dict[str, int], found: Mapping[str, int]) -> None:
    for code, weight in found.items():
        weights[code] = max(weight, weights.get(code, -1))
