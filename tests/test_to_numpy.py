"""What is handed to NumPy though nothing tells its dtype: said to those who ask for it."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
import torch

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Modules
from amplint.engine.registry import load_registry

RULES = (load_registry().rules["AMP501"],)
FOUND = {
    "as it comes": "out.detach().cpu().numpy()",
    "half before": "out.bfloat16().cpu().numpy()",
    "moved": "out.to(self.device).numpy()",
}
SILENT = {
    "float first": "out.float().cpu().numpy()",
    "float last": "out.squeeze(0).cpu().float().numpy()",
    "converted by dtype": "out.to(torch.float32).cpu().numpy()",
    "converted by type": "out.type(torch.float64).detach().numpy()",
    "computed from what was converted": "out.float().softmax(-1).cpu().numpy()",
    "positions": "out.argmax(-1).cpu().numpy()",
    "truth values": "(out > 0).cpu().numpy()",
    "labels": "batch['gt_labels'].cpu().numpy()",
    "counts": "self.num_seen.cpu().numpy()",
    "positions of the largest": "out.topk(5)[1].cpu().numpy()",
    "a picture that was on the CPU": "batch.permute(1, 2, 0).numpy()",
    "an entry that was on the CPU": "self.samples['image'].numpy()",
    "an object's bytes": "pickle.loads(out.cpu().numpy().tobytes())",
    "an object's bytes in a buffer": "io.BytesIO(out.cpu().numpy())",
}
EACH = """
def joined(outputs):
    return [output{conversion}.numpy() for output in outputs]
"""


def lines(code: str) -> list[int]:
    job = Job("program.py", "", code.encode(), RULES, asked=frozenset({"AMP501"}))
    return [finding.span.start.row for finding in analyse(job, Modules()).findings]


def predicted(expression: str) -> str:
    return textwrap.dedent(f"""
        import torch

        class Predictor:
            def predict(self, batch):
                with torch.no_grad():
                    out = self.model(batch)
                return {expression}
    """)


@pytest.mark.parametrize("expression", FOUND.values(), ids=FOUND)
def test_found(expression: str) -> None:
    assert lines(predicted(expression)) == [8]


ASKED = """
import torch

def as_array(x, dtype=None):
    if dtype is None:
        return x.detach().cpu().numpy()
    {case}return x.detach().cpu().numpy().astype(dtype)
"""


def test_a_dtype_for_the_array_says_nothing_of_the_tensor() -> None:
    assert lines(ASKED.format(case="")) == [6, 7]
    assert lines(ASKED.format(case="if x.dtype == torch.bfloat16: x = x.float()\n    ")) == []


@pytest.mark.parametrize("expression", SILENT.values(), ids=SILENT)
def test_silent(expression: str) -> None:
    assert lines(predicted(expression)) == []


LOOP = """
import torch

def evaluate(net, loader):
    for batch, _ in loader:
        kept = {kept}
        for row in kept:
            yield row.cpu().numpy(), batch.cpu().numpy()
"""


@pytest.mark.parametrize(("kept", "expected"), [("net(batch)", [8]), ("batch", []), ("[net(batch)]", [8])])
def test_items_of_data_and_of_results(kept: str, expected: list[int]) -> None:
    assert lines(LOOP.format(kept=kept)) == expected


WEIGHTS = """
import torch

def export(net, loader, stored):
    for name, value in {source}:
        stored[name] = value.detach().cpu().numpy()
"""


@pytest.mark.parametrize(("source", "expected"), [
    ("net.named_parameters()", [6]), ("net.state_dict().items()", [6]), ("enumerate(net.parameters())", [6]),
    ("loader", []), ("enumerate(loader)", []),
])  # fmt: skip
def test_weights_of_a_model_are_no_data(source: str, expected: list[int]) -> None:
    assert lines(WEIGHTS.format(source=source)) == expected


def test_a_data_set_shows_its_samples() -> None:
    shown = predicted("out.cpu().numpy()").replace("Predictor:", "Pictures(Dataset):")
    assert lines(shown) == []


def test_elements() -> None:
    assert lines(EACH.format(conversion="")) == [3]
    assert lines(EACH.format(conversion=".float()")) == []


@pytest.mark.parametrize(("library", "expression", "expected"), [
    ("jax", "out.numpy()", []), ("jax", "out.detach().numpy()", [8]), ("tqdm", "out.numpy()", [8]),
])  # fmt: skip
def test_other_libraries_have_such_a_method(library: str, expression: str, expected: list[int]) -> None:
    code = predicted(expression).replace("import torch\n", f"import torch, {library}\n")
    assert lines(code) == expected


def test_what_a_data_set_gives() -> None:
    assert lines(predicted("out.numpy()").replace("def predict", "def __getitem__")) == []


FUNCTIONS = {
    "np.asarray(x.detach().cpu())": [8],
    "np.sqrt(x.bfloat16())": [8],
    "ToPILImage()((x + 1) / 2)": [8],
    "to_pil_image(x.clamp(0, 1))": [8],
    "np.asarray(x.float().cpu())": [],
    "np.asarray(x)": [],
    "np.squeeze(x.bfloat16())": [],
    "ToPILImage()(x.clamp(0, 1).float())": [],
}


@pytest.mark.parametrize(("expression", "expected"), FUNCTIONS.items(), ids=list(FUNCTIONS))
def test_functions_of_other_libraries(expression: str, expected: list[int]) -> None:
    code = f"""
import numpy as np
import torch
from torchvision.transforms import ToPILImage
from torchvision.transforms.functional import to_pil_image

def shown(x: torch.Tensor):
    return {expression}
"""
    assert lines(code) == expected


@pytest.mark.parametrize("function", ["asarray", "array", "sqrt", "exp", "abs", "stack", "clip", "isnan", "where"])
def test_numpy_has_no_bfloat16(function: str) -> None:
    given = torch.ones(3, dtype=torch.bfloat16)
    others = {"clip": (0, 1), "where": (given, given)}.get(function, ())
    with pytest.raises(TypeError, match="BFloat16"):
        getattr(np, function)([given] if function == "stack" else given, *others)


@pytest.mark.parametrize(
    ("test", "expected"),
    {
        "x.dtype == torch.float16": [7],
        "x.dtype is torch.half": [7],
        "x.dtype == torch.bfloat16": [],
        "x.dtype in (torch.float16, torch.bfloat16)": [],
        "x.dtype != torch.float32": [],
    }.items(),
)
def test_one_half_dtype_is_converted_and_the_other_is_not(test: str, expected: list[int]) -> None:
    code = f"""
import torch

def saved(x, path):
    if {test}:
        x = x.float()
    x.detach().cpu().numpy().tofile(path)
"""
    assert lines(code) == expected
