"""Notebooks: read, linted, repaired and converted cell by cell, the rest of the file byte by byte as it was."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import Command

import amplint as api
from amplint.engine import run
from amplint.findings import Position, Span
from amplint.notebooks.document import Document
from amplint.notebooks.notebook import Notebook
from amplint.source.encoding import SourceError

SETUP = """!pip install torch
%matplotlib inline
import torch
model = torch.nn.Linear(2, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler()"""
LOOP = """%%time
for batch in loader:
    !nvidia-smi
    optimizer.zero_grad()
    with torch.autocast("cuda"):
        loss = model(batch).sum()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()"""
UNSCALED = LOOP.replace("    torch.nn.utils", "    scaler.unscale_(optimizer)\n    torch.nn.utils")
BASH = "%%bash\nfor f in *; do\n  echo 'it"

Shape = Callable[[str], Any]


def split(source: str) -> list[str]:
    """A source as nbformat writes it."""
    return source.splitlines(keepends=True)


def code(source: str, shape: Shape = split, **metadata: Any) -> dict[str, Any]:
    """A cell of code."""
    picture = {"output_type": "display_data", "data": {"image/png": "iVBO" * 50, "text/plain": ["autocast \u00e9\n"]}}
    return {"cell_type": "code", "id": "a", "metadata": metadata, "outputs": [picture], "source": shape(source)}


def notebook(*sources: str | dict[str, Any], language: str = "python", **dump: Any) -> bytes:
    """A notebook with these cells below a heading."""
    heading = {"cell_type": "markdown", "metadata": {}, "source": "# autocast\n```python\nx = = 1\n```"}
    cells = [heading, *(code(source) if isinstance(source, str) else source for source in sources)]
    data = {"cells": cells, "metadata": {"language_info": {"name": language}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(data, **({"indent": 1, "ensure_ascii": False} | dump)).encode("utf-8", "surrogatepass")


def told(raw: bytes, **settings: Any) -> list[tuple[str, int | None, int, int]]:
    """Code, cell, row and column of what is found."""
    found = api.check(raw, api.Settings(**settings), filename="train.ipynb")
    return [(one.code, one.cell, one.span.start.row, one.span.start.column) for one in found]


def test_findings_are_told_by_cell_and_line() -> None:
    (finding,) = api.check(notebook(SETUP, BASH, LOOP), filename="train.ipynb")
    assert finding.span == Span(Position(8, 5), Position(8, 60), 4)
    assert [(note.span.cell, note.span.start.row) for note in finding.notes] == [(4, 7)]
    assert finding.fix is not None
    assert [edit.span for edit in finding.fix.edits] == [Span(Position(8, 1), Position(8, 1), 4)]


def test_notes_and_edits_in_other_cells() -> None:
    step = "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\nscaler.step(optimizer)\nscaler.update()"
    forward = 'with torch.autocast("cuda"):\n    loss = model(x).sum()\nscaler.scale(loss).backward()'
    (finding,) = api.check(notebook(SETUP, forward, step), filename="train.ipynb")
    assert (finding.code, finding.cell, finding.notes[0].span.cell) == ("AMP205", 4, 3)


SHAPES: dict[str, tuple[Shape, dict[str, Any]]] = {
    "as nbformat writes it": (split, {}),
    "one string": (str, {}),
    "a list with one string": (lambda source: [source], {}),
    "a list cut anywhere": (lambda source: [source[:100], "", source[100:101], source[101:]], {}),
    "on one line": (split, {"indent": None}),
    "without spaces": (split, {"indent": None, "separators": (",", ":")}),
    "escaped": (split, {"ensure_ascii": True}),
    "four spaces": (split, {"indent": 4}),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_a_repair_changes_the_source_of_one_cell_alone(name: str, mark: bytes, ends: bytes) -> None:
    shape, dump = SHAPES[name]
    before = mark + notebook(SETUP, BASH, code("s = 'é'\n" + LOOP.removeprefix("%%time\n"), shape), **dump)
    before = before.replace(b"\n", ends)
    repaired = api.fix(before, filename="train.ipynb")
    assert (repaired.fixed, repaired.findings) == (1, [])
    old, new = (json.loads(raw.decode("utf-8-sig")) for raw in (before, repaired.after))
    source = "".join(new["cells"][3]["source"])
    assert source == "s = 'é'\n" + UNSCALED.removeprefix("%%time\n")
    assert isinstance(new["cells"][3]["source"], type(old["cells"][3]["source"]))
    old["cells"][3]["source"] = new["cells"][3]["source"]
    assert old == new
    start, end = common(before, repaired.after)
    literal = json.dumps(shape(LOOP), **({"indent": 1, "ensure_ascii": False} | dump))
    assert len(before) - start - end <= len(literal)
    assert before[:start].count(b'"source"') == 4
    assert (
        repaired.after
        == before[:start] + repaired.after[start : len(repaired.after) - end] + before[len(before) - end :]
    )
    if name in ("as nbformat writes it", "four spaces", "escaped"):
        assert len(repaired.after.split(ends)) == len(before.split(ends)) + 1


def common(old: bytes, new: bytes) -> tuple[int, int]:
    """How many bytes two files have in common at their starts, and then at their ends."""
    least = min(len(old), len(new))
    start = next((at for at in range(least) if old[at] != new[at]), least)
    end = next((at for at in range(least - start) if old[-1 - at] != new[-1 - at]), least - start)
    return start, end


def test_the_text_that_is_linted_goes_back_to_the_same_bytes() -> None:
    for raw in (notebook(SETUP, BASH, LOOP, "", "\n", " \n  x = 1", "x = 1\\\n"), notebook()):
        page = Notebook(raw)
        assert page.restored(page.text) == raw
        compile(page.text, "", "exec")


def test_cells_of_other_languages_and_broken_ones() -> None:
    other = code("var x = = 1", vscode={"languageId": "javascript"})
    raw = notebook(SETUP, other, "x = 1\nprint 'a'\nscaler.step(optimizer)", LOOP, "a\0b = 1", "  y = 1\n  !ls\n  y")
    assert told(raw) == [("AMP001", 4, 2, 1), ("AMP205", 5, 8, 5), ("AMP001", 6, 1, 1)]
    assert told(notebook(LOOP, language="R")) == []
    assert told(notebook("print 'x'", language="julia")) == []
    old = notebook("print 'x'").replace(b'"language_info": {', b'"kernelspec": {"name": "python2"}, "language_info": {')
    assert told(old) == []


def test_half_characters_in_a_cell() -> None:
    raw = notebook(SETUP, "x = '\ud800'", LOOP, ensure_ascii=True)
    assert told(raw) == [("AMP001", 3, 1, 1), ("AMP205", 4, 8, 5)]
    repaired = api.fix(raw, filename="train.ipynb")
    assert json.loads(repaired.after)["cells"][3]["source"] == split(UNSCALED)


def test_an_older_format() -> None:
    cells = [{"cell_type": "code", "language": "python", "input": split(text), "outputs": []} for text in (SETUP, LOOP)]
    sheets = {"nbformat": 3, "nbformat_minor": 0, "metadata": {}, "worksheets": [{"cells": []}, {"cells": cells}]}
    raw = json.dumps(sheets).encode()
    assert told(raw) == [("AMP205", 2, 8, 5)]
    repaired = json.loads(api.fix(raw, filename="train.ipynb").after)
    assert "".join(repaired["worksheets"][1]["cells"][1]["input"]) == UNSCALED


@pytest.mark.parametrize(
    ("raw", "row", "message"),
    [
        (b"", 1, "not a notebook: its JSON is broken: Expecting value"),
        (b'{\n "cells": [\n', 3, "not a notebook: its JSON is broken: Expecting value"),
        (b"<<<<<<< HEAD\n{}", 1, "not a notebook: its JSON is broken: Expecting value"),
        (b"[]", 1, "not a notebook: its JSON has no cells"),
        (b'{"nbformat": 4}', 1, "not a notebook: its JSON has no cells"),
        (b'{"cells": {}}', 1, "not a notebook: its JSON has no cells"),
        (b'{"cells": [],\n "x": "\xff"}', 2, "not a notebook: the bytes are not valid utf-8"),
        (b"[" * 200_000, 1, "not a notebook: its JSON cannot be read (RecursionError)"),
    ],
)
def test_what_is_no_notebook(raw: bytes, row: int, message: str) -> None:
    (finding,) = api.check(raw, filename="train.ipynb")
    assert (finding.code, finding.span.start.row, finding.message, finding.cell) == ("AMP001", row, message, None)
    assert api.fix(raw, filename="train.ipynb").after == raw
    assert api.convert(raw, to="amp", filename="train.ipynb").reasons[0].text == message


@pytest.mark.parametrize(
    "cell",
    [
        *(None, [], "x", 1, {}, {"cell_type": "code"}, {"cell_type": "code", "source": None}),
        *({"cell_type": "code", "source": 1}, {"cell_type": "code", "source": ["x", 1]}),
        *({"cell_type": "raw", "source": "= ="}, {"cell_type": "code", "source": [], "metadata": []}),
    ],
)
def test_cells_that_are_none(cell: Any) -> None:
    raw = json.dumps({"cells": [cell, code(SETUP), code(LOOP)], "metadata": {"kernelspec": 1}}).encode()
    assert told(raw) == [("AMP205", 3, 8, 5)]


def test_keys_that_occur_twice() -> None:
    raw = notebook(SETUP, LOOP).replace(b'"outputs": [', b'"source": ["x = = 1"], "outputs": [')
    after = api.fix(b'{"cells": [1], ' + raw[1:], filename="train.ipynb").after
    assert "".join(json.loads(after)["cells"][2]["source"]) == UNSCALED
    assert after.count(b'"x = = 1"') == 2


def test_a_cell_does_not_declare_the_encoding() -> None:
    raw = notebook("# -*- coding: latin-1 -*-\ns = 'é'", "# coding: rot13\n" + SETUP, LOOP)
    assert told(raw) == [("AMP205", 4, 8, 5)]


def test_imports_that_hidden_lines_need_stay() -> None:
    scale = "from torch.cuda.amp import autocast\n" + SETUP
    for last, kept in (("", False), ("%timeit -n 3 autocast()", True), ("autocast?", True)):
        repaired = api.fix(notebook(scale, "with autocast():\n    pass", last), filename="train.ipynb")
        assert (b"cuda.amp import autocast" in repaired.after) is kept, last


def test_an_edit_that_leaves_its_cell_is_refused() -> None:
    page = Notebook(notebook(SETUP, "x = 1\ny = 2", "%%capture\nz = 3", "  i = 1\n  j = 2"))
    text = page.text
    for old, new in (
        ("y = 2\n", "y = 2"),  # joins two lines
        ("x = 1\n", "if x:\n    x = 1\n  "),
        ("y = 2", "y = ("),
        ("x = 1\ny = 2\n", "with x:\n    y = 2\n    "),
        ("  i = 1\n  j = 2", "i = 1\nj = 2"),
        ("x = 1", "  x = 1"),
        ("import torch\n", "!ls\nimport torch\n"),
    ):
        assert old in text
        assert page.restored(text.replace(old, new)) is None, new
    marker = text.split("\n")[text.split("\n").index("z = 3") - 1]
    assert page.restored(text.replace(f"{marker}\n", f"import os\n{marker}\n")) is None
    for old, new in (("y = 2", ""), ("x = 1\ny = 2", "x = 1\n\n\ny = 2\n"), ("z = 3", "z = 3\nw = 4")):
        restored = page.restored(text.replace(old, new))
        assert restored is not None
        cells = [cell.source for cell in Document(restored).cells]
        assert "\n".join(cells) == "\n".join(
            cell.source
            for cell in Document(notebook(SETUP, "x = 1\ny = 2", "%%capture\nz = 3", "  i = 1\n  j = 2")).cells
        ).replace(old, new)


def test_random_edits_come_back_or_are_refused() -> None:
    chance = random.Random(19)
    raw = notebook(SETUP, BASH, LOOP, "x = [\n  1,\n]\n", code("é = 'ü'", str))
    page = Notebook(raw)
    outside = json.loads(raw)
    for cell in outside["cells"]:
        cell.pop("source")
    done = 0
    for _ in range(400):
        at = chance.randrange(len(page.text))
        end = at + chance.choice((0, 0, 1, 5, 40))
        new = page.text[:at] + chance.choice(("", "\n", "x", " ", "\ny = 1\n", "# é", "\\", '"')) + page.text[end:]
        restored = page.restored(new)
        if restored is None:
            continue
        done += 1
        data = json.loads(restored)
        for cell in data["cells"]:
            cell.pop("source")
        assert data == outside
        again = Notebook(restored)
        assert not again.problems
    assert 50 < done < 390


def test_the_command(amplint: Command, project: Path) -> None:
    (project / "deep").mkdir()
    for name in ("a.ipynb", "deep/b.ipynb", "deep/.ipynb_checkpoints"):
        path = project / name
        if path.suffix:
            path.write_bytes(notebook(SETUP, LOOP))
        else:
            path.mkdir()
            (path / "c.ipynb").write_bytes(notebook(SETUP, LOOP))
    ran = amplint("--output-format", "concise")
    places = re.findall(r"^(\S+:cell \d+:\d+:\d+): AMP205", ran.out, re.MULTILINE)
    assert places == ["a.ipynb:cell 3:8:5", "deep/b.ipynb:cell 3:8:5"]
    assert amplint("--output-format", "concise").out == ran.out  # by the cache
    text = amplint("a.ipynb").out
    assert text.startswith("a.ipynb:cell 3:8:5: AMP205 clip-without-unscale [error]\n")
    assert "    > 8 |     torch.nn.utils.clip_grad_norm_" in text
    assert "    1. cell 3, line 7: backward leaves" in text
    (found,) = json.loads(amplint("a.ipynb", "--output-format", "json").out)
    assert (found["cell"], found["location"], found["notes"][0]["cell"]) == (3, {"row": 8, "column": 5}, 3)
    diff = amplint("--diff", "a.ipynb").out
    assert diff.startswith("--- a.ipynb:cell 3\n+++ a.ipynb:cell 3\n@@ -5,6 +5,7 @@\n")
    assert "\n+    scaler.unscale_(optimizer)\n" in diff
    assert amplint("--fix").status == 0
    assert amplint().status == 0


def test_the_example_of_the_page(amplint: Command, project: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "notebooks.md").read_text(encoding="utf-8")
    shown = page.partition("$ amplint train.ipynb\n")[2].partition("```")[0]
    (project / "train.ipynb").write_bytes(notebook(SETUP, BASH, LOOP))
    assert amplint("train.ipynb").out.startswith(shown)


def test_what_a_notebook_has_put_out_is_not_linted_again(
    amplint: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise LookupError("linted again")

    (project / "a.ipynb").write_bytes(notebook(SETUP, "x = = 1", LOOP))
    first = amplint()
    assert "cell 4, line 7" in first.out
    (project / "a.ipynb").write_bytes(notebook(SETUP, "x = = 1", LOOP).replace(b"iVBO", b"other"))
    monkeypatch.setattr(run, "analyse", fail)
    assert amplint().out == first.out


def test_standard_input(amplint: Command) -> None:
    raw = notebook(SETUP, LOOP)
    ran = amplint("--stdin-filename", "x.ipynb", "--output-format", "concise", stdin=raw)
    assert ran.out.startswith("x.ipynb:cell 3:8:5: AMP205")
    fixed = amplint("--stdin-filename", "x.ipynb", "--fix", stdin=raw)
    assert fixed.out.encode() == api.fix(raw, filename="x.ipynb").after


def test_suppression_settings_and_imports(amplint: Command, project: Path) -> None:
    clip = "    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)"
    (project / "a.ipynb").write_bytes(notebook(SETUP, LOOP.replace(clip, f"{clip}  # amplint: ignore[AMP205]")))
    assert amplint().status == 0
    (project / "a.ipynb").write_bytes(notebook("# amplint: ignore-file\n" + SETUP, LOOP))
    assert amplint().status == 0
    (project / "a.ipynb").write_bytes(notebook("x = 0", "x = 1  # amplint: ignore[AMP205]"))
    assert "a.ipynb:cell 3:1:8: AMP004" in amplint("--output-format", "concise").out
    assert amplint("--fix").status == 0
    assert json.loads((project / "a.ipynb").read_bytes())["cells"][2]["source"] == ["x = 1"]
    (project / "a.ipynb").write_bytes(notebook(SETUP, LOOP))
    (project / "amplint.toml").write_text('[per-file-ignores]\n"*.ipynb" = ["AMP205"]\n', encoding="utf-8")
    assert amplint().status == 0
    (project / "amplint.toml").write_text("", encoding="utf-8")
    (project / "train").mkdir()
    (project / "train" / "clipping.py").write_text(
        "import torch\ndef clip(model):\n    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n",
        encoding="utf-8",
    )
    loop = LOOP.replace(clip, "    clip(model)")
    (project / "train" / "b.ipynb").write_bytes(notebook(SETUP, "from clipping import clip", loop))
    ran = amplint("train/b.ipynb")
    assert "train/b.ipynb:cell 4:8:5: AMP205" in ran.out
    assert "train/clipping.py, line 3: gradients are clipped" in ran.out


FLOAT32 = """for batch in loader:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(batch), batch)
    loss.backward()
    optimizer.step()"""


def test_convert(amplint: Command, project: Path) -> None:
    setup = SETUP.removesuffix("\nscaler = torch.amp.GradScaler()")
    raw = notebook(setup, "loader = [torch.rand(2, 2).cuda()]\n!ls", "%%time\n" + FLOAT32)
    (project / "a.ipynb").write_bytes(raw)
    shown = amplint("convert", "--to", "amp", "a.ipynb")
    assert "+++ a.ipynb:cell 4\n" in shown.out
    assert amplint("convert", "--to", "amp", "--write", "a.ipynb").status == 0
    cells = ["".join(cell["source"]) for cell in json.loads((project / "a.ipynb").read_bytes())["cells"]]
    assert cells[3].startswith("%%time\n")
    assert "    with torch.autocast(" in cells[3]
    assert "scaler.scale(loss).backward()" in cells[3]
    assert cells[1].startswith("!pip install torch\n%matplotlib inline\n")
    assert amplint().status == 0
    (project / "a.ipynb").write_bytes(notebook(setup, "x = = 1", FLOAT32))
    refused = amplint("convert", "--to", "amp", "a.ipynb")
    assert "a.ipynb:cell 3:1: refused: syntax error: invalid syntax" in refused.err


def test_a_script_with_magics(amplint: Command, project: Path) -> None:
    text = f"# %%\n{SETUP}\n# %%\n{LOOP}\n"
    (project / "a.py").write_text(text, encoding="utf-8")
    assert "a.py:16:5: AMP205" in amplint("--output-format", "concise").out
    assert amplint("--fix").status == 0
    assert (project / "a.py").read_text(encoding="utf-8") == f"# %%\n{SETUP}\n# %%\n{UNSCALED}\n"
    (project / "a.py").write_text(f"{text}x = = 1\n", encoding="utf-8")
    assert "AMP001" in amplint("--output-format", "concise").out


def test_a_notebook_with_large_outputs_is_quick(project: Path) -> None:
    import time

    cells = [code(SETUP), code(LOOP)]
    cells[0]["outputs"][0]["data"]["image/png"] = "iVBORw0KGgo" * 2_000_000
    (project / "a.ipynb").write_bytes(notebook(*cells))
    begun = time.process_time()
    repaired = api.fix(project / "a.ipynb")
    assert repaired.fixed == 1
    assert time.process_time() - begun < 8


def test_sources_that_are_none() -> None:
    with pytest.raises(SourceError):
        Document(b"{}")


@pytest.mark.parametrize("name", ["github", "azure", "gitlab", "sarif", "rdjson"])
def test_formats_that_know_no_cells_tell_the_line_of_the_file(amplint: Command, project: Path, name: str) -> None:
    (project / "a.ipynb").write_bytes(notebook(SETUP, LOOP))
    lines = (project / "a.ipynb").read_text(encoding="utf-8").split("\n")
    row = next(row for row, line in enumerate(lines, 1) if "clip_grad_norm_" in line)
    out = amplint("a.ipynb", "--output-format", name).out
    signs = {"github": "line=%d", "azure": "linenumber=%d", "gitlab": '"begin": %d', "sarif": '"startLine": %d'}
    assert signs.get(name, '"line": %d') % row in out
    assert "n cell 3" in out


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("grouped", "  cell 3:8:5  AMP205"),
        ("agent", "a.ipynb:cell 3:8:5 AMP205 error safe-fix"),
        ("junit", "cell 3, line 8, column 5"),
        ("markdown", "`a.ipynb:cell 3:8`"),
        ("json-lines", '"cell": 3, "location": {"row": 8, "column": 5}'),
    ],
)
def test_formats_for_people_and_programs_tell_the_cell(amplint: Command, project: Path, name: str, sign: str) -> None:
    (project / "a.ipynb").write_bytes(notebook(SETUP, LOOP))
    assert sign in amplint("a.ipynb", "--output-format", name).out


def test_the_line_of_the_file_by_any_shape() -> None:
    for shape, dump in SHAPES.values():
        page = Document(notebook(SETUP, code("a = 1\n\nb = '\\n'\nc = 3", shape), **dump))
        text = notebook(SETUP, code("a = 1\n\nb = '\\n'\nc = 3", shape), **dump).decode()
        rows = [page.raw_row(3, row) for row in range(1, 5)]
        assert rows == sorted(rows)
        assert "a = 1" in text.split("\n")[rows[0] - 1]
        assert "c = 3" in text.split("\n")[rows[3] - 1]


def test_hostile_cells_take_no_longer() -> None:
    import time

    lines = [
        " " * 200_000 + "\nx = = 1",
        "# c\r\n" * 5_000 + "!ls",
        "x" + " " * 200_000 + "y",
        "x?" + " " * 200_000 + "y",
    ]
    lines += [
        "%time " + " " * 100_000 + "-x",
        "!" + "\\\n!" * 20_000,
        "(" * 300,
        "x = '" * 20_000 + "\n!ls",
        "[" * 90_000,
    ]
    begun = time.process_time()
    for line in lines:
        page = Notebook(notebook(SETUP, line, LOOP))
        assert page.restored(page.text) == notebook(SETUP, line, LOOP)
        assert page.restored(page.text.replace("import torch", "import torch\n")) is not None
    assert time.process_time() - begun < 10


def test_a_cell_may_become_empty_and_edits_outside_of_cells_are_refused() -> None:
    page = Notebook(notebook("x = 1", "  y = 1\n  !ls"))
    restored = page.restored(page.text.replace("x = 1\n", ""))
    assert restored is not None
    assert [cell.source for cell in Document(restored).cells] == ["", "  y = 1\n  !ls"]
    assert page.restored(f"import torch\n{page.text}") is None
    assert page.restored(f"{page.text}import torch\n") is None
