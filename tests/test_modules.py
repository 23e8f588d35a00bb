"""Scripts that are spread over files: what is found through imports, and where it is said."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from amplint.engine.analyse import analyse
from amplint.engine.job import Job
from amplint.engine.modules import Lookups, Modules, contents
from amplint.engine.registry import load_registry
from amplint.engine.screen import screen
from amplint.rule import Rule
from amplint.semantics.reading.program import Program
from amplint.source.imports import Import, imports
from amplint.source.source import Source
from tests.conftest import Command

RULES = tuple(rule for code, rule in load_registry().rules.items() if code.startswith(("AMP1", "AMP2")))
SENSITIVE = tuple(load_registry().rules[code] for code in ("AMP205", "AMP401", "AMP404", "AMP501"))
WRAPPER = """
    import torch

    class NativeScaler:
        def __init__(self):
            self._scaler = torch.amp.GradScaler("cuda")

        def __call__(self, loss):
            self._scaler.scale(loss).backward()
"""
LOOP = """
    import torch
    {how}

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loss_scaler = {name}()
    for inputs in [torch.ones(2, 2)] * 3:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(inputs).sum()
        loss_scaler(loss)
        optimizer.step()
"""


def write(root: Path, files: dict[str, str]) -> None:
    """Write each file below `root`, its text without the indentation."""
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(textwrap.dedent(text), encoding="utf-8")


def lint(root: Path, name: str, rules: tuple[type[Rule], ...] = RULES, *, ask: bool = False) -> list[str]:
    """Code and row of what is found in one file of `root`, with what only an assumption lets happen if `ask`ed for."""
    path = root / name
    asked = frozenset(rule.code for rule in rules) if ask else frozenset[str]()
    chosen = screen(rules, path.read_bytes(), asked)
    others = tuple(rule for rule in rules if rule not in chosen)
    done = analyse(Job(name, str(path), path.read_bytes(), chosen, others, asked=asked), Modules())
    return [f"{finding.code}:{finding.span.start.row}" for finding in done.findings]


@pytest.mark.parametrize(
    ("script", "module", "how", "name"),
    [
        ("train.py", "utils.py", "from utils import NativeScaler", "NativeScaler"),
        ("train.py", "utils.py", "from utils import NativeScaler as Scaler", "Scaler"),
        ("train.py", "utils.py", "from utils import *", "NativeScaler"),
        ("train.py", "utils.py", "import utils", "utils.NativeScaler"),
        ("train.py", "util/misc.py", "import util.misc as misc", "misc.NativeScaler"),
        ("train.py", "util/misc.py", "import util.misc", "util.misc.NativeScaler"),
        ("train.py", "util/misc.py", "from util import misc", "misc.NativeScaler"),
        ("train.py", "util/misc.py", "from util.misc import (\n        NativeScaler,  # ours\n    )", "NativeScaler"),
        ("tools/train.py", "src/kit/amp.py", "from kit.amp import NativeScaler", "NativeScaler"),
        ("kit/train.py", "kit/amp.py", "from .amp import NativeScaler", "NativeScaler"),
        ("kit/engine/train.py", "kit/amp.py", "from ..amp import NativeScaler", "NativeScaler"),
        ("kit/engine/train.py", "kit/amp.py", "from .. import amp", "amp.NativeScaler"),
        ("kit/train.py", "kit/amp.py", "from kit.amp import NativeScaler", "NativeScaler"),
    ],
)
def test_a_wrapper_of_another_file_is_followed(tmp_path: Path, script: str, module: str, how: str, name: str) -> None:
    (tmp_path / ".git").mkdir()
    write(tmp_path, {script: LOOP.format(how=how, name=name), module: WRAPPER})
    found = lint(tmp_path, script)
    row = (tmp_path / script).read_text().splitlines().index("    optimizer.step()") + 1
    assert found == [f"AMP206:{row}"]


@pytest.mark.parametrize("kept", [0, 1_000_000])
def test_what_is_known_of_the_text_of_a_followed_file_is_kept_longer_than_its_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    (tmp_path / ".git").mkdir()
    loop = LOOP.format(how="from utils import NativeScaler", name="NativeScaler")
    write(tmp_path, {"first.py": loop, "second.py": loop, "utils.py": "LIMIT = 2\n" + textwrap.dedent(WRAPPER)})
    monkeypatch.setattr(contents, "_TREES_KEPT", kept)
    modules = Modules()
    followed = []
    for name in ("first.py", "second.py"):
        path = tmp_path / name
        done = analyse(Job(name, str(path), path.read_bytes(), (), RULES), modules)
        assert [f"{finding.code}:{finding.span.start.row}" for finding in done.findings] == ["AMP206:13"]
        (note,) = (note for note in done.findings[0].notes if note.filename)
        assert note.span.start.row == 10
        followed.append(modules.contents.source(str(tmp_path / "utils.py")))
    assert followed[0] is followed[1]
    assert followed[0] is not None
    assert any(chunk.has_tree for chunk in followed[0].chunks) == bool(kept)


def test_packages_that_hand_names_on(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    files = {
        "kit/__init__.py": "from .utils import *\n",
        "kit/utils/__init__.py": "from .amp import NativeScaler as NS\n",
    }
    loop = LOOP.format(how="from kit import NS", name="NS")
    write(tmp_path, {**files, "kit/utils/amp.py": WRAPPER, "train.py": loop})
    assert lint(tmp_path, "train.py") == ["AMP206:13"]


def test_a_base_class_in_another_file(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    base = """
        import torch

        class Trainer:
            def __init__(self, model, optimizer):
                self.model, self.optimizer = model, optimizer
                self.scaler = torch.amp.GradScaler("cuda")

            def finish(self, loss):
                self.scaler.scale(loss).backward()
                self.clip()
                self.scaler.step(self.optimizer)
                self.scaler.update()

            def clip(self):
                pass
    """
    ours = """
        import torch
        from base import Trainer

        class Clipping(Trainer):
            def clip(self):
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

            def train(self, batches):
                for batch in batches:
                    self.optimizer.zero_grad()
                    with torch.autocast("cuda"):
                        loss = self.model(batch).sum()
                    self.finish(loss)
    """
    write(tmp_path, {"base.py": base, "train.py": ours})
    assert lint(tmp_path, "train.py") == ["AMP205:7"]


HELPER = """
    import torch

    def clip_and_step(scaler, optimizer, parameters):
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
TWICE = """
    import torch
    from helper import clip_and_step

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cuda")
    for inputs in [torch.ones(2, 2)] * 3:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = model(inputs).sum()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_and_step(scaler, optimizer, model.parameters())
"""


