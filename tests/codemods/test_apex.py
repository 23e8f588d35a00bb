"""`--from apex`: programs then run on PyTorch alone, lint clean, are fixed points, and train as they did."""

from __future__ import annotations

import contextlib
import io
import math
import runpy
import sys
import types
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
import torch

from amplint.codemods import Conversion, Wish, convert
from tests.codemods.expected import APEX, Case, of_apex
from tests.codemods.running import conversion
from tests.conftest import Command

PROGRAMS = sorted((Path(__file__).parent / "apex_programs").glob("*.py"))
STEPS = 50
TOLERANCE = 0.02
"""How far a loss may be from the one of the original, relative to 1 plus its size, on each of the 50 steps."""


def _apex() -> types.ModuleType:
    """What apex does to a program, but for the dtypes: nothing."""

    @contextlib.contextmanager
    def scale_loss(loss: torch.Tensor, optimizers: object, *_: object, **__: object) -> Iterator[torch.Tensor]:
        yield loss

    def initialize(models: object, optimizers: object = None, *_: object, **__: object) -> object:
        return models if optimizers is None else (models, optimizers)

    def master_params(optimizer: torch.optim.Optimizer) -> Iterable[torch.Tensor]:
        return [parameter for group in optimizer.param_groups for parameter in group["params"]]

    module, amp = types.ModuleType("apex"), types.ModuleType("apex.amp")
    names = {"scale_loss": scale_loss, "initialize": initialize, "master_params": master_params}
    for name, value in {**names, "state_dict": dict, "load_state_dict": lambda state: None}.items():
        setattr(amp, name, value)
    module.amp = amp  # type: ignore[attr-defined]
    return module


def losses(path: Path) -> list[float]:
    """The losses that a program records when it is run."""
    before = sys.argv
    sys.argv = [path.name]
    torch.manual_seed(0)
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("error")
            return list(runpy.run_path(str(path), run_name="__main__")["losses"])
    finally:
        sys.argv = before


def converted(text: str, device: str = "cuda") -> Conversion:
    """The conversion of `text`, which must not be refused."""
    found = conversion(text, Wish(source="apex", device=device))
    assert found.refused == ()
    assert found.text != text
    return found


