"""Driver of codemods: applies the plan, verifies the result, and repeats to a fixed point."""

from __future__ import annotations

from dataclasses import replace

from amplint.codemods import reach
from amplint.codemods.amp import checkpoints
from amplint.codemods.completion import Completion
from amplint.codemods.conversion import Conversion, Cure, Cured, Remark, Wish
from amplint.codemods.mending import without_needless_casts, without_wide_casts
from amplint.codemods.registry import Codemod, find
from amplint.codemods.rows import changed_edits, moved, row_before
from amplint.engine.deep import call_deep, deep_recursion
from amplint.engine.diagnostics import describe
from amplint.engine.modules import Modules
from amplint.engine.run import opened
from amplint.findings import Applicability, Fix
from amplint.fixes.apply import apply_verified
from amplint.source.encoding import SourceError
from amplint.training.surroundings import SECONDS, OutOfTime, amend, check_time, conversion_scope
from amplint.training.surroundings import modules as around

ROUNDS = 20
CURES = 4


def run(text: str, wish: Wish, path: str, modules: Modules | None = None) -> Conversion:
    """See `amplint.codemods.convert`."""
    codemod = find(wish)
    try:
        return call_deep(_within, modules, codemod, text, wish, path)
    except OutOfTime:
        return _refusal(text, 1, f"the conversion takes more than {SECONDS:g} seconds of processor time")
    except SourceError as failure:
        return _refusal(text, failure.position.row, failure.message)
    except (RecursionError, MemoryError) as failure:
        return _refusal(text, 1, f"too deeply nested to be analysed ({describe(failure)})")
    except Exception as failure:
        return _refusal(text, 1, f"the conversion failed, please report it: {describe(failure)}")


def fix(message: str, text: str, wish: Wish, path: str) -> Fix | None:
    """See `amplint.codemods.as_fix`."""
    new = run(text, wish, path).text
    return Fix(message, changed_edits(text, new), Applicability.UNSAFE) if new != text else None


def _within(modules: Modules | None, codemod: Codemod, text: str, wish: Wish, path: str) -> Conversion:
    with conversion_scope(path, modules):
        return _converted(codemod, text, wish, path, together=modules is not None)


def _converted(codemod: Codemod, original: str, wish: Wish, path: str, *, together: bool) -> Conversion:
    """The conversion of `original`, `together` with imported files that it needs to change."""
    text, done, left = original, list[Remark](), list[Remark]()
    completion = Completion(original, path, wish.allow)
    for _ in range(ROUNDS):
        check_time()
        with deep_recursion():
            plan = codemod(text, wish, path)
        if plan.refused:
            return Conversion(
                original, refused=tuple(replace(one, row=row_before(original, text, one.row)) for one in plan.refused)
            )
        if not plan.changes:
            objections = completion.new_problems(text) if done else []
            if objections:
                return Conversion(original, refused=tuple(objections), tried=text)
            return _cured(original, text, wish, path, completion, done, [*left, *plan.left], together=together)
        new, fixes, why = apply_verified(text, [change.fix for change in plan.changes])
        applied = [change for change in plan.changes if change.fix in fixes]
        if not applied or why is not None:
            row = (applied or plan.changes)[0].done[0].row
            return _refusal(original, row, why or "the edits would get in each other's way")
        completion.accept(plan.accepted)
        left = list(moved(text, new, left))
        left += [remark for change in applied for remark in change.left]
        done += [remark for change in applied for remark in change.done]
        text, more = completion.repaired(new, plan.repairs, plan.half)
        left = list(moved(new, text, left))
        done += more
    return _refusal(original, 1, "the conversion comes to no end")


def _cured(
    original: str,
    text: str,
    wish: Wish,
    path: str,
    completion: Completion,
    done: list[Remark],
    left: list[Remark],
    *,
    together: bool,
) -> Conversion:
    """The conversion to `text`, with what fails in half there and in imported files computed in float32.

    With `together`, imported files also save and restore its scaler.
    """
    dtype = reach.introduced_dtype(wish) if done else None
    before, fixes, first = dict[str, bytes](), dict[str, dict[str, None]](), list[Remark]()
    for _ in range(CURES):
        told = [*left, *(completion.infos(text) if done else ())]
        told += reach.remarks(original, text, path, dtype, tuple(told)) if dtype is not None else ()
        told += checkpoints.remarks(text, path) if together and "GradScaler" not in original else ()
        first = first or told
        cures: dict[str, list[Cure]] = {}
        for cure in (cure for remark in told for cure in remark.cures):
            cures.setdefault(cure.path, []).append(cure)
        own = [cure.fix for cure in cures.pop(path, [])]
        new, applied, why = apply_verified(text, own)
        changed = bool(applied) and why is None
        if changed:
            done += [Remark(row_before(original, text, one.edits[0].span.start.row), one.message) for one in applied]
            text, left = new, list(moved(text, new, left))
        for place, found in cures.items():
            raw = around().contents.raw(place) or b""
            after = _fixed(raw, found)
            if after is not None:
                before.setdefault(place, raw)
                fixes.setdefault(place, {}).update(dict.fromkeys(cure.fix.message for cure in found))
                amend(place, after)
            changed |= after is not None or opened(place, raw).text != found[0].text
        if not changed:
            break
    stopping = [replace(one, row=row_before(original, text, one.row)) for one in told if one.stops]
    if stopping:
        return Conversion(original, refused=tuple(dict.fromkeys(stopping)))
    for place, raw in before.items():
        page, was = opened(place, around().contents.raw(place) or raw), opened(place, raw).text
        after = page.restored(without_needless_casts(was, page.text, place))
        if after is not None:
            amend(place, after)
    if before:
        new = without_wide_casts(original, text, path)
        left, told, text = list(moved(text, new, left)), list(moved(text, new, told)), new
    others = tuple(
        Cured(place, raw, around().contents.raw(place) or raw, tuple(fixes[place])) for place, raw in before.items()
    )
    cured = tuple(one for one in first if one not in told) if others else ()
    return Conversion(text, tuple(done), left=tuple(dict.fromkeys(told)), others=others, cured=cured)


def _fixed(raw: bytes, cures: list[Cure]) -> bytes | None:
    """The content of a file with `cures`; None if none can be made, or if another conversion has changed it since."""
    page = opened(cures[0].path, raw)
    new, applied, why = apply_verified(page.text, [cure.fix for cure in cures if cure.text == page.text])
    return page.restored(new) if applied and why is None else None


def _refusal(text: str, row: int, why: str) -> Conversion:
    return Conversion(text, refused=(Remark(row, why),))