STEP = """
    import torch
    from helper import work

    def train(model, optimizer, batches):
        scaler = torch.amp.GradScaler("cuda")
        for inputs in batches:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.float16):
                outputs = model(inputs)
                {inside}
                loss = outputs.sum()
            scaler.scale(loss).backward()
            {after}
            scaler.step(optimizer)
            scaler.update()
"""


@pytest.mark.parametrize(
    ("helper", "inside", "after", "found"),
    [
        (
            "def work(p):\n    return torch.norm(torch.stack([torch.norm(q.grad) for q in p]))",
            "",
            "work(M)",
            "AMP205:14",
        ),
        ("def work(p):\n    for q in p:\n        g = q.grad\n        g.clamp_(-1, 1)", "", "work(M)", "AMP205:14"),
        ("def work(grads):\n    return torch.nn.utils.get_total_norm(grads)", "", "work(G)", "AMP205:14"),
        (
            "def work(x, y):\n    return x.masked_fill(y, -1e9)",
            "work(torch.mm(inputs, inputs), batches)",
            "",
            "AMP401:11",
        ),
        (
            "def work(x):\n    return x.detach().cpu().numpy()",
            "work(torch.mm(inputs, inputs).bfloat16())",
            "",
            "AMP501:11",
        ),
        ("def work(x):\n    return F.binary_cross_entropy(x.sigmoid(), x)", "work(outputs)", "", "AMP404:11"),
        ("def work(p):\n    return sum(q.grad_norm for q in p)", "", "work(M)", ""),
        (
            "def work(x):\n    return x.float().detach().cpu().numpy()",
            "work(torch.mm(inputs, inputs).bfloat16())",
            "",
            "",
        ),
        (
            "def work(x, y):\n    return x.float().masked_fill(y, -1e9)",
            "work(torch.mm(inputs, inputs), batches)",
            "",
            "",
        ),
    ],
)
def test_functions_of_other_files_that_get_gradients_or_half_values(
    tmp_path: Path, helper: str, inside: str, after: str, found: str
) -> None:
    (tmp_path / ".git").mkdir()
    after = after.replace("M", "model.parameters()").replace("G", "[p.grad for p in model.parameters()]")
    imports = "import torch\nimport torch.nn.functional as F\n\n"
    write(tmp_path, {"helper.py": imports + helper, "train.py": STEP.format(inside=inside or "pass", after=after)})
    assert lint(tmp_path, "train.py", SENSITIVE) == ([found] if found else [])


