"""A repaired notebook as its users have it: valid for nbformat, and run by Jupyter's own kernel."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

import amplint

NORM, SCALE = 48**0.5, 1024
"""Of gradients that are 4, 4 and 4, and what the scaler multiplies the loss by."""
CELLS = [
    "%matplotlib inline\nimport torch\ntorch.manual_seed(0)",
    "%%writefile data.py\nimport torch\n\ndef batches():\n    return [torch.ones(4, 2) for _ in range(3)]\n",
    "from data import batches\nfiles = !ls\nmodel = torch.nn.Linear(2, 1)\n"
    "optimizer = torch.optim.SGD(model.parameters(), 0.1)\n"
    "scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)",
    """%%time
norms = []
for batch in batches():
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = model(batch).float().sum()
        scaler.scale(loss).backward()
    norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0).item())
    scaler.step(optimizer)
    scaler.update()""",
    "'data.py' in files, max(norms)",
]


def last_result(notebook: nbformat.NotebookNode, folder: Path) -> tuple[bool, float]:
    """What the last cell of a notebook gives when it runs."""
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    found, norm = notebook.cells[-1].outputs[0]["data"]["text/plain"].strip("()").split(", ")
    return found == "True", float(norm)


@pytest.mark.slow
def test_a_repaired_notebook_is_valid_and_runs(tmp_path: Path) -> None:
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    made.cells.insert(1, nbformat.v4.new_markdown_cell("# Träining", attachments={"a.png": {"image/png": "iVBO"}}))
    path = tmp_path / "train.ipynb"
    nbformat.write(made, path)
    assert last_result(made, tmp_path) == (True, pytest.approx(NORM * SCALE))

    repaired = amplint.fix(path, write=True)
    assert repaired.fixed == 2
    assert repaired.after == path.read_bytes()
    written = nbformat.read(path, as_version=4)
    nbformat.validate(written)
    assert [cell.source == old.source for cell, old in zip(written.cells, made.cells, strict=True)].count(False) == 1
    assert last_result(written, tmp_path) == (True, pytest.approx(NORM))
    assert nbformat.writes(nbformat.read(path, as_version=4)) + "\n" == path.read_text(encoding="utf-8")
