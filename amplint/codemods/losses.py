"""Casts of what a loss is given, the same at each of its calls in a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from amplint.codemods.script import Script, parsed
from amplint.codemods.training.observed import disables_gradients
from amplint.findings import Finding, Fix
from amplint.source import syntax as cst

_RULE = "loss-in-half"


def even_fixes(text: str, path: str, findings: Sequence[Finding]) -> Iterator[Fix]:
    """The fixes of `findings` in `text`, with those of one loss at all of its calls or at none.

    Calls of training decide: where each of them has a fix, a variable given to it in evaluation is cast, too.
    """
    groups: dict[str, list[Finding]] = {}
    for one in findings:
        if one.name == _RULE and one.elsewhere is None:
            groups.setdefault(one.message, []).append(one)
    uneven = [group for group in groups.values() if len({one.fix is None for one in group}) > 1]
    apart = {id(one) for group in uneven for one in group}
    yield from (one.fix for one in findings if one.fix is not None and id(one) not in apart)
    if not uneven:
        return
    script = parsed(text, path)
    source = script.source
    calls = {source.span(call): call for call in script.calls}
    for group in uneven:
        nodes = [calls.get(one.span) for one in group]
        trained = [
            one for one, call in zip(group, nodes, strict=True) if call is None or not disables_gradients(source, call)
        ]
        if not trained or any(one.fix is None for one in trained):
            continue
        for one, call in zip(group, nodes, strict=True):
            fix = one.fix or _cast(script, call, trained[0])
            if fix is not None:
                yield fix


def _cast(script: Script, call: cst.Call | None, like: Finding) -> Fix | None:
    """The cast of the variable that `call` is given first, with the message of the fix of `like`."""
    first = call.args[0].value if call is not None and call.args else None
    if like.fix is None or not isinstance(first, cst.Name):
        return None
    return Fix(like.fix.message, (script.rewrite.add_float(first),))
