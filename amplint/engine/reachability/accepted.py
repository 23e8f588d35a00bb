"""Arguments of calls that a function can take."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from amplint.source import syntax as cst


def takes(params: cst.Parameters, call: cst.Call, *, bound: int) -> bool:
    """Whether a function can take the arguments of `call` behind the `bound` ones that it is given anyway."""
    named = [_keywords(argument) for argument in call.args if argument.keyword is not None or argument.star]
    if any(one is None for one in named):
        return True
    positional = [*params.posonly_params, *params.params]
    count = bound + len(call.args) - len(named)
    keywords = {*itertools.chain.from_iterable(one or () for one in named)}
    if count > len(positional) and not isinstance(params.star_arg, cst.Param):
        return False
    by_name = {param.name.value for param in (*params.params, *params.kwonly_params)}
    if params.star_kwarg is None and not keywords <= by_name:
        return False
    left = [*positional[count:], *params.kwonly_params]
    return all(param.default is not None or param.name.value in keywords for param in left)


def repeats_keyword(call: cst.Call) -> bool:
    """Whether a call gives one keyword twice, which no function takes: one of them in a dictionary."""
    named = [_keywords(argument) or () for argument in call.args]
    return any(set(one) & set(other) for one, other in itertools.combinations(named, 2))


def _keywords(argument: cst.Arg) -> Sequence[str] | None:
    """The keywords that an argument gives, None if that is not seen."""
    if argument.keyword is not None:
        return [argument.keyword.value]
    if argument.star != "**":
        return None
    if isinstance(argument.value, cst.Dict):
        return _texts([one.key if isinstance(one, cst.DictElement) else None for one in argument.value.elements])
    return _comprehended(argument.value) if isinstance(argument.value, cst.DictComp) else None


def _comprehended(made: cst.DictComp) -> Sequence[str] | None:
    """The keys of a dictionary that is made of several texts, each of which is a key."""
    loop = made.for_in
    over = loop.iter if isinstance(loop.iter, (cst.Tuple, cst.List, cst.Set)) else None
    if over is None or loop.ifs or loop.inner_for_in is not None:
        return None
    if not isinstance(made.key, cst.Name) or not isinstance(loop.target, cst.Name):
        return None
    if made.key.value != loop.target.value:
        return None
    return _texts([one.value if isinstance(one, cst.Element) else None for one in over.elements])


def _texts(found: Sequence[cst.BaseExpression | None]) -> Sequence[str] | None:
    """The texts that all of these are, None if one is something else."""
    texts = [one.evaluated_value if isinstance(one, cst.SimpleString) else None for one in found]
    return [one for one in texts if isinstance(one, str)] if all(isinstance(one, str) for one in texts) else None