FUNCTION = """
    import torch
    from kit import mixing

    class Mix(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            ctx.save_for_backward(x, weight)
            return mixing.run(x, weight)

        @staticmethod
        def backward(ctx, grad):
            x, weight = ctx.saved_tensors
            return mixing.run(grad, weight), mixing.run(x, grad)
"""


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("fast_kernels.mix(x, weight)", ["AMP601:7"]),
        ("loaded.mix(x, weight)", ["AMP601:7"]),
        ("fast_kernels.mix(x.to(weight.dtype), weight)", []),
        ("torch.mm(x, weight)", ["AMP601:7"]),
        ("torch.mm(x, weight.to(x.dtype))", []),
    ],
)
def test_functions_of_other_files_that_hand_on_to_a_kernel(tmp_path: Path, body: str, found: list[str]) -> None:
    (tmp_path / ".git").mkdir()
    imports = "import torch\nimport fast_kernels\nfrom loading import load\nloaded = load('mixing')\n\n"
    helper = f"{imports}def run(x, weight):\n    if x.dim() > 2:\n        raise ValueError\n    return {body}\n"
    write(tmp_path, {"kit/__init__.py": "", "kit/mixing.py": helper, "train.py": FUNCTION})
    rules = (load_registry().rules["AMP601"],)
    assert lint(tmp_path, "train.py", rules, ask=True) == found
    (tmp_path / "kit" / "mixing.py").unlink()
    assert lint(tmp_path, "train.py", rules, ask=True) == ["AMP601:7"]


def test_what_happens_in_another_file_is_said_at_the_call(amplint: Command, project: Path) -> None:
    write(project, {"code/helper.py": HELPER, "code/train.py": TWICE})
    ran = amplint("--output-format", "full", "code")
    assert ran.out.count("AMP201") == 1
    assert "code/train.py:14:5: AMP201 double-unscale [error]" in ran.out
    assert "code/helper.py, line 5:" in ran.out
    assert amplint("--output-format", "full", "code").out == ran.out


def test_a_change_in_another_file_makes_a_result_stale(amplint: Command, project: Path) -> None:
    write(project, {"helper.py": HELPER, "train.py": TWICE})
    assert "AMP201" in amplint("--output-format", "concise").out
    write(project, {"helper.py": HELPER.replace("scaler.unscale_(optimizer)\n", "pass\n")})
    assert "AMP201" not in amplint("--output-format", "concise").out
    (project / "helper.py").unlink()
    assert amplint("--output-format", "concise").out == ""
    write(project, {"helper.py": HELPER})
    assert "AMP201" in amplint("--output-format", "concise").out


def test_other_files_that_cannot_be_read_are_left_alone(amplint: Command, project: Path) -> None:
    write(project, {"helper.py": "def clip_and_step(:\n", "train.py": TWICE})
    ran = amplint("--output-format", "concise", "train.py")
    assert ran.out == ""
    (project / "helper.py").write_bytes(b"\xff\xfe\0")
    assert amplint("--output-format", "concise", "train.py").out == ""