@pytest.mark.parametrize("case", [*of_apex()], ids=str)
def test_the_result_is_the_one_that_is_kept(case: Case) -> None:
    assert case.now() == case.kept()


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_result_lints_clean_and_stays(amplint: Command, project: Path, program: Path, device: str) -> None:
    new = converted(program.read_text(encoding="utf-8"), device).text
    assert "amp.scale_loss" not in new
    assert "import amp" not in new
    (project / program.name).write_text(new, encoding="utf-8")
    ran = amplint("check", "--select", "ALL", "--ignore", "AMP106,AMP9", "--output-format", "concise", program.name)
    assert (ran.status, ran.out) == (0, "")
    again = convert(new, APEX)
    assert (again.text, again.done, again.refused) == (new, (), ())


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_result_trains_as_before(tmp_path: Path, program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        apex = _apex()
        patch.setitem(sys.modules, "apex", apex)
        patch.setitem(sys.modules, "apex.amp", apex.amp)
        before = losses(program)
    path = tmp_path / program.name
    path.write_text(converted(program.read_text(encoding="utf-8"), "cpu").text, encoding="utf-8")
    after = losses(path)
    assert len(before) == len(after) == STEPS
    assert all(math.isfinite(loss) for loss in after)
    far = [step for step in range(STEPS) if abs(after[step] - before[step]) > TOLERANCE * (1 + abs(before[step]))]
    assert far == []


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_comments_are_kept(program: Path) -> None:
    text = program.read_text(encoding="utf-8")
    new = converted(text).text
    comments = [line[line.index("#") :] for line in text.splitlines() if "#" in line]
    assert [comment for comment in comments if comment not in new] == []


def test_a_whole_conversion() -> None:
    old = """from apex import amp
from apex.parallel import DistributedDataParallel as DDP
import torch


def main(args, net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer = amp.initialize(net, optimizer, opt_level=args.opt_level, loss_scale=args.loss_scale)
    net = DDP(net, delay_allreduce=True)  # one device for each process
    for inputs, targets in loader:
        loss = torch.nn.functional.mse_loss(net(inputs), targets)

        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)
        optimizer.step()
"""
    new = """import torch


def main(args, net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=args.opt_level != "O0")
    net = torch.nn.parallel.DistributedDataParallel(net)  # one device for each process
    for inputs, targets in loader:
        with torch.autocast("cuda", enabled=scaler.is_enabled()):
            loss = torch.nn.functional.mse_loss(net(inputs), targets)

        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
"""
    conversion = converted(old)
    assert conversion.text == new
    assert [remark.row for remark in conversion.done] == [1]
    assert {(remark.row, remark.text) for remark in conversion.left} == {
        (6, "the loss scale args.loss_scale is no longer read; GradScaler finds its own"),
        (6, "args.opt_level now only tells O0 (float32) from the other levels"),
        (7, "unlike apex's, DistributedDataParallel of PyTorch broadcasts buffers"),
    }
    assert converted(old.replace("\n", "\r\n")).text == new.replace("\n", "\r\n")


EVALUATION = """

def evaluate(net, loader):
    with torch.no_grad():
        for inputs, targets in loader:
            outputs = net(inputs)
            print(torch.nn.functional.mse_loss(outputs, targets).item())


def start(args, net, loader):
    main(args, net, loader)
    evaluate(net, loader)
"""


def test_an_import_keeps_the_rows_of_names_that_stay() -> None:
    several = "from apex import (\n    amp,  # mixed precision\n    optimizers,  # fused\n)"
    old = LOOP.replace("from apex import amp", several).replace(
        "import torch\n", "import torch\n\nLAMB = optimizers.FusedLAMB\n"
    )
    assert "from apex import (\n    optimizers,  # fused\n)\n" in converted(old).text


def test_losses_are_computed_in_regions_wherever_they_stand() -> None:
    old = LOOP.replace("loss = torch.nn.functional.mse_loss(net(inputs), targets)", "outputs = net(inputs)")
    old = old.replace("scale_loss(loss,", "scale_loss(torch.nn.functional.mse_loss(outputs, targets),")
    text = converted(old + EVALUATION).text
    hoisted = "    outputs = net(inputs)\n            loss = torch.nn.functional.mse_loss(outputs, targets)\n"
    beside = "    outputs = net(inputs)\n                print(torch.nn.functional.mse_loss(outputs, targets).item())\n"
    assert f'            with torch.autocast("cuda"):\n            {beside}' in text
    assert f"        {hoisted}" in text


def test_a_model_that_is_handed_to_its_loss_runs_in_a_region() -> None:
    old = LOOP.replace("def main(args, net, loader)", "def main(args, net, loader, objective)")
    old = old.replace("torch.nn.functional.mse_loss(net(inputs), targets)", "objective((inputs, targets), net)")
    new = '        with torch.autocast("cuda"):\n            loss = objective((inputs, targets), net)\n'
    assert new in converted(old).text


def test_what_pytorch_has_besides() -> None:
    old = LOOP.replace("from apex import amp", IMPORTS).replace("torch.optim.SGD(net.parameters(), lr=0.1)", FUSED)
    old = old.replace("import torch\n", "import torch\n\nlayer = FusedLayerNorm(8)\n", 1)
    conversion = converted(old)
    assert "torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.0, fused=True)" in conversion.text
    assert "layer = torch.nn.LayerNorm(8)" in conversion.text
    assert "from apex.parallel.LARC import LARC\n" in conversion.text
    assert "from apex.optimizers import FusedLAMB\n" in conversion.text
    assert "apex.normalization" not in conversion.text
    assert [remark.text for remark in conversion.left] == [
        "apex.parallel.LARC.LARC still comes from apex: it has no equal in PyTorch",
        "apex.optimizers.FusedLAMB still comes from apex: it has no equal in PyTorch",
    ]


IMPORTS = """from apex import amp
from apex.normalization import FusedLayerNorm
from apex.optimizers import FusedAdam, FusedLAMB
from apex.parallel.LARC import LARC"""
FUSED = "LARC(FusedAdam(net.parameters(), lr=0.1, bias_correction=True)) or FusedLAMB(net.parameters())"
LOOP = """from apex import amp
import torch


def main(args, net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
    for step, (inputs, targets) in enumerate(loader):
        loss = torch.nn.functional.mse_loss(net(inputs), targets)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        optimizer.step()
"""
REFUSALS = {
    "no setup": (
        '    net, optimizer = amp.initialize(net, optimizer, opt_level="O1")\n',
        "",
        10,
        "not called in this file",
    ),
    "a whole kept": ("net, optimizer = amp", "both = amp", 7, "not assigned to a model and an optimizer"),
    "hidden arguments": ('opt_level="O1"', "**args.amp", 7, "not written out"),
    "no level": ('"O1"', '"O4"', 7, "no opt_level O4"),
    "a level worked out": ('"O1"', "level(args)", 7, "worked out"),
    "no import": ("from apex import amp\n", "", 6, "amp.initialize is called here, and nothing in this file imports"),
    "other loss": ("        optimizer.step()\n", "", 7, "the step of optimizer is not in this file"),
    "a closure": ("optimizer.step()", "optimizer.step(lambda: loss)", 13, "closure"),
    "patched functions": (
        "    for step",
        '    amp.register_float_function(torch, "sigmoid")\n    for step',
        8,
        "nothing that",
    ),
    "handed on": ("    for step", "    log(amp)\n    for step", 8, "nothing that apex.amp could become"),
    "two meanings": ("import torch\n", "import torch\nfrom torch.cuda import amp\n", 3, "not apex"),
    "another condition": (
        "        with amp.scale_loss(loss, optimizer) as scaled_loss:\n            scaled_loss.backward()\n",
        "        if args.half:\n            with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
        "                scaled_loss.backward()\n        else:\n            loss.backward()\n",
        11,
        "not the one that amp.initialize depends on",
    ),
    "clipped too often": (
        "        optimizer.step()\n",
        "        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), 1.0)\n"
        "        if step % 2:\n            optimizer.step()\n",
        13,
        "micro-batches",
    ),
    "no forward pass": ("torch.nn.functional.mse_loss(net(inputs), targets)", "inputs.sum()", 12, "forward pass"),
}


@pytest.mark.parametrize(("old", "new", "row", "why"), REFUSALS.values(), ids=list(REFUSALS))
def test_refusals_leave_the_text(old: str, new: str, row: int, why: str) -> None:
    assert old in LOOP
    text = LOOP.replace(old, new)
    conversion = convert(text, APEX)
    assert conversion.text == text
    assert conversion.done == conversion.left == ()
    assert [remark.row for remark in conversion.refused] == [row]
    assert why in conversion.refused[0].text


CHOICE = """        if not args.half:
            loss.backward()
        else:
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()
"""
SCALED = "        with amp.scale_loss(loss, optimizer) as scaled_loss:\n            scaled_loss.backward()\n"
SETUP = '    net, optimizer = amp.initialize(net, optimizer, opt_level="O1")\n'


def test_the_sides_of_a_choice_can_stand_in_either_order() -> None:
    text = LOOP.replace(SCALED, CHOICE).replace(SETUP, f"    if args.half:\n    {SETUP}")
    conversion = convert(text, APEX)
    assert conversion.refused == ()
    assert "        optimizer.zero_grad()\n        scaler.scale(loss).backward()\n" in conversion.text
    assert "if not" not in conversion.text
    assert convert(conversion.text, APEX).text == conversion.text


def test_a_choice_by_the_level_is_one_by_the_scaler() -> None:
    chosen = CHOICE.replace("not args.half", "args.level == 'O0'")
    conversion = convert(LOOP.replace(SCALED, chosen).replace('"O1"', "args.level"), APEX)
    assert conversion.refused == ()
    assert "        optimizer.zero_grad()\n        scaler.scale(loss).backward()\n" in conversion.text
    other = convert(LOOP.replace(SCALED, chosen.replace("'O0'", "'O2'")).replace('"O1"', "args.level"), APEX)
    assert "not the one that amp.initialize depends on" in other.refused[0].text


@pytest.mark.parametrize("level", ['"O%d" % args.level', 'f"O{args.level}"', '"O" + str(args.level)'])
def test_a_level_can_be_spelled_from_a_number(level: str) -> None:
    conversion = convert(LOOP.replace('"O1"', level), APEX)
    assert conversion.refused == ()
    assert f'scaler = torch.amp.GradScaler("cuda", enabled={level} != "O0")\n' in conversion.text


def test_the_first_scale_is_kept() -> None:
    begun = f"{SETUP}    amp._amp_state.loss_scalers[0]._loss_scale = 2**20\n"
    conversion = convert(LOOP.replace(SETUP, begun), APEX)
    assert conversion.refused == ()
    assert '    scaler = torch.amp.GradScaler("cuda", init_scale=2**20)\n    for step' in conversion.text


def test_a_condition_that_is_emptied_goes_also_where_another_one_asked_for_apex() -> None:
    text = LOOP.replace(
        "from apex import amp\n", "try:\n    from apex import amp\nexcept ImportError:\n    amp = None\n"
    )
    text = text.replace(SETUP, f"    if args.half:\n        assert amp is not None\n    if args.half:\n    {SETUP}")
    conversion = convert(text, APEX)
    assert conversion.refused == ()
    assert "pass" not in conversion.text


def test_a_region_holds_what_a_condition_adds_to_the_loss() -> None:
    text = LOOP.replace(
        "loss = torch.nn.functional.mse_loss(net(inputs)", "out = net(inputs)\n        loss = distance(out"
    )
    text = text.replace(
        "        optimizer.zero_grad()\n",
        "        if args.teacher:\n            soft = distance(out, targets)\n            loss = loss + soft\n"
        "        optimizer.zero_grad()\n",
    )
    conversion = convert(text, APEX)
    assert conversion.refused == ()
    assert "                loss = loss + soft\n        optimizer.zero_grad()\n" in conversion.text


def test_what_a_person_has_to_know() -> None:
    text = (Path(__file__).parent / "apex_programs" / "trainer.py").read_text(encoding="utf-8")
    left = converted(text).left
    assert "a state that apex has saved cannot be loaded into a GradScaler" in [remark.text for remark in left]
    text = (Path(__file__).parent / "apex_programs" / "handed.py").read_text(encoding="utf-8")
    library = text[: text.index("if __name__")]
    told = "train_epoch takes the scaler now: calls in other files have to pass it"
    assert told in [remark.text for remark in converted(library).left]
    assert told not in [remark.text for remark in converted(text).left]


BOOLEANS = {
    "an option": ("args.half", "bool(args.half)", ""),
    "a switch": ("args.half", "args.half", 'parser.add_argument("--half", action="store_true")'),
    "a setting": ('args["half"]', 'bool(args["half"])', ""),
    "a negation": ("not args.full", "not args.full", ""),
    "a choice": ("args.half or args.fast", "bool(args.half or args.fast)", ""),
    "a comparison": ("args.bits == 16", "args.bits == 16", ""),
    "two": ("args.half and args.gpu > 0", "bool(args.half) and args.gpu > 0", ""),
}


@pytest.mark.parametrize(("given", "enabled", "said"), BOOLEANS.values(), ids=list(BOOLEANS))
def test_enabled_is_a_boolean(given: str, enabled: str, said: str) -> None:
    text = LOOP.replace('opt_level="O1"', f"enabled={given}").replace("import torch\n", f"import torch\n\n{said}\n")
    assert f'scaler = torch.amp.GradScaler("cuda", enabled={enabled})' in converted(text).text


def test_bfloat16_is_a_second_step() -> None:
    refused = convert(LOOP, Wish(source="apex", dtype="bfloat16")).refused
    assert [remark.row for remark in refused] == [1]
    assert "then from float16 to bfloat16" in refused[0].text


@pytest.mark.parametrize("text", ["import torch\n", "# apex\n", "from apex.parallel import DistributedDataParallel\n"])
def test_what_has_no_amp_of_apex_is_left_alone(text: str) -> None:
    conversion = convert(text, APEX)
    assert (conversion.text, conversion.done, conversion.refused) == (text, (), ())


def test_the_scaler_has_a_file_beside_the_optimizer() -> None:
    old = LOOP.replace("def main(args, net, loader):", "import os\n\n\ndef main(args, net, loader):")
    old = old.replace(
        "    net, optimizer = amp",
        '    if args.resume:\n        optimizer.load_state_dict(torch.load(f"{args.out}/optimizer.pt"))\n'
        "    net, optimizer = amp",
    )
    old += '    torch.save(optimizer.state_dict(), os.path.join(args.out, "optimizer.pt"))\n'
    new = converted(old).text
    assert new.index("GradScaler(") < new.index("load_state_dict(")
    assert """            scaler.load_state_dict(torch.load(f"{args.out}/scaler.pt"))\n""" in new
    assert """        if os.path.exists(f"{args.out}/scaler.pt"):\n""" in new
    assert """    torch.save(scaler.state_dict(), os.path.join(args.out, "scaler.pt"))\n""" in new
    later = old.replace("    net, optimizer = amp", "    args.half = args.bits == 16\n    net, optimizer = amp")
    later = later.replace('opt_level="O1"', "enabled=args.half").partition("    torch.save(")[0]
    conversion = convert(later, APEX)
    assert conversion.refused == ()
    assert [remark.text for remark in conversion.left if "AMP211" in remark.text] == [
        "in the result, training resumes with the optimizer's state but not the scaler's (AMP211)"
    ]


def test_accumulation_under_apex_is_linted_like_any_other(amplint: Command, project: Path) -> None:
    old = LOOP.replace(
        "net, optimizer = amp", "net = torch.nn.parallel.DistributedDataParallel(net)\n    net, optimizer = amp"
    )
    old = old.replace("        optimizer.zero_grad()\n", "")
    window = "        if (step + 1) % args.accumulate == 0:\n    "
    old = old.replace(
        "        optimizer.step()\n", f"{window}        optimizer.step()\n            optimizer.zero_grad()\n"
    )
    (project / "old.py").write_text(old, encoding="utf-8")
    (project / "new.py").write_text(converted(old).text, encoding="utf-8")
    ran = amplint("check", "--select", "AMP3", "--output-format", "concise", "old.py", "new.py")
    found = [line.partition(" ")[2].partition("[")[0] for line in ran.out.splitlines()]
    assert found == ["AMP302", "AMP306"] * 2


def test_what_is_only_handed_back_goes() -> None:
    old = LOOP.replace("    net, optimizer = amp", "    if args.half:\n        model, other = amp")
    old = old.replace('opt_level="O1")\n', 'opt_level="O1")\n        net = model\n        optimizer = other\n')
    new = converted(old).text
    assert '    scaler = torch.amp.GradScaler("cuda", enabled=bool(args.half))\n    for step' in new
    inside = old.replace("from apex import amp\n", "").replace(
        "        model,", "        from apex import amp\n        global amp\n        model,"
    )
    assert converted(inside).text == new
    kept = converted(old.replace("args, net, loader):\n", "args, net, loader):\n    other = 1\n")).text
    assert "        model, other = net, optimizer\n        net = model\n" in kept


FALLBACK = """try:
    from apex import amp

    HAS_AMP = True
except ImportError:
    HAS_AMP = False
try:
    from apex.normalization import FusedLayerNorm
except ImportError:
    from layers import LayerNorm as FusedLayerNorm
if args.half and HAS_AMP is False:
    args.half = False
"""


def test_what_stands_in_for_apex_elsewhere_stays() -> None:
    text = converted(
        LOOP.replace("from apex import amp\n", "").replace("import torch\n", f"import torch\n{FALLBACK}", 1)
    ).text
    assert "    from layers import LayerNorm as FusedLayerNorm\n" in text
    assert "HAS_AMP" not in text
    assert "amp.initialize" not in text


def test_the_scaler_is_not_made_between_a_comment_and_its_statement() -> None:
    restored = "    # restore\n    if path:\n        optimizer.load_state_dict(torch.load(path))\n"
    conversion = convert(LOOP.replace(SETUP, f"{restored}{SETUP}"), APEX)
    assert conversion.refused == ()
    assert 'scaler = torch.amp.GradScaler("cuda")\n    # restore\n    if path:\n' in conversion.text


BRANCHES = """    if len(loader) > 1:
        net, optimizer = amp.initialize(net, optimizer, opt_level="O1")
        frozen = amp.initialize(frozen, opt_level="O1")
    {second}
        net, optimizer = amp.initialize(net, optimizer, opt_level="{level}")
"""


@pytest.mark.parametrize(
    ("second", "level", "refused"),
    [
        ("else:", "O1", False),
        ("elif loader:", "O1", True),
        ("else:", "O0", True),
    ],
)
def test_each_branch_of_a_choice_may_initialize(second: str, level: str, refused: bool) -> None:
    text = LOOP.replace(SETUP, BRANCHES.format(second=second, level=level))
    conversion = convert(text, APEX)
    assert bool(conversion.refused) is refused
    assert ('    scaler = torch.amp.GradScaler("cuda")\n    for step' in conversion.text) is not refused
    assert ("loader) > 1" in conversion.text) is refused
