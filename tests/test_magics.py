"""Lines of IPython: which lines of a cell are some, and what stands for them."""

from __future__ import annotations

import ast

import pytest

from amplint.engine.run import opened
from amplint.findings import Position, Span
from amplint.notebooks.hidden import Hidden
from amplint.notebooks.magics import masked
from amplint.notebooks.page import Page
from amplint.notebooks.script import Script

IPYTHON = [
    "!pip install -q 'torch",
    "%matplotlib inline",
    "%%html",
    "%time loss.backward()",
    "%time for x in y: pass",
    "%timeit -n 10 f(x",
    "files = !ls",
    "a, *b = !ls",
    "self.x = %sql select 1",
    "?model",
    "model?",
    "model.fit??",
    "%time?",
    "torch.nn.*Loss?",
    "/print 1",
    ",f a b",
    "!!ls",
    "    !ls",
    "\t%cd ..",
]

PYTHON = [
    "x = 1",
    "x = (1\n% 2)",
    "x = [\n!=\n]",
    "'''\n!ls\n%time\n'''",
    'f"""{1}\n!ls\n"""',
    "x = 'a' \\\n% b",
    '"a = %s" % x',
    "x = 1  # why?",
    "print('a = %s' % x)",
    "d['k = %s' % x] = 1",
    "x %= 3",
    "x != y",
]

BROKEN = ["x = = 1", "print 'x'", "if x\n    !ls", "x = 1 ?\n", "% b", "!= 3"]


def hidden(text: str, *, script: bool = False) -> tuple[str, Hidden]:
    """`text` with its stand-ins."""
    rows = Hidden([text])
    return masked(text, rows.hide, script=script), rows


@pytest.mark.parametrize("line", IPYTHON)
def test_lines_of_ipython_are_hidden(line: str) -> None:
    text = f"if 1:\n    x = 1\n{line}" if line[0] in " \t" else f"# first\nx = 1\n{line}\ny = 2"
    text = text.replace("    x", f"{line[: len(line) - len(line.lstrip())]}x") if line[0] in " \t" else text
    shown, rows = hidden(text)
    ast.parse(shown)
    assert len(rows) == 1
    assert len(shown.split("\n")) == len(text.split("\n"))
    assert rows.restored_rows(shown, 0, 1) == text


@pytest.mark.parametrize("text", PYTHON)
def test_python_stays(text: str) -> None:
    assert hidden(text)[0] == text


@pytest.mark.parametrize("text", [*BROKEN, "cd ..\nx = 1", "if x:\n!ls"])
def test_what_is_broken_is_not_made_whole(text: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(hidden(text)[0])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("%time loss.backward()", "if 1: loss.backward()  # <ipython 0>"),
        ("  %time   f(x)  # n", "  if 1:   f(x)  # n  # <ipython 0>"),
        ("x = !ls", "x = get_ipython()  # <ipython 0>"),
        ("%%time\n%cd a\nx = 1", "# <ipython 0>\n# <ipython 1>\nx = 1"),
        (
            "# form\n%%bash\nfor f in *; do\n\n  x = 1",
            "# form\n# <ipython 0>\n# <ipython 1>\n# <ipython 2>\n# <ipython 3>",
        ),
        ("for x in y:\n    !a \\\n      b\n    f(x)", "for x in y:\n    pass  # <ipython 0>\n# <ipython 1>\n    f(x)"),
        ("!a\r\nx = 1\r!b", "# <ipython 0>\r\nx = 1\r# <ipython 1>"),
        ("!echo \"it's (\nx = 1", "# <ipython 0>\nx = 1"),
        (">>> x = 1\n1", "# <ipython 0>\n# <ipython 1>"),
        ("pip install torch\n\n", "# <ipython 0>\n# <ipython 1>\n"),
        ("\npip install torch", "\n# <ipython 0>"),
    ],
)
def test_what_stands_for_them(text: str, shown: str) -> None:
    found, rows = hidden(text)
    assert found == shown
    assert rows.restored_rows(found, 0, len(rows)) == text


def test_a_text_that_holds_the_sign() -> None:
    text = "x = 1  # <ipython 0>\n!ls"
    shown, rows = hidden(text)
    assert shown == "x = 1  # <ipython 0>\n# <ipython_ 0>"
    assert rows.restored_rows(shown, 0, 1) == text


def test_hidden_rows_must_come_back_once_and_in_order() -> None:
    shown, rows = hidden("if x:\n    !a\n!b\n")
    assert rows.restored_rows(shown.replace("    pass", "        pass"), 0, 2) == "if x:\n        !a\n!b\n"
    lines = shown.split("\n")
    for changed in ([*lines, lines[2]], lines[:2], [lines[0], lines[2], lines[1]], [*lines[:2], f"  {lines[2]}"]):
        assert rows.restored_rows("\n".join(changed), 0, 2) is None
    assert rows.restored_rows(shown.replace("pass", "None"), 0, 2) is None


@pytest.mark.parametrize("line", ["%cd x", "!ls", "  !{cmd}", "x = !ls", "x=%pwd", "!7z x", '!"a b"'])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("before", ["", "x = 1\n", "x = 1\r\n"])
def test_scripts_are_looked_into_where_they_hold_magics(line: str, mark: str, before: str) -> None:
    inner = line if line == line.lstrip() else f"if 1:\n{line}"
    assert isinstance(opened("a.py", f"{mark}{before}{inner}\n".encode()), Script)


SCRIPT = "# %%\n%matplotlib inline\nimport torch\n!ls\nx = !pwd\n# %% more\n%%bash\nfor\n#%%\ny = 1\n"


def test_scripts_with_magics() -> None:
    page = opened("a.py", SCRIPT.encode("utf-8-sig"))
    assert isinstance(page, Script)
    ast.parse(page.text)
    assert page.restored(page.text) == SCRIPT.encode("utf-8-sig")
    assert page.restored(page.text.replace("y = 1", "y = 2")) == SCRIPT.replace("y = 1", "y = 2").encode("utf-8-sig")
    assert page.restored(page.text.replace("# <ipython 1>\n", "")) is None
    rows = [Span(Position(row, 1), Position(row, 3)) for row in (1, 2, 3, 4, 10)]
    assert [page.may_edit(span) for span in rows] == [True, False, True, False, True]


@pytest.mark.parametrize(
    "text",
    [
        "x = (1\n% 2)\n",
        "print 1\n%time\n",
        "x = 1\n%unknown thing\n",
        "x = 1\nmodel?\n",
        "/print 1\n",
        "?x\n",
        "x = 1\n  % b\n",
        "pip install torch\n",
        "'''\n!ls\n'''\n",
    ],
)
def test_other_scripts_are_taken_as_they_are(text: str) -> None:
    assert type(opened("a.py", text.encode())) is Page


def test_exports_of_notebooks_are_python() -> None:
    text = "# In[1]:\n\n\nget_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().system('ls')\n"
    assert opened("a.py", text.encode()).raw == text.encode()