@pytest.mark.parametrize(("switch", "found"), [("self.head.use_amp", []), ("True", ["AMP208:11"])])
def test_a_switch_of_another_file_is_its_own(tmp_path: Path, switch: str, found: list[str]) -> None:
    network = """
        import torch

        class Network(torch.nn.Module):
            def __init__(self, head):
                super().__init__()
                self.head = head

            def forward(self, inputs):
                with torch.autocast("cuda", enabled={switch}):
                    return self.head(inputs)
    """
    training = """
        import torch
        from network import Network

        def train(head, batches):
            model = Network(head).to("cuda")
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for inputs in batches:
                optimizer.zero_grad()
                loss = model(inputs).sum()
                loss.backward()
                optimizer.step()
    """
    write(tmp_path, {"network.py": network.format(switch=switch), "train.py": training})
    assert lint(tmp_path, "train.py") == found


def test_modules_that_import_each_other(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    write(
        tmp_path,
        {
            "a.py": "from b import g\nfrom c import *\ndef f(scaler):\n    g(scaler)\n",
            "b.py": "from a import f\nfrom c import h\ndef g(scaler):\n    f(scaler), h(scaler), scaler.update()\n",
            "c.py": "from b import *\nfrom a import *\nfrom c import h\n",
        },
    )
    assert lint(tmp_path, "a.py") == lint(tmp_path, "b.py") == lint(tmp_path, "c.py") == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import a", [("a", "", "a")]),
        ("import a.b, c as d", [("a.b", "", "a.b"), ("a", "", "a"), ("c", "", "d")]),
        ("from . import a", [(".", "a", "a")]),
        ("from ..x.y import a as b, c  # why", [("..x.y", "a", "b"), ("..x.y", "c", "c")]),
        ("from x import (a,\n  b as c,\n)", [("x", "a", "a"), ("x", "b", "c")]),
        ("from x import a, \\\n    b", [("x", "a", "a"), ("x", "b", "b")]),
        ("if x:\n    from x import *", [("x", "*", "*")]),
        ("from x import (", []),
    ],
)
def test_imports(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert list(imports(text)) == [Import(*one) for one in expected]


STARS = {
    "train.py": """
        import logging
        from parts import *

        logger = logging.getLogger()
        logger.info("begins")
        wrapped = Wrapper()
    """,
    "parts/__init__.py": "from .first import *\nfrom .second import *\nfrom .broken import *",
    "parts/first.py": "logger = None\nclass Wrapper: pass",
    "parts/second.py": "logger = None\nclass Other: pass",
    "parts/broken.py": "logger = (\nclass Wrapper(",
}


def test_what_is_imported_with_everything_is_followed_where_the_file_binds_no_such_name(tmp_path: Path) -> None:
    write(tmp_path, STARS)
    path = tmp_path / "train.py"
    source = Source.from_bytes("train.py", path.read_bytes(), str(path))
    modules = Modules()
    program = Program(source, Lookups(modules, source))
    assert [chunk.name for chunk in program.chunks if chunk.source is not source] == ["Wrapper"]
    cut = {
        name: "chunks" in vars(modules.contents.source(str(tmp_path / "parts" / name)))
        for name in ("first.py", "second.py")
    }
    assert cut == {"first.py": True, "second.py": False}


def test_other_files_are_followed_in_the_order_of_names(tmp_path: Path) -> None:
    """Sets of words have another order in every process."""
    names = [f"{letter}{number}" for letter in "dbac" for number in range(3)]
    write(tmp_path, {"helpers.py": "".join(f"def {name}(): pass\n" for name in names)})
    text = "from helpers import *\n" + "".join(f"{name}()\n" for name in names)
    main = Source("train.py", text, str(tmp_path / "train.py"))
    program = Program(main, Lookups(Modules(), main))
    assert [chunk.name for chunk in program.chunks] == [None, *sorted(names)]


def test_a_followed_file_that_is_not_python_binds_nothing() -> None:
    source = Source("broken.py", "class Wrapper(:\n", followed=True)
    assert source.names == {"Wrapper"}
    assert not source.chunks
    assert not source.definitions


def test_training_in_another_file_and_a_checkpoint_in_this_one(tmp_path: Path) -> None:
    """A scaler is only handed on here, and the file that is handed it steps with it."""
    train = """
        import torch

        def train(loader, model, optimizer, scaler):
            for images in loader:
                with torch.autocast("cuda"):
                    loss = model(images).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                optimizer.zero_grad()
                scaler.update()
        """
    main = """
        import torch
        from train import train

        def main_worker(epochs, model, opt, scaler, loader, path):
            opt.load_state_dict(torch.load(path)["optimizer"])
            for epoch in range(epochs):
                train(loader, model, opt, scaler)
                torch.save({"model": model.state_dict(), "optimizer": opt.state_dict()}, path)
        """
    write(tmp_path, {"train.py": train, "main.py": main})
    assert lint(tmp_path, "main.py") == ["AMP211:9"]


def test_the_state_of_a_scaler_is_taken_by_a_function_of_another_file(tmp_path: Path) -> None:
    keep = """
        import torch

        def save(path, *, model, optimizer, scaler=None):
            states = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scale_of(scaler)}
            torch.save(states, path)

        def scale_of(scaler):
            if scaler is None or not scaler.is_enabled():
                return None
            return scaler.state_dict()

        def restore(states, *, optimizer, scaler=None):
            optimizer.load_state_dict(states["optimizer"])
            if scaler is not None and states["scaler"]:
                scaler.load_state_dict(states["scaler"])
        """
    train = """
        import keep
        import torch

        def train(model, loader, path):
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler("cuda")
            keep.restore(torch.load(path), optimizer=optimizer, scaler=scaler)
            for batch in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=torch.float16):
                    loss = model(batch).mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            keep.save(path, model=model, optimizer=optimizer, scaler=scaler)
        """
    write(tmp_path, {"keep.py": keep, "train.py": train})
    assert lint(tmp_path, "train.py") == []
    write(tmp_path, {"keep.py": keep.replace("return scaler.state_dict()", "return None")})
    assert [found.partition(":")[0] for found in lint(tmp_path, "train.py")] == ["AMP211"]


def test_a_function_that_writes_classes_is_no_class() -> None:
    text = 'def schema(name):\n    return f"""\nclass {name}:\n    pass\n"""\n\n\nmade = schema("Tensor")\n'
    source = Source("made.py", text)
    assert [(chunk.name, chunk.is_class) for chunk in source.chunks] == [("schema", False), (None, False)]


def test_an_object_that_a_followed_function_has_no_name_for(tmp_path: Path) -> None:
    module = """
        import torch
        from accelerate import Accelerator

        class Inner:
            def __init__(self):
                self.accelerator = Accelerator(mixed_precision="fp16")

        class Outer:
            def __init__(self):
                self.inner = Inner()

        def train(model, loader):
            outer = Outer()
            model, optimizer = outer.inner.accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
            for x in loader:
                optimizer.zero_grad()
                outer.inner.accelerator.backward(model(x).sum())
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
    """
    script = """
        import torch
        from steps import train

        scaler = torch.amp.GradScaler("cuda")
        train(torch.nn.Linear(4, 4), [torch.rand(2, 4)])
    """
    write(tmp_path, {"main.py": script, "steps.py": module})
    assert lint(tmp_path, "main.py", (*RULES, load_registry().rules["AMP705"])) == ["AMP209:5"]


def test_a_scaler_in_a_wrapper_of_another_file_that_serves_bfloat16(tmp_path: Path) -> None:
    """The call that makes the wrapper is what the training script can change."""
    module = """
        import torch

        class LossScaler:
            def __init__(self):
                self.scaler = torch.amp.GradScaler("cuda")

            def __call__(self, loss, optimizer):
                self.scaler.scale(loss).backward()
                self.scaler.step(optimizer)
                self.scaler.update()
    """
    script = """
        import torch
        from scaling import LossScaler

        def train(model, loader, wide):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            dtype = torch.bfloat16 if wide else torch.float16
            step = LossScaler()
            for x in loader:
                optimizer.zero_grad()
                with torch.autocast("cuda", dtype=dtype):
                    loss = model(x).mean()
                step(loss, optimizer)
    """
    write(tmp_path, {"main.py": script, "scaling.py": module})
    assert set(lint(tmp_path, "main.py")) == {"AMP209:8"}
