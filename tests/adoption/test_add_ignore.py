"""`--add-ignore`: comments silence what is found, and change nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import stat
from pathlib import Path

import nbformat
import pytest

from amplint.fixes import write
from tests.adoption.test_baseline import BAD, CLIP, OLD_API
from tests.conftest import Command

IMPORT = "import torch\n\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(OLD_API, "scaler = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]\n", id="plain"),
        pytest.param(OLD_API.strip(), "scaler = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]", id="no end"),
        pytest.param(
            "x = torch.cuda.amp.GradScaler()  # why  \n",
            "x = torch.cuda.amp.GradScaler()  # why  # amplint: ignore[AMP701]  \n",
            id="a comment",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler()  # noqa: E501\n",
            "x = torch.cuda.amp.GradScaler()  # noqa: E501  # amplint: ignore[AMP701]\n",
            id="noqa",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP101]\n",
            "x = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP101, AMP701]\n",
            id="joins a list",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler()  # amplint: ignore[]  # more\n",
            "x = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]  # more\n",
            id="joins an empty list",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler(  # amplint: ignore[AMP101,]\n)\n",
            "x = torch.cuda.amp.GradScaler(  # amplint: ignore[AMP101,AMP701]\n)\n",
            id="joins a list inside",
        ),
        pytest.param(
            "x = \\\n    torch.cuda.amp.GradScaler()\n",
            "x = \\\n    torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]\n",
            id="continued",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler(), '''\n# no comment\n'''\n",
            "x = torch.cuda.amp.GradScaler(), '''\n# no comment\n'''  # amplint: ignore[AMP701]\n",
            id="string of many lines",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler(); y = 1\n",
            "x = torch.cuda.amp.GradScaler(); y = 1  # amplint: ignore[AMP701]\n",
            id="two statements",
        ),
        pytest.param(
            "@torch.cuda.amp.autocast()\ndef f(\n    x,\n):\n    pass\n",
            "@torch.cuda.amp.autocast()  # amplint: ignore[AMP701]\ndef f(\n    x,\n):\n    pass\n",
            id="decorator",
        ),
        pytest.param(
            "with (\n    torch.cuda.amp.autocast(),\n):\n    pass\n",
            "with (\n    torch.cuda.amp.autocast(),\n):  # amplint: ignore[AMP701]\n    pass\n",
            id="header",
        ),
        pytest.param(
            "x = torch.cuda.amp.GradScaler()\r\ny = 1\r\n",
            "x = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]\r\ny = 1\r\n",
            id="line ends",
        ),
        pytest.param(
            "if 1: x = torch.cuda.amp.GradScaler()\n",
            "if 1: x = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]\n",
            id="in one line",
        ),
    ],
)
def test_places(project: Path, amplint: Command, before: str, after: str) -> None:
    script = project / "train.py"
    script.write_bytes((IMPORT + before).encode())
    ran = amplint("--add-ignore", "--select", "AMP701")
    assert script.read_bytes().decode() == IMPORT + after
    assert (ran.status, ran.out) == (0, "")
    assert amplint("--select", "AMP701").status == 0
    assert ast.dump(ast.parse(script.read_bytes())) == ast.dump(ast.parse(IMPORT + before))


def test_several_rules_in_one_statement_share_a_comment(project: Path, amplint: Command) -> None:
    call = "criterion(torch.sigmoid(model(batch)), target) / 1e-9"
    bad = BAD.replace("torch.nn.functional.mse_loss(model(batch), target)", call)
    (project / "train.py").write_text(f"{bad}{OLD_API}".replace("autocast(", "cuda.amp.autocast("), encoding="utf-8")
    assert amplint("--add-ignore").status == 0
    assert amplint().status == 0


def test_a_second_time_changes_nothing(project: Path, amplint: Command) -> None:
    script = project / "train.py"
    script.write_text(BAD, encoding="utf-8")
    assert "1 finding silenced by comments." in amplint("--add-ignore").err
    once = script.read_bytes()
    assert once.decode() == BAD.replace(CLIP, CLIP.rstrip("\n") + "  # amplint: ignore[AMP205]\n")
    assert "0 findings silenced" in amplint("--add-ignore").err
    assert script.read_bytes() == once


def test_only_what_is_reported_is_silenced(project: Path, amplint: Command) -> None:
    script = project / "train.py"
    script.write_text(BAD, encoding="utf-8")
    amplint("--baseline", "known.txt", "--update-baseline")
    script.write_text(BAD + OLD_API, encoding="utf-8")
    assert amplint("--baseline", "known.txt", "--add-ignore").status == 0
    assert script.read_text(encoding="utf-8").count("# amplint: ignore") == 1


def test_what_no_comment_silences_is_left(project: Path, amplint: Command) -> None:
    broken = b"import torch\ndef\n"
    (project / "broken.py").write_bytes(broken)
    unused = "import torch\nx = 1  # amplint: ignore[AMP701]\n"
    (project / "unused.py").write_text(unused, encoding="utf-8")
    ran = amplint("--add-ignore", "--output-format", "concise")
    assert ran.status == 1
    assert [line.split()[1][:6] for line in ran.out.splitlines()] == ["AMP001", "AMP004"]
    assert (project / "broken.py").read_bytes() == broken
    assert (project / "unused.py").read_text(encoding="utf-8") == unused


def test_cells_of_notebooks(project: Path, amplint: Command) -> None:
    cells = [nbformat.v4.new_code_cell("%matplotlib inline\nimport torch"), nbformat.v4.new_code_cell(OLD_API + "!ls")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), project / "a.ipynb")
    assert amplint("--add-ignore", "--select", "AMP701").status == 0
    after = nbformat.read(project / "a.ipynb", as_version=4)
    assert after.cells[0].source == cells[0].source
    assert after.cells[1].source == "scaler = torch.cuda.amp.GradScaler()  # amplint: ignore[AMP701]\n!ls"
    assert amplint("--select", "AMP701").status == 0


def test_the_file_is_replaced_at_once_or_not_at_all(
    project: Path, amplint: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = project / "train.py"
    script.write_text(BAD, encoding="utf-8")
    script.chmod(0o750)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(write.os, "replace", refuse)
        ran = amplint("--add-ignore", "--no-cache", "--output-format", "concise")
    assert ran.status == 1
    assert "cannot be written: No space left on device" in ran.out
    assert script.read_text(encoding="utf-8") == BAD
    assert sorted(os.listdir(project)) == ["amplint.toml", "train.py"]
    amplint("--add-ignore")
    assert stat.S_IMODE(script.stat().st_mode) == 0o750


def test_whatever_rules_find_can_be_silenced(project: Path, amplint: Command) -> None:
    """A part of the programs that show what rules find, each with its findings before."""
    scripts = sorted((Path(__file__).parents[2] / "fixtures").glob("AMP[1-6]*/bad*.py"))[::14]
    assert len(scripts) > 10
    for number, script in enumerate(scripts):
        shutil.copy(script, project / f"script_{number}.py")
    before = {path: ast.dump(ast.parse(path.read_bytes())) for path in project.glob("*.py")}
    assert amplint().status == 1
    assert amplint("--add-ignore").status == 0
    assert amplint().status == 0
    assert {path: ast.dump(ast.parse(path.read_bytes())) for path in before} == before


def test_encodings_stay(project: Path, amplint: Command) -> None:
    script = project / "train.py"
    raw = f"# coding: latin-1\n# é\n{IMPORT}{OLD_API}".encode("latin-1")
    script.write_bytes(raw)
    assert amplint("--add-ignore", "--select", "AMP701").status == 0
    assert script.read_bytes() == raw.rstrip(b"\n") + b"  # amplint: ignore[AMP701]\n"
