"""What a conversion costs: no text is interpreted twice for one question, and nothing outlives the files around it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import amplint.semantics
from amplint.codemods import Wish, convert, outputs
from amplint.training import interpretation, results
from tests.codemods.running import LOOP

HALF = Wish(to="amp")
TRAINER = f"""from losses import distance
{LOOP}""".replace("model(x).mean()", "distance(model(x))")


def count(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each text will be interpreted."""
    texts: Counter[str] = Counter()
    interpret: Callable[..., Any] = amplint.semantics.interpret

    def counted(program: Any, *arguments: Any, **options: Any) -> Any:
        texts[program.main.text] += 1
        return interpret(program, *arguments, **options)

    for module in (amplint.semantics, interpretation, outputs, results):
        monkeypatch.setattr(module, "interpret", counted)
    return texts


def test_the_original_is_interpreted_once_and_the_result_with_known_and_half_outputs_and_for_casts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = f"# once\n{LOOP}"
    texts = count(monkeypatch)
    found = convert(original, HALF)
    assert found.done
    assert texts == {original: 1, found.text: 3}


def test_the_original_is_interpreted_once_for_all_wishes(monkeypatch: pytest.MonkeyPatch) -> None:
    original = f"# for all\n{LOOP}"
    texts = count(monkeypatch)
    for dtype in ("float16", "bfloat16"):
        for accumulate in (None, 4):
            assert convert(original, Wish(to="amp", dtype=dtype, accumulate=accumulate)).done
    assert texts[original] == 1


def test_a_file_that_changes_between_two_conversions_counts_anew(project: Path) -> None:
    path = project / "train.py"
    path.write_text(TRAINER, encoding="utf-8")
    losses = project / "losses.py"
    refused = []
    for before in ("", "    y.mean().backward()\n"):
        losses.write_text(f"def distance(y):\n{before}    return y.mean()\n", encoding="utf-8")
        refused.append([remark.text for remark in convert(TRAINER, HALF, str(path)).refused])
    assert refused == [[], ["a loss is differentiated in another file"]]
