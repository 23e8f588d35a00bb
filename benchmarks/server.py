"""CPU seconds of the language server: from opening a script to its findings, and after each of many edits.

    python -m benchmarks.server SCRIPT [--edits 200]

The script is edited in memory, as it lies in its repository; nothing is written.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from pathlib import Path

from tests.editor import Editor, edit_in

_CHARACTERS, _STATEMENTS = "a character, put in or replaced", "a line more"
_LINES = ("pass\n", "loss = loss * 2\n", "# a remark\n", "x = x + 1e-8\n", "x = model(x)\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("script", type=Path)
    parser.add_argument("--edits", type=int, default=200)
    arguments = parser.parse_args()
    script: Path = arguments.script.resolve()

    async def work(editor: Editor) -> None:
        began, before = time.perf_counter(), editor.cpu_seconds()
        uri = editor.open(script.name)
        found = len(await editor.diagnostics(uri))
        rows = editor.texts[uri].count("\n")
        print(f"{script.name}: {rows} lines, {found} findings")
        print(f"first findings: {editor.cpu_seconds() - before:.2f} CPU s, {time.perf_counter() - began:.2f} s")
        for kind in (_CHARACTERS, _STATEMENTS):
            cost = [await _edited(editor, uri, kind, seed) for seed in range(arguments.edits)]
            cuts = statistics.quantiles(cost, n=20)
            print(f"{kind}: median {statistics.median(cost):.2f}, 95 % {cuts[-1]:.2f}, most {max(cost):.2f} CPU s")

    edit_in(script.parent, work)


async def _edited(editor: Editor, uri: str, kind: str, seed: int) -> float:
    """The CPU seconds that one edit costs."""
    chance = random.Random(seed)
    text = editor.texts[uri]
    before = editor.cpu_seconds()
    if kind == _CHARACTERS:
        at = chance.randrange(len(text))
        editor.type(uri, at, at + chance.randint(0, 1), chance.choice("x1 \n()"))
    else:
        at = text.rfind("\n", 0, chance.randrange(len(text))) + 1
        line = text[at:].partition("\n")[0]
        editor.type(uri, at, at, line[: len(line) - len(line.lstrip())] + chance.choice(_LINES))
    await editor.diagnostics(uri)
    cost = editor.cpu_seconds() - before
    editor.replace(uri, text)
    await editor.diagnostics(uri)
    return cost


if __name__ == "__main__":
    main()
